//! Messages are dealt to members of shared groups, and members join and leave.

pub(crate) mod bound;
pub(crate) mod dealers;
pub(crate) mod existence;
pub(crate) mod fleet;
pub(crate) mod joins;
pub(crate) mod kept;
pub(crate) mod leaves;
pub(crate) mod passed;
pub(crate) mod reseat;
pub(crate) mod returns;

use crate::events::reason::Reason;
use crate::flows::contexts::Answering;
use crate::flows::contexts::Dealing;
use crate::flows::contexts::Peering;
use crate::flows::contexts::Subscribing;
use crate::flows::contexts::answering;
use crate::flows::contexts::dealing;
use crate::flows::contexts::subscribing;
use crate::flows::groups::fleet::pick_broker;
use crate::groups::kept::renewal::Renewal;
use crate::groups::shared_group::Member;
use crate::groups::{JOINING_INDEX, Joining, Receiver, Seat, group_partition, lacks_home};
use crate::hash::hash_bytes;
use crate::ids::{ConnectionKey, SessionKey, ShardId, TenantId, hash_name};
use crate::link::envelope::Ticket;
use crate::link::record::{GroupName, MemberOptions, Record};
use crate::message::Publication;
use crate::now::Now;
use crate::publish::admission::Wanted;
use crate::publish::dispatch::Source;
use crate::session::Membership;
use crate::session::terms::Terms;
use crate::subscribe::SubAckWaits;
use crate::topics::{GroupKey, SubscriberOptions};
use std::cell::RefCell;
use std::rc::Rc;

impl Peering<'_> {
    /// A session of another shard joins a group of this one.
    pub(crate) fn handle_group_join(
        &mut self,
        now: Now,
        from: ShardId,
        group: GroupName<'_>,
        session: u32,
        seat: Seat,
        ticket: Option<Ticket>,
    ) {
        let id = self.groups.next_joining;
        self.groups.next_joining = id.wrapping_add(1);
        let own = Ticket { connection: ConnectionKey { index: JOINING_INDEX, generation: id }, sequence: 0 };
        let told = subscribing!(self).take_seat(now, from, group, session, seat, Some(own));
        dealing!(self).deal_waiting_of(now, group);
        let known = if told == 0 { subscribing!(self).wait_for_interest(own, false) } else { told };
        let partition = group_partition(group.tenant, group.share, group.filter);
        let waits =
            known + u16::from(ticket.is_some() && self.groups.joins_late(&self.links.roster, from, partition, own));
        if waits == 0 {
            if let Some(ticket) = ticket {
                answering!(self).confirm_to(now, from, ticket, None, false);
            }
        } else {
            self.groups.joining.insert(id, Joining { shard: from, ticket, waits });
        }
    }
}

impl Answering<'_> {
    /// One shard more knows of the group that a member of another shard is joining.
    pub(crate) fn confirm_joining(&mut self, now: Now, id: u32) {
        let Some(joining) = self.groups.joining.get_mut(&id) else { return };
        joining.waits -= 1;
        if joining.waits > 0 {
            return;
        }
        if let Some(joining) = self.groups.joining.remove(&id)
            && let Some(ticket) = joining.ticket
        {
            self.confirm_to(now, joining.shard, ticket, None, false);
        }
    }
}

impl Subscribing<'_> {
    /// Makes a session a member of a group, and adds what its SUBACK has to wait for.
    #[expect(
        clippy::too_many_arguments,
        reason = "the member, its group, its options and the receiver of the confirmation"
    )]
    pub(crate) fn join_group(
        &mut self,
        now: Now,
        key: SessionKey,
        share: &str,
        filter: &str,
        member: MemberOptions,
        ticket: Ticket,
        waits: &mut SubAckWaits,
    ) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let tenant = session.tenant;
        let (client, counted) = (hash_name(tenant, &session.client_id), session.counted_for());
        let partition = group_partition(tenant, share, filter);
        let membership = Rc::new(Membership::new(GroupName { tenant, share, filter }, partition, member));
        waits.joined.push(Rc::clone(&membership));
        let rare = session.rare_mut();
        let known = rare.find_membership(share, filter);
        // The home that has confirmed it before keeps its messages already.
        let was_confirmed = known.is_ok_and(|at| rare.memberships[at].is_confirmed());
        membership.set_unconfirmed(!was_confirmed);
        match known {
            Ok(at) => rare.memberships[at] = membership,
            Err(at) => {
                rare.memberships.insert(at, membership);
                self.state.count_membership(counted);
            }
        }
        let group = GroupName { tenant, share, filter };
        let roster = &self.links.roster;
        let is_kept_at_brokers = was_confirmed && roster.is_of_orchestrators() && roster.lacks_home(partition);
        let ticket = Some(ticket).filter(|_| !is_kept_at_brokers);
        for table in self.groups.tables_of(&self.links.roster, partition) {
            if table != self.links.place.shard {
                self.links.send(table, Record::GroupJoin { group, session: key.0, client, member, ticket });
                waits.confirmations += u32::from(ticket.is_some());
                continue;
            }
            let seat = Seat { client, member, full: false };
            let told = self.take_seat(now, self.links.place.shard, group, key.0, seat, ticket);
            if let Some(ticket) = ticket {
                waits.add_notified(told);
                waits.confirmations += u32::from(self.groups.joins_late(&self.links.roster, table, partition, ticket));
            }
            dealing!(self).deal_waiting_of(now, group);
        }
    }
}

