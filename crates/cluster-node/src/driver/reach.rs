//! Whether a node can serve any client at all: at itself, or at a home that it reaches.

use tidegate_cluster::Table;
use tidegate_engine::PARTITIONS;

/// Why no new client is served at this node, if so: it serves no partition (`serves`), and no node that does is among those
/// `near` it, which are members and have a direct link with it. Messages cross a link through a third node, clients do not.
/// Partitions that move, or that a new home has yet to fetch, are served by no node.
pub(super) fn no_home_in_reach(name: &str, serves: bool, table: &Table, near: &[&str]) -> Option<String> {
    if serves {
        return None;
    }
    let homes = || (0..PARTITIONS).filter_map(|partition| Some((partition, table.home(partition)?.node.as_str())));
    if homes().any(|(partition, home)| near.contains(&home) && table.is_settled(partition)) {
        return None;
    }
    homes().any(|(_, home)| home != name).then(|| {
        "it serves no partitions, and no directly linked member does either: clients are served at other nodes"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::{Advert, Table};

    use super::*;
    use crate::driver::first_table::{first_table, table_after};

    /// A table in which these nodes have the partitions.
    fn table_of(nodes: &[&str]) -> Table {
        let advert = Advert { life: 1, ..Advert::default() };
        first_table(&nodes.iter().map(|node| ((*node).to_owned(), advert.clone())).collect())
    }

    #[test]
    fn a_node_that_reaches_no_home_is_not_ready() {
        let table = table_of(&["a", "b"]);
        let why = no_home_in_reach("c", false, &table, &[]).unwrap();
        assert!(why.contains("no directly linked member"), "{why}");
        assert!(no_home_in_reach("c", false, &table, &["d"]).is_some(), "node d has no partitions either");
    }

    #[test]
    fn a_node_that_has_yet_to_fetch_its_partitions_is_not_ready() {
        let before = table_of(&["a", "b"]);
        let alive = ["b", "c"].map(|name| (name.to_owned(), Advert { life: 1, ..Advert::default() }));
        let table = table_after(&before, &alive.into());
        assert!(!table.of("c").is_empty(), "it inherits partitions of the dead node");
        assert!(no_home_in_reach("c", false, &table, &["a"]).is_some());
        assert_eq!(no_home_in_reach("c", true, &table, &["a"]), None, "it has fetched some");
        assert_eq!(no_home_in_reach("c", false, &table, &["b"]), None, "node b serves its own");
    }

    #[test]
    fn a_node_that_reaches_a_home_or_is_one_is_ready() {
        let table = table_of(&["a", "b"]);
        assert_eq!(no_home_in_reach("c", false, &table, &["b"]), None, "clients of b are served");
        assert_eq!(no_home_in_reach("a", true, &table, &[]), None, "node a has partitions");
        assert_eq!(no_home_in_reach("a", false, &table_of(&["a"]), &[]), None, "another hindrance says this");
        assert_eq!(no_home_in_reach("c", false, &Table::default(), &[]), None, "so it does here");
    }
}
