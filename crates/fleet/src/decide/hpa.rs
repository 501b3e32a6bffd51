//! `hpa` and `hpa-stabilised`: the formula of Kubernetes' horizontal pod autoscaler.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::Wait;
use super::policy::{Gap, Guards, Policy, Proposal};
use super::settings::ceil;
use super::{Change, HeldBack, LevelObservation, Rule, Settings, threshold};
use crate::load::{Signal, SignalLoad, SignalSettings};

/// `desired = ceil(current * load / target)`, no change within the tolerance, the largest of all signals, no shrinking
/// when one fails. The highest recommendation of the shrinking window and the lowest of the growth window count. Growth
/// per 15 s is limited to 4 or to doubling, to the larger of both.
pub(super) struct Hpa {
    formula: Formula,
    shrink_window: Duration,
    grow_window: Duration,
    recommendations: VecDeque<(Duration, u32)>,
}

/// The result of `ceil(current * load / target)`, without memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formula {
    signals: SignalSettings,
    target: f64,
    tolerance: f64,
}

/// The recommendation of the signal that asks for most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recommendation {
    pub(super) signal: Signal,
    pub(super) load: f64,
    pub(super) desired: u32,
}

impl Formula {
    pub(super) fn new(settings: &Settings) -> Self {
        let (signals, tolerance) = (settings.signals, settings.tolerance);
        Self { signals, target: settings.thresholds.upper(), tolerance }
    }

    /// The recommendation of the signals; `None` when none is known.
    pub(super) fn recommend(&self, seen: &LevelObservation<'_>) -> Option<Recommendation> {
        let loads = self.signals.read(seen.samples, seen.serving);
        let known = loads.signals.iter().filter_map(|signal| {
            let load = signal.load?;
            Some(Recommendation { signal: signal.signal, load, desired: self.desired(seen, signal, load) })
        });
        known.max_by_key(|recommendation| recommendation.desired)
    }

    /// Resources that do not serve yet count as idle for growth. Resources that did not answer count as idle for
    /// growth, and as being on target for shrinking. If that reverses the direction, there is no change.
    fn desired(&self, seen: &LevelObservation<'_>, signal: &SignalLoad, load: f64) -> u32 {
        let planned = seen.planned();
        let ratio = load / self.target;
        let missing = seen.serving.saturating_sub(signal.answered);
        let (counted, sum) = if ratio > 1.0 {
            (planned, load * f64::from(signal.answered))
        } else {
            (seen.serving, load * f64::from(signal.answered) + self.target * f64::from(missing))
        };
        if counted == 0 {
            return planned;
        }
        let counted_ratio = sum / f64::from(counted) / self.target;
        let turned_round = (ratio > 1.0) != (counted_ratio > 1.0);
        if turned_round || (counted_ratio - 1.0).abs() <= self.tolerance {
            return planned;
        }
        let desired = ceil(counted_ratio * f64::from(counted));
        if ratio > 1.0 { desired.max(planned) } else { desired.min(planned) }
    }
}

/// The most that a level may grow to within an interval: 4 more, or twice as many.
fn growth_limit(planned: u32) -> u32 {
    planned.saturating_add(planned.max(4))
}

impl Hpa {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            formula: Formula::new(settings),
            shrink_window: settings.shrink_stabilisation,
            grow_window: Duration::ZERO,
            recommendations: VecDeque::new(),
        }
    }

    pub(super) fn stabilised(settings: &Settings) -> Self {
        Self { grow_window: settings.grow_stabilisation, ..Self::new(settings) }
    }

    /// Compares a recommendation with the recommendations of both windows.
    pub(super) fn stabilise(&mut self, seen: &LevelObservation<'_>, desired: u32) -> (u32, Option<HeldBack>) {
        let now = seen.time;
        if self.recommendations.is_empty() {
            // The number before the first recommendation counts as one, as after a restart of the HPA.
            self.recommendations.push_back((now, seen.planned()));
        }
        let longest = self.shrink_window.max(self.grow_window);
        while self.recommendations.front().is_some_and(|(then, _)| now.saturating_sub(*then) > longest) {
            self.recommendations.pop_front();
        }
        let within = |window: Duration| {
            let recent = self.recommendations.iter().filter(move |(then, _)| now.saturating_sub(*then) < window);
            recent.map(|(_, recommended)| *recommended).chain([desired])
        };
        let lowest = within(self.grow_window).min().unwrap_or(desired);
        let highest = within(self.shrink_window).max().unwrap_or(desired);
        if self.recommendations.len() > Settings::REMEMBERED_MAX as usize {
            self.recommendations.pop_front();
        }
        self.recommendations.push_back((now, desired));
        let planned = seen.planned();
        let stable = if planned < lowest {
            lowest
        } else if planned > highest {
            highest
        } else {
            planned
        };
        let window = if desired > planned { self.grow_window } else { self.shrink_window };
        let recommended = if desired > planned { lowest } else { highest };
        (stable, (stable != desired).then_some(HeldBack::Stabilisation { recommended, window }))
    }
}

impl Policy for Hpa {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let Some(recommendation) = self.formula.recommend(seen) else {
            return threshold::no_signal();
        };
        let (stable, held) = self.stabilise(seen, recommendation.desired);
        propose(seen, recommendation, stable, held, self.formula.target)
    }

    fn guards(&self) -> Guards {
        no_cool_down()
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.recommendations)
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        self.recommendations = serde_json::from_value(memory)?;
        self.recommendations.truncate(Settings::REMEMBERED_MAX as usize);
        Ok(())
    }

    fn bridges(&mut self, _: Gap) -> bool {
        // Its windows are of time.
        true
    }
}

/// No cool-down: the windows replace it.
pub(super) fn no_cool_down() -> Guards {
    let none = Wait::Observations(0);
    Guards { one_at_a_time: false, before_growth: none, before_shrinking: none }
}

/// The proposal for a recommendation after the windows.
pub(super) fn propose(
    seen: &LevelObservation<'_>,
    asked: Recommendation,
    stable: u32,
    held: Option<HeldBack>,
    target: f64,
) -> Proposal {
    let (planned, signal, load) = (seen.planned(), asked.signal, asked.load);
    let limited = stable.min(growth_limit(planned));
    let rule = if asked.desired == planned { Rule::Within } else { Rule::Ratio };
    let text = format!("{signal} {load:.3} against a target of {target:.3} asks for {} of {planned}", asked.desired);
    let mut proposal = Proposal::hold(rule, text);
    (proposal.signal, proposal.observed) = (Some(signal), Some(load));
    (proposal.value, proposal.threshold) = (Some(load), Some(target));
    proposal.wanted = Change::between(planned, asked.desired);
    proposal.change = Change::between(planned, limited);
    proposal.held_back.extend(held);
    proposal
}
