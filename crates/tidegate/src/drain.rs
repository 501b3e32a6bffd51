//! Sending the clients of an orchestrator elsewhere, so many per second (BRK-33).

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use tidegate_node::NodeHandle;

/// Time between two groups of clients.
const STEP: Duration = Duration::from_millis(100);

/// A drain under way, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// Stands for the drain under way: whoever holds another one has been replaced.
    current: Mutex<Option<Arc<()>>>,
}

impl Drain {
    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<()>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether clients are sent elsewhere.
    pub(crate) fn is_running(&self) -> bool {
        self.current().is_some()
    }

    /// Begins to send clients elsewhere, in place of an earlier drain.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn begin(
        self: &Arc<Self>,
        node: &NodeHandle,
        reference: Option<&str>,
        per_second: u32,
    ) -> Result<(), String> {
        let token = Arc::new(());
        *self.current() = Some(Arc::clone(&token));
        node.begin_redirecting(reference);
        let (drain, node) = (Arc::clone(self), node.clone());
        let run = move || drain.run(&node, &token, per_second);
        Builder::new()
            .name("drain".into())
            .spawn(run)
            .map(drop)
            .map_err(|error| format!("cannot start a thread for the drain: {error}"))
    }

    /// Takes clients again.
    pub(crate) fn end(&self, node: &NodeHandle) {
        *self.current() = None;
        node.end_redirecting();
    }

    fn is_current(&self, token: &Arc<()>) -> bool {
        self.current().as_ref().is_some_and(|current| Arc::ptr_eq(current, token))
    }

    /// Ends connections within the budget as long as this drain is the current one. It goes on when none is left: a client whose
    /// CONNECT was under way may still turn up.
    fn run(&self, node: &NodeHandle, token: &Arc<()>, per_second: u32) {
        let shards = u32::from(node.shards()).max(1);
        let steps = u32::try_from(1000 / STEP.as_millis()).unwrap_or(1);
        let mut owed = 0;
        while self.is_current(token) {
            // What a step cannot divide evenly is carried over to the next one.
            owed += per_second;
            let each = owed / (steps * shards);
            owed -= each * steps * shards;
            if each > 0 && node.evict(each as usize).is_err() {
                tracing::warn!("a shard does not answer; the drain goes on");
            }
            std::thread::sleep(STEP);
        }
    }
}
