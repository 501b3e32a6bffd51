//! `latency`: as few resources as keep messages from waiting longer than a target.

use std::time::Duration;

use serde_json::Value;

use super::policy::{Gap, Guards, Policy, Proposal};
use super::settings::ceil;
use super::steady::Steady;
use super::{Change, HeldBack, LevelObservation, Rule, Settings, threshold};
use crate::load::{DemandReading, Sample};

/// The utilisation that this policy sizes for: above it messages wait for each other even without a backlog.
const UPPER: f64 = 0.85;

/// It grows when messages have waited for longer than the target at two observations in a row, to what works off the
/// backlog in good time, or when the demand is above 85 % for longer than a peak. It shrinks to 85 % when no message
/// has waited for half of the target for the stabilisation time.
pub(super) struct Latency {
    settings: Settings,
    reactive: Steady,
    /// Since when messages wait for longer than the target.
    late_since: Option<Duration>,
    /// Since when no message waits for longer than half of the target.
    calm_since: Option<Duration>,
    /// Since when the demand is above the utilisation that is sized for.
    tight_since: Option<Duration>,
}

impl Latency {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            reactive: Steady::new(settings),
            settings: settings.clone(),
            late_since: None,
            calm_since: None,
            tight_since: None,
        }
    }

    fn note(&mut self, seen: &LevelObservation<'_>, waits: Duration, reading: &DemandReading) {
        let since = |holds: bool, since: Option<Duration>| holds.then(|| since.unwrap_or(seen.time));
        self.late_since = since(waits > self.settings.latency_target, self.late_since);
        self.calm_since = since(waits <= self.settings.latency_target / 2, self.calm_since);
        self.tight_since = since(reading.resources > UPPER * f64::from(seen.planned()), self.tight_since);
    }

    fn grow(&self, seen: &LevelObservation<'_>, waits: Duration, reading: &DemandReading) -> Option<Proposal> {
        let planned = seen.planned();
        let off = self.reactive.to_work_off(reading.resources, reading.waiting.unwrap_or(0.0));
        let needed = off.max(ceil(reading.resources / UPPER)).max(seen.serving.saturating_add(1));
        let wanted = Change::between(planned, needed.max(planned));
        let (now, target) = (waits.as_secs_f64(), self.settings.latency_target.as_secs_f64());
        let lasted = |since: Option<Duration>| since.map(|since| seen.time.saturating_sub(since));
        let longer = self.reactive.longer_than_a_peak();
        let demand = reading.resources;
        if let Some(lasted) = lasted(self.late_since) {
            let text = format!("messages wait {now:.1} s, the target is {target:.1} s: asks for {needed}");
            let proposal = self.proposal(Rule::Latency, waits, reading, text);
            let needed = self.settings.interval;
            return Some(if lasted < self.settings.least_measured(needed) {
                proposal.held(wanted, HeldBack::MayBePeak { lasted, needed })
            } else {
                proposal.to(wanted)
            });
        }
        let lasted = lasted(self.tight_since).filter(|lasted| *lasted >= self.settings.least_measured(longer))?;
        let text = format!("a demand of {demand:.2} resources for {} s asks for {needed}", lasted.as_secs());
        Some(self.proposal(Rule::SustainedDemand, waits, reading, text).to(wanted))
    }

    fn shrink(&self, seen: &LevelObservation<'_>, waits: Duration, reading: &DemandReading) -> Option<Proposal> {
        let high = self.reactive.high().max(reading.resources);
        let keep = ceil(high / UPPER).max(1);
        if keep >= seen.serving {
            return None;
        }
        let window = self.settings.shrink_stabilisation;
        let text = format!("messages wait {:.1} s; {keep} of {} are enough", waits.as_secs_f64(), seen.serving);
        let proposal = self.proposal(Rule::SpareCapacity, waits, reading, text);
        let wanted = Change::Shrink(seen.serving - keep);
        let calm = self.calm_since.map_or(Duration::ZERO, |since| seen.time.saturating_sub(since));
        Some(if calm < window {
            proposal.held(wanted, HeldBack::Stabilisation { recommended: seen.serving, window })
        } else {
            proposal.to(wanted)
        })
    }

    /// The load is the wait as a fraction of the target.
    fn proposal(&self, rule: Rule, waits: Duration, reading: &DemandReading, text: String) -> Proposal {
        let mut proposal = Proposal::hold(rule, text);
        proposal.signal = Some(reading.signal);
        proposal.observed = Some(reading.load);
        proposal.value = Some(waits.as_secs_f64() / self.settings.latency_target.as_secs_f64());
        proposal.threshold = Some(1.0);
        proposal
    }
}

/// How long a message waits at the resource where it waits longest: one that handles none while messages wait for it
/// keeps them for as long as all of its work takes.
fn longest_wait(samples: &[Sample], reading: &DemandReading, serving: u32) -> Duration {
    let measured = samples.iter().filter_map(|sample| sample.waiting).max().unwrap_or_default();
    let stuck =
        samples.iter().any(|sample| sample.waiting.is_none() && sample.queued.is_some_and(|queued| queued > 0.0));
    let work = if stuck { reading.waiting.unwrap_or(0.0) / f64::from(serving.max(1)) } else { 0.0 };
    measured.max(Duration::try_from_secs_f64(work).unwrap_or_default())
}

impl Policy for Latency {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let Some(reading) = self.reactive.take_in(seen) else {
            (self.late_since, self.calm_since, self.tight_since) = (None, None, None);
            return threshold::no_signal();
        };
        let waits = longest_wait(seen.samples, &reading, seen.serving);
        self.note(seen, waits, &reading);
        if let Some(proposal) = self.grow(seen, waits, &reading) {
            return proposal;
        }
        self.shrink(seen, waits, &reading).unwrap_or_else(|| {
            let text = format!("messages wait {:.1} s, and {} are planned", waits.as_secs_f64(), seen.planned());
            self.proposal(Rule::Within, waits, &reading, text)
        })
    }

    fn guards(&self) -> Guards {
        self.reactive.guards()
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value((self.reactive.memory()?, self.late_since, self.calm_since, self.tight_since))
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        let (reactive, late, calm, tight) = serde_json::from_value(memory)?;
        self.reactive.recall(reactive)?;
        (self.late_since, self.calm_since, self.tight_since) = (late, calm, tight);
        Ok(())
    }

    fn bridges(&mut self, gap: Gap) -> bool {
        self.reactive.bridges(gap)
    }
}
