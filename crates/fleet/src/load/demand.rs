//! How many resources' worth of work is asked for, whatever the fleet can do.
//!
//! CPU alone does not show the demand: it ends at 100 %, and it stays there while a shrinking backlog is worked off.
//! Message rate and backlog complete it. A message costs `used / rate`; messages arrive at `rate + growth of the
//! backlog + drops`; the product is the demand.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Sample, Signal, SignalSettings};

/// The demand on a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemandReading {
    /// The demand in resources: 3.2 would keep 3.2 of them busy. It may exceed the serving resources.
    pub resources: f64,
    /// The signal's load as it was observed, 1 being all that serves.
    pub load: f64,
    /// The work that waits, in seconds of one resource; `None` when it is not known.
    pub waiting: Option<f64>,
    /// The signal that asks for most.
    pub signal: Signal,
}

/// Works the demand out from one observation to the next. This is ours; the study looks at CPU alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Demand {
    #[serde(skip)]
    signals: SignalSettings,
    previous: Option<(Duration, f64)>,
    /// Resources that one message per second kept busy when messages were last handled.
    #[serde(default)]
    cost: Option<f64>,
}

/// Totals of a level.
struct Totals {
    rate: Option<f64>,
    queued: Option<f64>,
    /// 0 where no resource reports drops.
    dropped: f64,
}

impl Demand {
    /// By these signals.
    pub fn new(signals: SignalSettings) -> Self {
        Self { signals, previous: None, cost: None }
    }

    /// The same, with the observations of another one, such as that before a restart.
    #[must_use]
    pub fn recalling(&self, remembered: &Self) -> Self {
        Self { signals: self.signals, ..*remembered }
    }

    /// Processes the `samples` of `serving` resources at `time`. Resources without an answer count like the others.
    /// `None` when no signal is known.
    pub fn observe(&mut self, time: Duration, serving: u32, samples: &[Sample]) -> Option<DemandReading> {
        let totals = totals(samples, serving);
        let growth = self.growth(time, totals.queued);
        // 1 while the backlog is constant, above while it grows, below while it shrinks. Drops count where they are a
        // signal: messages that a slow subscriber loses are not missed work.
        let dropped = self.signals.drops.map_or(0.0, |_| totals.dropped);
        let arrivals = match (totals.rate, growth) {
            (Some(rate), Some(growth)) if rate > 0.0 => (1.0 + (growth + dropped) / rate).max(0.0),
            _ => 1.0,
        };
        // Where no message is handled at all, the last known cost says how much work arrives.
        let stalled = totals.rate.is_none_or(|rate| rate <= 0.0);
        let arriving =
            growth.filter(|_| stalled).zip(self.cost).map_or(0.0, |(growth, cost)| (growth + dropped) * cost);
        let loads = self.signals.read(samples, serving);
        let demands = loads.signals.iter().filter_map(|load| {
            let observed = load.load?;
            let busy = observed * f64::from(serving);
            let grows = matches!(load.signal, Signal::Cpu | Signal::MessageRate);
            let asked = if grows { (busy * arrivals).max(arriving) } else { busy };
            Some((load.signal, observed, asked))
        });
        let (signal, load, resources) = demands.max_by(|left, right| left.2.total_cmp(&right.2))?;
        let busy = load * f64::from(serving);
        let waiting = match (totals.rate, totals.queued) {
            (Some(rate), Some(queued)) if rate > 0.0 => Some(queued * busy / rate),
            (_, Some(0.0)) => Some(0.0),
            (_, Some(queued)) => self.cost.map(|cost| queued * cost),
            _ => None,
        };
        if let Some(rate) = totals.rate.filter(|rate| *rate > 0.0 && busy > 0.0) {
            self.cost = Some(busy / rate);
        }
        Some(DemandReading { resources, load, waiting, signal })
    }

    fn growth(&mut self, time: Duration, queued: Option<f64>) -> Option<f64> {
        let Some(queued) = queued else {
            self.previous = None;
            return None;
        };
        let (then, before) = self.previous.replace((time, queued))?;
        let seconds = time.saturating_sub(then).as_secs_f64();
        (seconds > 0.0).then(|| (queued - before) / seconds)
    }
}

