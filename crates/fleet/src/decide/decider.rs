//! A policy, and the rules that apply to every policy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wait;
use super::policy::{Gap, Guards, Policy, Proposal};
use super::skew::Hottest;
use super::{
    Change, Decision, Explanation, HeldBack, LevelObservation, PolicyName, Rule, Settings, SettingsError, Sla,
};

/// Decides about one level. It assumes that its decisions are carried out; to only show decisions, use a decider of its
/// own.
pub struct Decider {
    pub(super) name: PolicyName,
    pub(super) policy: Box<dyn Policy>,
    guards: Guards,
    pub(super) settings: Settings,
    pub(super) last_action: Option<LastAction>,
    /// When it decided last.
    pub(super) observed: Option<Duration>,
    /// The gap before its last decision; 0 before the second decision.
    gap: Duration,
}

/// When the newest action was under way for the last time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LastAction {
    pub(super) ended: Duration,
    observations_since: u32,
}

impl std::fmt::Debug for Decider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decider")
            .field("name", &self.name)
            .field("last_action", &self.last_action)
            .finish_non_exhaustive()
    }
}

impl Decider {
    /// A decider with a named policy.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(name: PolicyName, settings: &Settings) -> Result<Self, SettingsError> {
        settings.validate()?;
        let policy = name.build(settings)?;
        let (guards, settings) = (policy.guards(), settings.clone());
        Ok(Self { name, policy, guards, settings, last_action: None, observed: None, gap: Duration::ZERO })
    }

    /// The name of the policy.
    pub fn name(&self) -> PolicyName {
        self.name
    }

    /// The hottest resource of a level, where the loads of two or more are known.
    pub fn hottest(&self, seen: &LevelObservation<'_>) -> Option<Hottest> {
        Hottest::of(&self.settings, seen.samples).filter(|hottest| hottest.mean.is_finite())
    }

    /// Notes that an action was in progress at `time`, such as one that ended just before a restart: cool-downs count
    /// from it. Actions in progress at an observation are noted automatically.
    pub fn note_action(&mut self, time: Duration) {
        self.last_action = Some(LastAction { ended: time, observations_since: 0 });
    }

    /// Takes the next observation in and decides.
    pub fn decide(&mut self, seen: &LevelObservation<'_>, sla: &Sla) -> Decision {
        self.note_time(seen);
        self.note_gap(seen.time);
        let proposal = self.policy.propose(seen);
        let proposal = match agreed(seen, sla) {
            Some(agreed) => agreed,
            None => self.guarded(proposal, seen),
        };
        let decision = self.within_the_agreement(proposal, seen, sla);
        if decision.change != Change::Hold {
            self.note_action(seen.time);
        }
        decision
    }

    fn note_time(&mut self, seen: &LevelObservation<'_>) {
        if seen.pending > 0 || seen.leaving > 0 {
            self.note_action(seen.time);
        } else if let Some(action) = &mut self.last_action {
            action.observations_since = action.observations_since.saturating_add(1);
        }
    }

    /// After a gap that the policy cannot bridge, it starts again.
    fn note_gap(&mut self, now: Duration) {
        let Some(then) = self.observed.replace(now) else { return };
        // A clock that was set back gives no length of the gap.
        let length = now.saturating_sub(then);
        let gap = Gap { length, interval: self.settings.interval, before: std::mem::replace(&mut self.gap, length) };
        let bridged = now >= then && self.policy.bridges(gap);
        if !bridged && let Ok(policy) = self.name.build(&self.settings) {
            self.policy = policy;
        }
    }

    fn guarded(&self, mut proposal: Proposal, seen: &LevelObservation<'_>) -> Proposal {
        let cause = match proposal.change {
            Change::Hold => None,
            Change::Grow(_) => self.growth_held_by(seen),
            Change::Shrink(_) => self.shrinking_held_by(seen),
        };
        if let Some(cause) = cause {
            proposal.change = Change::Hold;
            proposal.held_back.push(cause);
        }
        proposal
    }

    fn growth_held_by(&self, seen: &LevelObservation<'_>) -> Option<HeldBack> {
        let (pending, leaving) = (seen.pending, seen.leaving);
        if self.guards.one_at_a_time && (pending > 0 || leaving > 0) {
            return Some(HeldBack::Pending { pending, leaving });
        }
        self.cooling_down(self.guards.before_growth, seen.time)
    }

    /// No level shrinks while a resource starts, nor while a signal is missing: a resource that does not answer may be
    /// busy.
    fn shrinking_held_by(&self, seen: &LevelObservation<'_>) -> Option<HeldBack> {
        let (pending, leaving) = (seen.pending, seen.leaving);
        if pending > 0 || (self.guards.one_at_a_time && leaving > 0) {
            return Some(HeldBack::Pending { pending, leaving });
        }
        if let Some(signal) = self.settings.signals.read(seen.samples, seen.serving).missing() {
            return Some(HeldBack::MissingSignal { signal });
        }
        self.cooling_down(self.guards.before_shrinking, seen.time)
    }

    fn cooling_down(&self, wait: Wait, now: Duration) -> Option<HeldBack> {
        let action = self.last_action?;
        match wait {
            Wait::Observations(wait) => match wait.saturating_add(1).saturating_sub(action.observations_since) {
                0 => None,
                _ if wait == 0 => None,
                remaining => Some(HeldBack::CoolDownObservations { remaining }),
            },
            Wait::Time(wait) => match wait.saturating_sub(now.saturating_sub(action.ended)) {
                Duration::ZERO => None,
                remaining => Some(HeldBack::CoolDownTime { remaining }),
            },
        }
    }

    fn within_the_agreement(&self, proposal: Proposal, seen: &LevelObservation<'_>, sla: &Sla) -> Decision {
        let (change, limit) = sla.allow(seen, proposal.change);
        let mut held_back = proposal.held_back;
        held_back.extend(limit);
        let mut reason = proposal.text;
        if !held_back.is_empty() {
            let causes: Vec<String> = held_back.iter().map(ToString::to_string).collect();
            reason =
                format!("{reason}; {}: {}", if change == Change::Hold { "held" } else { "limited" }, causes.join(", "));
        }
        let explanation = Explanation {
            policy: self.name,
            rule: proposal.rule,
            signal: proposal.signal,
            observed: proposal.observed,
            value: proposal.value,
            threshold: proposal.threshold,
            wanted: proposal.wanted,
            held_back,
        };
        Decision { level: seen.level, change, reason, explanation }
    }
}

/// The change that the agreement itself requires: a level outside its limits is brought back at once, at any load.
fn agreed(seen: &LevelObservation<'_>, sla: &Sla) -> Option<Proposal> {
    let bounds = sla.bounds(seen.level);
    let planned = seen.planned();
    if planned < bounds.least() {
        let text = format!("{planned} are below the SLA's minimum of {}", bounds.least());
        return Some(Proposal::hold(Rule::SlaMinimum, text).to(Change::Grow(bounds.least() - planned)));
    }
    if planned > bounds.most() && seen.pending == 0 {
        let text = format!("{planned} are above the SLA's maximum of {}", bounds.most());
        return Some(Proposal::hold(Rule::SlaMaximum, text).to(Change::Shrink(planned - bounds.most())));
    }
    None
}
