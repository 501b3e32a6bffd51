//! The roster changes, and shards of other nodes come and go.

mod asked_to_wait;
mod cuts;
mod dealt_before;
mod farewell;
mod finish;
mod outgoing;
mod records;

use crate::engine::facets::{ClusterCalls, ShardQuestions};
use crate::events::reason::Reason;
use crate::flows::contexts::answering;
use crate::flows::contexts::dealing;
use crate::flows::contexts::deciding;
use crate::flows::contexts::ending;
use crate::flows::contexts::moving;
use crate::flows::contexts::peering;
use crate::flows::contexts::subscribing;
use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER, Partitions, ShardId};
use crate::link::envelope::OUTGOING_INDEX;
use crate::now::Now;
use crate::retained::strays::STRAY_INDEX;
use crate::roster::Roster;
use crate::roster::Shards;
use crate::session::{BlockedPublisher, Standing};
use crate::settings::Holding;

impl ClusterCalls<'_> {
    /// Puts a roster in force. Debts of shards that have left it are not awaited; new shards receive this shard's
    /// interest, and [`ShardQuestions::is_known_to_nodes`](crate::ShardQuestions::is_known_to_nodes) says when they
    /// know it.
    ///
    /// The shell takes all batches for a shard before it leaves the roster, and hands in no batch of a shard outside
    /// it.
    pub fn set_roster(&mut self, now: Now, roster: Roster) {
        self.engine.state.journal.now = now;
        self.engine.peers.is_blind |= self.engine.peers.does_not_know(&self.engine.links.roster, &roster);
        let (before, after) = (self.engine.links.roster.peers(), roster.peers());
        let gone = before.without(after);
        self.engine.broker_links.follow_members(&roster);
        let mut let_go = Vec::new();
        for peer in gone {
            let_go.extend(self.end_peer(now, peer));
            self.engine.peers.heard = self.engine.peers.heard.without(Shards::of(peer));
            // As long as a successor is awaited, the interest there is remembered.
            self.engine.peers.gone.add(peer);
            self.engine.peers.returning = self.engine.peers.returning.without(Shards::of(peer));
        }
        self.engine.state.exchanges.set_roster(self.engine.place, &roster);
        let unsettled = self.engine.state.transfers.unsettled(&self.engine.links.roster);
        let old = std::mem::replace(&mut self.engine.links.roster, roster);
        self.engine.state.transfers.note_scope(&self.engine.links.roster);
        let lead_ms = self.engine.links.roster.clock_lead_ms;
        self.engine.broker_links.clock.follow(now, lead_ms);
        self.engine.retaining.store.removed.follow(lead_ms);
        self.engine.retaining.fetches.follow_moved(
            &self.engine.links.roster,
            &mut self.engine.state.transfers,
            &old,
            unsettled,
        );
        self.engine.state.transfers.end_cuts(&self.engine.links.roster, &old);
        let decided = self.engine.state.transfers.settle_undecided(&self.engine.links.roster);
        for peer in after.without(before) {
            // It returns, and announces its interest again.
            if self.engine.peers.gone.has(peer) {
                self.engine.peers.is_blind = true;
                self.engine.peers.returning.add(peer);
            }
            self.engine.peers.forget_gone(&mut self.engine.router.index, Shards::of(peer));
            self.engine.peers.welcome_peer(
                &self.engine.router.index,
                &mut self.engine.links,
                &mut self.engine.state.transfers,
                peer,
            );
        }
        self.forget_nodes_that_left(now);
        self.engine.groups.begin_dealer_change(&self.engine.state, &mut self.engine.links, &old, decided);
        subscribing!(self.engine).reseat_members(now, &old);
        self.engine.groups.tell_homes_of_groups(&mut self.engine.links, &old);
        self.engine.groups.store_names(&mut self.engine.state, &self.engine.links.roster);
        peering!(self.engine).finish_dealer_change(now);
        self.forget_those_replaced(now);
        for peer in gone {
            deciding!(self.engine).end_admissions_of(now, peer);
        }
        ending!(self.engine).publish_held(now);
        moving!(self.engine).follow_roster(now);
        self.engine.retaining.store.bring_strays_home(now, &mut self.engine.state, &mut self.engine.links);
        // Their next messages use the new roster: these may be for clients of the lost node.
        for publisher in let_go {
            self.engine.waiting().unpark(now, publisher);
        }
        dealing!(self.engine).deal_waiting(now);
        self.engine.after_frame(now);
    }

    /// A shard of another node has announced all of its interest.
    pub(crate) fn note_heard(&mut self, now: Now, peer: ShardId) {
        self.engine.peers.heard.add(peer);
        self.forget_those_replaced(now);
    }

    /// Forgets the interest of lost nodes once their clients have announced it elsewhere.
    pub(crate) fn forget_those_replaced(&mut self, now: Now) {
        if self.engine.peers.awaits_absent_home(
            &self.engine.links.roster,
            &self.engine.groups,
            &self.engine.state.transfers,
        ) {
            return;
        }
        self.engine.peers.is_blind = false;
        subscribing!(self.engine).remove_forsaken_groups(now);
        self.engine.peers.forget_gone(&mut self.engine.router.index, self.engine.peers.gone);
        self.engine.peers.returning = Shards::default();
        // Wills go first: their clients may be among the publishers that wait.
        ending!(self.engine).publish_held(now);
        let shard = self.engine.place.shard;
        let waiting = std::mem::take(&mut self.engine.groups.dealers.waiting);
        self.engine
            .state
            .to_unpark
            .extend(waiting.into_iter().rev().map(|connection| BlockedPublisher { shard, connection }));
    }
}

