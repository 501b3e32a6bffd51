//! The signals of a level, each as a fraction of its full value; the largest wins.

use std::fmt;
use std::time::Duration;

use super::{LoadError, Sample};

/// The signal of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Used CPU over allocated CPU.
    Cpu,
    /// Messages per second over the full value.
    MessageRate,
    /// Waiting messages over the full value.
    QueueDepth,
    /// Lateness of event loops over the full value.
    LoopLag,
    /// Waiting time of messages over the full value.
    Waiting,
    /// Messages lost to full queues per second, over the full value.
    Drops,
    /// Memory over the full value.
    Memory,
}

/// The load by drops is no greater: that messages are lost says that resources are missing, and how many are lost says
/// little about how many.
const DROPS_MOST: f64 = 2.0;

impl Signal {
    /// The name in settings, explanations and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::MessageRate => "message_rate",
            Self::QueueDepth => "queue_depth",
            Self::LoopLag => "loop_lag",
            Self::Waiting => "waiting",
            Self::Drops => "drops",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The signals in use, with their full value for each resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalSettings {
    /// Whether CPU counts; its full value is the allocated CPU.
    pub cpu: bool,
    /// Messages per second at which a resource is full, or `None` when the rate does not count.
    pub message_rate: Option<f64>,
    /// Waiting messages at which a resource is full, or `None` when the queue depth does not count.
    pub queue_depth: Option<f64>,
    /// Lateness of its loop at which a resource is full, or `None` when lateness does not count.
    pub loop_lag: Option<Duration>,
    /// Waiting time at which a resource is full, or `None` when waiting time does not count.
    pub waiting: Option<Duration>,
    /// Messages lost per second at which a resource is full, or `None` when drops do not count.
    pub drops: Option<f64>,
    /// Bytes of memory at which a resource is full, or `None` when memory does not count.
    pub memory: Option<f64>,
}

impl Default for SignalSettings {
    /// CPU alone, as in the study (BRK-39).
    fn default() -> Self {
        Self {
            cpu: true,
            message_rate: None,
            queue_depth: None,
            loop_lag: None,
            waiting: None,
            drops: None,
            memory: None,
        }
    }
}

/// One signal of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalLoad {
    /// The signal.
    pub signal: Signal,
    /// The mean over the resources that answered, 1 being full; `None` when none did.
    pub load: Option<f64>,
    /// How many resources answered.
    pub answered: u32,
}

/// All signals of a level at one observation.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelLoads {
    /// One entry per signal that counts.
    pub signals: Vec<SignalLoad>,
    /// Resources that should have answered.
    pub expected: u32,
}

impl LevelLoads {
    /// The signal with the largest load, when there is one.
    pub fn largest(&self) -> Option<(Signal, f64)> {
        let known = self.signals.iter().filter_map(|signal| Some((signal.signal, signal.load?)));
        known.max_by(|left, right| left.1.total_cmp(&right.1))
    }

    /// The first signal that not every resource answered for: a reason not to scale in.
    pub fn missing(&self) -> Option<Signal> {
        self.signals.iter().find(|signal| signal.answered < self.expected).map(|signal| signal.signal)
    }
}

impl SignalSettings {
    /// Checks the full values.
    ///
    /// # Errors
    /// When no signal is chosen, or a full value is not above 0.
    pub fn validate(&self) -> Result<(), LoadError> {
        let fulls = [
            (Signal::MessageRate, self.message_rate),
            (Signal::QueueDepth, self.queue_depth),
            (Signal::LoopLag, self.loop_lag.map(|lag| lag.as_secs_f64())),
            (Signal::Waiting, self.waiting.map(|waiting| waiting.as_secs_f64())),
            (Signal::Drops, self.drops),
            (Signal::Memory, self.memory),
        ];
        if !self.cpu && fulls.iter().all(|(_, full)| full.is_none()) {
            return Err(LoadError::NoSignal);
        }
        for (signal, full) in fulls {
            if let Some(value) = full.filter(|full| !(full.is_finite() && *full > 0.0)) {
                return Err(LoadError::Full { signal: signal.name(), value });
            }
        }
        Ok(())
    }

    /// The loads of a level of `serving` resources with the known `samples`. CPU is the sum of the used over the sum of
    /// the allocated CPU (BRK-37); the others are means.
    pub fn read(&self, samples: &[Sample], serving: u32) -> LevelLoads {
        let mut signals = Vec::with_capacity(7);
        if self.cpu {
            signals.push(cpu(samples));
        }
        if let Some(full) = self.message_rate {
            signals.push(mean(Signal::MessageRate, samples, full, Sample::sound_rate));
        }
        if let Some(full) = self.queue_depth {
            signals.push(mean(Signal::QueueDepth, samples, full, Sample::sound_queued));
        }
        if let Some(full) = self.loop_lag {
            let lag = |sample: &Sample| sample.loop_lag.map(|lag| lag.as_secs_f64());
            signals.push(mean(Signal::LoopLag, samples, full.as_secs_f64(), lag));
        }
        if let Some(full) = self.waiting {
            let waiting = |sample: &Sample| sample.waiting.map(|waiting| waiting.as_secs_f64());
            signals.push(mean(Signal::Waiting, samples, full.as_secs_f64(), waiting));
        }
        if let Some(full) = self.drops {
            let mut drops = mean(Signal::Drops, samples, full, Sample::sound_drops);
            drops.load = drops.load.map(|load| load.min(DROPS_MOST));
            signals.push(drops);
        }
        if let Some(full) = self.memory {
            signals.push(mean(Signal::Memory, samples, full, Sample::sound_memory));
        }
        LevelLoads { signals, expected: serving }
    }
}

