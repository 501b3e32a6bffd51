//! The roster changes, and shards of other nodes come and go.

mod asked_to_wait;
mod cuts;
mod dealt_before;
mod finish;
mod outgoing;
mod records;

use crate::engine::Engine;
use crate::flows::cluster::ending::ending;
use crate::flows::cluster::peering::peering;
use crate::flows::groups::dealing::dealing;
use crate::flows::publish::answering::answering;
use crate::flows::publish::deciding::deciding;
use crate::flows::subscribe::subscribing::subscribing;
use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER, ShardId};
use crate::link::envelope::OUTGOING_INDEX;
use crate::now::Now;
use crate::retained::strays::STRAY_INDEX;
use crate::roster::Roster;
use crate::roster::Shards;
use crate::session::BlockedPublisher;
use crate::telling::reason::Reason;

impl Engine {
    /// Puts a roster in force. What shards of other nodes that are in it no longer still owed is not waited for; new ones are told
    /// what is wanted here, and [`Engine::is_known_to_nodes`] says when they know.
    ///
    /// The shell takes all batches for a shard before it leaves the roster, and hands none of a shard in that is not in it.
    pub fn set_roster(&mut self, now: Now, roster: Roster) {
        self.state.journal.now = now;
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
        self.state.exchanges.set_roster(self.place, &roster);
        let unsettled = self.state.transfers.unsettled(&self.links.roster);
        let old = std::mem::replace(&mut self.links.roster, roster);
        self.fetches.follow_moved(&self.links.roster, &mut self.state.transfers, &old, unsettled);
        self.state.transfers.end_cuts(&self.links.roster, &old);
        let decided = self.state.transfers.settle_undecided(&self.links.roster);
        for peer in after.without(before) {
            // It comes back, and says anew what is wanted there.
            if self.peers.gone.has(peer) {
                self.peers.is_blind = true;
                self.peers.returning.add(peer);
            }
            self.peers.forget_gone(&mut self.index, Shards::of(peer));
            self.peers.welcome_peer(&self.index, &mut self.links, &mut self.state.transfers, peer);
        }
        self.groups.begin_dealing_anew(&self.state, &mut self.links, &old, decided);
        subscribing!(self).reseat_members(now, &old);
        self.groups.tell_homes_of_groups(&mut self.links, &old);
        peering!(self).finish_dealing_anew(now);
        self.forget_those_replaced(now);
        for peer in gone {
            deciding!(self).end_admissions_of(now, peer);
        }
        ending!(self).publish_held(now);
        self.retained.bring_strays_home(now, &mut self.state, &mut self.links);
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
        if self.peers.awaits_somebody(&self.links.roster, &self.groups, &self.state.transfers) {
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
        self.state.to_unpark.extend(waiting.into_iter().rev().map(|connection| BlockedPublisher { shard, connection }));
    }

    /// Whether all shards of other nodes that are in the roster know what is wanted here.
    pub fn is_known_to_nodes(&self) -> bool {
        self.peers.welcomes == 0
    }

    /// A shard of another node is no more. Returns the publishers that have waited for it.
    fn end_peer(&mut self, now: Now, peer: ShardId) -> Vec<ConnectionKey> {
        let mut waiting = self.state.connections.take_asked_by(peer);
        let (for_room, awaited) = self.links.close(peer);
        waiting.extend(for_room);
        self.state.transfers.end_transfers_of(peer);
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
                let connection = self.state.connections.get(owed.ticket.connection);
                if connection.is_some_and(|connection| connection.listener == PRINCIPAL_LISTENER) {
                    answering!(self).confirm(now, owed.ticket, Some(Reason::NodeLost), false);
                } else {
                    self.close_connection(now, owed.ticket.connection, Reason::NodeLost, None);
                }
            }
        }
        self.state.sessions.doubt_exchanges();
        self.state.overload.give_up_shard(peer);
        self.state.loop_lag.give_up_shard(peer);
        self.state.sessions.give_up_blocking(&mut self.state.blockers, |publisher| publisher.shard == peer);
        self.groups.leave_groups_of(peer);
        self.groups.kept.lose_deals_of(now, &mut self.state, peer);
        self.fetches.skip_fetches(&self.links.roster, &mut self.state.sessions, peer);
        waiting
    }
}
