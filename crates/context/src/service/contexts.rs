//! The last context of each node that has sent one at this gateway, to go along with what it sends to applications.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of all contexts that are remembered here; those of further nodes do not go along.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// What a node costs beside its name and its context.
const ENTRY_BYTES: usize = 96;

/// Contexts by the names of nodes.
#[derive(Debug, Default)]
pub(crate) struct KnownContexts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    contexts: HashMap<String, Arc<[u8]>>,
    bytes: usize,
}

fn cost(node: &str, context: &[u8]) -> usize {
    node.len() + context.len() + ENTRY_BYTES
}

impl KnownContexts {
    /// Takes the context of a node in; an empty one says that it has gone for good.
    pub(crate) fn put(&self, node: &str, context: &[u8]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = known.contexts.remove(node) {
            known.bytes -= cost(node, &before);
        }
        let cost = cost(node, context);
        if !context.is_empty() && known.bytes + cost <= MAX_BYTES {
            known.bytes += cost;
            known.contexts.insert(node.to_owned(), context.into());
        }
    }

    /// What a node has sent last.
    pub(crate) fn get(&self, node: &str) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contexts.get(node).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_not_remembered_and_what_goes_gives_room_back() {
        let known = KnownContexts::default();
        known.put("a", b"{}");
        known.put("a", &vec![b'x'; MAX_BYTES / 2]);
        known.put("b", &vec![b'x'; MAX_BYTES / 2]);
        assert!(known.get("a").is_some() && known.get("b").is_none());
        known.put("a", b"");
        known.put("b", &vec![b'x'; MAX_BYTES / 2]);
        assert!(known.get("a").is_none() && known.get("b").is_some());
    }
}
