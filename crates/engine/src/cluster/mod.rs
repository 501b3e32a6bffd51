//! Shards of other nodes come and go, and partitions change their homes.
//!
//! To an engine, a shard of another node is a shard like any other: the same records go over a link to it. What differs is that it
//! can die alone. Then nobody may wait for it any more, and who was promised something that only it could confirm is sent away
//! to ask again.

pub(crate) mod asked_to_wait;
pub(crate) mod ending;
pub(crate) mod exchanges;
pub(crate) mod outgoing;
pub(crate) mod peering;
pub(crate) mod peers;
mod records;
pub(crate) mod roster;
pub(crate) mod transfer;

use crate::cluster::ending::ending;
use crate::cluster::outgoing::OUTGOING_INDEX;
use crate::cluster::peering::peering;
use crate::cluster::peers::Peers;
use crate::cluster::roster::{Roster, Shards};
use crate::cluster::transfer::Transfers;
use crate::desk::Desk;
use crate::durable::RESTORING_INDEX;
use crate::engine::Engine;
use crate::groups::Groups;
use crate::groups::dealing::dealing;
use crate::ids::{ConnectionKey, PARTITIONS, PRINCIPAL_LISTENER, PartitionId, ShardId, TenantId, partition_of};
use crate::link::Links;
use crate::link::envelope::Ticket;
use crate::link::record::Record;
use crate::now::Now;
use crate::publish::answering::answering;
use crate::publish::deciding::deciding;
use crate::retained::strays::STRAY_INDEX;
use crate::session::BlockedPublisher;
use crate::subscribe::subscribing::{Subscribing, subscribing};
use crate::telling::reason::Reason;
use crate::topics::{Route, SubscriptionIndex};

/// Tickets with this connection index belong to nobody: they ask a new shard to say when it knows of all that is wanted here.
pub(crate) const WELCOME_INDEX: u32 = u32::MAX - 3;

const _: () = assert!(
    WELCOME_INDEX != RESTORING_INDEX
        && OUTGOING_INDEX < WELCOME_INDEX
        && OUTGOING_INDEX < RESTORING_INDEX
        && STRAY_INDEX < OUTGOING_INDEX,
    "each kind of ticket has an index of its own"
);

impl Engine {
    /// Puts a roster in force. What shards of other nodes that are in it no longer still owed is not waited for; new ones are told
    /// what is wanted here, and [`Engine::is_known_to_nodes`] says when they know.
    ///
    /// The shell takes all batches for a shard before it leaves the roster, and hands none of a shard in that is not in it.
    pub fn set_roster(&mut self, now: Now, roster: Roster) {
        self.desk.journal.now = now;
        self.peers.is_blind |= self.peers.does_not_know(&self.links.roster, &roster);
        let (before, after) = (self.links.roster.peers(), roster.peers());
        let gone = before.without(after);
        let mut let_go = Vec::new();
        for peer in gone {
            let_go.extend(self.end_peer(now, peer));
            self.peers.heard = self.peers.heard.without(Shards::of(peer));
            // As long as somebody is to go on with what it owed, what was wanted there is remembered.
            self.peers.gone.add(peer);
            self.peers.returning = self.peers.returning.without(Shards::of(peer));
        }
        self.desk.exchanges.set_roster(self.place, &roster);
        let unsettled = self.desk.transfers.unsettled(&self.links.roster);
        let old = std::mem::replace(&mut self.links.roster, roster);
        self.fetches.follow_moved(&self.links.roster, &mut self.desk.transfers, &old, unsettled);
        self.desk.transfers.end_cuts(&self.links.roster, &old);
        let decided = self.desk.transfers.settle_undecided(&self.links.roster);
        for peer in after.without(before) {
            // It comes back, and says anew what is wanted there.
            if self.peers.gone.has(peer) {
                self.peers.is_blind = true;
                self.peers.returning.add(peer);
            }
            self.peers.forget_gone(&mut self.index, Shards::of(peer));
            self.peers.welcome_peer(&self.index, &mut self.links, &mut self.desk.transfers, peer);
        }
        self.groups.begin_dealing_anew(&self.desk, &mut self.links, &old, decided);
        subscribing!(self).reseat_members(now, &old);
        self.groups.tell_homes_of_groups(&mut self.links, &old);
        peering!(self).finish_dealing_anew(now);
        self.forget_those_replaced(now);
        for peer in gone {
            deciding!(self).end_admissions_of(now, peer);
        }
        ending!(self).publish_held(now);
        self.retained.bring_strays_home(now, &mut self.desk, &mut self.links);
        // What they have yet to say goes by the new roster: it may be for somebody at the node that is gone.
        for publisher in let_go {
            self.unpark(now, publisher);
        }
        dealing!(self).deal_waiting(now);
        self.after_frame(now);
    }

