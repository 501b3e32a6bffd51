//! The demand on a fleet in resources, which may exceed its capacity.
//!
//! CPU alone does not show the demand: it ends at 100 %, and it stays there while a shrinking backlog is worked off.
//! Message rate and backlog complete it. A message costs `used / rate`; more messages than are handled arrive at
//! `growth of the backlog + drops`; the demand is `used + cost * (growth + drops)`. While the backlog is long, or
//! shrinks by more messages than are handled, the demand is at least `used`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LevelLoads, Sample, Signal, SignalLoad, SignalSettings};

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
    #[serde(default)]
    cost: Option<Cost>,
}

/// The cost of a message, measured under load: an idle resource also uses CPU, which its few messages do not explain.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cost {
    /// Resources that one message per second keeps busy.
    each: f64,
    /// The busy part of a resource when that was seen; fades, so that a cost that changes is followed, and an old one is
    /// forgotten.
    busy: f64,
}

/// How much of the load at which a cost was seen counts after each observation.
const FADING: f64 = 0.95;

/// Busy part of a resource from which messages explain its load. A cost is not taken below it, and is forgotten once it
/// has faded to it.
const COST_FROM: f64 = 0.1;

/// Seconds of work waiting for each resource from which the backlog is more than a peak leaves: working it off is
/// demand.
const MUCH_WAITING_S: f64 = 600.0;

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
    /// Drops count if `lossy` is set: messages lost by a slow subscriber are not missed work. `None` when no signal is known.
    pub fn observe(&mut self, time: Duration, serving: u32, samples: &[Sample], lossy: bool) -> Option<DemandReading> {
        let totals = totals(samples, serving);
        let growth = self.growth(time, totals.queued);
        let loads = self.signals.read(samples, serving);
        let resources = f64::from(serving);
        self.note_cost(&loads, &totals, resources);
        let each = self.cost.map(|cost| cost.each);
        let waiting = match (totals.queued, each) {
            (Some(queued), Some(each)) => Some(queued * each),
            (Some(0.0), None) => Some(0.0),
            _ => None,
        };
        let dropped = if lossy { totals.dropped } else { 0.0 };
        let growth = growth.filter(|growth| {
            // A backlog that shrinks faster than messages are handled was moved or lost, which says nothing about
            // arrivals.
            let much_waits = waiting.is_some_and(|seconds| seconds > MUCH_WAITING_S * resources);
            *growth >= 0.0 || (!much_waits && -growth <= totals.rate.unwrap_or(0.0))
        });
        let arriving = each.map_or(0.0, |each| (growth.unwrap_or(0.0) + dropped) * each);
        let demands = loads.signals.iter().filter_map(|load| {
            let observed = load.load?;
            let busy = observed * resources;
            let grows = matches!(load.signal, Signal::Cpu | Signal::MessageRate);
            Some((load.signal, observed, if grows { (busy + arriving).max(0.0) } else { busy }))
        });
        let (signal, load, resources) = demands.max_by(|left, right| left.2.total_cmp(&right.2))?;
        Some(DemandReading { resources, load, waiting, signal })
    }

    /// Updates the cost of a message, unless the load is too low to tell, or it was measured under more load recently.
    fn note_cost(&mut self, loads: &LevelLoads, totals: &Totals, resources: f64) {
        let works = |load: &&SignalLoad| matches!(load.signal, Signal::Cpu | Signal::MessageRate);
        let busy = loads.signals.iter().filter(works).filter_map(|load| load.load).fold(0.0_f64, f64::max);
        if let Some(cost) = &mut self.cost {
            cost.busy *= FADING;
        }
        self.cost = self.cost.filter(|cost| cost.busy >= COST_FROM);
        let Some(rate) = totals.rate.filter(|rate| *rate > 0.0 && busy >= COST_FROM) else { return };
        if self.cost.is_none_or(|cost| busy >= cost.busy) {
            self.cost = Some(Cost { each: busy * resources / rate, busy });
        }
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
        assert_eq!(demand.observe(at(0), 1, &[sample(0.5, 50.0, 0.0)], true).unwrap().resources, 0.5);
        // 100/s are handled at full CPU, and 9000 more wait after 15 s: 700/s arrive, at 0.01 CPU seconds each.
        let reading = demand.observe(at(15), 1, &[sample(1.0, 100.0, 9000.0)], true).unwrap();
        assert!((reading.resources - 7.0).abs() < 1e-9);
        assert_eq!(reading.waiting, Some(90.0));
    }

    #[test]
    fn drops_count_as_demand_like_a_backlog() {
        // A full queue no longer grows: 100/s are handled and 300/s lost.
        let lossy = Sample { drop_rate: Some(300.0), ..sample(1.0, 100.0, 50.0) };
        for (counts, expected) in [(true, 4.0), (false, 1.0)] {
            let mut demand = Demand::new(SignalSettings::default());
            demand.observe(at(0), 1, &[sample(1.0, 100.0, 50.0)], counts);
            let reading = demand.observe(at(15), 1, &[lossy], counts).unwrap();
            assert!((reading.resources - expected).abs() < 1e-9, "{counts}: {reading:?}");
            assert_eq!(reading.signal, Signal::Cpu);
        }
    }

    #[test]
    fn a_backlog_counts_while_no_message_is_handled() {
        let mut demand = Demand::new(SignalSettings::default());
        demand.observe(at(0), 1, &[sample(0.5, 50.0, 0.0)], true);
        // 100/s arrive at 0.01 CPU seconds each, and none is handled.
        let reading = demand.observe(at(10), 1, &[sample(0.0, 0.0, 1000.0)], true).unwrap();
        assert!((reading.resources - 1.0).abs() < 1e-9, "{reading:?}");
        assert_eq!(reading.waiting, Some(10.0));
    }

    #[test]
    fn a_backlog_that_is_worked_off_is_no_demand() {
        let mut demand = Demand::new(SignalSettings::default());
        demand.observe(at(0), 1, &[sample(1.0, 100.0, 1000.0)], true);
        // Full CPU, but the backlog shrinks by 40/s: 60/s arrive.
        let reading = demand.observe(at(15), 1, &[sample(1.0, 100.0, 400.0)], true).unwrap();
        assert!((reading.resources - 0.6).abs() < 1e-9);
    }

    #[test]
    fn without_queues_the_demand_is_the_cpu() {
        let bare = Sample { cpu: Some(Cpu { used: 0.8, allocated: 1.0 }), ..Sample::default() };
        let mut demand = Demand::new(SignalSettings::default());
        let reading = demand.observe(at(0), 4, &[bare; 4], true).unwrap();
        assert!((reading.resources - 3.2).abs() < 1e-9);
        assert_eq!(reading.waiting, None);
        assert_eq!(demand.observe(at(15), 4, &[], true), None);
    }

    #[test]
    fn silent_resources_are_taken_to_be_as_the_others() {
        let mut demand = Demand::new(SignalSettings::default());
        let reading = demand.observe(at(0), 4, &[sample(0.5, 50.0, 0.0); 2], true).unwrap();
        assert!((reading.resources - 2.0).abs() < 1e-9);
        assert_eq!(reading.waiting, None);
    }

    #[test]
    fn demand_is_not_below_cpu_while_much_waits() {
        let mut demand = Demand::new(SignalSettings::default());
        demand.observe(at(0), 1, &[sample(1.02, 100.0, 99_384.0)], true);
        // The backlog shrinks by all that is handled, and 979 s of work are left.
        let reading = demand.observe(at(15), 1, &[sample(1.02, 100.0, 97_884.0)], true).unwrap();
        assert_eq!(reading.resources, 1.02);
        // A backlog that shrinks by more messages than are handled was moved: the arrivals are unknown.
        let reading = demand.observe(at(30), 1, &[sample(0.9, 100.0, 1000.0)], true).unwrap();
        assert_eq!(reading.resources, 0.9);
    }

    #[test]
    fn the_cost_of_a_message_is_measured_under_load() {
        let mut demand = Demand::new(SignalSettings::default());
        demand.observe(at(0), 1, &[sample(0.5, 50.0, 0.0)], true);
        // An idle broker uses 2 % for one message per second, which is no cost of 0.02 for each message.
        let reading = demand.observe(at(15), 1, &[sample(0.02, 1.0, 3000.0)], true).unwrap();
        assert!((reading.resources - 2.02).abs() < 1e-9, "{reading:?}");
        assert_eq!(reading.waiting, Some(30.0));
    }

    #[test]
    fn an_idle_hour_does_not_raise_the_cost_of_a_message() {
        let mut demand = Demand::new(SignalSettings::default());
        demand.observe(at(0), 1, &[sample(0.5, 50.0, 0.0)], true);
        // 2 % of an idle broker for one message per second.
        for step in 1..240 {
            let reading = demand.observe(at(15 * step), 1, &[sample(0.02, 1.0, 0.0)], true).unwrap();
            assert!((reading.resources - 0.02).abs() < 1e-9, "{reading:?}");
        }
        let reading = demand.observe(at(3600), 1, &[sample(0.02, 1.0, 3000.0)], true).unwrap();
        assert_eq!((reading.resources, reading.waiting), (0.02, None), "the cost is not known any more");
        let reading = demand.observe(at(3615), 1, &[sample(1.0, 100.0, 3000.0)], true).unwrap();
        assert_eq!(reading.waiting, Some(30.0), "a load shows it again");
    }
}
