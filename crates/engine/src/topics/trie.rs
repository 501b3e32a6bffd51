//! Filters with wildcards, level by level.

use std::collections::BTreeMap;

use crate::hash::hash_bytes;
use crate::ids::TenantId;
use crate::slab::Slab;

use super::key_table::KeyTable;

/// No node, and no filter.
pub(super) const NONE: u32 = u32::MAX;

/// Maps filters with wildcards to the keys of their entries. A node is a sequence of levels; its literal children are
/// found through one table for the whole trie.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Slab<Node>,
    roots: BTreeMap<TenantId, u32>,
    children: KeyTable,
    /// Bytes of the literals of all nodes.
    literal_bytes: u64,
    /// Places still to be visited by a walk: a node, and how many levels of the topic led to it.
    pending: Vec<(u32, u32)>,
    /// Levels of the topic of a walk, cut off as the walk gets there.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Node {
    /// The literal that leads here from the parent; empty at a root and for `+`.
    level: Box<str>,
    parent: u32,
    /// The child for `+`.
    plus: u32,
    /// The filter that ends here.
    here: u32,
    /// The filter that continues with `#`.
    below: u32,
    /// Number of literal children.
    literals: u32,
}

/// Bytes of a node: itself, and its place among the children of its parent.
const NODE_BYTES: u64 = size_of::<Node>() as u64 + 8;

#[derive(Clone, Copy, Debug)]
struct Level {
    start: u32,
    end: u32,
    hash: u64,
}

impl Trie {
    pub(super) fn new() -> Self {
        Self {
            nodes: Slab::new(),
            roots: BTreeMap::new(),
            children: KeyTable::new(),
            literal_bytes: 0,
            pending: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Adds a valid filter that has a wildcard and is not there yet; returns the node that [`Trie::remove`] wants.
    pub(super) fn insert(&mut self, tenant: TenantId, filter: &str, entry: u32) -> u32 {
        let mut node = self.root(tenant);
        for level in filter.split('/') {
            node = match level {
                "#" => {
                    self.nodes[node].below = entry;
                    return node;
                }
                "+" => self.plus_child(node),
                literal => self.literal_child(node, literal),
            };
        }
        self.nodes[node].here = entry;
        node
    }

    /// Removes the filter kept at `node`, and the nodes that only it needed.
    pub(super) fn remove(&mut self, tenant: TenantId, filter: &str, node: u32) {
        if filter.ends_with('#') {
            self.nodes[node].below = NONE;
        } else {
            self.nodes[node].here = NONE;
        }
        let mut node = node;
        while node != NONE && self.nodes[node].is_unused() {
            node = self.remove_node(tenant, node);
        }
    }

    /// Calls `visit` with the entry of each filter that matches `topic`, and returns the number of visited nodes. A node
    /// is visited at most once, so that no topic costs more than all filters together.
    pub(super) fn walk(&mut self, tenant: TenantId, topic: &str, mut visit: impl FnMut(u32)) -> usize {
        let Some(root) = self.roots.get(&tenant) else {
            return 0;
        };
        let mut visited = 0;
        self.levels.clear();
        self.pending.clear();
        self.pending.push((*root, 0));
        // Filters that start with a wildcard do not match topics that start with `$` [MQTT-4.7.2-1].
        // The fleet of an orchestrator gets them all.
        let is_dollar = topic.starts_with('$') && tenant != TenantId::BROKER_LINK;
        while let Some((at, depth)) = self.pending.pop() {
            visited += 1;
            let node = &self.nodes[at];
            let wildcards = depth > 0 || !is_dollar;
            if node.below != NONE && wildcards {
                visit(node.below);
            }
            let Some(level) = self.levels.get(depth as usize).copied().or_else(|| {
                let level = next_level(topic, self.levels.last())?;
                self.levels.push(level);
                Some(level)
            }) else {
                if node.here != NONE {
                    visit(node.here);
                }
                continue;
            };
            if node.plus != NONE && wildcards {
                self.pending.push((node.plus, depth + 1));
            }
            if node.literals > 0 {
                let text = &topic[level.start as usize..level.end as usize];
                if let Some(child) = self.find_literal(at, text, level.hash) {
                    self.pending.push((child, depth + 1));
                }
            }
        }
        visited
    }

    /// Bytes held for all filters, without the allocator's overhead.
    pub(super) fn bytes(&self) -> u64 {
        self.literal_bytes + self.nodes.len() as u64 * NODE_BYTES
    }

    /// Number of nodes.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn root(&mut self, tenant: TenantId) -> u32 {
        *self.roots.entry(tenant).or_insert_with(|| self.nodes.insert(Node::new(NONE, "")))
    }

    fn plus_child(&mut self, parent: u32) -> u32 {
        let known = self.nodes[parent].plus;
        if known != NONE {
            return known;
        }
        let child = self.nodes.insert(Node::new(parent, ""));
        self.nodes[parent].plus = child;
        child
    }

    fn literal_child(&mut self, parent: u32, literal: &str) -> u32 {
        let level_hash = hash_bytes(0, literal.as_bytes());
        if let Some(known) = self.find_literal(parent, literal, level_hash) {
            return known;
        }
        let child = self.nodes.insert(Node::new(parent, literal));
        self.literal_bytes += literal.len() as u64;
        self.nodes[parent].literals += 1;
        let nodes = &self.nodes;
        self.children.insert(child_hash(parent, level_hash), child, |key| nodes[key].hash());
        child
    }

    #[inline]
    fn find_literal(&self, parent: u32, literal: &str, level_hash: u64) -> Option<u32> {
        self.children.find(child_hash(parent, level_hash), |key| {
            let child = &self.nodes[key];
            child.parent == parent && *child.level == *literal
        })
    }

    /// Removes a node without use and returns its parent.
    fn remove_node(&mut self, tenant: TenantId, key: u32) -> u32 {
        let parent = self.nodes[key].parent;
        if parent == NONE {
            self.roots.remove(&tenant);
        } else if self.nodes[parent].plus == key {
            self.nodes[parent].plus = NONE;
        } else {
            self.nodes[parent].literals -= 1;
            let nodes = &self.nodes;
            self.children.remove(nodes[key].hash(), key, |key| nodes[key].hash());
            self.literal_bytes -= nodes[key].level.len() as u64;
        }
        self.nodes.remove(key);
        parent
    }
}

impl Node {
    fn new(parent: u32, level: &str) -> Self {
        Self { level: level.into(), parent, plus: NONE, here: NONE, below: NONE, literals: 0 }
    }

    fn is_unused(&self) -> bool {
        self.plus == NONE && self.here == NONE && self.below == NONE && self.literals == 0
    }

    /// Hash among the literal children of the trie.
    fn hash(&self) -> u64 {
        child_hash(self.parent, hash_bytes(0, self.level.as_bytes()))
    }
}

#[inline]
fn child_hash(parent: u32, level_hash: u64) -> u64 {
    let spread = (level_hash.rotate_left(32) ^ u64::from(parent)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread ^ (spread >> 32)
}

/// The level behind `last`, or the first.
#[inline]
fn next_level(topic: &str, last: Option<&Level>) -> Option<Level> {
    let start = last.map_or(0, |level| level.end as usize + 1);
    let rest = topic.as_bytes().get(start..)?;
    let len = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    Some(Level { start: start as u32, end: (start + len) as u32, hash: hash_bytes(0, &rest[..len]) })
}