    /// A shard of another node has told all that is wanted there.
    pub(crate) fn note_heard(&mut self, now: Now, peer: ShardId) {
        self.peers.heard.add(peer);
        self.forget_those_replaced(now);
    }

    /// What was wanted at nodes that are gone is wanted where their clients are now, and all of that is known.
    pub(crate) fn forget_those_replaced(&mut self, now: Now) {
        if self.peers.awaits_somebody(&self.links.roster, &self.groups, &self.desk.transfers) {
            return;
        }
        self.peers.is_blind = false;
        subscribing!(self).remove_forsaken_groups(now);
        self.peers.forget_gone(&mut self.index, self.peers.gone);
        self.peers.returning = Shards::default();
        // Wills go first: their clients may be among the publishers that wait.
        ending!(self).publish_held(now);
        let shard = self.place.shard;
        let waiting = std::mem::take(&mut self.groups.dealers.waiting);
        self.desk.to_unpark.extend(waiting.into_iter().rev().map(|connection| BlockedPublisher { shard, connection }));
    }

    /// Whether all shards of other nodes that are in the roster know what is wanted here.
    pub fn is_known_to_nodes(&self) -> bool {
        self.peers.welcomes == 0
    }

    /// A shard of another node is no more. Returns the publishers that have waited for it.
    fn end_peer(&mut self, now: Now, peer: ShardId) -> Vec<ConnectionKey> {
        let mut waiting = self.desk.connections.take_asked_by(peer);
        let (for_room, awaited) = self.links.close(peer);
        waiting.extend(for_room);
        self.desk.transfers.end_transfers_of(peer);
        for owed in awaited {
            if owed.interest {
                // Whoever is gone sends nothing: all that it had to know is known.
                answering!(self).handle_interest_seen(now, owed.ticket);
            } else if owed.ticket.connection.index == OUTGOING_INDEX {
                self.outgoing.doubt_outgoing(owed.ticket);
            } else if owed.ticket.connection.index == STRAY_INDEX {
                self.retained.keep_strays_of(peer);
            } else {
                // What it confirms never comes. Its own client, or the principal, asks again.
                let connection = self.desk.connections.get(owed.ticket.connection);
                if connection.is_some_and(|connection| connection.listener == PRINCIPAL_LISTENER) {
                    answering!(self).confirm(now, owed.ticket, Some(Reason::NodeLost), false);
                } else {
                    self.close_connection(now, owed.ticket.connection, Reason::NodeLost, None);
                }
            }
        }
        self.desk.sessions.doubt_exchanges();
        self.desk.overload.give_up_shard(peer);
        self.desk.loop_lag.give_up_shard(peer);
        self.desk.sessions.give_up_blocking(&mut self.desk.blockers, |publisher| publisher.shard == peer);
        self.groups.leave_groups_of(peer);
        self.groups.kept.lose_deals_of(now, &mut self.desk, peer);
        self.fetches.skip_fetches(&self.links.roster, &mut self.desk.sessions, peer);
        waiting
    }
}