impl Subscribing<'_> {
    /// Makes a session from another home a member again, at first as an absent one.
    pub(crate) fn rejoin_group(&mut self, now: Now, key: SessionKey, membership: &Rc<Membership>) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let (client, counted) = (hash_name(session.tenant, &session.client_id), session.counted_for());
        let rare = session.rare_mut();
        let (Ok(at) | Err(at)) = rare.find_membership(&membership.share, &membership.filter);
        rare.memberships.insert(at, Rc::clone(membership));
        self.state.count_membership(counted);
        self.seat_away(now, key, client, membership);
    }

    /// Gives a member its seat at the group's home, for now as one that is away.
    fn seat_away(&mut self, now: Now, key: SessionKey, client: u64, membership: &Membership) {
        let (group, member) = (membership.group(), membership.member);
        for table in self.groups.tables_of(&self.links.roster, membership.partition) {
            if table == self.links.place.shard {
                self.take_seat(now, self.links.place.shard, group, key.0, Seat { client, member, full: false }, None);
                self.groups.set_online(group, self.links.place.shard, key.0, false);
            } else {
                self.links.send(table, Record::GroupJoin { group, session: key.0, client, member, ticket: None });
                self.links.send(table, Record::GroupPresence { group, session: key.0, online: false });
            }
        }
    }

    /// Seats a member at a group of this shard; returns the number of shards that received the announcement of the
    /// group and will confirm it.
    fn take_seat(
        &mut self,
        now: Now,
        shard: ShardId,
        group: GroupName<'_>,
        session: u32,
        seat: Seat,
        ticket: Option<Ticket>,
    ) -> u16 {
        self.groups.tell_home_of_new(self.links, group);
        let (key, told) = self.make_group(now, group, ticket);
        if let Some(dealt) = self.groups.dealt.get_mut(key.0) {
            dealt.members.join(Member { receiver: (shard, session), options: seat, identity: seat.client }, true);
        }
        told
    }
}

