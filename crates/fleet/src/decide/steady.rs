//! `default`: ours. It acts on the demand, not on CPU; it ignores peaks; and it grows by as much as needed.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{Gap, Guards, Policy, Proposal, Wait};
use super::settings::ceil;
use super::{Change, HeldBack, LevelObservation, Rule, Settings, threshold};
use crate::load::{Demand, DemandReading};

/// A backlog that takes at most this long does not prevent shrinking.
const WAITING_MAX_S: f64 = 5.0;
/// A rise of the demand within three observations, as a fraction of the serving resources, that prevents shrinking.
const RISE_MIN: f64 = 0.05;
/// No trend makes the demand look more than so many times as large as it is.
const TREND_MAX: f64 = 2.0;
/// The largest target utilisation. A full signal is seldom measured as exactly full, so some distance is needed to
/// recognise it.
const UPPER_MAX: f64 = 0.92;
/// The least spare capacity that counts for working off a backlog, as a fraction of the planned resources.
const SPARE_MIN: f64 = 0.01;

/// It grows in three cases. Every observation for longer than the longest peak exceeds the upper threshold and its
/// tolerance: then to the median and the trend of these observations. Or the demand has risen for even longer and will
/// exceed it by the time a resource serves. Or the backlog would take too long. It shrinks by half of the spare
/// resources at a time, down to the highest demand of the last minutes without a single peak.
pub(super) struct Steady {
    settings: Settings,
    /// The utilisation that is sized for.
    upper: f64,
    demand: Demand,
    history: VecDeque<Point>,
    backlog_since: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Point {
    time: Duration,
    demand: f64,
}

impl Steady {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            demand: Demand::new(settings.signals),
            upper: settings.thresholds.upper().min(UPPER_MAX),
            settings: settings.clone(),
            history: VecDeque::new(),
            backlog_since: None,
        }
    }

    /// For how long a demand must be observed so that it is not a peak: one that begins just before an observation is
    /// still part of one an interval after its end.
    fn longer_than_a_peak(&self) -> Duration {
        self.settings.peak + self.settings.interval
    }

    /// The utilisation above which there is too little: above the upper threshold by the tolerance, yet short of full.
    fn trip(&self) -> f64 {
        (self.upper * (1.0 + self.settings.tolerance)).min(f64::midpoint(self.upper, 1.0))
    }

    /// Resources for a demand, at the utilisation that is sized for.
    fn resources_for(&self, demand: f64) -> u32 {
        ceil(demand / self.upper)
    }

    fn remember(&mut self, time: Duration, demand: f64) {
        let longest = self.settings.shrink_stabilisation.max(self.longer_than_a_peak());
        while self.history.front().is_some_and(|point| time.saturating_sub(point.time) > longest) {
            self.history.pop_front();
        }
        if self.history.len() > Settings::REMEMBERED_MAX as usize {
            self.history.pop_front();
        }
        self.history.push_back(Point { time, demand });
    }

    /// The newest points that all ask for more than `limit`, oldest first.
    fn run_above(&self, limit: f64) -> Vec<Point> {
        let newest_first = self.history.iter().rev().take_while(|point| point.demand > limit);
        let mut run: Vec<Point> = newest_first.copied().collect();
        run.reverse();
        run
    }

    fn lead_time(&self, seen: &LevelObservation<'_>) -> f64 {
        seen.lead_time.unwrap_or(self.settings.lead_time).as_secs_f64()
    }

    /// Resources for a demand that `run` shows, by when they serve.
    fn needed(&self, run: &[Point], reading: &DemandReading, seen: &LevelObservation<'_>) -> u32 {
        // The first observation of a rise is partly of the time before it.
        let settled = if run.len() > 1 { &run[1..] } else { run };
        let demands: Vec<f64> = settled.iter().map(|point| point.demand).collect();
        let middle = median(demands);
        let lead_time = self.lead_time(seen);
        let span = match (settled.first(), settled.last()) {
            (Some(first), Some(last)) => last.time.saturating_sub(first.time).as_secs_f64(),
            _ => 0.0,
        };
        let ahead = middle + steady_rise(settled) * (lead_time + span / 2.0);
        let for_demand = self.resources_for(ahead.min(middle * TREND_MAX));
        let until_then = (middle - f64::from(seen.serving)).max(0.0) * lead_time;
        let waiting = reading.waiting.unwrap_or(0.0) + until_then;
        for_demand.max(ceil(middle + waiting / self.settings.backlog_target.as_secs_f64()))
    }

    fn grow(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let trip = self.trip();
        let run = self.run_above(trip * f64::from(planned));
        let oldest = run.first()?;
        let lasted = seen.time.saturating_sub(oldest.time);
        let needed = self.needed(&run, reading, seen).max(planned.saturating_add(1));
        let text = format!("a demand of {:.2} resources asks for {needed}, {planned} are planned", reading.resources);
        let proposal = self.proposal(Rule::SustainedDemand, reading, planned, text);
        let wanted = Change::between(planned, needed);
        let longer = self.longer_than_a_peak();
        if lasted < longer {
            return Some(proposal.held(wanted, HeldBack::MayBePeak { lasted, needed: longer }));
        }
        Some(proposal.to(wanted))
    }

    /// A rise in each observation for longer than a peak can rise, even where it begins and ends within an interval. It
    /// is extrapolated from its start with the smallest of its steps, so a peak on top of it adds nothing.
    fn rise(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let span = self.longer_than_a_peak() + self.settings.interval;
        let back = self.history.iter().rev().position(|point| seen.time.saturating_sub(point.time) >= span)?;
        let points: Vec<Point> = self.history.iter().rev().take(back + 1).rev().copied().collect();
        let slope = steady_rise(&points);
        let first = points.first()?;
        let risen = seen.time.saturating_sub(first.time).as_secs_f64();
        let ahead = self.lead_time(seen) + self.settings.interval.as_secs_f64();
        let expected = first.demand + slope * (risen + ahead);
        if slope <= 0.0 || expected <= self.trip() * f64::from(planned) {
            return None;
        }
        let needed = self.resources_for(expected).max(planned.saturating_add(1));
        let text = format!(
            "a demand of {:.2} resources has risen for {risen:.0} s and will be {expected:.2} in {ahead:.0} s: asks for {needed}",
            reading.resources
        );
        Some(self.proposal(Rule::SteadyRise, reading, planned, text).to(Change::between(planned, needed)))
    }

    /// The spare capacity beside the usual demand works off the backlog. If that takes too long for longer than a peak
    /// lasts, there are too few resources, even if each rise on its own is a peak.
    fn work_off(&mut self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let capacity = f64::from(planned);
        let usual = median(self.history.iter().map(|point| point.demand).collect());
        let waiting = reading.waiting.unwrap_or(0.0);
        let seconds = waiting / (capacity - usual).max(SPARE_MIN * capacity);
        if seconds <= self.settings.backlog_limit.as_secs_f64() {
            self.backlog_since = None;
            return None;
        }
        let since = *self.backlog_since.get_or_insert(seen.time);
        let lasted = seen.time.saturating_sub(since);
        let off = ceil(usual + waiting / self.settings.backlog_target.as_secs_f64());
        let wanted = Change::between(planned, off.max(self.resources_for(usual)).max(planned.saturating_add(1)));
        let text =
            format!("the backlog would take {planned} resources {seconds:.0} s beside a usual demand of {usual:.2}");
        let proposal = self.proposal(Rule::Backlog, reading, planned, text);
        let needed = self.longer_than_a_peak();
        if lasted < needed {
            return Some(proposal.held(wanted, HeldBack::MayBePeak { lasted, needed }));
        }
        Some(proposal.to(wanted))
    }

    /// Half of the spare resources, rounded up, once the whole window is known.
    fn shrink(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let serving = seen.serving;
        let high = self.high().max(reading.resources);
        let keep = self.resources_for(high).max(1);
        if keep >= serving {
            return None;
        }
        let wanted = Change::Shrink((serving - keep).div_ceil(2));
        let window = self.settings.shrink_stabilisation;
        let text =
            format!("the highest demand of {} s, {high:.2} resources, asks for {keep} of {serving}", window.as_secs());
        let proposal = self.proposal(Rule::SpareCapacity, reading, serving, text);
        let known = self.history.front().map_or(Duration::ZERO, |oldest| seen.time.saturating_sub(oldest.time));
        if known + self.settings.interval <= window {
            return Some(proposal.held(wanted, HeldBack::Stabilisation { recommended: serving, window }));
        }
        let seconds = reading.waiting.unwrap_or(0.0) / f64::from(serving);
        if seconds > WAITING_MAX_S {
            return Some(proposal.held(wanted, HeldBack::Backlog { seconds }));
        }
        if self.rising(serving) {
            return Some(proposal.held(wanted, HeldBack::Rising));
        }
        Some(proposal.to(wanted))
    }

    /// The highest demand of the window, without as many observations as a single peak is part of.
    fn high(&self) -> f64 {
        let mut demands: Vec<f64> = self.history.iter().map(|point| point.demand).collect();
        demands.sort_by(f64::total_cmp);
        let peak = ceil(self.settings.peak.as_secs_f64() / self.settings.interval.as_secs_f64()) as usize + 1;
        let aside = peak.min(demands.len() / 4);
        demands.iter().rev().nth(aside).copied().unwrap_or(0.0)
    }

    fn rising(&self, serving: u32) -> bool {
        let newest: Vec<Point> = self.history.iter().rev().take(3).rev().copied().collect();
        let [first, _, last] = newest.as_slice() else {
            return false;
        };
        steady_rise(&newest) > 0.0 && last.demand - first.demand > RISE_MIN * f64::from(serving)
    }

    fn within(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Proposal {
        let planned = seen.planned();
        let text = format!("a demand of {:.2} resources suits {planned}", reading.resources);
        self.proposal(Rule::Within, reading, planned, text)
    }

    fn proposal(&self, rule: Rule, reading: &DemandReading, resources: u32, text: String) -> Proposal {
        let utilisation = reading.resources / f64::from(resources.max(1));
        let mut proposal = Proposal::hold(rule, text);
        proposal.signal = Some(reading.signal);
        proposal.observed = Some(reading.load);
        proposal.value = Some(utilisation);
        proposal.threshold = Some(if rule == Rule::SpareCapacity { self.upper } else { self.trip() });
        proposal
    }
}