fn cpu(samples: &[Sample]) -> SignalLoad {
    let (mut used, mut allocated, mut answered) = (0.0, 0.0, 0);
    for cpu in samples.iter().filter_map(Sample::sound_cpu) {
        used += cpu.used;
        allocated += cpu.allocated;
        answered += 1;
    }
    SignalLoad { signal: Signal::Cpu, load: (answered > 0).then(|| used / allocated), answered }
}

fn mean(signal: Signal, samples: &[Sample], full: f64, value: impl Fn(&Sample) -> Option<f64>) -> SignalLoad {
    let (mut sum, mut answered) = (0.0, 0_u32);
    for value in samples.iter().filter_map(value) {
        sum += value;
        answered += 1;
    }
    SignalLoad { signal, load: (answered > 0).then(|| sum / f64::from(answered) / full), answered }
}

#[cfg(test)]
mod tests {
    use super::super::Cpu;
    use super::*;

    fn sample(used: f64, allocated: f64, queued: f64) -> Sample {
        Sample { cpu: Some(Cpu { used, allocated }), queued: Some(queued), ..Sample::default() }
    }

    #[test]
    fn cpu_is_the_sum_of_the_used_over_the_sum_of_the_allocated() {
        // 0.5 of 1 core and 1.0 of 4 cores: 1.5 / 5, not the mean of 0.5 and 0.25.
        let loads = SignalSettings::default().read(&[sample(0.5, 1.0, 0.0), sample(1.0, 4.0, 0.0)], 2);
        assert_eq!(loads.largest(), Some((Signal::Cpu, 0.3)));
        assert_eq!(loads.missing(), None);
    }

    #[test]
    fn the_largest_signal_wins() {
        let settings = SignalSettings { queue_depth: Some(100.0), ..SignalSettings::default() };
        let loads = settings.read(&[sample(0.5, 1.0, 70.0), sample(0.5, 1.0, 90.0)], 2);
        assert_eq!(loads.largest(), Some((Signal::QueueDepth, 0.8)));
    }

    #[test]
    fn drops_and_memory_are_means_and_gaps_are_noticed() {
        let settings =
            SignalSettings { cpu: false, drops: Some(10.0), memory: Some(1000.0), ..SignalSettings::default() };
        let of = |drops, memory| Sample { drop_rate: drops, memory, ..Sample::default() };
        let loads = settings.read(&[of(Some(4.0), Some(500.0)), of(Some(0.0), Some(900.0))], 2);
        assert_eq!(loads.signals.iter().map(|it| it.load).collect::<Vec<_>>(), [Some(0.2), Some(0.7)]);
        assert_eq!((loads.largest(), loads.missing()), (Some((Signal::Memory, 0.7)), None));
        let partly = settings.read(&[of(Some(4.0), None), of(None, Some(900.0))], 2);
        assert_eq!(partly.missing(), Some(Signal::Drops));
    }

    #[test]
    fn many_drops_say_no_more_than_that_resources_are_missing() {
        let settings = SignalSettings { drops: Some(1.0), ..SignalSettings::default() };
        let flood = Sample { drop_rate: Some(50_000.0), ..sample(1.0, 1.0, 0.0) };
        assert_eq!(settings.read(&[flood], 1).largest(), Some((Signal::Drops, DROPS_MOST)));
    }

    #[test]
    fn a_resource_that_does_not_answer_is_missed() {
        let silent = Sample { cpu: Some(Cpu { used: f64::NAN, allocated: 1.0 }), ..Sample::default() };
        let loads = SignalSettings::default().read(&[sample(0.5, 1.0, 0.0), silent], 2);
        assert_eq!(loads.largest(), Some((Signal::Cpu, 0.5)));
        assert_eq!(loads.missing(), Some(Signal::Cpu));
    }

    #[test]
    fn a_full_value_must_be_above_zero() {
        let none = SignalSettings { cpu: false, ..SignalSettings::default() };
        assert_eq!(none.validate(), Err(LoadError::NoSignal));
        let zero = SignalSettings { queue_depth: Some(0.0), ..SignalSettings::default() };
        assert_eq!(zero.validate(), Err(LoadError::Full { signal: "queue_depth", value: 0.0 }));
    }
}