impl Dealing<'_> {
    /// Deals a message to one member of a group, other than `not_to` if there is another.
    pub(crate) fn deal_to(
        &mut self,
        now: Now,
        key: GroupKey,
        publication: &mut Publication<'_>,
        source: &Source,
        not_to: Option<(ShardId, u32)>,
    ) {
        let here = self.links.place.shard;
        let Some(dealt) = self.groups.dealt.get_mut(key.0) else { return };
        let of_fleet = dealt.tenant == TenantId::BROKER_LINK;
        let len = if of_fleet { self.broker_links.len_to_check(publication, now) } else { None };
        if of_fleet
            && let Some(place) =
                pick_broker(&mut dealt.members, self.state, self.broker_links, publication, (not_to, len))
        {
            return match dealt.members.members().get(place).map(|member| member.receiver) {
                Some((shard, session)) if shard == here => {
                    self.deliver_to_broker_link(now, SessionKey(session), publication, source);
                }
                _ => self.hand(now, key, place, publication, source, 0),
            };
        }
        let topic = hash_bytes(0, publication.topic.as_bytes());
        // Members without room, and the member that returned the message, are asked only if there is no other.
        let wanted = Wanted::of(publication);
        let left = self.state.departures.left;
        let is_of_transfer = !(of_fleet || self.state.transfers.are_none() && left.is_empty());
        // Asking for room lets expired messages leave a queue.
        let state = RefCell::new(&mut *self.state);
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
                    || is_of_transfer && state.sessions.has_left(&state.transfers, left, session, here)
            };
            member.receiver.0 == here && has_left()
        };
        let takes = |member: &Member<Receiver, Seat>| self.broker_links.takes(member.receiver.1, len);
        let roster = &self.links.roster;
        let is_unserved = |member: &Member<Receiver, Seat>| !of_fleet && lacks_home(roster, member.options.client);
        let is_gone = |member: &Member<Receiver, Seat>| has_left(member) || is_unserved(member) || !takes(member);
        let is_out = |member: &Member<Receiver, Seat>| is_gone(member) || Some(member.receiver) == not_to;
        let has_room = |member: &Member<Receiver, Seat>| !is_out(member) && !is_full(member);
        let place = if of_fleet { None } else { dealt.members.pick(publication.publisher, topic, |it| !has_room(it)) };
        let place = place
            .or_else(|| dealt.members.pick(publication.publisher, topic, is_out))
            .or_else(|| dealt.members.pick(publication.publisher, topic, is_gone));
        let too_large = of_fleet && !dealt.members.members().is_empty() && !dealt.members.members().iter().any(takes);
        match place {
            // It was accepted before the limits were known.
            None if too_large => {
                self.state.counters.given_up += 1;
                self.state.reports().discard_publication(Reason::FleetPacketLimit, publication);
            }
            Some(place) => self.hand(now, key, place, publication, source, 0),
            None => self.groups.keep_for_who_comes(now, self.state, self.links, key, publication),
        }
    }

    /// Gives a message to a member of a group by its place. `again` is the id under which it is kept already.
    pub(super) fn hand(
        &mut self,
        now: Now,
        key: GroupKey,
        place: usize,
        publication: &mut Publication<'_>,
        source: &Source,
        again: u64,
    ) {
        let Some(dealt) = self.groups.dealt.get(key.0) else { return };
        let Some(member) = dealt.members.members().get(place) else { return };
        let ((shard, session), seat) = (member.receiver, member.options);
        if dealt.tenant == TenantId::BROKER_LINK && shard == self.links.place.shard {
            self.deliver_to_broker_link(now, SessionKey(session), publication, source);
            return;
        }
        let name = (dealt.share.clone(), dealt.filter.clone());
        let group = GroupName { tenant: dealt.tenant, share: &name.0, filter: &name.1 };
        let Seat { client, member, full: insists } = seat;
        let (names, at): ((&str, &str), _) = ((&name.0, &name.1), (shard, client));
        if shard == self.links.place.shard {
            let to = SessionKey(session);
            let comes = self.state.sessions.old_home_answers(&self.state.transfers, to);
            if self.state.exchanges.marks.has_deal(publication.qos, again) {
                if (Renewal { keeper: shard, id: again }).reach(self.state, to) {
                    self.groups.kept.keep_deal(now, self.state, publication, names, at, source.hops, again);
                } else {
                    self.groups.kept.forget_deal(self.state, again);
                }
            } else if comes && again != 0 || self.keeps_own_deals() && (comes || self.state.sessions.is_fleeting(to)) {
                // The session ends with this node, or may not come in the end: then the group has the message still.
                let id = self.groups.kept.keep_deal(now, self.state, publication, names, at, source.hops, again);
                self.deliver_dealt(now, to, group, publication, source, (id != 0).then_some((shard, id)));
            } else {
                self.deliver_dealt(now, to, group, publication, source, None);
                self.groups.kept.forget_deal(self.state, again);
            }
            return;
        }
        let id = if again == 0 && self.links.roster.is_own(shard) && !self.keeps_own_deals() {
            0
        } else {
            self.groups.kept.keep_deal(now, self.state, publication, names, at, source.hops, again)
        };
        let crossing = if id == 0 {
            self.state.crossings.cross_for_group(&mut self.state.journal, self.links, publication, names, shard)
        } else {
            None
        };
        let envelope = source.envelope(&self.state.overflow, 0, publication, None);
        let record = Record::Deal { session, client, group, member, insists, id, envelope };
        self.links.send_deal(shard, record, source.connection.is_some());
        self.links.send_crossing(shard, crossing);
        self.state.counters.shard_messages_out += 1;
    }

    /// True if messages dealt to members of this node itself are kept as well, since another node, or its own next life, may
    /// have to succeed this one. That other nodes are away at this moment does not matter.
    fn keeps_own_deals(&self) -> bool {
        self.state.journal.is_on() && self.links.roster.is_of_cluster()
    }

    /// Delivers a dealt message to a session of this shard; returns whether it is a member. `promised` is the shard that hears
    /// when the delivery ends, and the id under which that shard keeps the message.
    pub(crate) fn deliver_dealt(
        &mut self,
        now: Now,
        session: SessionKey,
        group: GroupName<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
        promised: Option<(ShardId, u64)>,
    ) -> bool {
        let rare = self.state.sessions.get(session.0).and_then(|session| session.rare.as_ref());
        let membership = rare.and_then(|rare| {
            rare.memberships
                .iter()
                .find(|other| *other.share == *group.share && *other.filter == *group.filter)
                .cloned()
        });
        let Some(membership) = membership else { return false };
        let promise = promised.map(|(home, id)| self.groups.kept.promise(home, id));
        let membership = promise.map_or(Rc::clone(&membership), |promise| Rc::new(membership.with(promise)));
        let options = SubscriberOptions::from_bits(membership.member.options);
        let ids = [membership.member.subscription_id];
        let terms = Terms {
            qos: options.qos(),
            retain: publication.retain && options.retain_as_published(),
            subscription_ids: if ids[0] == 0 { &[] } else { &ids },
            group: Some(&membership),
            publisher: source.publisher(),
            metered: group.tenant == TenantId::BROKER_LINK,
        };
        self.layouts.begin(1);
        self.state.deliver(now.monotonic, publication, self.layouts, session, &terms);
        true
    }
}
