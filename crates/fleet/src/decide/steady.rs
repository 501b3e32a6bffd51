//! `default`: ours. It acts on the demand, not on CPU; it ignores peaks; and it grows by as much as needed.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Wait;
use super::peaks::Peaks;
use super::policy::{Gap, Guards, Policy, Proposal};
use super::settings::ceil;
use super::skew::{Hottest, Remedy, Skew};
use super::{Change, HeldBack, Level, LevelObservation, Rule, Settings, threshold};
use crate::load::{Demand, DemandReading};

/// A backlog that takes at most this long does not prevent shrinking.
const WAITING_MAX_S: f64 = 5.0;
/// A rise of the demand within three observations, as a fraction of the serving resources, that prevents shrinking.
const RISE_MIN: f64 = 0.05;
/// A trend raises the estimated demand to at most this multiple of the present one.
const TREND_MAX: f64 = 2.0;
/// The largest target utilisation. A full signal is seldom measured as exactly full, so some distance is needed to
/// recognise it.
const UPPER_MAX: f64 = 0.92;
/// The least spare capacity that counts for working off a backlog, as a fraction of the planned resources.
const SPARE_MIN: f64 = 0.01;
/// The busy part of the serving resources from which the demand may be higher than it shows, since publishers wait for
/// acknowledgements.
const FULL: f64 = 0.95;
/// Work that keeps all planned resources busy for this multiple of a start and a peak is no peak: a new resource finds
/// some.
const OUTLASTS: f64 = 2.0;
/// Number of windows with a remembered crest.
const CRESTS_WITHIN: u32 = 12;

/// It grows in three cases. Every observation for longer than the longest peak exceeds the upper threshold and its
/// tolerance: then to the median and the trend of these observations. Or the demand has risen for even longer and will
/// exceed it by the time a resource serves. Or the backlog would take too long. It shrinks to the highest demand of the last minutes without a single peak.
pub(super) struct Steady {
    settings: Settings,
    /// The utilisation that is sized for.
    upper: f64,
    demand: Demand,
    history: VecDeque<Point>,
    backlog_since: Option<Duration>,
    skew: Skew,
    peaks: Peaks,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Point {
    time: Duration,
    demand: f64,
    #[serde(default)]
    serving: u32,
    /// All serving resources were busy. The first observation of a new resource counts as full if the one before was.
    #[serde(default)]
    full: bool,
}

/// The memory, as a list. One of an earlier version ends before the peaks.
#[derive(Serialize, Deserialize)]
struct SteadyMemory(Demand, VecDeque<Point>, Option<Duration>, Skew, #[serde(default)] Peaks);

impl Steady {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            demand: Demand::new(settings.signals),
            upper: settings.thresholds.upper().min(UPPER_MAX),
            settings: settings.clone(),
            history: VecDeque::new(),
            backlog_since: None,
            skew: Skew::default(),
            peaks: Peaks::default(),
        }
    }

    /// For how long a demand must be observed so that it is not a peak: one that begins just before an observation is
    /// still part of one an interval after its end.
    pub(super) fn longer_than_a_peak(&self) -> Duration {
        self.settings.peak + self.settings.interval
    }

    /// Whether something has been observed for longer than a peak.
    fn is_no_peak(&self, lasted: Duration) -> bool {
        lasted >= self.settings.least_measured(self.longer_than_a_peak())
    }

    /// Whether two observations show a demand, and so much waits that a new resource still finds work behind a peak, even
    /// if nothing more arrives.
    fn outlasts_a_peak(&self, lasted: Duration, reading: &DemandReading, seen: &LevelObservation<'_>) -> bool {
        let seconds = reading.waiting.unwrap_or(0.0) / f64::from(seen.planned().max(1));
        let served = self.lead_time(seen) + self.longer_than_a_peak().as_secs_f64();
        lasted >= self.settings.least_measured(self.settings.interval) && seconds > OUTLASTS * served
    }

    /// The utilisation above which there is too little: above the upper threshold by the tolerance, yet short of full.
    pub(super) fn trip(&self) -> f64 {
        (self.upper * (1.0 + self.settings.tolerance)).min(f64::midpoint(self.upper, 1.0))
    }

    /// Resources for a demand, at the utilisation that is sized for.
    pub(super) fn resources_for(&self, demand: f64) -> u32 {
        ceil(demand / self.upper)
    }

