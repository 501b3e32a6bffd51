//! Measures the load of this node on its own thread, and sends it to the leader as a live message: an old one has
//! no use.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;

use bytes::Bytes;
use tidegate_bus::{Bus, Subject};
use tidegate_process::machine::{OwnThreads, Processors, memory};

use super::error::NodeError;
use super::load::{LOAD_PERIOD, Load, subject};
use super::status::Shared;

/// Measures this node.
struct Measuring {
    shared: Arc<Shared>,
    capacity: u64,
    processors: Processors,
    threads: OwnThreads,
}

impl Measuring {
    /// The load since the last look; `None` when the shards do not say.
    fn look(&mut self) -> Option<Load> {
        let node = self.shared.node();
        let report = node.report().ok()?;
        let (total, available) = memory();
        let cpu = self.processors.share().max(self.threads.share(node.shards()));
        Some(Load {
            node: self.shared.name().to_owned(),
            life: self.shared.life(),
            cpu,
            memory: 1.0 - part(available, total).unwrap_or(1.0),
            loop_lag_ms: report.lag_ms,
            clients: report.gauges.sessions_connected,
            capacity: self.capacity,
            queue_bytes: report.gauges.queued_bytes,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a part of the memory need not be exact")]
fn part(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| (some as f64 / all as f64).clamp(0.0, 1.0))
}

/// Begins to measure and to tell, until the returned sender is dropped. `capacity` is how many connections the node
/// takes; 0 for no limit.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn begin(shared: Arc<Shared>, bus: Bus, capacity: u64) -> Result<Sender<()>, NodeError> {
    let (keeps_on, ended) = channel();
    let subject = subject()?;
    let (processors, threads) = Default::default();
    let measuring = Measuring { shared, capacity, processors, threads };
    let tell = move || run(measuring, &bus, &subject, &ended);
    let begun = Builder::new().name("cluster-load".into()).spawn(tell);
    begun.map(|_| keeps_on).map_err(NodeError::Thread)
}

fn run(mut measuring: Measuring, bus: &Bus, subject: &Subject, ended: &Receiver<()>) {
    // The first look begins a measure.
    let _ = measuring.look();
    while ended.recv_timeout(LOAD_PERIOD) == Err(RecvTimeoutError::Timeout) {
        let Some(load) = measuring.look() else { continue };
        // While the bus is away no node is measured, and so no share is changed.
        if let Err(error) = bus.publish(subject, Bytes::from(load.to_bytes())) {
            tracing::debug!(%error, "the load of this node was not told");
        }
    }
}
