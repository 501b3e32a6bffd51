//! A table in the form that the node gets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_cluster::{Advert, Follower, PARTITIONS as CLUSTER_PARTITIONS, Table};
use tidegate_config::sections::cluster::Redirect;
use tidegate_engine::{Home, Homes, Millis, PARTITIONS, PartitionId};
use tidegate_node::{ClusterView, NodeHomes, NodeName, PeerNode};

const _: () = assert!(CLUSTER_PARTITIONS == PARTITIONS, "a cluster shares out what engines have");

/// The node's view of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableView {
    /// The other members, and the home of each partition.
    pub(super) view: ClusterView,
    /// Whether this node is a member.
    pub(super) is_member: bool,
    /// The homes of clients, by partition.
    pub(super) homes: [Home; PARTITIONS as usize],
    /// The nodes, by whose positions `homes` names them.
    pub(super) names: Vec<String>,
    pub(super) references: Vec<String>,
    pub(super) relays: Vec<Option<SocketAddr>>,
    pub(super) redirect: bool,
}

impl TableView {
    /// The server reference for MQTT 5 clients that belong to that node.
    pub(super) fn reference_of(&self, node: &str) -> Option<&str> {
        let at = self.names.iter().position(|name| name == node)?;
        self.references.get(at).map(String::as_str).filter(|reference| !reference.is_empty())
    }

    /// The table for shards, with the lease as it is now.
    pub(super) fn homes(&self, lease_until: Millis, patience_ms: u64) -> NodeHomes {
        let references = self.references.clone();
        let table = Homes { homes: self.homes, references, redirect: self.redirect, lease_until, patience_ms };
        NodeHomes { table: Arc::new(table), relays: self.relays.as_slice().into() }
    }
}