impl Peers {
    /// Whether a message would miss somebody whom it is for: sessions, the mobile node of its address, or the home of its topic, at a node that
    /// is gone and whose place another one has yet to take.
    pub(crate) fn would_miss_somebody(
        &self,
        desk: &Desk,
        roster: &Roster,
        (topic, route): (&str, &Route),
        tenant: TenantId,
        retain: bool,
    ) -> bool {
        let remote = route.remote_bits();
        let undecided = desk.transfers.undecided();
        let is_gone = |home| roster.misses(home) || undecided.has(home);
        let is_home_gone = || retain && is_gone(partition_of(tenant, topic));
        let is_node_gone = || desk.settings.home_of_address(tenant, topic).is_some_and(is_gone);
        let returns = self.returning != Shards::default();
        self.is_blind
            || self.misses_somebody(roster, &desk.transfers)
                && (returns || remote != roster.living(remote) || is_home_gone() || is_node_gone())
    }
}

impl Subscribing<'_> {
    /// Gives members of shared groups their seats where the groups are dealt for now.
    fn reseat_members(&mut self, now: Now, old: &Roster) {
        let mut moved = Vec::new();
        for (key, session) in self.desk.sessions.iter() {
            for membership in session.rare.iter().flat_map(|rare| &rare.memberships) {
                if old.home_of(membership.partition) != self.links.roster.home_of(membership.partition) {
                    moved.push((crate::ids::SessionKey(key), membership.clone()));
                }
            }
        }
        for (key, membership) in moved {
            self.take_seat_anew(now, key, &membership);
        }
    }
}

impl Peers {
    /// Whether a roster misses partitions of which this shard has never heard what is wanted there: it has started while their node was
    /// dead, or that has died too soon. Or it may have forgotten so: as far as it knew, the node that is gone was home to nothing, and before it
    /// was heard of that end these partitions had moved there.
    fn does_not_know(&self, old: &Roster, new: &Roster) -> bool {
        let is_new = |partition: &PartitionId| new.misses(*partition) && !old.misses(*partition);
        let missed = (0..PARTITIONS).map(PartitionId).filter(is_new);
        let home = |partition| old.home_of(partition);
        missed.into_iter().any(|partition| !self.heard.has(home(partition)) || new.has(home(partition)))
    }

    /// Tells a new shard of another node all that is wanted here.
    fn welcome_peer(&mut self, index: &SubscriptionIndex, links: &mut Links, transfers: &mut Transfers, peer: ShardId) {
        links.open(peer);
        for (tenant, filter) in index.local_filters() {
            if links.roster.others_for(filter).has(peer) {
                links.send(peer, Record::Interest { tenant, filter, present: true, ticket: None });
            }
        }
        let ticket = Ticket { connection: ConnectionKey { index: WELCOME_INDEX, generation: 0 }, sequence: 0 };
        links.send(peer, Record::InterestBarrier { ticket });
        self.interest_under_way += 1;
        self.welcomes += 1;
        transfers.tell_of_transfers(links, peer);
    }

    /// Whether clients of nodes that are gone may be at others soon, or be there without this shard knowing of it.
    pub(crate) fn awaits_somebody(&self, roster: &Roster, groups: &Groups, transfers: &Transfers) -> bool {
        let unheard = roster.peers().without(self.heard);
        roster.misses_any() || groups.dealers.miss_any() || unheard != Shards::default() || transfers.has_undecided()
    }

    fn forget_gone(&mut self, index: &mut SubscriptionIndex, peers: Shards) {
        for peer in peers {
            if self.gone.has(peer) {
                index.remove_remote(peer);
            }
        }
        self.gone = self.gone.without(peers);
    }

    /// Whether there is somebody whom messages may miss.
    #[inline]
    pub(crate) fn misses_somebody(&self, roster: &Roster, transfers: &Transfers) -> bool {
        self.is_blind
            || roster.misses_any()
            || self.gone != Shards::default()
            || self.returning != Shards::default()
            || transfers.has_undecided()
    }
}
