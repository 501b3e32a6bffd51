//! The choice of a fleet's broker for a message.

use crate::groups::shared_group::{Group, Member};
use crate::groups::{Groups, Receiver, Seat};
use crate::hash::hash_bytes;
use crate::ids::SessionKey;
use crate::link::record::GroupName;
use crate::message::Publication;
use crate::orchestrator::broker_link::BrokerLinks;
use crate::orchestrator::broker_link::packet_limits::MessageLen;
use crate::state::ShardState;

/// Picks the broker for a message, by the policy of the fleet. Excluded and paused brokers get it only if there is no
/// other. `None` if no connected broker takes a message of this length.
#[inline]
pub(crate) fn pick_broker(
    members: &mut Group<Receiver, Seat>,
    state: &ShardState,
    broker_links: &BrokerLinks,
    publication: &Publication<'_>,
    (not_to, len): (Option<Receiver>, Option<MessageLen>),
) -> Option<usize> {
    match members.sole_online() {
        Some(only) => broker_links.takes(only.1, len).then_some(0),
        None => pick_of_several(members, state, broker_links, publication, (not_to, len)),
    }
}

fn pick_of_several(
    members: &mut Group<Receiver, Seat>,
    state: &ShardState,
    broker_links: &BrokerLinks,
    publication: &Publication<'_>,
    (not_to, len): (Option<Receiver>, Option<MessageLen>),
) -> Option<usize> {
    let topic = hash_bytes(0, publication.topic.as_bytes());
    let too_large = |member: &Member<Receiver, Seat>| !broker_links.takes(member.receiver.1, len);
    let session = |member: &Member<Receiver, Seat>| SessionKey(member.receiver.1);
    let unfit = |member: &Member<Receiver, Seat>| {
        too_large(member) || broker_links.is_unfit(session(member), publication.topic)
    };
    let avoided = |member: &Member<Receiver, Seat>| too_large(member) || Some(member.receiver) == not_to;
    if members.online() == 0 {
        return None;
    }
    if publication.retain {
        // Whatever the policy is: a topic's retained value is at one broker, where the next one replaces or removes it.
        let place = members.pick_by_topic(topic, |member| avoided(member) || unfit(member));
        let place =
            place.or_else(|| members.pick_by_topic(topic, unfit)).or_else(|| members.pick_by_topic(topic, avoided));
        return place.or_else(|| members.pick_by_topic(topic, too_large));
    }
    if broker_links.brokers.config.goes_by_load() {
        let load =
            |member: &Member<Receiver, Seat>| (unfit(member), broker_links.brokers.load_of(state, session(member)));
        let place = members.least(load, |member| avoided(member) || unfit(member));
        return place.filter(|place| members.members().get(*place).is_some_and(|member| !too_large(member)));
    }
    let publisher = publication.publisher;
    // One that is away and was given up has its messages until it is back: it gets none as long as any is there.
    let place = members.pick_online(publisher, topic, |member| avoided(member) || unfit(member));
    let place = place.or_else(|| members.pick_online(publisher, topic, unfit));
    let place = place.or_else(|| members.pick_online(publisher, topic, avoided));
    place.or_else(|| members.pick_online(publisher, topic, too_large))
}

impl Groups {
    /// The session of the broker that messages of a topic go to at present, where the topic decides.
    pub(crate) fn broker_of_topic(
        &self,
        broker_links: &BrokerLinks,
        group: GroupName<'_>,
        topic: &str,
    ) -> Option<SessionKey> {
        let members = &self.dealt.get(self.find(group)?.0)?.members;
        let unfit = |member: &Member<Receiver, Seat>| broker_links.is_unfit(SessionKey(member.receiver.1), topic);
        let hash = hash_bytes(0, topic.as_bytes());
        let place = members.pick_by_topic(hash, unfit).or_else(|| members.pick_by_topic(hash, |_| false))?;
        members.members().get(place).map(|member| SessionKey(member.receiver.1))
    }
}
