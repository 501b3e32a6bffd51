//! Shared by the policies with thresholds: one resource up or down when the load is outside a band (BRK-38, BRK-40).

use super::policy::{Guards, Proposal};
use super::{Change, HeldBack, LevelObservation, Rule, Settings};
use crate::load::{Evaluated, Evaluator, Side, Signal, SignalSettings};

/// A load and its source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) signal: Signal,
    pub(super) observed: f64,
    pub(super) load: f64,
}

/// The largest signal, as the policies with thresholds see it.
pub(super) fn observed(signals: &SignalSettings, seen: &LevelObservation<'_>) -> Option<(Signal, f64)> {
    signals.read(seen.samples, seen.serving).largest()
}

/// Takes the largest signal into an evaluator. `Err` is the proposal when there is no load yet.
pub(super) fn evaluate(
    signals: &SignalSettings,
    evaluator: &mut dyn Evaluator,
    seen: &LevelObservation<'_>,
) -> Result<Seen, Proposal> {
    let Some((signal, observed)) = observed(signals, seen) else {
        return Err(no_signal());
    };
    match evaluator.observe(observed) {
        Evaluated::Load(load) => Ok(Seen { signal, observed, load }),
        Evaluated::WarmingUp { load, remaining } => {
            let text = format!("{remaining} more observations are needed before the load counts");
            let mut proposal = Proposal::hold(Rule::WarmingUp, text);
            (proposal.signal, proposal.observed, proposal.value) = (Some(signal), Some(observed), Some(load));
            Err(proposal)
        }
    }
}

/// No load is known, so there is no change.
pub(super) fn no_signal() -> Proposal {
    Proposal::hold(Rule::NoSignal, "no signal is known of any resource")
}

/// A load against a band: one more, one fewer, or no change.
pub(super) fn propose(side: Side, seen: Seen, lower: f64, upper: f64, how: &str) -> Proposal {
    let (rule, threshold, change, words) = match side {
        Side::Above => (Rule::AboveUpper, upper, Change::Grow(1), "above the upper threshold"),
        Side::Below => (Rule::BelowLower, lower, Change::Shrink(1), "below the lower threshold"),
        Side::Within => (Rule::Within, upper, Change::Hold, "within the thresholds up to"),
    };
    let (observed, load, signal) = (seen.observed, seen.load, seen.signal);
    let text = format!("load {load:.3} is {words} {threshold:.3} ({how}, {signal} observed {observed:.3})");
    let mut proposal = Proposal::hold(rule, text).to(change);
    (proposal.signal, proposal.observed) = (Some(signal), Some(observed));
    (proposal.value, proposal.threshold) = (Some(load), Some(threshold));
    proposal
}

/// The same, when `counted` in a row is still too few.
pub(super) fn held_by_run(proposal: Proposal, run: u32, needed: u32) -> Proposal {
    let wanted = proposal.wanted;
    proposal.held(wanted, HeldBack::TooFewInARow { run, needed })
}

/// The study's: one action at a time, and a cool-down both ways.
pub(super) fn guards(settings: &Settings) -> Guards {
    Guards { one_at_a_time: true, before_growth: settings.cool_down, before_shrinking: settings.cool_down }
}
