//! The progress of a step of an action.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::{Action, Kind, Step};
use super::book::Phase;
use super::members::{handed_over, missing_membership};
use super::named::NamedEndpoints;
use super::progress_state::Progress;
use super::settings::OnDrainLimit;
use super::sight::{BrokerState, Sight, said};
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

/// Refusals in a row after which an action fails.
const MAX_REFUSALS: u32 = 3;

/// How often the step under way has asked and was refused, by level.
#[derive(Debug, Default)]
pub(super) struct RefusedSteps(BTreeMap<Level, u32>);

impl RefusedSteps {
    pub(super) fn count(&mut self, level: Level) {
        *self.0.entry(level).or_default() += 1;
    }

    /// Begins at 0 again: another step is under way.
    pub(super) fn reset(&mut self, level: Level) {
        self.0.remove(&level);
    }

    fn of(&self, level: Level) -> u32 {
        self.0.get(&level).copied().unwrap_or_default()
    }
}

/// Compares steps with the inputs of a look. It changes nothing.
#[derive(Clone, Copy)]
pub(super) struct StepCheck<'a> {
    pub(super) fleet: FleetSeen<'a>,
    pub(super) endpoints: &'a NamedEndpoints,
    pub(super) refused: &'a RefusedSteps,
}

impl StepCheck<'_> {
    pub(super) fn progress(&self, action: &Action, step: Step) -> Progress {
        if self.fleet.sight.resources.is_none() {
            return Progress::Wait("the provider does not answer".to_owned());
        }
        let waited = Duration::from_millis(self.fleet.now.since(action.step_started()));
        if let Some(why) = self.fleet.is_no_longer_last(action, step) {
            return Progress::Fail(why);
        }
        match step {
            Step::Discard => gone(action.old.iter(), self.fleet.sight),
            Step::Release if action.kind == Kind::Evacuate => left(action, self.fleet.sight),
            Step::SetAside => self.refused(action).unwrap_or_else(|| gone(action.targets.iter(), self.fleet.sight)),
            Step::Release => gone(action.targets.iter(), self.fleet.sight),
            Step::Allocate => self.allocated(action),
            Step::Boot => within(self.fleet.settings.boot_limit, waited, booted(action, self.fleet.sight)),
            Step::Join => within(self.fleet.settings.join_limit, waited, self.joined(action)),
            Step::Configure => self.configured(action, waited),
            // A resource that died since its configuration is healed like any serving one.
            Step::Announce => self.announced(action, waited),
            Step::Withdraw => published(!action.targets.iter().any(|name| self.endpoints.names(name))),
            Step::Ttl => match self.fleet.settings.entry_ttl.checked_sub(waited) {
                None | Some(Duration::ZERO) => Progress::Done,
                Some(left) => Progress::Wait(format!("addresses may be held for {} ms more", left.as_millis())),
            },
            Step::Drain => self.limited(action, waited, self.drained(action)),
            Step::HandOver => self.limited(action, waited, handed_over(action, self.fleet.sight)),
            Step::Evict => self.limited(action, waited, evicted(action, self.fleet.sight)),
            Step::Return => self.returned(action, waited),
            Step::Forget => forgotten(action, self.fleet.sight),
        }
    }

    fn announced(&self, action: &Action, waited: Duration) -> Progress {
        let missing = |name: &&ResourceName| !self.endpoints.names(name) && !self.fleet.is_dead(name);
        match action.targets.iter().find(missing) {
            // It serves already. An entry point that cannot name it is asked again at each look, and delays no other
            // step.
            Some(name) if waited < self.fleet.settings.join_limit => {
                Progress::Wait(match self.endpoints.problem_of(name) {
                    Some(problem) => format!("the entry point cannot name {name}: {problem}"),
                    None => "the entry point is being updated".to_owned(),
                })
            }
            _ => Progress::Done,
        }
    }

    /// A step that has asked and was refused too often has failed.
    fn refused(&self, action: &Action) -> Option<Progress> {
        let refusals = self.refused.of(action.level);
        let note = action.steps.last().map(|record| record.note.clone()).unwrap_or_default();
        (refusals >= MAX_REFUSALS).then(|| Progress::Fail(format!("refused {refusals} times; {note}")))
    }

    fn allocated(&self, action: &Action) -> Progress {
        if let Some(failed) = self.refused(action) {
            return failed;
        }
        let made = |name: &&ResourceName| match self.fleet.sight.condition(name) {
            // A resource that was dead before the request has not been started yet.
            Some(Condition::Ended(_) | Condition::Down(_)) => !action.kind.starts_again(),
            Some(_) => true,
            None => false,
        };
        match action.targets.iter().find(|name| !made(name)) {
            None => Progress::Done,
            Some(_) => Progress::Wait(String::new()),
        }
    }

    /// The orchestrators that handle messages, or would after a restart: each may have pending ones.
    fn owing(&self) -> Vec<ResourceName> {
        let working = [Phase::Serving, Phase::Joining, Phase::Draining, Phase::Lost, Phase::Stopped];
        let mut names = self.fleet.book.names(Level::Orchestrator, &working);
        let restarted = self.fleet.book.actions.get(&Level::Orchestrator).filter(|action| action.kind.starts_again());
        names.extend(restarted.iter().flat_map(|action| action.targets.iter().cloned()));
        names
    }

    fn joined(&self, action: &Action) -> Progress {
        if let Some(why) = ended(&action.targets, self.fleet.sight) {
            return Progress::Fail(why);
        }
        for at in self.fleet.book.names(Level::Orchestrator, &[Phase::Serving]) {
            let Some(view) = self.fleet.sight.orchestrators.get(&at) else {
                if self.fleet.is_dead(&at) {
                    continue;
                }
                return Progress::Wait(format!("{at} does not answer"));
            };
            for broker in &action.targets {
                let known = view.brokers.get(broker);
                if known.is_none_or(|known| known.state != BrokerState::Serving) {
                    return Progress::Wait(said(&at, broker, known));
                }
            }
        }
        Progress::Done
    }

    fn configured(&self, action: &Action, waited: Duration) -> Progress {
        // The first of a fleet have partitions before they serve. One of them that dies is healed like any that serves, not
        // released.
        let heals = action.kind == Kind::Start;
        if let Some(why) = ended(&action.targets, self.fleet.sight).filter(|_| !heals) {
            return Progress::Fail(why);
        }
        let living = action.targets.iter().filter(|at| ended(std::slice::from_ref(at), self.fleet.sight).is_none());
        for at in living {
            if let Some(why) = self.fleet.missing_broker(at).or_else(|| missing_membership(at, self.fleet.sight)) {
                let waits_for_brokers = self.fleet.living_brokers().is_empty();
                let wait = Progress::Wait(why);
                return if waits_for_brokers { wait } else { within(self.fleet.settings.join_limit, waited, wait) };
            }
        }
        Progress::Done
    }

    fn drained(&self, action: &Action) -> Progress {
        for broker in &action.targets {
            if matches!(self.fleet.sight.condition(broker), Some(Condition::Ended(_)) | None)
                || is_over(action, broker, self.fleet.sight)
            {
                // It sends no more; its pending messages go to others when orchestrators forget it.
                continue;
            }
            for at in self.owing() {
                let Some(view) = self.fleet.sight.orchestrators.get(&at) else {
                    return Progress::Wait(format!("{at} does not answer, and may owe {broker} something"));
                };
                match view.brokers.get(broker) {
                    None => {}
                    Some(known) if known.state == BrokerState::Drained && known.owed == 0 => {}
                    Some(known) => return Progress::Wait(format!("{at} owes {broker} {} messages", known.owed)),
                }
            }
        }
        Progress::Done
    }

    fn returned(&self, action: &Action, waited: Duration) -> Progress {
        if waited >= self.fleet.settings.join_limit {
            return Progress::Done;
        }
        let back =
            action.targets.iter().all(|name| match action.level {
                Level::Broker => self
                    .fleet
                    .sight
                    .orchestrators
                    .values()
                    .filter_map(|view| view.brokers.get(name))
                    .all(|broker| !matches!(broker.state, BrokerState::Draining | BrokerState::Drained)),
                Level::Orchestrator => self.fleet.sight.orchestrators.get(name).is_some_and(|view| {
                    !view.draining && view.cluster.as_ref().is_none_or(|cluster| cluster.wants_share)
                }),
            });
        if back { Progress::Done } else { Progress::Wait("waiting until it is back in service".to_owned()) }
    }

    /// A drain within its time limit.
    fn limited(&self, action: &Action, waited: Duration, progress: Progress) -> Progress {
        match progress {
            // The controller that removes it decides when it has taken too long.
            Progress::Wait(note) if waited >= self.fleet.settings.drain_limit && action.kind != Kind::Evacuate => {
                let limit = self.fleet.settings.drain_limit.as_secs();
                match self.fleet.settings.on_drain_limit {
                    OnDrainLimit::Return if action.step() != Some(Step::Return) => {
                        Progress::Fail(format!("not drained within {limit} s: {note}"))
                    }
                    _ => Progress::Wait(format!("the limit of {limit} s has passed: {note}")),
                }
            }
            other => other,
        }
    }
}

