//! The last context of each node that the bus has stored for this gateway. It goes along with the node's messages to
//! applications.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of all contexts that are remembered here; contexts of further nodes are not passed along.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The cost of a node beside its name and its context.
const ENTRY_BYTES: usize = 96;

/// Contexts by the names of nodes.
#[derive(Debug, Default)]
pub(crate) struct KnownContexts {
    known: Mutex<Known>,
    next_turn: AtomicU64,
}

/// The place of a context in the order in which contexts came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u64);

#[derive(Debug, Default)]
struct Known {
    contexts: HashMap<String, (Turn, Arc<[u8]>)>,
    bytes: usize,
}

fn cost(node: &str, context: &[u8]) -> usize {
    node.len() + context.len() + ENTRY_BYTES
}

impl KnownContexts {
    /// The turn of a context that has come now.
    pub(crate) fn turn(&self) -> Turn {
        Turn(self.next_turn.fetch_add(1, Ordering::Relaxed))
    }

    /// Remembers the context of a node once the bus has stored it; an empty one says that the node has gone for good.
    /// A bus may confirm an older context after a newer one: the newer one stays.
    pub(crate) fn put(&self, turn: Turn, node: &str, context: &[u8]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contexts.get(node).is_some_and(|(newest, _)| *newest > turn) {
            return;
        }
        if let Some((_, before)) = known.contexts.remove(node) {
            known.bytes -= cost(node, &before);
        }
        let cost = cost(node, context);
        if !context.is_empty() && known.bytes + cost <= MAX_BYTES {
            known.bytes += cost;
            known.contexts.insert(node.to_owned(), (turn, context.into()));
        }
    }

    /// The last context of a node that the bus has stored.
    pub(crate) fn get(&self, node: &str) -> Option<Arc<[u8]>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.contexts.get(node).map(|(_, context)| Arc::clone(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_memory_of_contexts_takes_none_until_one_leaves() {
        let known = KnownContexts::default();
        known.put(known.turn(), "a", b"{}");
        known.put(known.turn(), "a", &vec![b'x'; MAX_BYTES / 2]);
        known.put(known.turn(), "b", &vec![b'x'; MAX_BYTES / 2]);
        assert!(known.get("a").is_some() && known.get("b").is_none());
        known.put(known.turn(), "a", b"");
        known.put(known.turn(), "b", &vec![b'x'; MAX_BYTES / 2]);
        assert!(known.get("a").is_none() && known.get("b").is_some());
    }

    #[test]
    fn the_newest_context_stays_when_confirmed_first() {
        let known = KnownContexts::default();
        let (older, newer) = (known.turn(), known.turn());
        known.put(newer, "n", b"{\"newer\":1}");
        known.put(older, "n", b"{\"older\":1}");
        assert_eq!(known.get("n").as_deref(), Some(&b"{\"newer\":1}"[..]));
    }
}