/// Rates of the answering resources, extrapolated to all serving ones; the backlog, when all answered.
fn totals(samples: &[Sample], serving: u32) -> Totals {
    let (mut rate, mut rates, mut queued, mut answers) = (0.0, 0_u32, 0.0, 0_u32);
    let dropped = samples.iter().filter_map(Sample::sound_drops).sum();
    for sample in samples {
        if let Some(value) = sample.sound_rate() {
            rate += value;
            rates += 1;
        }
        if let Some(value) = sample.sound_queued() {
            queued += value;
            answers += 1;
        }
    }
    let rate = (rates > 0).then(|| rate / f64::from(rates) * f64::from(serving));
    Totals { rate, queued: (answers > 0 && answers >= serving).then_some(queued), dropped }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "the numbers are exact in binary")]

    use super::super::Cpu;
    use super::*;

    fn sample(used: f64, rate: f64, queued: f64) -> Sample {
        Sample {
            cpu: Some(Cpu { used, allocated: 1.0 }),
            message_rate: Some(rate),
            queued: Some(queued),
            ..Sample::default()
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_growing_backlog_shows_the_demand_that_cpu_cannot() {
        let mut demand = Demand::new(SignalSettings::default());
        assert_eq!(demand.observe(at(0), 1, &[sample(0.5, 50.0, 0.0)]).unwrap().resources, 0.5);
        // 100/s are handled at full CPU, and 9000 more wait after 15 s: 700/s arrive, at 0.01 CPU seconds each.
        let reading = demand.observe(at(15), 1, &[sample(1.0, 100.0, 9000.0)]).unwrap();
        assert!((reading.resources - 7.0).abs() < 1e-9);
        assert_eq!(reading.waiting, Some(90.0));
    }

    #[test]
    fn drops_count_as_demand_like_a_backlog() {
        // A full queue no longer grows: 100/s are handled and 300/s lost.
        let lossy = Sample { drop_rate: Some(300.0), ..sample(1.0, 100.0, 50.0) };
        for (drops, expected) in [(Some(1000.0), 4.0), (None, 1.0)] {
            let mut demand = Demand::new(SignalSettings { drops, ..SignalSettings::default() });
            demand.observe(at(0), 1, &[sample(1.0, 100.0, 50.0)]);
            let reading = demand.observe(at(15), 1, &[lossy]).unwrap();
            assert!((reading.resources - expected).abs() < 1e-9, "{drops:?}: {reading:?}");
            assert_eq!(reading.signal, Signal::Cpu);
        }
    }

    #[test]
    fn a_backlog_counts_while_no_message_is_handled() {
        let mut demand = Demand::new(SignalSettings::default());
        demand.observe(at(0), 1, &[sample(0.5, 50.0, 0.0)]);
        // 100/s arrive at 0.01 CPU seconds each, and none is handled.
        let reading = demand.observe(at(10), 1, &[sample(0.0, 0.0, 1000.0)]).unwrap();
        assert!((reading.resources - 1.0).abs() < 1e-9, "{reading:?}");
        assert_eq!(reading.waiting, Some(10.0));
    }

    #[test]
    fn a_backlog_that_is_worked_off_is_no_demand() {
        let mut demand = Demand::new(SignalSettings::default());
        demand.observe(at(0), 1, &[sample(1.0, 100.0, 1000.0)]);
        // Full CPU, but the backlog shrinks by 40/s: 60/s arrive.
        let reading = demand.observe(at(15), 1, &[sample(1.0, 100.0, 400.0)]).unwrap();
        assert!((reading.resources - 0.6).abs() < 1e-9);
    }

    #[test]
    fn without_queues_the_demand_is_the_cpu() {
        let bare = Sample { cpu: Some(Cpu { used: 0.8, allocated: 1.0 }), ..Sample::default() };
        let mut demand = Demand::new(SignalSettings::default());
        let reading = demand.observe(at(0), 4, &[bare; 4]).unwrap();
        assert!((reading.resources - 3.2).abs() < 1e-9);
        assert_eq!(reading.waiting, None);
        assert_eq!(demand.observe(at(15), 4, &[]), None);
    }

    #[test]
    fn silent_resources_are_taken_to_be_as_the_others() {
        let mut demand = Demand::new(SignalSettings::default());
        let reading = demand.observe(at(0), 4, &[sample(0.5, 50.0, 0.0); 2]).unwrap();
        assert!((reading.resources - 2.0).abs() < 1e-9);
        assert_eq!(reading.waiting, None);
    }
}
