//! The nodes of one partition of a definer with their groups, so that only changes are evaluated and advertised.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::definition::Definition;
use super::set::GroupSet;
use crate::messages::GroupAdvertisement;

/// Longest context that is looked at, bytes.
pub const MAX_CONTEXT_BYTES: usize = 8_192;
/// Most nodes of a partition; contexts of further ones are refused.
pub const MAX_NODES: usize = 1_000_000;

/// Why a context was not looked at. The node stays in the groups that it was in.
#[derive(Debug, thiserror::Error)]
pub enum ContextRefused {
    /// Too long.
    #[error("the context has {0} bytes, more than 8192; send what groups need, and the rest on another topic")]
    TooLong(usize),
    /// Not a JSON object.
    #[error("the context is not a JSON object: {0}")]
    NotJson(String),
    /// Too many nodes.
    #[error("the partition has 1000000 nodes; use more partitions")]
    TooManyNodes,
}

/// Counters of a table; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Contexts that were worked out.
    pub evaluated: u64,
    /// Contexts that were as before, byte by byte.
    pub unchanged: u64,
    /// Nodes whose groups changed.
    pub told: u64,
}

#[derive(Debug)]
struct Node {
    groups: GroupSet,
    /// A hash of the last evaluated context; `None` for a node that was read back.
    context: Option<u64>,
    /// Whether a group was advertised that is no longer defined.
    outdated: bool,
}

/// Which groups the nodes of a partition are in.
#[derive(Debug)]
pub struct NodeTable {
    definition: Arc<Definition>,
    nodes: HashMap<Box<str>, Node>,
    hasher: RandomState,
    counters: TableCounters,
}

impl NodeTable {
    /// An empty table.
    pub fn new(definition: Arc<Definition>) -> Self {
        Self { definition, nodes: HashMap::new(), hasher: RandomState::new(), counters: TableCounters::default() }
    }

    /// The definition that nodes are evaluated with.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Restores the state of a node that an earlier process advertised. It is advertised again only when it changes.
    pub fn restore(&mut self, node: &str, groups: &[String]) {
        let (groups, known) = self.definition.set_of(groups);
        if (groups.is_empty() && known) || self.nodes.len() >= MAX_NODES {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(node.into(), Node { groups, context: None, outdated: !known });
        }
    }

    /// Evaluates the context of a node; an empty one means that the node has left for good. `position` is that of the
    /// context in its log. Returns the advertisement, if the groups changed.
    ///
    /// # Errors
    /// When the context is no JSON object or beyond a limit.
    pub fn context(
        &mut self,
        node: &str,
        position: u64,
        context: &[u8],
    ) -> Result<Option<GroupAdvertisement>, ContextRefused> {
        if context.is_empty() {
            let gone = self.nodes.remove(node).is_some_and(|node| !node.groups.is_empty() || node.outdated);
            return Ok(gone.then(|| self.advertisement(node, position, Vec::new())));
        }
        if context.len() > MAX_CONTEXT_BYTES {
            return Err(ContextRefused::TooLong(context.len()));
        }
        let hash = self.hasher.hash_one(context);
        let known = self.nodes.get(node);
        if known.is_some_and(|known| known.context == Some(hash)) {
            self.counters.unchanged += 1;
            return Ok(None);
        }
        if known.is_none() && self.nodes.len() >= MAX_NODES {
            return Err(ContextRefused::TooManyNodes);
        }
        let json = serde_json::from_slice(context).map_err(|error| ContextRefused::NotJson(error.to_string()))?;
        let serde_json::Value::Object(_) = &json else {
            return Err(ContextRefused::NotJson("it is a value without fields".to_owned()));
        };
        self.counters.evaluated += 1;
        let before =
            known.map_or_else(|| GroupSet::empty(self.definition.groups().len()), |known| known.groups.clone());
        let outdated = known.is_some_and(|known| known.outdated);
        let groups = self.definition.evaluate(&json, &before);
        let changed = (outdated || groups != before).then(|| self.definition.names(&groups));
        let now = Node { groups, context: Some(hash), outdated: false };
        match self.nodes.get_mut(node) {
            Some(known) => *known = now,
            None => drop(self.nodes.insert(node.into(), now)),
        }
        Ok(changed.map(|names| self.advertisement(node, position, names)))
    }

