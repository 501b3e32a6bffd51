//! A member returns a message, and another member gets it.

use crate::events::reason::Reason;
use crate::flows::contexts::Dealing;
use crate::groups::kept::renewal::Renewal;
use crate::groups::returns::Returned;
use crate::groups::{RETURNS_MAX, Taker, group_partition};
use crate::ids::{SessionKey, ShardId, hash_name, partition_of};
use crate::link::promised::Promised;
use crate::link::record::{GroupName, Record};
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::session::Membership;
use tidegate_mqtt::QoS;

impl Dealing<'_> {
    /// A message that a member did not take goes back to be dealt to another.
    pub(crate) fn give_back(
        &mut self,
        now: Now,
        membership: &Membership,
        from: SessionKey,
        publication: &mut Publication<'_>,
    ) {
        let source = Source { hops: 1, ..Source::inside(self.links.place.shard, now) };
        let (group, home) = (membership.group(), self.links.roster.home_of(membership.partition));
        // A former home that keeps it forgets it and passes it on in one step.
        let promised = membership.promised().filter(|(keeper, _)| self.links.roster.has(*keeper));
        let (home, of) = promised.unwrap_or((home, 0));
        if of != 0 {
            membership.withdraw_promise();
            self.state.exchanges.give_up_deal(self.links.place, &mut self.state.journal, of);
        }
        if home == self.links.place.shard {
            let member = (self.links.place.shard, from.0);
            if self.groups.kept.stays_bound(now, self.state, of) {
                if !self.groups.has_seat(group, member) {
                    self.deal_kept(now, of, false);
                }
                return;
            }
            self.deal_again(now, group, publication, &source, member);
            self.groups.kept.forget_deal(self.state, of);
        } else {
            self.send_to_group(now, group, publication, &source, (home, from.0), (of, 0, 0));
        }
    }

    /// A shard gives a message to be dealt, which it takes for the home of the group.
    pub(crate) fn handle_return(
        &mut self,
        now: Now,
        from: ShardId,
        returned: Returned<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        let Returned { group, not_to, of, id, name, client } = returned;
        self.groups.set_full(group, from, not_to);
        if self.groups.kept.stays_bound(now, self.state, of) {
            // The client may have another seat than the lost seat.
            if !self.groups.has_seat(group, (from, not_to)) {
                self.deal_kept(now, of, false);
            }
            return;
        }
        let partition = group_partition(group.tenant, group.share, group.filter);
        let is_dealt = name.is_some_and(|name| self.state.exchanges.marks.get(name).groups.has(partition));
        let is_kept = id != 0 && self.groups.kept.has(id);
        if is_kept {
            self.groups.kept.store_passed(self.state, id);
        }
        let is_known = self.state.exchanges.marks.has_deal(publication.qos, id);
        if !is_kept && !is_dealt && !is_known {
            self.take_returned(now, from, returned, publication, source);
        }
        self.groups.kept.forget_deal(self.state, of);
        let renewal = Renewal { keeper: from, id };
        let is_owed =
            !is_kept && is_known && renewal.reach_client(self.groups, self.state, self.links.place, (group, client));
        if id != 0 && !is_owed {
            // It is kept here by now.
            let batch = self.state.journal.promised_batch();
            self.links.answer(from, Promised::Dealt { id }, batch);
        }
    }

    fn take_returned(
        &mut self,
        now: Now,
        from: ShardId,
        returned: Returned<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        let Returned { group, not_to, id, client, .. } = returned;
        if client != 0 && id != 0 && publication.qos == QoS::ExactlyOnce {
            return self.keep_for_client(now, group, publication, (client, id));
        }
        let partition = group_partition(group.tenant, group.share, group.filter);
        self.state.exchanges.note_taken(
            self.links.place,
            &mut self.state.transfers,
            &mut self.state.journal,
            publication.qos,
            id,
            Some(partition),
        );
        self.deal_again(now, group, publication, source, (from, not_to));
    }

    /// Deals a returned message.
    pub(crate) fn deal_again(
        &mut self,
        now: Now,
        group: GroupName<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
        not_to: (ShardId, u32),
    ) {
        match self.groups.find(group) {
            Some(key) if source.hops <= RETURNS_MAX => {
                self.deal_to(now, key, publication, source, Some(not_to));
            }
            // All members have left for homes that lack them: the move was called off, and their node does not know
            // yet.
            Some(_) if publication.qos != QoS::AtMostOnce && self.links.roster.is_of_cluster() => {
                self.groups.kept.wait_for_member(now, self.state, (group.share, group.filter), publication);
            }
            None if source.hops <= RETURNS_MAX && publication.qos != QoS::AtMostOnce => {
                let partition = group_partition(group.tenant, group.share, group.filter);
                let home = self.links.roster.home_of(partition);
                if home != self.links.place.shard {
                    // The group is dealt elsewhere by now.
                    let source = Source { hops: source.hops + 1, ..*source };
                    self.send_to_group(now, group, publication, &source, (home, u32::MAX), (0, 0, 0));
                } else if self.links.roster.awaits_members() || !self.groups.dealers.is_complete(partition) {
                    self.groups.kept.wait_for_member(now, self.state, (group.share, group.filter), publication);
                } else {
                    self.state.reports().discard_publication(Reason::NoGroupMember, publication);
                }
            }
            _ => self.state.reports().discard_publication(Reason::NoGroupMember, publication),
        }
    }

    /// Deals a message that an earlier process left between two shards. Its members may all be at other nodes, and are
    /// known later.
    pub(crate) fn deal_left(
        &mut self,
        now: Now,
        group: GroupName<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
        name: u64,
    ) {
        if self.groups.find(group).is_some() || publication.qos == QoS::AtMostOnce {
            self.deal_again(now, group, publication, source, (self.links.place.shard, u32::MAX));
        } else {
            self.groups.kept.keep_noted(now, self.state, (group.share, group.filter), publication, name);
        }
    }

    /// A message that a group of another shard has dealt to a session of this one.
    pub(crate) fn handle_deal(
        &mut self,
        now: Now,
        from: ShardId,
        to: Taker<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        let Taker { session, client, group, insists, id } = to;
        let seated = self
            .state
            .sessions
            .get(session.0)
            .is_some_and(|session| hash_name(session.tenant, &session.client_id) == client);
        if self.state.exchanges.marks.has_deal(publication.qos, id) {
            if (Renewal { keeper: from, id }).reach(self.state, session) {
                return;
            }
            // It had arrived, and its confirmation had not.
            let batch = self.state.journal.promised_batch();
            return self.links.answer(from, Promised::Dealt { id }, batch);
        }
        // A member that leaves for another node has a seat there by now.
        let is_of_transfer = !self.state.transfers.are_none();
        let left = self.state.departures.left;
        let has_left = self.state.sessions.has_left(&self.state.transfers, left, session, from);
        let stays = seated && !has_left;
        let wants = stays && (insists || self.state.takes_dealt(session, publication));
        self.state.transfers.dealer = Some(from);
        let is_kept = self.state.sessions.get(session.0).is_some_and(|session| session.stored.is_some());
        // The messages set aside for an arriving session are in no store yet.
        let stored =
            is_kept && (!is_of_transfer || !self.state.sessions.old_home_answers(&self.state.transfers, session));
        let promised = (id != 0 && !stored).then_some((from, id));
        let delivered = wants && self.deliver_dealt(now, session, group, publication, source, promised);
        self.state.transfers.dealer = None;
        if !delivered {
            let source = Source { hops: source.hops + 1, ..*source };
            let crossing = self.state.crossings.cross_for_group(
                &mut self.state.journal,
                self.links,
                publication,
                (group.share, group.filter),
                from,
            );
            let envelope = source.envelope(&self.state.overflow, 0, publication, None);
            self.links.send(from, Record::Return { group, not_to: session.0, of: id, id: 0, client: 0, envelope });
            self.links.send_crossing(from, crossing);
            return;
        }
        let receiver = self.state.sessions.get(session.0).filter(|_| stored);
        let owner = receiver.map(|session| partition_of(session.tenant, &session.client_id));
        self.state.exchanges.note_taken(
            self.links.place,
            &mut self.state.transfers,
            &mut self.state.journal,
            publication.qos,
            id,
            owner,
        );
        if id != 0 && stored {
            let batch = self.state.journal.promised_batch();
            self.links.answer(from, Promised::Dealt { id }, batch);
        }
    }
}
