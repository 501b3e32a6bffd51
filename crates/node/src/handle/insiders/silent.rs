//! Nodes that have not answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_engine::Millis;

use crate::cluster::NodeName;

/// How long a node that has not answered in time is not asked again: reads from other nodes would wait behind the
/// questions to it.
const SILENCE_MS: u64 = 10_000;

/// Nodes that have not answered a question in time, and until when they are not asked.
#[derive(Debug, Default)]
pub(super) struct SilentNodes(Mutex<BTreeMap<NodeName, Millis>>);

impl SilentNodes {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeName, Millis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a node is not to be asked now.
    pub(super) fn has(&self, now: Millis, node: &NodeName) -> bool {
        self.nodes().get(node).is_some_and(|until| now < *until)
    }

    /// A node has not answered in time. Nodes that may be asked again are forgotten.
    pub(super) fn note(&self, now: Millis, node: NodeName) {
        let mut silent = self.nodes();
        silent.retain(|_, until| now < *until);
        silent.insert(node, now.plus(SILENCE_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_node_is_asked_again_later() {
        let (silent, name) = (SilentNodes::default(), |name| NodeName::new(name).unwrap());
        assert!(!silent.has(Millis(0), &name("b")));
        silent.note(Millis(100), name("b"));
        assert!(silent.has(Millis(100), &name("b")) && !silent.has(Millis(100), &name("c")));
        assert!(silent.has(Millis(99 + SILENCE_MS), &name("b")) && !silent.has(Millis(100 + SILENCE_MS), &name("b")));
        silent.note(Millis(100 + SILENCE_MS), name("c"));
        assert_eq!(silent.nodes().len(), 1, "the other one is forgotten");
    }
}