impl Policy for Steady {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let Some(reading) = self.demand.observe(seen.time, seen.serving, seen.samples) else {
            // Observations before a gap say nothing about the gap.
            self.history.clear();
            self.backlog_since = None;
            return threshold::no_signal();
        };
        self.remember(seen.time, reading.resources);
        let work_off = self.work_off(&reading, seen);
        let grow = self.grow(&reading, seen);
        let rise = self.rise(&reading, seen);
        let mut causes: Vec<Proposal> = [grow, rise, work_off].into_iter().flatten().collect();
        // Allowed changes come before reduced ones, and then the largest wins.
        causes.sort_by_key(|cause| (cause.change.count(), cause.wanted.count()));
        match causes.pop() {
            Some(cause) => cause,
            None => self.shrink(&reading, seen).unwrap_or_else(|| self.within(&reading, seen)),
        }
    }

    fn guards(&self) -> Guards {
        Guards {
            one_at_a_time: false,
            before_growth: Wait::Observations(0),
            before_shrinking: Wait::Time(self.settings.shrink_pause),
        }
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value((&self.demand, &self.history, self.backlog_since))
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        let (demand, history, backlog_since): (Demand, VecDeque<Point>, _) = serde_json::from_value(memory)?;
        (self.demand, self.history, self.backlog_since) = (self.demand.recalling(&demand), history, backlog_since);
        self.history.truncate(Settings::REMEMBERED_MAX as usize);
        Ok(())
    }

    fn bridges(&mut self, gap: Gap) -> bool {
        // Two peaks on either side of a longer gap would look like one load.
        gap.length <= self.longer_than_a_peak()
    }
}

/// The middle value, or the mean of the two middle ones; 0 for none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle)) {
        (1, Some(value)) => *value,
        (_, Some(value)) => f64::midpoint(values[middle - 1], *value),
        (_, None) => 0.0,
    }
}

/// The smallest rise per second between neighbours; 0 unless there are three points or more and each is above the one
/// before.
fn steady_rise(points: &[Point]) -> f64 {
    if points.len() < 3 {
        return 0.0;
    }
    let rises = points.windows(2).map(|pair| {
        let seconds = pair[1].time.saturating_sub(pair[0].time).as_secs_f64();
        if seconds > 0.0 { (pair[1].demand - pair[0].demand) / seconds } else { 0.0 }
    });
    rises.fold(f64::INFINITY, f64::min).max(0.0)
}

#[cfg(test)]
mod tests;