impl ShardQuestions<'_> {
    /// True if all shards of other nodes in the roster know this shard's interest.
    pub fn is_known_to_nodes(&self) -> bool {
        self.engine.peers.welcomes == 0
    }
}

impl ClusterCalls<'_> {
    /// An orchestrator keeps sessions that have left until its brokers deliver nothing more for them. Messages to their
    /// addresses, and messages that groups deal, reach them at the new home alone.
    pub(crate) fn forget_nodes_that_left(&mut self, now: Now) {
        let roster = &self.engine.links.roster;
        if !roster.is_of_orchestrators() {
            return;
        }
        let leaving = self.engine.state.transfers.leaving.keys().copied();
        let forwarded = self.engine.handover.forwarding.left.values().flat_map(|left| left.partitions.iter());
        let left: Partitions = leaving.chain(forwarded).filter(|partition| !roster.is_of_process(*partition)).collect();
        if left.is_empty() {
            return;
        }
        for key in self.engine.state.sessions.by_partition(left).all() {
            subscribing!(self.engine).set_standing(now, *key, Standing::Client);
            let Some(session) = self.engine.state.sessions.get_mut(key.0) else { continue };
            let counted = session.counted_for();
            let memberships = session.rare.as_mut().map(|rare| std::mem::take(&mut rare.memberships));
            for membership in memberships.unwrap_or_default() {
                self.engine.state.tenants.release(counted, Holding::Subscriptions, 1);
                subscribing!(self.engine).leave_home(now, *key, &membership);
            }
        }
    }

    /// A shard of another node is no more. Returns the publishers that have waited for it.
    fn end_peer(&mut self, now: Now, peer: ShardId) -> Vec<ConnectionKey> {
        let mut waiting = self.engine.state.connections.take_asked_by(peer);
        let (for_room, awaited) = self.engine.links.close(peer);
        waiting.extend(for_room);
        self.engine.state.transfers.end_transfers_of(peer);
        // Another process may come under its number: it is asked again.
        self.engine.peers.farewells.open = None;
        for owed in awaited {
            if owed.interest {
                // A lost shard sends nothing: no announcement to it is open.
                answering!(self.engine).handle_interest_seen(now, owed.ticket);
            } else if owed.ticket.connection.index == OUTGOING_INDEX {
                self.engine.peers.outgoing.doubt_outgoing(owed.ticket);
            } else if owed.ticket.connection.index == STRAY_INDEX {
                self.engine.retaining.store.keep_strays_of(peer);
            } else {
                // Its confirmation never comes. The client, or the principal, asks again.
                let connection = self.engine.state.connections.get(owed.ticket.connection);
                if connection.is_some_and(|connection| connection.listener == PRINCIPAL_LISTENER) {
                    answering!(self.engine).confirm(now, owed.ticket, Some(Reason::NodeLost), false);
                } else {
                    self.engine.close_connection(now, owed.ticket.connection, Reason::NodeLost, None);
                }
            }
        }
        self.engine.state.sessions.doubt_exchanges();
        self.engine.broker_links.ask_no_longer(now, &mut self.engine.state, peer);
        self.engine.state.overload.give_up_shard(peer);
        self.engine.state.loop_lag.give_up_shard(peer);
        self.engine
            .state
            .sessions
            .give_up_blocking(&mut self.engine.state.blockers, |publisher| publisher.shard == peer);
        self.engine.groups.leave_groups_of(peer);
        self.engine.groups.kept.passed.forget_origin(peer);
        self.engine.groups.kept.lose_deals_of(now, &mut self.engine.state, peer);
        self.engine.retaining.fetches.skip_fetches(&self.engine.links.roster, &mut self.engine.state.sessions, peer);
        waiting
    }
}
