//! Measurements of one resource.

use std::time::Duration;

/// CPU of one resource, averaged since the observation before (BRK-39).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Cores in use, 0...
    pub used: f64,
    /// Cores that it may use, above 0: the denominator of the level's load.
    pub allocated: f64,
}

/// One observation of a resource. An unmeasured value is `None`; a negative or infinite one counts as unmeasured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// CPU of the process, container or machine.
    pub cpu: Option<Cpu>,
    /// Messages handled per second since the observation before.
    pub message_rate: Option<f64>,
    /// Messages that wait for this resource now.
    pub queued: Option<f64>,
    /// How late its event loop is.
    pub loop_lag: Option<Duration>,
    /// How long a message waits before it is worked off.
    pub waiting: Option<Duration>,
    /// Messages per second that were lost for want of room since the observation before (LAV-07).
    pub drop_rate: Option<f64>,
    /// Memory that it holds, bytes (CTX-45).
    pub memory: Option<f64>,
}

impl Sample {
    /// CPU, when it was measured and makes sense.
    pub(crate) fn sound_cpu(&self) -> Option<Cpu> {
        self.cpu.filter(|cpu| sound(cpu.used) && sound(cpu.allocated) && cpu.allocated > 0.0)
    }

    /// The message rate, when it was measured and makes sense.
    pub(crate) fn sound_rate(&self) -> Option<f64> {
        self.message_rate.filter(|rate| sound(*rate))
    }

    /// The queue depth, when it was measured and makes sense.
    pub(crate) fn sound_queued(&self) -> Option<f64> {
        self.queued.filter(|queued| sound(*queued))
    }

    /// The rate of drops, when it was measured and makes sense.
    pub(crate) fn sound_drops(&self) -> Option<f64> {
        self.drop_rate.filter(|rate| sound(*rate))
    }

    /// The memory, when it was measured and makes sense.
    pub(crate) fn sound_memory(&self) -> Option<f64> {
        self.memory.filter(|memory| sound(*memory))
    }
}

fn sound(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}
