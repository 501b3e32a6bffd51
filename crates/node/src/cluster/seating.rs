//! The roster of a shard, computed from the nodes with a session and the homes of partitions.

use std::collections::BTreeMap;

use tidegate_engine::{PARTITIONS, PartitionId, Roster, ShardId, ShardPosition};

use super::{ClusterView, NodeName};

/// The roster of one shard. `seats` has the numbers of the shards of each node with which there is a session, in the
/// order of the shards there.
pub(super) fn roster(
    place: ShardPosition,
    view: &ClusterView,
    local: &NodeName,
    seats: &BTreeMap<NodeName, Vec<ShardId>>,
) -> Roster {
    let mut roster = Roster::alone(place).with_moves(view.moves_begun, &view.open_moves);
    if view.peers.iter().any(|peer| !seats.contains_key(&peer.name)) {
        roster = roster.with_nodes_lacking();
    }
    for shard in seats.values().flatten() {
        roster = roster.with_peer(*shard);
    }
    for (partition, home) in (0..PARTITIONS).map(PartitionId).zip(&view.homes) {
        if view.restoring.has(partition) {
            roster = roster.with_absent(partition);
        }
        let Some(home) = home.as_ref().filter(|home| *home != local) else { continue };
        // As long as there is no session with a home, the node itself takes its place.
        let Some(seats) = seats.get(home) else {
            roster = roster.with_stand_in(partition);
            if view.kept.has(partition) {
                roster = roster.with_absent(partition);
            }
            continue;
        };
        let there = ShardPosition { shard: ShardId(0), shards: (seats.len() as u16).max(1) };
        if let Some(shard) = seats.get(usize::from(there.home_of(partition).0)) {
            roster = roster.with_home(partition, *shard);
        }
    }
    roster
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::PeerNode;

    #[test]
    fn a_roster_says_when_there_is_no_link_to_a_node_of_the_view() {
        let name = |name| NodeName::new(name).unwrap();
        let address = "127.0.0.1:7000".parse().unwrap();
        let peer = PeerNode { name: name("b"), incarnation: 1, address };
        let view = ClusterView { peers: vec![peer], ..ClusterView::alone() };
        let alone = Roster::alone(ShardPosition::ALONE);
        let none = roster(ShardPosition::ALONE, &view, &name("a"), &BTreeMap::new());
        assert_eq!(none, alone.clone().with_moves(0, &[]).with_nodes_lacking());
        let seats = BTreeMap::from([(name("b"), vec![ShardId(1)])]);
        assert_eq!(
            roster(ShardPosition::ALONE, &view, &name("a"), &seats),
            alone.with_moves(0, &[]).with_peer(ShardId(1))
        );
    }

    #[test]
    fn the_home_node_and_others_seat_a_partition_alike() {
        let name = |name| NodeName::new(name).unwrap();
        let place = ShardPosition { shard: ShardId(1), shards: 2 };
        let mut view = ClusterView { moves_begun: 9, open_moves: vec![8], ..ClusterView::alone() };
        view.homes[5] = Some(name("b"));
        view.homes[6] = Some(name("c"));
        view.homes[7] = Some(name("a"));
        let seats = BTreeMap::from([(name("b"), vec![ShardId(7), ShardId(9), ShardId(8)])]);
        let roster = roster(place, &view, &name("a"), &seats);
        let mut expected = Roster::alone(place).with_moves(9, &[8]);
        for shard in [7, 8, 9] {
            expected = expected.with_peer(ShardId(shard));
        }
        // The third shard of b; there is no session with c; and a is the node itself.
        assert_eq!(roster, expected.with_home(PartitionId(5), ShardId(8)).with_stand_in(PartitionId(6)));
    }
}
