//! Whether a node can serve any client at all: at itself, or at a home that it reaches.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tidegate_cluster::{Advert, Table};
use tidegate_engine::PARTITIONS;
use tidegate_node::{Detours, PeerStatus};

/// Why no new client is served at this node, if so. A ready node promises that clients of some partition are served here: it
/// serves one itself (`serves`), or a node `near` it does, to which it relays them. Nodes near it are members that have a
/// link with it, also through a third node, and [serve](super::inquiry). Partitions that move, or that a new home has yet to fetch, are served by no node.
pub(super) fn no_home_in_reach(name: &str, serves: bool, table: &Table, near: &[&str]) -> Option<String> {
    if serves {
        return None;
    }
    let homes = || (0..PARTITIONS).filter_map(|partition| Some((partition, table.home(partition)?.node.as_str())));
    if homes().any(|(partition, home)| near.contains(&home) && table.is_settled(partition)) {
        return None;
    }
    homes().any(|(_, home)| home != name).then(|| {
        "it serves no partitions, and no linked member does either: clients are served at other nodes".to_owned()
    })
}

/// Nodes that are linked through a third one, which also carries the clients that are at home there.
pub(super) fn detours(peers: &[PeerStatus], adverts: &BTreeMap<String, Advert>) -> Detours {
    let address = |name: &str| adverts.get(name).and_then(|advert| advert.addresses.relay.parse::<SocketAddr>().ok());
    let around = peers.iter().filter_map(|peer| {
        let through = peer.through.as_ref()?;
        Some((address(peer.name.as_str())?, address(through.as_str())?))
    });
    around.collect()
}

#[cfg(test)]
mod tests {
    use tidegate_node::{LinkState, NodeName};

    use super::*;
    use crate::driver::first_table::{first_table, table_after};
    use crate::driver::linked_peer::peer;

    /// A table in which these nodes have the partitions.
    fn table_of(nodes: &[&str]) -> Table {
        let advert = Advert { life: 1, ..Advert::default() };
        first_table(&nodes.iter().map(|node| ((*node).to_owned(), advert.clone())).collect())
    }

    #[test]
    fn the_node_that_carries_a_link_carries_clients() {
        let advert = |port: u16| {
            let mut advert = Advert::default();
            advert.addresses.relay = format!("127.0.0.1:{port}");
            advert
        };
        let adverts = [("b".to_owned(), advert(2)), ("c".to_owned(), advert(3))].into();
        let linked = |name: &str, through: Option<&str>| PeerStatus {
            through: through.map(|through| NodeName::new(through).unwrap()),
            ..peer(name, LinkState::Settled)
        };
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(detours(&[linked("b", Some("c")), linked("c", None)], &adverts), [(at(2), at(3))].into());
        assert_eq!(detours(&[linked("b", None), linked("c", None)], &adverts), Detours::new());
        assert_eq!(detours(&[linked("b", Some("d"))], &adverts), Detours::new(), "node d has no address");
    }

    #[test]
    fn a_node_that_reaches_no_home_is_not_ready() {
        let table = table_of(&["a", "b"]);
        let why = no_home_in_reach("c", false, &table, &[]).unwrap();
        assert!(why.contains("no linked member"), "{why}");
        assert!(no_home_in_reach("c", false, &table, &["d"]).is_some(), "node d has no partitions either");
    }

    #[test]
    fn a_node_that_has_yet_to_fetch_its_partitions_is_not_ready() {
        let before = table_of(&["a", "b"]);
        let nodes = [("a", 0), ("b", 1), ("c", 1)];
        let adverts = nodes.map(|(name, life)| (name.to_owned(), Advert { life, kept: true, ..Advert::default() }));
        let table = table_after(&before, &adverts.into());
        assert!(!table.of("c").is_empty(), "it inherits partitions of the dead node");
        assert!(no_home_in_reach("c", false, &table, &["c"]).is_some());
        assert_eq!(no_home_in_reach("c", true, &table, &["a"]), None, "it has fetched some");
        assert_eq!(no_home_in_reach("c", false, &table, &["b"]), None, "node b serves its own");
    }

    /// Tables of the nodes a and b, each with the nodes that serve partitions.
    fn tables() -> [(Table, &'static [&'static str]); 5] {
        let advert = |life| Advert { life, kept: true, ..Advert::default() };
        let a_is_dead = [("a".to_owned(), advert(0)), ("b".to_owned(), advert(1))].into();
        let (both, first) = (table_of(&["a", "b"]), table_of(&["a"]));
        let after_death = table_after(&both, &a_is_dead);
        let to_fetch = table_after(&first, &a_is_dead);
        assert!(!to_fetch.of("b").is_empty(), "b has all partitions of a, and none of its own");
        [(both, &["a", "b"]), (first, &["a"]), (after_death, &["b"]), (to_fetch, &[]), (table_of(&["b"]), &["b"])]
    }

    #[test]
    fn a_node_is_ready_where_clients_of_a_partition_are_served() {
        for (table, serving) in tables() {
            for near in [&[][..], &["a"], &["b"], &["a", "b"], &["d"], &["a", "d"]] {
                let is_served = near.iter().any(|node| serving.contains(node));
                let why = no_home_in_reach("c", false, &table, near);
                assert_eq!(why.is_none(), is_served, "near {near:?}, serving {serving:?}");
                assert_eq!(no_home_in_reach("c", true, &table, near), None, "it serves a partition itself");
            }
        }
    }

    #[test]
    fn a_node_that_reaches_a_home_or_is_one_is_ready() {
        let table = table_of(&["a", "b"]);
        assert_eq!(no_home_in_reach("c", false, &table, &["b"]), None, "clients of b are served");
        assert_eq!(no_home_in_reach("a", true, &table, &[]), None, "node a has partitions");
        assert_eq!(no_home_in_reach("a", false, &table_of(&["a"]), &[]), None, "another block reason says this");
        assert_eq!(no_home_in_reach("c", false, &Table::default(), &[]), None, "so it does here");
    }
}