    fn advertisement(&mut self, node: &str, position: u64, groups: Vec<String>) -> GroupAdvertisement {
        self.counters.told += 1;
        GroupAdvertisement {
            definer: self.definition.definer().to_owned(),
            node: Some(node.to_owned()),
            groups,
            members: None,
            context: position,
        }
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The counters.
    pub fn counters(&self) -> TableCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::groups::read_groups;
    use tidegate_document::FileText;

    const FILE: &str = r#"
        definer = "gd"
        [[group]]
        name = "fast"
        threshold = { field = "speed", above = 80, until = 70 }
        [[group]]
        name = "low"
        when = "context.battery < 20"
    "#;

    fn table() -> NodeTable {
        NodeTable::new(Arc::new(read_groups(&FileText::new("g.toml", FILE)).unwrap()))
    }

    fn advertised(table: &mut NodeTable, node: &str, context: &serde_json::Value) -> Option<Vec<String>> {
        table.context(node, 7, context.to_string().as_bytes()).unwrap().map(|change| change.groups)
    }

    #[test]
    fn only_differences_are_advertised() {
        let mut table = table();
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 50, "battery": 50 })), None, "no group, as before");
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 90, "battery": 50 })), Some(vec!["fast".to_owned()]));
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 75, "battery": 50 })), None, "within the hysteresis");
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 75, "battery": 50 })), None);
        assert_eq!(table.counters(), TableCounters { evaluated: 3, unchanged: 1, told: 1 });
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 60, "battery": 9 })), Some(vec!["low".to_owned()]));
    }

    #[test]
    fn a_successor_repeats_nothing_and_keeps_the_hysteresis() {
        let mut table = table();
        table.restore("n", &["fast".to_owned()]);
        table.restore("gone", &[]);
        assert_eq!(table.len(), 1);
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 75 })), None);
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 69 })), Some(vec![]));
    }

    #[test]
    fn a_removed_group_is_advertised_as_left() {
        let mut table = table();
        table.restore("n", &["old".to_owned()]);
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 5 })), Some(vec![]));
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 6 })), None);
    }

    #[test]
    fn a_node_that_goes_leaves_its_groups() {
        let mut table = table();
        advertised(&mut table, "n", &json!({ "speed": 90 }));
        assert_eq!(
            table.context("n", 8, b"").unwrap().map(|change| (change.groups, change.context)),
            Some((vec![], 8))
        );
        assert!(table.context("n", 9, b"").unwrap().is_none() && table.is_empty());
    }

    #[test]
    fn an_invalid_context_changes_nothing() {
        let mut table = table();
        advertised(&mut table, "n", &json!({ "speed": 90 }));
        assert!(matches!(table.context("n", 1, b"{"), Err(ContextRefused::NotJson(_))));
        assert!(matches!(table.context("n", 1, b"[1]"), Err(ContextRefused::NotJson(_))));
        assert!(matches!(table.context("n", 1, &vec![b' '; 8_193]), Err(ContextRefused::TooLong(8_193))));
        assert!(matches!(table.context("n", 1, "[".repeat(8_000).as_bytes()), Err(ContextRefused::NotJson(_))));
        assert_eq!(advertised(&mut table, "n", &json!({ "speed": 91 })), None);
    }

    proptest! {
        #[test]
        fn advertised_groups_are_the_current_ones(steps in proptest::collection::vec((0_u8..4, 50_i64..100, 0_i64..40), 0..80)) {
            let mut table = table();
            let mut said: HashMap<u8, Vec<String>> = HashMap::new();
            for (node, speed, battery) in steps {
                let was = said.get(&node).is_some_and(|groups| groups.contains(&"fast".to_owned()));
                if let Some(groups) = advertised(&mut table, &node.to_string(), &json!({ "speed": speed, "battery": battery })) {
                    let before = said.get(&node).cloned().unwrap_or_default();
                    prop_assert_ne!(&groups, &before, "no change is advertised twice");
                    said.insert(node, groups);
                }
                let groups = said.get(&node).cloned().unwrap_or_default();
                prop_assert_eq!(groups.contains(&"fast".to_owned()), speed > if was { 70 } else { 80 });
                prop_assert_eq!(groups.contains(&"low".to_owned()), battery < 20);
            }
        }
    }
}
