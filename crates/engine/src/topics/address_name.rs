//! The names of addresses.

use std::borrow::Cow;

use tidegate_mqtt::{TopicFilter, TopicName};

use crate::settings::Settings;

/// The receivers of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address<'a> {
    /// To one node, by its client id.
    Node(Cow<'a, str>),
    /// To the nodes of a group.
    Group(&'a str),
    /// To all nodes of the tenant.
    All,
    /// The receipts of a client's messages, to that client.
    Receipts(Cow<'a, str>),
}

impl<'a> Address<'a> {
    /// Reads a topic name; `None` if it is no address, such as a topic of an application.
    pub(crate) fn read(prefix: &str, topic: &'a str) -> Option<Self> {
        let rest = topic.strip_prefix(prefix)?.strip_prefix('/')?;
        let (kind, rest) = rest.split_once('/')?;
        match kind {
            "to" => {
                let (kind, rest) = rest.split_once('/').unwrap_or((rest, ""));
                match kind {
                    "all" => Some(Self::All),
                    "node" => first_level(rest).map(|id| Self::Node(decoded(id))),
                    "group" => first_level(rest).map(Self::Group),
                    _ => None,
                }
            }
            "receipts" => first_level(rest).map(|id| Self::Receipts(decoded(id))),
            _ => None,
        }
    }
}

/// A client's statement on a topic of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement<'a> {
    /// The context of the node with this client id.
    Context(Cow<'a, str>),
    /// The groups of nodes.
    Advertisement,
}

impl<'a> Statement<'a> {
    /// Reads a topic name; `None` is one that is neither.
    pub(crate) fn read(prefix: &str, topic: &'a str) -> Option<Self> {
        let rest = topic.strip_prefix(prefix)?.strip_prefix('/')?;
        match rest.split_once('/')? {
            (_, level) if level.contains('/') => None,
            ("context", level) => Some(Self::Context(decoded(level))),
            ("GroupAdvertisement", _) => Some(Self::Advertisement),
            _ => None,
        }
    }

    /// Whether a client makes the statement about itself.
    pub(crate) fn is_of(&self, client_id: &str) -> bool {
        matches!(self, Self::Context(node) if **node == *client_id)
    }
}

/// Whether a topic is the address of nodes.
pub(crate) fn is_address(settings: &Settings, topic: &str) -> bool {
    settings.addresses.as_ref().is_some_and(|addresses| Address::read(&addresses.prefix, topic).is_some())
}

/// Whether a topic is an application's, `PREFIX/to/app/NAME` or below it, and the shell wants its messages.
pub(crate) fn is_for_applications(settings: &Settings, topic: &str) -> bool {
    let Some(addresses) = settings.addresses.as_ref().filter(|addresses| addresses.records) else { return false };
    let rest = topic.strip_prefix(&addresses.prefix).and_then(|rest| rest.strip_prefix("/to/app/"));
    rest.and_then(first_level).is_some()
}

/// True if the shell observes messages of a topic.
pub(crate) fn is_report(settings: &Settings, topic: &str) -> bool {
    let Some(addresses) = settings.addresses.as_ref().filter(|addresses| !addresses.reports.is_empty()) else {
        return false;
    };
    let Ok(topic) = TopicName::new(topic) else { return false };
    addresses.reports.iter().any(|filter| TopicFilter::new(filter).is_ok_and(|filter| filter.matches(topic)))
}

fn first_level(rest: &str) -> Option<&str> {
    rest.split('/').next().filter(|level| !level.is_empty())
}

/// Characters of a client id that are not allowed in a level of a topic name, and their escapes.
const ESCAPED: [(char, &str); 4] = [('%', "%25"), ('/', "%2F"), ('+', "%2B"), ('#', "%23")];

/// The client id of a level. Text that is no escape of [`encoded`] is kept.
fn decoded(level: &str) -> Cow<'_, str> {
    if !level.contains('%') {
        return Cow::Borrowed(level);
    }
    let mut id = String::with_capacity(level.len());
    let mut rest = level;
    while let Some(at) = rest.find('%') {
        id.push_str(&rest[..at]);
        rest = &rest[at..];
        let matches = |(_, escape): &&(char, &str)| {
            rest.get(..escape.len()).is_some_and(|start| start.eq_ignore_ascii_case(escape))
        };
        if let Some((character, escape)) = ESCAPED.iter().find(matches) {
            id.push(*character);
            rest = &rest[escape.len()..];
        } else {
            id.push('%');
            rest = &rest[1..];
        }
    }
    id.push_str(rest);
    Cow::Owned(id)
}

/// A client id as a level of an address.
pub(crate) fn encoded(id: &str) -> String {
    let mut level = String::with_capacity(id.len());
    for character in id.chars() {
        match ESCAPED.iter().find(|(other, _)| *other == character) {
            Some((_, escape)) => level.push_str(escape),
            None => level.push(character),
        }
    }
    level
}

/// Whether a name can be a group's: one level of a topic name.
pub(crate) fn is_group_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= GROUP_NAME_MAX && !name.contains(['/', '+', '#', '\0'])
}

