//! Filters of one client, ordered: finds the first filter that matches a topic name.

/// Filters by their levels. The filter inserted under the lowest number wins.
#[derive(Debug)]
pub(crate) struct Trie {
    /// The first is the root.
    nodes: Vec<Node>,
    /// Entries that match all topics, those below `$` included, ascending.
    everything: Vec<u32>,
}

#[derive(Debug)]
struct Node {
    /// Children by their level, sorted.
    children: Vec<(Box<str>, u32)>,
    /// The child for any level; 0, which is the root, means no child.
    any: u32,
    /// Entries that end here, ascending.
    here: Vec<u32>,
    /// Entries that end here with `#`, ascending.
    below: Vec<u32>,
    /// The least entry here and below.
    least: u32,
}

impl Node {
    const fn empty() -> Self {
        Self { children: Vec::new(), any: 0, here: Vec::new(), below: Vec::new(), least: u32::MAX }
    }

    fn child(&self, level: &str) -> Option<u32> {
        // Most nodes have one child or none.
        match self.children.as_slice() {
            [] => None,
            [(only, child)] => (**only == *level).then_some(*child),
            children => {
                let place = children.binary_search_by(|(name, _)| (**name).cmp(level)).ok()?;
                children.get(place).map(|(_, child)| *child)
            }
        }
    }
}

impl Default for Trie {
    fn default() -> Self {
        Self { nodes: vec![Node::empty()], everything: Vec::new() }
    }
}

impl Trie {
    /// Adds an entry; entries come in ascending order.
    pub(crate) fn insert(&mut self, filter: &str, entry: u32) {
        let mut at = 0;
        for level in filter.split('/') {
            self.note(at, entry);
            if level == "#" {
                if let Some(node) = self.nodes.get_mut(at) {
                    node.below.push(entry);
                }
                return;
            }
            at = self.child_or_new(at, level);
        }
        self.note(at, entry);
        if let Some(node) = self.nodes.get_mut(at) {
            node.here.push(entry);
        }
    }

    /// Adds an entry that matches all topics.
    pub(crate) fn insert_everything(&mut self, entry: u32) {
        self.everything.push(entry);
    }

    fn note(&mut self, at: usize, entry: u32) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.least = node.least.min(entry);
        }
    }

    fn child_or_new(&mut self, at: usize, level: &str) -> usize {
        let new = self.nodes.len();
        let number = u32::try_from(new).unwrap_or(u32::MAX);
        let Some(node) = self.nodes.get_mut(at) else { return 0 };
        let known = if level == "+" { (node.any != 0).then_some(node.any) } else { node.child(level) };
        if let Some(known) = known {
            return known as usize;
        }
        if level == "+" {
            node.any = number;
        } else {
            let place = node.children.partition_point(|(name, _)| **name < *level);
            node.children.insert(place, (level.into(), number));
        }
        self.nodes.push(Node::empty());
        new
    }

    /// The first entry that matches a topic name and that `accept` takes, if it comes before `limit`.
    pub(crate) fn first(&self, topic: &str, limit: u32, accept: impl Fn(u32) -> bool) -> Option<u32> {
        let mut search = Search { nodes: &self.nodes, accept, best: limit };
        search.take(&self.everything);
        search.walk(0, Some(topic), topic.starts_with('$'));
        (search.best < limit).then_some(search.best)
    }
}

struct Search<'a, F> {
    nodes: &'a [Node],
    accept: F,
    /// Only entries before this one are of interest.
    best: u32,
}

impl<F: Fn(u32) -> bool> Search<'_, F> {
    fn take(&mut self, entries: &[u32]) {
        for &entry in entries {
            if entry >= self.best {
                return;
            }
            if (self.accept)(entry) {
                self.best = entry;
                return;
            }
        }
    }

    /// Visits a node with the rest of the topic; `plain` where wildcards do not match. The depth is bounded by the
    /// deepest filter, not by the topic.
    fn walk(&mut self, at: u32, topic: Option<&str>, plain: bool) {
        let nodes = self.nodes;
        let Some(node) = nodes.get(at as usize) else { return };
        if node.least >= self.best {
            return;
        }
        if !plain {
            self.take(&node.below);
        }
        let Some(topic) = topic else {
            self.take(&node.here);
            return;
        };
        let (level, rest) = match topic.split_once('/') {
            Some((level, rest)) => (level, Some(rest)),
            None => (topic, None),
        };
        if let Some(child) = node.child(level) {
            self.walk(child, rest, false);
        }
        if node.any != 0 && !plain {
            self.walk(node.any, rest, false);
        }
    }
}
