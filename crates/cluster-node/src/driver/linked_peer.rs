//! A link to another node, for tests of its effects.

use tidegate_node::{LinkCounters, LinkState, NodeName, PeerStatus};

/// A link in this state, without traffic, to a node of one shard.
pub(super) fn peer(name: &str, state: LinkState) -> PeerStatus {
    PeerStatus {
        name: NodeName::new(name).unwrap(),
        incarnation: 1,
        address: "127.0.0.1:1".parse().unwrap(),
        state,
        through: None,
        since: 0,
        rtt_us: None,
        shards: Some(1),
        waiting_bytes: 0,
        counters: LinkCounters::default(),
        last_failure: None,
    }
}
