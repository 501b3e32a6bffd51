//! The topics of publishers, and the subscriptions.
//!
//! - `t/PUBLISHER/K`: topics of lasting subscriptions;
//! - `c/PUBLISHER/K`: topics of subscriptions that come and go;
//! - `r/PUBLISHER/K`: retained values;
//! - `s/PUBLISHER/K`: topics of a shared subscription;
//! - `d/CLIENT/K`: wills;
//! - `ctx/to/node/mobile-M/K`: the address of a mobile node; from `K` = 4 on messages expire;
//! - `a/receipts`: receipts of applications.
//!
//! An even `K` means QoS 1, an odd one QoS 2, so that each topic has one QoS and with it one order. The filters of one
//! subscriber never overlap: a message that matches two of them could come twice by right.

use tidegate_mqtt::{QoS, TopicFilter, TopicName};

use crate::rng::Rng;

/// A message: its publisher and its number there, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct MessageId {
    pub(crate) publisher: u16,
    pub(crate) number: u32,
}

/// Topics of each kind per publisher.
pub(crate) const TOPICS: usize = 4;
/// Payloads are this long as a rule, in bytes.
const USUAL: std::ops::Range<u64> = 16..300;
/// And sometimes this long: more than a page, more than a small write.
const LARGE: std::ops::Range<u64> = 4_000..20_000;
/// How many of 1,000 payloads are large.
const LARGE_PER_MILLE: u64 = 15;

/// The filter of the members of the group.
const GROUP_FILTER: &str = "$share/group/s/#";
/// The filter of the watchers of wills.
const WILL_FILTER: &str = "d/#";
/// The beginning of the topics that reach mobile nodes.
const ADDRESS: &str = "ctx/to/node/";
/// The topic of receipts that do not go to their application's own topic.
pub(crate) const RECEIPTS: &str = "a/receipts";
/// Topics of each mobile node whose messages expire, behind [`TOPICS`] others.
const EXPIRING_TOPICS: usize = 2;

/// The kinds of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For lasting subscriptions.
    Lasting,
    /// For subscriptions that come and go.
    Churning,
    /// Retained values.
    Retained,
    /// For the members of a group.
    Shared,
    /// Wills.
    Will,
    /// To the address of a mobile node.
    Addressed,
}

impl Kind {
    /// The first levels of the topics of this kind.
    fn prefix(self) -> &'static str {
        match self {
            Self::Lasting => "t/",
            Self::Churning => "c/",
            Self::Retained => "r/",
            Self::Shared => "s/",
            Self::Will => "d/",
            Self::Addressed => "ctx/to/node/mobile-",
        }
    }

    /// The client id of a mobile node.
    pub(crate) fn mobile(number: u16) -> String {
        format!("mobile-{number}")
    }

    /// The kind of a topic, as far as the books treat it differently.
    pub(crate) fn of(topic: &str) -> Self {
        match topic.chars().next() {
            _ if topic.starts_with(ADDRESS) => Self::Addressed,
            Some('c') => Self::Churning,
            Some('r') => Self::Retained,
            Some('s') => Self::Shared,
            Some('d') => Self::Will,
            _ => Self::Lasting,
        }
    }

    /// True where first receipts come in the order of publication. Members of a group read beside each other, and the
    /// wills of one client id may come from several nodes.
    pub(crate) fn has_order(self) -> bool {
        !matches!(self, Self::Shared | Self::Will)
    }
}

/// The topic of a publisher, or of a mobile node.
pub(crate) fn topic(kind: Kind, publisher: u16, number: usize) -> String {
    format!("{}{publisher}/{number}", kind.prefix())
}

/// The QoS that belongs to a topic.
pub(crate) fn qos_of(topic: &str) -> QoS {
    let number = topic.rsplit('/').next().and_then(|level| level.parse::<usize>().ok());
    if number.is_some_and(|number| number % 2 == 1) { QoS::ExactlyOnce } else { QoS::AtLeastOnce }
}

/// The index of a retained topic among the topics of all publishers.
pub(crate) fn retained_index(publisher: u16, number: usize) -> usize {
    usize::from(publisher) * TOPICS + number
}

/// The name of a retained topic by its place.
pub(crate) fn retained_name(index: usize) -> String {
    topic(Kind::Retained, (index / TOPICS) as u16, index % TOPICS)
}

/// The place of a retained topic by its name.
pub(crate) fn retained_place(name: &str) -> Option<usize> {
    let mut levels = name.strip_prefix("r/")?.split('/');
    let (publisher, number) = (levels.next()?.parse().ok()?, levels.next()?.parse().ok()?);
    Some(retained_index(publisher, number))
}

/// A payload that says which message it is, and is otherwise of some length.
pub(crate) fn payload(id: MessageId, rng: &mut Rng) -> Vec<u8> {
    let length = if rng.within(0..1000) < LARGE_PER_MILLE { rng.within(LARGE) } else { rng.within(USUAL) };
    let mut payload = short_payload(id);
    payload.resize(payload.len().max(length as usize), b'.');
    payload
}

/// A payload that says which message it is.
pub(crate) fn short_payload(id: MessageId) -> Vec<u8> {
    format!("m {} {} ", id.publisher, id.number).into_bytes()
}

/// The message of a payload; `None` for a payload of another kind.
pub(crate) fn message_of(payload: &[u8]) -> Option<MessageId> {
    // Only the head is text that matters; it is far shorter than this.
    let head = std::str::from_utf8(payload.get(..payload.len().min(32))?).ok()?;
    let mut parts = head.strip_prefix("m ")?.split(' ');
    Some(MessageId { publisher: parts.next()?.parse().ok()?, number: parts.next()?.parse().ok()? })
}

