//! Redirects the clients of an orchestrator at a limited rate per second (BRK-33).

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tidegate_admin::DrainRequest;
use tidegate_console::Unavailable;
use tidegate_console::api::ControlError;
use tidegate_engine::Evicted;
use tidegate_node::NodeHandle;

/// Time between two groups of clients.
const STEP: Duration = Duration::from_millis(100);

/// A drain under way, if there is one.
#[derive(Debug, Default)]
pub struct Drain {
    /// Keeps the drain under way going: it ends when this is dropped.
    current: Mutex<Option<Sender<()>>>,
}

impl Drain {
    fn current(&self) -> std::sync::MutexGuard<'_, Option<Sender<()>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a drain is under way.
    pub fn is_running(&self) -> bool {
        self.current().is_some()
    }

    /// Begins to redirect clients, in place of an earlier drain: clients that understand it at once, the others after a
    /// time in which they may leave. New clients are redirected from now on.
    ///
    /// # Errors
    /// When the system gives no thread. When a shard does not answer, which will join in as soon as it can.
    pub fn begin(&self, node: &NodeHandle, request: &DrainRequest) -> Result<(), ControlError> {
        let (may_continue, ended) = channel();
        let (evicting, per_second) = (node.clone(), request.per_second);
        let evict_after = Duration::from_secs(request.evict_after_s);
        Builder::new()
            .name("drain".into())
            .spawn(move || evict(&evicting, &ended, per_second, evict_after))
            .map_err(|error| ControlError::Refused(format!("cannot start a thread for the drain: {error}")))?;
        *self.current() = Some(may_continue);
        node.fleet().begin_redirecting(request.server_reference.as_deref()).map_err(|_| Unavailable.into())
    }

    /// Accepts new clients again.
    ///
    /// # Errors
    /// When a shard does not answer, which will take clients again as soon as it can.
    pub fn end(&self, node: &NodeHandle) -> Result<(), ControlError> {
        *self.current() = None;
        node.fleet().end_redirecting().map_err(|_| Unavailable.into())
    }
}

/// Ends connections within the budget until the drain is over or replaced. It continues without connections: a client
/// whose CONNECT was in transit may still appear.
fn evict(node: &NodeHandle, ended: &Receiver<()>, per_second: u32, evict_after: Duration) {
    let began = Instant::now();
    let shards = u32::from(node.shards()).max(1);
    let parts = u32::try_from(1000 / STEP.as_millis()).unwrap_or(1) * shards;
    let mut owed = 0;
    while ended.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
        // The remainder of a step's division is carried over to the next one.
        owed += per_second;
        let each = owed / parts;
        owed -= each * parts;
        let which = if began.elapsed() < evict_after { Evicted::Told } else { Evicted::Everyone };
        if each > 0 && node.fleet().evict(each as usize, which).is_err() {
            tracing::warn!("a shard does not answer; the drain continues");
        }
    }
}