/// Makes the view of the node `own` from a table. The view of a node that is no member has no other nodes and no
/// partitions.
pub(super) fn tell(
    own: &str,
    table: &Table,
    follower: &Follower,
    adverts: &BTreeMap<String, Advert>,
    redirect: Redirect,
) -> TableView {
    let mut view = ClusterView { epoch: table.epoch, ..ClusterView::alone() };
    let mut told = TableView {
        view: view.clone(),
        is_member: follower.is_member(),
        homes: [Home::Nowhere; PARTITIONS as usize],
        names: table.lives.keys().cloned().collect(),
        references: Vec::new(),
        relays: Vec::new(),
        redirect: redirect == Redirect::V5,
    };
    if !follower.is_member() {
        return told;
    }
    let names: Vec<&String> = table.lives.keys().collect();
    for name in &names {
        let advert = adverts.get(*name);
        let mqtt = advert.filter(|_| redirect != Redirect::Off).map(|advert| advert.addresses.mqtt.clone());
        told.references.push(mqtt.unwrap_or_default());
        // This node relays no client to itself, and carries none.
        let other = advert.filter(|_| *name != own);
        told.relays.push(other.and_then(|advert| advert.addresses.relay.parse().ok()));
        let address = advert.and_then(|advert| advert.addresses.cluster.parse().ok());
        if let (Some(advert), Some(address), Ok(peer)) = (advert, address, NodeName::new(name))
            && *name != own
        {
            view.peers.push(PeerNode { name: peer, incarnation: advert.incarnation, address });
        }
    }
    for (partition, (home, works)) in (0..).zip(told.homes.iter_mut().zip(&mut view.homes)) {
        let Some(at) = table.home(partition).map(|home| &home.node) else { continue };
        let known = names.binary_search(&at).ok().and_then(|at| u16::try_from(at).ok());
        *home = match known {
            _ if at == own && follower.serves(partition) => Home::Here,
            Some(place) if at != own && table.move_of(partition).is_none() => Home::At(place),
            _ => Home::Nowhere,
        };
        let id = PartitionId(partition);
        // A fetched partition is served here before a table says so, which may take an election. Brokers deliver messages for
        // its groups meanwhile.
        let is_fetched = *home == Home::Here;
        if !is_fetched && table.home(partition).is_some_and(|home| !home.former.is_empty()) {
            view.restoring.add(id);
        }
        if adverts.get(at).is_some_and(|advert| advert.kept) {
            view.kept.add(id);
        }
        *works = NodeName::new(at).ok().filter(|name| view.peers.iter().any(|peer| peer.name == *name));
    }
    view.moves_begun = table.last_move();
    view.open_moves = table.open_moves().map(|it| it.id).collect();
    told.view = view;
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::first_table::first_table;
    use tidegate_cluster::{Former, Move};

    fn advert(port: u16) -> Advert {
        let mut advert = Advert { life: 1, incarnation: u64::from(port), ..Advert::default() };
        advert.addresses.cluster = format!("127.0.0.1:{port}");
        advert.addresses.relay = format!("127.0.0.1:{}", port + 1);
        advert.addresses.mqtt = format!("host:{port}");
        advert
    }

    fn of_two() -> (Table, BTreeMap<String, Advert>) {
        let adverts: BTreeMap<String, Advert> = [("a".to_owned(), advert(1)), ("b".to_owned(), advert(5))].into();
        (first_table(&adverts), adverts)
    }

    #[test]
    fn a_member_knows_who_is_where_and_serves_its_own() {
        let (mut table, adverts) = of_two();
        table.moves.push(Move { id: 1, partitions: vec![0], from: "a".into(), to: "b".into() });
        let mut follower = Follower::new("a", 1, BTreeMap::new());
        let _ = follower.take(&table);
        let told = tell("a", &table, &follower, &adverts, Redirect::V5);
        assert_eq!((told.homes[0], told.homes[1]), (Home::Nowhere, Home::At(1)));
        assert_eq!((told.homes[2], told.homes[3]), (Home::Here, Home::At(1)));
        assert_eq!((told.references[1].as_str(), told.relays[1].map(|at| at.port())), ("host:5", Some(6)));
        assert_eq!(told.relays[0], None, "it carries no client to itself");
        let peers: Vec<_> = told.view.peers.iter().map(|peer| (peer.name.as_str(), peer.incarnation)).collect();
        assert_eq!(peers, [("b", 5)]);
        let works = |at: usize| told.view.homes[at].as_ref().map(NodeName::as_str);
        assert_eq!((works(0), works(3)), (None, Some("b")));
        assert_eq!((told.view.moves_begun, told.view.open_moves), (table.last_move(), vec![1]));
    }

    #[test]
    fn a_fetched_partition_is_not_missing_where_it_is_served() {
        let (mut table, adverts) = of_two();
        let mut home = table.home(0).cloned().unwrap();
        home.former = vec![Former { node: "dead".into(), since: 1, by: None }];
        let since = home.since;
        Arc::make_mut(&mut table.homes).set(0, Some(home));
        let mut follower = Follower::new("a", 1, BTreeMap::new());
        let _ = follower.take(&table);
        let is_missing = |name: &str, follower: &Follower| {
            tell(name, &table, follower, &adverts, Redirect::Off).view.restoring.has(PartitionId(0))
        };
        assert!(is_missing("a", &follower), "it is fetched");
        assert!(follower.restored(0, since));
        assert!(!is_missing("a", &follower), "its groups are dealt here");
        let mut other = Follower::new("b", 1, BTreeMap::new());
        let _ = other.take(&table);
        assert!(is_missing("b", &other), "the table does not say so yet");
    }

    #[test]
    fn a_node_that_is_no_member_knows_no_nodes_and_serves_none() {
        let (table, adverts) = of_two();
        let mut follower = Follower::new("a", 2, BTreeMap::new());
        let _ = follower.take(&table);
        let told = tell("a", &table, &follower, &adverts, Redirect::Off);
        assert!(told.view.peers.is_empty() && told.homes.iter().all(|home| *home == Home::Nowhere));
    }
}