/// A filter that a subscriber has from the beginning, or wants now and then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) filter: String,
    pub(crate) qos: QoS,
    /// It comes and goes.
    pub(crate) churns: bool,
}

/// The subscriptions of a subscriber.
pub(crate) fn wishes(subscriber: usize, publishers: u16, rng: &mut Rng) -> Vec<Wish> {
    let qos = if subscriber % 3 == 1 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
    let lasting: Vec<String> = match subscriber {
        0 => vec!["t/#".to_owned()],
        _ if subscriber.is_multiple_of(2) => {
            let always = rng.within(0..u64::from(publishers)) as u16;
            let chosen = (0..publishers).filter(|publisher| *publisher == always || rng.chance(60));
            chosen.map(|publisher| format!("t/{publisher}/#")).collect()
        }
        _ => {
            let always = rng.index(TOPICS);
            let chosen = (0..TOPICS).filter(|number| *number == always || rng.chance(60));
            chosen.map(|number| format!("t/+/{number}")).collect()
        }
    };
    let lasting = lasting.into_iter().map(|filter| Wish { filter, qos, churns: false });
    let churning = (0..TOPICS).map(|number| Wish { filter: format!("c/+/{number}"), qos, churns: true });
    lasting.chain(churning).collect()
}

/// The filter of a watcher of wills: even ones at QoS 1, odd ones at QoS 2.
pub(crate) fn watches(watcher: usize) -> Vec<Wish> {
    let qos = if watcher.is_multiple_of(2) { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
    vec![Wish { filter: WILL_FILTER.to_owned(), qos, churns: false }]
}

/// The filter of a member of the group.
pub(crate) fn membership() -> Vec<Wish> {
    vec![Wish { filter: GROUP_FILTER.to_owned(), qos: QoS::ExactlyOnce, churns: false }]
}

/// The filter of a guest of the group, whose session ends with its connection.
pub(crate) fn visit() -> Vec<Wish> {
    vec![Wish { filter: GROUP_FILTER.to_owned(), qos: QoS::AtLeastOnce, churns: false }]
}

/// The filter of the subscriber that collects receipts.
pub(crate) fn collection() -> Vec<Wish> {
    vec![Wish { filter: RECEIPTS.to_owned(), qos: QoS::AtLeastOnce, churns: false }]
}

/// The topics that reach a mobile node without a subscription, at QoS 1 if its sessions end with its connections.
pub(crate) fn address(mobile: u16, is_lasting: bool) -> Vec<Wish> {
    let qos = if is_lasting { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
    vec![Wish { filter: format!("{}{mobile}/#", Kind::Addressed.prefix()), qos, churns: false }]
}

/// True for the topics of [`address`], which are not subscribed to.
pub(crate) fn is_address(filter: &str) -> bool {
    filter.starts_with(ADDRESS)
}

/// The mobile node of an addressed topic.
pub(crate) fn node_of(topic: &str) -> Option<&str> {
    topic.strip_prefix(ADDRESS)?.split('/').next()
}

/// A topic of a mobile node, and whether its messages expire.
pub(crate) fn addressed_topic(mobile: u16, rng: &mut Rng) -> (String, bool) {
    let number = rng.index(TOPICS + EXPIRING_TOPICS);
    (topic(Kind::Addressed, mobile, number), number >= TOPICS)
}

/// True for the filter of a group: one member gets a probe, not each.
pub(crate) fn is_shared(filter: &str) -> bool {
    filter.starts_with("$share/")
}

/// A topic of no publisher that a filter matches.
pub(crate) fn probe_topic(filter: &str) -> String {
    filter.replace(['+', '#'], "probe")
}

/// True when the filter matches the topic; both are of this module, so both are valid.
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    let filter = if is_shared(filter) { filter.splitn(3, '/').last().unwrap_or(filter) } else { filter };
    match (TopicFilter::new(filter), TopicName::new(topic)) {
        (Ok(filter), Ok(topic)) => filter.matches(topic),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_its_message() {
        let id = MessageId { publisher: 3, number: 4_000_000 };
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            assert_eq!(message_of(&payload(id, &mut rng)), Some(id));
        }
        assert_eq!(message_of(b"probe 1"), None);
    }

    #[test]
    fn the_filters_of_a_subscriber_do_not_overlap() {
        let mut rng = Rng::new(5);
        for subscriber in 0..12 {
            let wishes = wishes(subscriber, 5, &mut rng);
            for publisher in 0..5 {
                for number in 0..TOPICS {
                    for kind in [Kind::Lasting, Kind::Churning] {
                        let topic = topic(kind, publisher, number);
                        let matching = wishes.iter().filter(|wish| matches(&wish.filter, &topic)).count();
                        assert!(matching <= 1, "{topic} matches {matching} filters of {wishes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_retained_topic_is_found_by_its_name() {
        assert_eq!(retained_place(&retained_name(11)), Some(11));
        assert_eq!(qos_of("r/2/3"), QoS::ExactlyOnce);
        assert_eq!(qos_of("t/2/0"), QoS::AtLeastOnce);
    }

    #[test]
    fn groups_watchers_and_nodes_have_topics_of_their_own() {
        let (member, watcher, node) = (&membership()[0].filter, &watches(0)[0].filter, &address(1, true)[0].filter);
        let kinds = [Kind::Lasting, Kind::Churning, Kind::Retained, Kind::Shared, Kind::Will, Kind::Addressed];
        for kind in kinds {
            let topic = topic(kind, 1, 0);
            assert_eq!(Kind::of(&topic), kind);
            assert_eq!(matches(member, &topic), kind == Kind::Shared, "{topic}");
            assert_eq!(matches(watcher, &topic), kind == Kind::Will, "{topic}");
            assert_eq!(matches(node, &topic), kind == Kind::Addressed, "{topic}");
        }
    }
}
