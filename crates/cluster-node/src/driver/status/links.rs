//! The links of a node, as far as its clients depend on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use tidegate_cluster::Table;
use tidegate_engine::PARTITIONS;
use tidegate_node::{Detours, LinkState, PeerStatus};

use super::Shared;
use crate::driver::reach::{detours, no_home_in_reach};

impl Shared {
    /// Why the node is not ready, if it begins a life and has no link to a home yet. Later it stays ready without a link:
    /// its own partitions are served, and one node that hangs or is refused must not take all others from their clients.
    pub(super) fn link_block_reason(&self) -> Option<String> {
        let life = self.life();
        if self.linked_life.load(Ordering::Relaxed) == life {
            return None;
        }
        let peers = self.node.cluster().peers;
        let missing = missing_link(&self.name, &peers, &self.state().standpoint.table);
        if missing.is_none() {
            self.linked_life.store(life, Ordering::Relaxed);
        }
        missing
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

    /// This node, and the members that it has a link with.
    pub(in crate::driver) fn linked(&self) -> BTreeSet<String> {
        self.near().into_keys().chain([self.name.clone()]).collect()
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

/// The first node with partitions that this one has no link to, and why.
fn missing_link(own: &str, peers: &[PeerStatus], table: &Table) -> Option<String> {
    let is_linked =
        |node: &str| peers.iter().any(|peer| peer.name.as_str() == node && peer.state == LinkState::Settled);
    let mut homes = (0..PARTITIONS).filter_map(|partition| Some(table.home(partition)?.node.as_str()));
    let missing = homes.find(|node| *node != own && !is_linked(node))?;
    let failure = peers.iter().find(|peer| peer.name.as_str() == missing).and_then(|peer| peer.last_failure.as_ref());
    Some(match failure {
        Some(failure) => format!("its link to node {missing} is not up: {failure}"),
        None => format!("its link to node {missing} is not up"),
    })
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::Advert;

    use super::*;
    use crate::driver::first_table::first_table;
    use crate::driver::linked_peer::peer;

    #[test]
    fn a_start_waits_for_links_to_homes_alone() {
        let advert = Advert { life: 1, ..Advert::default() };
        let table = first_table(&["a", "b"].map(|node| (node.to_owned(), advert.clone())).into());
        let (up, down) = (LinkState::Settled, LinkState::Dialing);
        assert_eq!(missing_link("a", &[peer("b", up)], &table), None);
        let without_b = missing_link("a", &[], &table);
        assert_eq!(without_b.as_deref(), Some("its link to node b is not up"));
        assert_eq!(missing_link("a", &[peer("b", down)], &table), without_b);
        let refused = [peer("b", up), peer("d", down)];
        assert_eq!(missing_link("a", &refused, &table), None, "node d has no partitions, and may never have a link");
        assert!(missing_link("d", &[peer("a", up), peer("b", down)], &table).is_some());
    }
}
