//! A node that has handed over its partitions ends its exchanges with the other nodes before it stops.
//!
//! It deals messages of its former groups until each shard of the cluster has another dealer, and it alone keeps the
//! messages that it has dealt until their members answer. If it stopped before, the publishers would send messages again
//! that it had dealt, and it would deal its own copies when it returns with its store.

use crate::cluster::FAREWELL_INDEX;
use crate::cluster::peers::Farewells;
use crate::engine::facets::ClusterCalls;
use crate::flows::contexts::dealing;
use crate::ids::{ConnectionKey, Partitions};
use crate::link::envelope::Ticket;
use crate::link::record::Record;
use crate::now::Now;

impl ClusterCalls<'_> {
    /// Takes the next step to the end of this shard's exchanges with other nodes. Called again until it returns true:
    /// no shard has messages of groups dealt here, none that was dealt here is kept here, and each shard of another node
    /// has read all answers of this one. With `gives_kept` the homes of the groups get the messages whose members have
    /// not answered; these may come again at QoS 1. Messages for brokers do not count: they are in the store, and a broker
    /// that is away would hold up the stop.
    pub fn take_leave(&mut self, now: Now, gives_kept: bool) -> bool {
        let engine = &mut *self.engine;
        if engine.links.roster.has_no_peers() {
            return true;
        }
        engine.state.journal.now = now;
        let deals = engine.groups.dealers.dealt_by_others(&engine.links.roster) != Partitions::ALL;
        // A message of QoS 2 stays bound to its client, which may have it.
        if !deals && gives_kept && engine.groups.kept.lose_all_deals(now) {
            dealing!(engine).deal_waiting(now);
        }
        let farewells = &mut engine.peers.farewells;
        if deals || engine.groups.kept.has_any_of_clients() || engine.links.has_promised() {
            farewells.open = None;
        } else if farewells.open.is_none() || farewells.asked != engine.links.roster.peers() {
            self.ask_for_farewells();
        }
        self.engine.after_frame(now);
        self.engine.peers.farewells.open == Some(0)
    }

    /// Asks each shard of another node to confirm all that was sent to it.
    fn ask_for_farewells(&mut self) {
        let (asked, round) = (self.engine.links.roster.peers(), self.engine.peers.farewells.round.wrapping_add(1));
        let ticket = Ticket { connection: ConnectionKey { index: FAREWELL_INDEX, generation: round }, sequence: 0 };
        let mut open = 0;
        for peer in asked {
            self.engine.links.send(peer, Record::InterestBarrier { ticket });
            open += 1;
        }
        self.engine.peers.interest_under_way += open;
        self.engine.peers.farewells = Farewells { round, asked, open: Some(open) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::ids::{ShardId, ShardPosition};
    use crate::roster::Roster;
    use crate::settings::Settings;
    use std::sync::Arc;

    #[test]
    fn a_process_under_the_number_of_a_lost_one_is_asked_again() {
        let now = Now::default();
        let mut engine = Engine::new(Arc::new(Settings::default()), ShardPosition::ALONE, 1, now);
        let with_peer = || Roster::alone(ShardPosition::ALONE).with_peer(ShardId(1));
        engine.cluster().set_roster(now, with_peer());
        engine.cluster().ask_for_farewells();
        engine.peers.farewells.confirm(engine.peers.farewells.round);
        assert_eq!(engine.peers.farewells.open, Some(0));
        engine.cluster().set_roster(now, Roster::alone(ShardPosition::ALONE));
        engine.cluster().set_roster(now, with_peer());
        assert_eq!((engine.peers.farewells.open, engine.peers.farewells.asked), (None, engine.links.roster.peers()));
    }
}
