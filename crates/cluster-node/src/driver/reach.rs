//! Whether a node can serve any client at all: at itself, or at a home that it reaches.

use tidegate_cluster::Table;
use tidegate_engine::PARTITIONS;

/// Why no new client is served at this node, if so: it has no partition, and to each node with partitions it has only a link
/// through a third one (`indirect`). Messages cross such a link, clients do not.
pub(super) fn no_home_in_reach(name: &str, table: &Table, indirect: &[&str]) -> Option<String> {
    let far = |home: &str| home != name && indirect.contains(&home);
    // Few nodes are linked through others, and mostly none.
    let homes = || (0..PARTITIONS).filter_map(|partition| table.home(partition));
    if indirect.is_empty() || !homes().all(|home| far(&home.node)) {
        return None;
    }
    homes().next().map(|home| {
        format!(
            "it has no partitions, and no direct connection to {}, which has some: clients are served at other nodes",
            home.node
        )
    })
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::{Advert, Table};

    use super::*;
    use crate::driver::first_table::first_table;

    /// A table in which these nodes have the partitions.
    fn table_of(nodes: &[&str]) -> Table {
        let advert = Advert { life: 1, ..Advert::default() };
        first_table(&nodes.iter().map(|node| ((*node).to_owned(), advert.clone())).collect())
    }

    #[test]
    fn a_node_that_reaches_no_home_is_not_ready() {
        let table = table_of(&["a", "b"]);
        let why = no_home_in_reach("c", &table, &["a", "b"]).unwrap();
        assert!(why.contains("no direct connection to"), "{why}");
    }

    #[test]
    fn a_node_that_reaches_a_home_or_is_one_is_ready() {
        let table = table_of(&["a", "b"]);
        assert_eq!(no_home_in_reach("c", &table, &["a"]), None, "clients of b are served");
        assert_eq!(no_home_in_reach("a", &table, &["b"]), None, "node a has partitions");
        assert_eq!(no_home_in_reach("c", &table, &[]), None);
        assert_eq!(no_home_in_reach("c", &Table::default(), &["a"]), None, "another hindrance says this");
    }
}
