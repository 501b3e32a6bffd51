//! The choice of the member of a group, or of the broker of a fleet, that gets a message.

use crate::events::reason::Reason;
use crate::flows::contexts::Dealing;
use crate::groups::shared_group::{Group, Member};
use crate::groups::{Groups, Receiver, Seat};
use crate::hash::hash_bytes;
use crate::ids::{SessionKey, TenantId};
use crate::link::record::GroupName;
use crate::message::Publication;
use crate::now::Now;
use crate::orchestrator::broker_link::BrokerLinks;
use crate::orchestrator::broker_link::packet_limits::MessageLen;
use crate::publish::admission::Wanted;
use crate::publish::dispatch::Source;
use crate::state::ShardState;
use crate::topics::GroupKey;
use std::cell::RefCell;

/// The choice of the member of a group that gets a message.
pub(super) struct MemberChoice<'a, 'e>(pub(super) &'a mut Dealing<'e>);

impl MemberChoice<'_, '_> {
    /// Gives a message to a connected broker, other than `not_to` if there is another; returns whether one takes a
    /// message of this length.
    #[inline]
    pub(super) fn give_to_broker(
        &mut self,
        now: Now,
        key: GroupKey,
        publication: &mut Publication<'_>,
        source: &Source,
        (not_to, len): (Option<Receiver>, Option<MessageLen>),
    ) -> bool {
        let Some(dealt) = self.0.groups.dealt.get_mut(key.0) else { return false };
        let members = &mut dealt.members;
        let place = match members.members() {
            // A choice of one needs no policy.
            [only] if members.online() == 1 => self.0.broker_links.takes(only.receiver.1, len).then_some(0),
            _ => pick_broker(members, self.0.state, self.0.broker_links, publication, (not_to, len)),
        };
        let Some((place, member)) = place.and_then(|place| Some((place, members.members().get(place)?))) else {
            return false;
        };
        let (shard, session) = member.receiver;
        if shard == self.0.links.place.shard {
            self.0.deliver_to_broker_link(now, SessionKey(session), publication, source);
        } else {
            self.0.hand(now, key, place, publication, source, 0);
        }
        true
    }

    /// The same to a member that may be disconnected. `len` is the length of a message that a broker may not take.
    pub(super) fn give_to_any(
        &mut self,
        now: Now,
        key: GroupKey,
        publication: &mut Publication<'_>,
        source: &Source,
        (not_to, len): (Option<Receiver>, Option<MessageLen>),
    ) {
        let topic = hash_bytes(0, publication.topic.as_bytes());
        let Some(dealt) = self.0.groups.dealt.get_mut(key.0) else { return };
        let of_fleet = dealt.tenant == TenantId::BROKER_LINK;
        // Members without room, and the member that returned the message, are asked only if there is no other.
        let (here, wanted) = (self.0.links.place.shard, Wanted::of(publication));
        let is_of_transfer = !of_fleet && !self.0.state.transfers.are_none();
        // Asking for room lets expired messages leave a queue.
        let state = RefCell::new(&mut *self.0.state);
        let is_full = |member: &Member<Receiver, Seat>| match member.receiver {
            (shard, session) if shard == here => {
                !state.borrow_mut().has_room_now(now.monotonic, SessionKey(session), &wanted)
            }
            _ => member.options.full,
        };
        let has_left = |member: &Member<Receiver, Seat>| {
            let (state, session) = (state.borrow(), SessionKey(member.receiver.1));
            // A session that has ended keeps its seat until it is removed.
            let has_left = || {
                state.sessions.get(session.0).is_none()
                    || is_of_transfer && state.sessions.has_left(&state.transfers, session, here)
            };
            member.receiver.0 == here && has_left()
        };
        let takes = |member: &Member<Receiver, Seat>| self.0.broker_links.takes(member.receiver.1, len);
        let is_gone = |member: &Member<Receiver, Seat>| has_left(member) || !takes(member);
        let is_out = |member: &Member<Receiver, Seat>| is_gone(member) || Some(member.receiver) == not_to;
        let has_room = |member: &Member<Receiver, Seat>| !is_out(member) && !is_full(member);
        let place = if of_fleet { None } else { dealt.members.pick(publication.publisher, topic, |it| !has_room(it)) };
        let place = place
            .or_else(|| dealt.members.pick(publication.publisher, topic, is_out))
            .or_else(|| dealt.members.pick(publication.publisher, topic, is_gone));
        let too_large = of_fleet && !dealt.members.members().is_empty() && !dealt.members.members().iter().any(takes);
        match place {
            // It was accepted before the limits were known.
            None if too_large => self.0.state.reports().discard_publication(Reason::FleetPacketLimit, publication),
            Some(place) => self.0.hand(now, key, place, publication, source, 0),
            None => self.0.groups.keep_for_who_comes(now, self.0.state, self.0.links, key, publication),
        }
    }
}

/// Picks the broker for a message, by the policy of the fleet. Excluded and paused brokers get it only if there is no
/// other. `None` if no connected broker takes a message of this length.
fn pick_broker(
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