/// Longest name of a group, bytes.
pub(crate) const GROUP_NAME_MAX: usize = 256;

/// Whether a filter matches any address of a node, a group, of all, or of receipts, or any context or advertisement.
pub(crate) fn filter_meets_guarded(prefix: &str, filter: &str) -> bool {
    let kinds: [&[&str]; 6] =
        [&["to", "node"], &["to", "group"], &["to", "all"], &["receipts"], &["context"], &["GroupAdvertisement"]];
    kinds.iter().any(|kind| meets(filter, prefix.split('/').chain(kind.iter().copied())))
}

/// Whether a filter matches any topic that begins with these levels.
fn meets<'l>(filter: &str, levels: impl Iterator<Item = &'l str>) -> bool {
    let mut filter = filter.split('/');
    for level in levels {
        match filter.next() {
            Some("#") => return true,
            Some(wanted) if wanted == "+" || wanted == level => {}
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str) -> Address<'_> {
        Address::Node(Cow::Borrowed(id))
    }

    #[test]
    fn topics_are_read_as_addresses() {
        for (topic, address) in [
            ("ctx/to/node/n1", Some(node("n1"))),
            ("ctx/to/node/n1/a/b", Some(node("n1"))),
            ("ctx/to/node//a", None),
            ("ctx/to/node", None),
            ("ctx/to/group/g", Some(Address::Group("g"))),
            ("ctx/to/group/g/x", Some(Address::Group("g"))),
            ("ctx/to/all", Some(Address::All)),
            ("ctx/to/all/x/y", Some(Address::All)),
            ("ctx/to/allx", None),
            ("ctx/to/app/billing/x", None),
            ("ctx/receipts/s", Some(Address::Receipts(Cow::Borrowed("s")))),
            ("ctx", None),
            ("ctxx/to/all", None),
            ("to/all", None),
        ] {
            assert_eq!(Address::read("ctx", topic), address, "{topic}");
        }
        assert_eq!(Address::read("a/b", "a/b/to/all"), Some(Address::All));
        assert_eq!(Address::read("a/b", "a/to/all"), None);
    }

    #[test]
    fn client_ids_with_characters_of_their_own_are_escaped() {
        for (level, id) in [
            ("a%2Fb", "a/b"),
            ("a%2fb", "a/b"),
            ("%2B%23%25", "+#%"),
            ("a%252Fb", "a%2Fb"),
            ("50%", "50%"),
            ("%zz\u{e9}%", "%zz\u{e9}%"),
        ] {
            assert_eq!(decoded(level), id, "{level}");
            assert_eq!(decoded(&encoded(id)), id);
        }
        assert!(matches!(decoded("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn filters_that_meet_addresses_are_known() {
        for filter in ["#", "+/#", "ctx/#", "ctx/to/#", "ctx/+/all/x", "ctx/to/node/x/#", "+/receipts/+", "ctx/to/+"] {
            assert!(filter_meets_guarded("ctx", filter), "{filter}");
        }
        for filter in ["a/#", "ctx/to/app/#", "ctx/up/#", "ctx", "ctx/to", "+/to/app/x"] {
            assert!(!filter_meets_guarded("ctx", filter), "{filter}");
        }
    }

    #[test]
    fn a_group_is_one_level() {
        assert!(is_group_name("17") && is_group_name(&"g".repeat(GROUP_NAME_MAX)));
        for name in ["", "a/b", "a+", "#", "a\0", &"g".repeat(GROUP_NAME_MAX + 1)] {
            assert!(!is_group_name(name), "{name:?}");
        }
    }
}
