//! The links of a node, as far as its clients depend on them.

use std::collections::BTreeMap;

use tidegate_node::{Detours, LinkState, PeerStatus};

use super::Shared;
use crate::driver::reach::{detours, no_home_in_reach};

impl Shared {
    /// Why the node is not ready, if a link is not up.
    pub(super) fn link_block_reason(&self) -> Option<String> {
        let open = self.node.cluster().peers.into_iter().find(|peer| peer.state != LinkState::Settled);
        open.map(|peer| match peer.last_failure {
            Some(failure) => format!("its link to node {} is not up: {failure}", peer.name),
            None => format!("its link to node {} is not up", peer.name),
        })
    }

    /// The members that this node has a link with, and their incarnations.
    pub(in crate::driver) fn near(&self) -> BTreeMap<String, u64> {
        let peers = self.node.cluster().peers;
        let state = self.state();
        // While the bus is away, a node that was a member counts as one.
        let is_member = |peer: &PeerStatus| {
            let advert = state.standpoint.adverts.get(peer.name.as_str());
            !state.standpoint.bus || advert.is_some_and(|advert| advert.incarnation == peer.incarnation)
        };
        let is_near = |peer: &&PeerStatus| peer.state != LinkState::Dialing && is_member(peer);
        peers.iter().filter(is_near).map(|peer| (peer.name.to_string(), peer.incarnation)).collect()
    }

    /// The ways of clients around cut connections, with these links.
    pub(in crate::driver) fn detours(&self, peers: &[PeerStatus]) -> Detours {
        detours(peers, &self.state().standpoint.adverts)
    }

    /// Why the node is not ready, if it reaches no node that serves clients.
    pub(super) fn reach_block_reason(&self) -> Option<String> {
        let (serves, near) = (self.served() > 0, self.near());
        no_home_in_reach(&self.name, serves, &self.state().standpoint.table, &self.inquiries.believed(&near))
    }
}