/// Whether a removal by another controller is over: the resource has gone, or was created again.
fn is_over(action: &Action, name: &ResourceName, sight: &Sight) -> bool {
    action.kind == Kind::Evacuate && sight.condition(name) != Some(&Condition::Stopping)
}

fn left(action: &Action, sight: &Sight) -> Progress {
    match action.targets.iter().find(|name| !is_over(action, name, sight)) {
        None => Progress::Done,
        Some(name) => Progress::Wait(format!("{name} is stopping")),
    }
}

fn gone<'a>(mut names: impl Iterator<Item = &'a ResourceName>, sight: &Sight) -> Progress {
    match names.find(|name| !sight.is_absent(name)) {
        None => Progress::Done,
        Some(name) => Progress::Wait(format!("{name} is stopping")),
    }
}

fn published(done: bool) -> Progress {
    if done { Progress::Done } else { Progress::Wait("the entry point is being updated".to_owned()) }
}

fn within(limit: Duration, waited: Duration, progress: Progress) -> Progress {
    match progress {
        Progress::Wait(note) if waited >= limit => Progress::Fail(format!("not within {} s: {note}", limit.as_secs())),
        other => other,
    }
}

fn ended(names: &[ResourceName], sight: &Sight) -> Option<String> {
    names.iter().find_map(|name| match sight.condition(name) {
        Some(Condition::Ended(why)) => Some(format!("{name}: {why}")),
        None => Some(format!("{name} is no longer there")),
        Some(_) => None,
    })
}

fn booted(action: &Action, sight: &Sight) -> Progress {
    if let Some(why) = ended(&action.targets, sight) {
        return Progress::Fail(why);
    }
    match action.targets.iter().find(|name| !sight.answers(name)) {
        None => Progress::Done,
        Some(name) => Progress::Wait(format!("{name} does not answer yet")),
    }
}

fn evicted(action: &Action, sight: &Sight) -> Progress {
    for at in action.targets.iter().filter(|at| !is_over(action, at, sight)) {
        let Some(view) = sight.orchestrators.get(at) else {
            return Progress::Wait(format!("{at} does not answer"));
        };
        if !view.draining || view.clients > 0 || view.owed > 0 {
            return Progress::Wait(format!("{at} has {} clients and owes {} messages", view.clients, view.owed));
        }
    }
    Progress::Done
}

fn forgotten(action: &Action, sight: &Sight) -> Progress {
    let replaced = action.failing.is_none() && !action.old.is_empty();
    let names = if replaced { &action.old } else { &action.targets };
    for (at, view) in &sight.orchestrators {
        if let Some(name) = names.iter().find(|name| view.brokers.contains_key(*name)) {
            return Progress::Wait(format!("{at} still knows {name}"));
        }
    }
    Progress::Done
}
