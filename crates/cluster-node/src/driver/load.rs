//! The load of a node: measured on a thread of its own, and sent to the leader as a live message: an old one has no use.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate_bus::{Bus, NameError, Subject};
use tidegate_context::ranking::GatewayView;
use tidegate_process::machine::{OwnThreads, Processors, memory};

use super::error::NodeError;
use super::status::Shared;

/// Time between two measures.
pub(super) const LOAD_PERIOD: Duration = Duration::from_secs(5);
/// The mean turn of an event loop, milliseconds, at which a node counts as fully busy.
const FULL_LAG_MS: f64 = 100.0;

/// The subject of all measures of a cluster.
pub(super) fn subject() -> Result<Subject, NameError> {
    Subject::new("cluster-load")
}

/// The load of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) node: String,
    /// Which life of the node says so.
    pub(super) life: u64,
    /// Busy part of the processors that the node can use, or of its own threads where that is more, 0 to 1.
    pub(super) cpu: f64,
    /// Part of the memory that is in use, 0 to 1.
    pub(super) memory: f64,
    /// The mean turn of the slowest event loop, milliseconds.
    pub(super) loop_lag_ms: u64,
    /// Connected clients whose sessions are here.
    pub(super) clients: u64,
    /// `limits.max_connections`; 0 for no limit.
    pub(super) capacity: u64,
    /// Bytes in queues.
    pub(super) queue_bytes: u64,
}

impl Load {
    /// How busy the node is, 0 to 1: its processors, or its event loops where these lag more.
    pub(super) fn busy(&self) -> f64 {
        let lag = u32::try_from(self.loop_lag_ms).unwrap_or(u32::MAX);
        self.cpu.max(f64::from(lag) / FULL_LAG_MS).clamp(0.0, 1.0)
    }

    /// With parts from 0 to 1, whatever the message says.
    pub(super) fn within_bounds(self) -> Self {
        Self { cpu: self.cpu.clamp(0.0, 1.0), memory: self.memory.clamp(0.0, 1.0), ..self }
    }

    /// As rankings of points of access see it.
    pub(super) fn view(&self) -> GatewayView {
        GatewayView {
            name: self.node.clone(),
            nodes: self.clients,
            capacity: self.capacity,
            cpu: self.cpu,
            memory: self.memory,
            loop_lag_ms: self.loop_lag_ms,
            queue_bytes: self.queue_bytes,
            ..GatewayView::default()
        }
    }

    /// As a message.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Texts and numbers: nothing of it can fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_as_busy_as_its_processors_or_its_event_loops() {
        let load = |cpu, loop_lag_ms| Load { cpu, loop_lag_ms, ..Load::default() }.busy();
        for (busy, wanted) in [(load(0.4, 10), 0.4), (load(0.4, 70), 0.7), (load(0.0, 900), 1.0)] {
            assert!((busy - wanted).abs() < 1e-9, "{busy} {wanted}");
        }
    }
}