    /// Resources that serve a demand and clear the backlog in good time: at most twice the resources that serve the
    /// demand and clear the backlog at all.
    pub(super) fn to_work_off(&self, demand: f64, waiting: f64) -> u32 {
        let soon = ceil(demand + waiting / self.settings.backlog_target.as_secs_f64());
        let at_all = ceil(demand + waiting / self.settings.backlog_limit.as_secs_f64());
        soon.min(self.resources_for(demand).max(at_all).max(1).saturating_mul(2))
    }

    fn remember(&mut self, time: Duration, demand: f64, serving: u32) {
        let window = self.settings.shrink_stabilisation.max(self.longer_than_a_peak());
        let longest = window.saturating_mul(CRESTS_WITHIN);
        while self.history.front().is_some_and(|point| time.saturating_sub(point.time) > longest) {
            self.history.pop_front();
        }
        if self.history.len() > Settings::REMEMBERED_MAX as usize {
            self.history.pop_front();
        }
        let had_fewer = self.history.back().is_some_and(|before| before.full && before.serving < serving);
        let full = had_fewer || demand >= FULL.max(self.trip()) * f64::from(serving);
        self.history.push_back(Point { time, demand, serving, full });
    }

    /// The newest points that all ask for more than `limit`, oldest first.
    fn run_above(&self, limit: f64) -> Vec<Point> {
        let newest_first = self.history.iter().rev().take_while(|point| point.demand > limit);
        let mut run: Vec<Point> = newest_first.copied().collect();
        run.reverse();
        run
    }

    /// The newest points of the window that shrinking looks at, oldest first.
    fn window(&self) -> impl Iterator<Item = &Point> {
        let newest = self.history.back().map_or(Duration::ZERO, |point| point.time);
        let window = self.settings.shrink_stabilisation;
        self.history.iter().filter(move |point| newest.saturating_sub(point.time) <= window)
    }

    /// No rise is taken to go beyond the crest of an earlier one while the demand is below it: what rises again and
    /// again ends where it has ended before.
    fn no_further_than_before(&self, expected: f64) -> f64 {
        let mut newest_first = self.history.iter().rev().map(|point| point.demand);
        let Some(mut foot) = newest_first.next() else { return expected };
        let now = foot;
        let mut crest = 0.0_f64;
        for demand in newest_first {
            if crest == 0.0 && demand <= foot {
                foot = demand;
            } else {
                crest = crest.max(demand);
            }
        }
        if now <= crest * (1.0 + self.settings.tolerance) { expected.min(crest.max(now)) } else { expected }
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
        let ahead = self.no_further_than_before(ahead.min(middle * TREND_MAX)).max(middle);
        let for_demand = self.resources_for(ahead);
        let until_then = (middle - f64::from(seen.serving)).max(0.0) * lead_time;
        let waiting = reading.waiting.unwrap_or(0.0) + until_then;
        for_demand.max(self.to_work_off(middle, waiting))
    }

    /// Since when each observation asks for more than `limit`, or shows that all resources of its time were busy. Only
    /// while all are still busy and none starts: else the demand itself shows.
    fn busy_since(&self, limit: f64, seen: &LevelObservation<'_>) -> Option<Duration> {
        let is_busy = seen.pending == 0 && self.history.back().is_some_and(|point| point.full);
        let asks = |point: &&Point| point.demand > limit || point.full;
        let first = self.history.iter().rev().take_while(asks).last().filter(|_| is_busy)?;
        Some(first.time)
    }

    fn grow(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let limit = self.trip() * f64::from(planned);
        let run = self.run_above(limit);
        let (since, longer) = (run.first()?.time, self.longer_than_a_peak());
        let lasted = seen.time.saturating_sub(since);
        let busy = self.busy_since(limit, seen).map(|since| seen.time.saturating_sub(since));
        // The run may be a peak on top of the work that has kept all busy for longer: only that work counts.
        let (lasted, needed) = match busy {
            Some(busy) if !self.is_no_peak(lasted) && self.is_no_peak(busy) => {
                (busy, self.resources_for(f64::from(seen.serving)))
            }
            _ => (lasted, self.needed(&run, reading, seen)),
        };
        let needed = needed.max(planned.saturating_add(1));
        let text = format!("a demand of {:.2} resources asks for {needed}, {planned} are planned", reading.resources);
        let proposal = self.proposal(Rule::SustainedDemand, reading, planned, text);
        let wanted = Change::between(planned, needed);
        if !self.is_no_peak(lasted) && !self.outlasts_a_peak(lasted, reading, seen) {
            return Some(proposal.held(wanted, HeldBack::MayBePeak { lasted, needed: longer }));
        }
        Some(proposal.to(wanted))
    }

