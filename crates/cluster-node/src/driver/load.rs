//! The load of a node, as it is sent to the leader.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_bus::{NameError, Subject};
use tidegate_context::ranking::GatewayView;

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
    /// The life of the node that says so.
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