    /// A rise in each observation for longer than a peak can rise, even where it begins and ends within an interval. It
    /// is extrapolated from its start with the smallest of its steps, so a peak on top of it adds nothing.
    fn rise(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let span = self.settings.least_measured(self.longer_than_a_peak() + self.settings.interval);
        let back = self.history.iter().rev().position(|point| seen.time.saturating_sub(point.time) >= span)?;
        let points: Vec<Point> = self.history.iter().rev().take(back + 1).rev().copied().collect();
        let slope = steady_rise(&points);
        let first = points.first()?;
        let risen = seen.time.saturating_sub(first.time).as_secs_f64();
        let ahead = self.lead_time(seen) + self.settings.interval.as_secs_f64();
        let expected = self.no_further_than_before(first.demand + slope * (risen + ahead));
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

    /// Peaks that return in a rhythm find resources that serve, if they would keep messages waiting.
    fn returning(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let lead_time = self.lead_time(seen);
        let peak = self.peaks.expected(seen.time, lead_time, &self.settings)?;
        let may_wait = peak.in_s >= lead_time + self.settings.interval.as_secs_f64();
        if may_wait || peak.demand <= f64::from(planned) {
            return None;
        }
        let needed = ceil(peak.demand / UPPER_MAX).max(planned.saturating_add(1));
        let text = format!(
            "a peak of {:.2} resources every {:.0} s is expected after {:.0} s: asks for {needed}, {planned} are planned",
            peak.demand, peak.period_s, peak.in_s
        );
        Some(self.proposal(Rule::ReturningPeak, reading, planned, text).to(Change::between(planned, needed)))
    }

    /// Resources that stay for peaks in a rhythm: between them where pauses are short, else while one is about to come.
    fn kept_for_peaks(&self, seen: &LevelObservation<'_>) -> Option<(u32, f64)> {
        let peak = self.peaks.expected(seen.time, 0.0, &self.settings)?;
        let is_short = peak.period_s <= self.settings.shrink_stabilisation.as_secs_f64() * 2.0;
        let soon = self.lead_time(seen) + self.settings.interval.as_secs_f64() * 2.0;
        let lasting = (self.longer_than_a_peak() * 2).as_secs_f64();
        let is_near = peak.in_s < soon || peak.period_s - peak.in_s < lasting;
        (is_short || is_near).then(|| (ceil(peak.demand / UPPER_MAX), peak.period_s))
    }

    /// The spare capacity beside the usual demand works off the backlog. If that takes too long for longer than a peak
    /// lasts, there are too few resources, even if each rise on its own is a peak.
    fn work_off(&mut self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let capacity = f64::from(planned);
        let usual = median(self.window().map(|point| point.demand).collect());
        let waiting = reading.waiting.unwrap_or(0.0);
        let seconds = waiting / (capacity - usual).max(SPARE_MIN * capacity);
        if seconds <= self.settings.backlog_limit.as_secs_f64() {
            self.backlog_since = None;
            return None;
        }
        let since = *self.backlog_since.get_or_insert(seen.time);
        let lasted = seen.time.saturating_sub(since);
        let off = self.to_work_off(usual, waiting);
        let wanted = Change::between(planned, off.max(self.resources_for(usual)).max(planned.saturating_add(1)));
        let text =
            format!("the backlog would take {planned} resources {seconds:.0} s beside a usual demand of {usual:.2}");
        let proposal = self.proposal(Rule::Backlog, reading, planned, text);
        let needed = self.longer_than_a_peak();
        if !self.is_no_peak(lasted) {
            return Some(proposal.held(wanted, HeldBack::MayBePeak { lasted, needed }));
        }
        Some(proposal.to(wanted))
    }

    /// All spare resources, once the whole window is known.
    fn shrink(&self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let serving = seen.serving;
        let high = self.high().max(reading.resources);
        let keep = self.resources_for(high).max(1);
        if keep >= serving {
            return None;
        }
        let wanted = Change::Shrink(serving - keep);
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
        if let Some(hot) = Hottest::of(&self.settings, seen.samples).filter(|hottest| hottest.is_skewed(self.trip())) {
            return Some(proposal.held(wanted, HeldBack::Full { load: hot.load }));
        }
        if self.rising(serving) {
            return Some(proposal.held(wanted, HeldBack::Rising));
        }
        if let Some((keep, period)) = self.kept_for_peaks(seen).filter(|(peaks, _)| *peaks > keep) {
            let mut proposal = proposal.held(wanted, HeldBack::ReturningPeak { keep, period });
            if keep < serving {
                proposal.change = Change::Shrink(serving - keep);
            }
            return Some(proposal);
        }
        Some(proposal.to(wanted))
    }

    /// The highest demand of the window, without as many observations as a single peak is part of.
    pub(super) fn high(&self) -> f64 {
        let mut demands: Vec<f64> = self.window().map(|point| point.demand).collect();
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

    /// One resource is full and keeps messages waiting although the others have room: one more may take some of its
    /// load.
    fn spread(&mut self, reading: &DemandReading, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let hottest = Hottest::of(&self.settings, seen.samples);
        let longer = self.longer_than_a_peak();
        let (hottest, remedy) = self.skew.note(hottest, self.trip(), self.settings.least_measured(longer), seen)?;
        let planned = seen.planned();
        let (load, mean) = (hottest.load * 100.0, hottest.mean * 100.0);
        let text =
            format!("messages wait for the hottest of {planned}, which is at {load:.0} %; the mean is {mean:.0} %");
        let mut proposal = self.proposal(Rule::Skew, reading, planned, text);
        proposal.value = Some(hottest.load);
        let wanted = Change::Grow(1);
        Some(match remedy {
            Remedy::Grow => proposal.to(wanted),
            Remedy::Wait(lasted) => proposal.held(wanted, HeldBack::MayBePeak { lasted, needed: longer }),
            Remedy::Useless => proposal.held(wanted, HeldBack::Skew),
        })
    }

    /// Takes an observation in; `None` when nothing is known of any resource.
    pub(super) fn take_in(&mut self, seen: &LevelObservation<'_>) -> Option<DemandReading> {
        let Some(reading) = observe(&mut self.demand, &self.settings, seen) else {
            // Observations before a gap say nothing about the gap.
            self.history.clear();
            self.backlog_since = None;
            self.peaks = Peaks::default();
            return None;
        };
        let usual = median(self.window().map(|point| point.demand).collect());
        let limit = self.trip() * f64::from(self.resources_for(usual).max(1));
        self.peaks.note(seen.time, reading.resources, (usual, limit), &self.settings);
        self.remember(seen.time, reading.resources, seen.serving);
        Some(reading)
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
        let Some(reading) = self.take_in(seen) else {
            return threshold::no_signal();
        };
        let work_off = self.work_off(&reading, seen);
        let grow = self.grow(&reading, seen);
        let rise = self.rise(&reading, seen);
        let returning = self.returning(&reading, seen);
        let spread = self.spread(&reading, seen);
        let mut causes: Vec<Proposal> = [spread, grow, rise, returning, work_off].into_iter().flatten().collect();
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
        serde_json::to_value((&self.demand, &self.history, self.backlog_since, self.skew, &self.peaks))
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        let SteadyMemory(demand, history, backlog_since, skew, peaks) = serde_json::from_value(memory)?;
        (self.demand, self.history) = (self.demand.recalling(&demand), history);
        (self.backlog_since, self.skew, self.peaks) = (backlog_since, skew, peaks);
        self.history.truncate(Settings::REMEMBERED_MAX as usize);
        Ok(())
    }

    fn bridges(&mut self, gap: Gap) -> bool {
        // Two peaks on either side of a longer gap would look like one load.
        gap.length <= self.longer_than_a_peak()
    }
}

/// The demand of a level. Drops of brokers are messages that the fleet did not take. Drops of orchestrators include
/// messages lost by slow subscribers, and count if drops are a signal.
pub(super) fn observe(demand: &mut Demand, settings: &Settings, seen: &LevelObservation<'_>) -> Option<DemandReading> {
    let lossy = seen.level == Level::Broker || settings.signals.drops.is_some();
    demand.observe(seen.time, seen.serving, seen.samples, lossy)
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
