//! How an action comes further.

use std::time::Duration;

use super::action::{Action, Kind, Outcome, Step};
use super::book::{Phase, Record};
use super::command::{Command, Entry};
use super::explain;
use super::machine::Manager;
use super::members::{handed_over, living_brokers};
use super::moment::Moment;
use super::settings::OnDrainLimit;
use super::sight::{BrokerState, BrokerView, Sight};
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

/// Steps that may end within one look.
const MAX_STEPS: usize = 32;
/// Refusals in a row after which an action fails.
const MAX_REFUSALS: u32 = 3;

/// The progress of a step.
pub(super) enum Progress {
    /// Its condition is not met; the text says which.
    Wait(String),
    /// It has come.
    Done,
    /// It will not come, and why.
    Fail(String),
}

impl Manager {
    /// Ends every step whose condition is met, begins the next one, and requests the commands of the current step.
    pub(super) fn advance(&mut self, level: Level, now: Moment, sight: &Sight) {
        for _ in 0..MAX_STEPS {
            let Some(action) = self.book.actions.get(&level) else { return };
            let Some(step) = action.step() else { return };
            match self.progress(action, step, now, sight) {
                Progress::Wait(note) => {
                    let action = action.clone();
                    if let Some(action) = self.book.actions.get_mut(&level)
                        && !note.is_empty()
                    {
                        action.note(&note);
                    }
                    self.drive(&action, step, sight);
                    return;
                }
                Progress::Done => self.step_done(level, step, now),
                Progress::Fail(why) => self.turn_back(level, step, why, now, sight),
            }
        }
    }

    pub(super) fn progress(&self, action: &Action, step: Step, now: Moment, sight: &Sight) -> Progress {
        if sight.resources.is_none() {
            return Progress::Wait("the provider does not answer".to_owned());
        }
        let waited = Duration::from_millis(now.since(action.step_started()));
        if let Some(why) = self.is_no_longer_last(action, step, sight) {
            return Progress::Fail(why);
        }
        match step {
            Step::Discard => gone(action.old.iter(), sight),
            Step::Release if action.kind == Kind::Evacuate => left(action, sight),
            Step::SetAside => self.refused(action).unwrap_or_else(|| gone(action.targets.iter(), sight)),
            Step::Release => gone(action.targets.iter(), sight),
            Step::Allocate => self.allocated(action, sight),
            Step::Boot => within(self.settings.boot_limit, waited, booted(action, sight)),
            Step::Join => within(self.settings.join_limit, waited, self.joined(action, sight)),
            Step::Configure => self.configured(action, waited, sight),
            // A resource that died since its configuration is healed like any serving one.
            Step::Announce => self.announced(action, waited, sight),
            Step::Withdraw => published(!action.targets.iter().any(|name| self.is_published(name))),
            Step::Ttl => match self.settings.entry_ttl.checked_sub(waited) {
                None | Some(Duration::ZERO) => Progress::Done,
                Some(left) => Progress::Wait(format!("addresses may be held for {} ms more", left.as_millis())),
            },
            Step::Drain => self.limited(action, waited, self.drained(action, sight)),
            Step::HandOver => self.limited(action, waited, handed_over(action, sight)),
            Step::Evict => self.limited(action, waited, evicted(action, sight)),
            Step::Return => self.returned(action, waited, sight),
            Step::Forget => forgotten(action, sight),
        }
    }

    fn announced(&self, action: &Action, waited: Duration, sight: &Sight) -> Progress {
        let missing = |name: &&ResourceName| !self.is_published(name) && !self.is_dead(name, sight);
        match action.targets.iter().find(missing) {
            // It serves already. An entry point that cannot name it is asked again at each look, and delays no other
            // step.
            Some(name) if waited < self.settings.join_limit => Progress::Wait(match self.unnamed.get(name) {
                Some(problem) => format!("the entry point cannot name {name}: {problem}"),
                None => "the entry point is being updated".to_owned(),
            }),
            _ => Progress::Done,
        }
    }

    /// A step that has asked and was refused too often has failed.
    fn refused(&self, action: &Action) -> Option<Progress> {
        let refusals = self.refusals.get(&action.level).copied().unwrap_or_default();
        let note = action.steps.last().map(|record| record.note.clone()).unwrap_or_default();
        (refusals >= MAX_REFUSALS).then(|| Progress::Fail(format!("refused {refusals} times; {note}")))
    }

    fn allocated(&self, action: &Action, sight: &Sight) -> Progress {
        if let Some(failed) = self.refused(action) {
            return failed;
        }
        let made = |name: &&ResourceName| match sight.condition(name) {
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
        let mut names = self.book.names(Level::Orchestrator, &working);
        let restarted = self.book.actions.get(&Level::Orchestrator).filter(|action| action.kind.starts_again());
        names.extend(restarted.iter().flat_map(|action| action.targets.iter().cloned()));
        names
    }

    fn joined(&self, action: &Action, sight: &Sight) -> Progress {
        if let Some(why) = ended(&action.targets, sight) {
            return Progress::Fail(why);
        }
        for at in self.book.names(Level::Orchestrator, &[Phase::Serving]) {
            let Some(view) = sight.orchestrators.get(&at) else {
                if self.is_dead(&at, sight) {
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

    fn configured(&self, action: &Action, waited: Duration, sight: &Sight) -> Progress {
        // The first of a fleet have partitions before they serve. One of them that dies is healed like any that serves, not
        // released.
        let heals = action.kind == Kind::Start;
        if let Some(why) = ended(&action.targets, sight).filter(|_| !heals) {
            return Progress::Fail(why);
        }
        let living = action.targets.iter().filter(|at| ended(std::slice::from_ref(at), sight).is_none());
        for at in living {
            if let Some(why) = self.missing_broker(at, sight).or_else(|| super::members::missing_membership(at, sight))
            {
                let waits_for_brokers = living_brokers(self, sight).is_empty();
                let wait = Progress::Wait(why);
                return if waits_for_brokers { wait } else { within(self.settings.join_limit, waited, wait) };
            }
        }
        Progress::Done
    }

    fn drained(&self, action: &Action, sight: &Sight) -> Progress {
        for broker in &action.targets {
            if matches!(sight.condition(broker), Some(Condition::Ended(_)) | None) || is_over(action, broker, sight) {
                // It sends no more; its pending messages go to others when orchestrators forget it.
                continue;
            }
            for at in self.owing() {
                let Some(view) = sight.orchestrators.get(&at) else {
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

    fn returned(&self, action: &Action, waited: Duration, sight: &Sight) -> Progress {
        if waited >= self.settings.join_limit {
            return Progress::Done;
        }
        let back = action.targets.iter().all(|name| match action.level {
            Level::Broker => sight
                .orchestrators
                .values()
                .filter_map(|view| view.brokers.get(name))
                .all(|broker| !matches!(broker.state, BrokerState::Draining | BrokerState::Drained)),
            Level::Orchestrator => sight
                .orchestrators
                .get(name)
                .is_some_and(|view| !view.draining && view.cluster.as_ref().is_none_or(|cluster| cluster.wants_share)),
        });
        if back { Progress::Done } else { Progress::Wait("waiting until it is back in service".to_owned()) }
    }

    /// A drain within its time limit.
    fn limited(&self, action: &Action, waited: Duration, progress: Progress) -> Progress {
        match progress {
            // The controller that removes it decides when it has taken too long.
            Progress::Wait(note) if waited >= self.settings.drain_limit && action.kind != Kind::Evacuate => {
                let limit = self.settings.drain_limit.as_secs();
                match self.settings.on_drain_limit {
                    OnDrainLimit::Return if action.step() != Some(Step::Return) => {
                        Progress::Fail(format!("not drained within {limit} s: {note}"))
                    }
                    _ => Progress::Wait(format!("the limit of {limit} s has passed: {note}")),
                }
            }
            other => other,
        }
    }

    /// Requests the commands of a step. Commands about brokers to orchestrators are requested by `reconcile`.
    fn drive(&mut self, action: &Action, step: Step, sight: &Sight) {
        match step {
            Step::Allocate => {
                for name in &action.targets {
                    if let Some(member) = self.book.members.get(name) {
                        let wanted = member.wanted.clone();
                        self.command(Command::Allocate(wanted));
                    }
                }
            }
            Step::Discard => {
                for name in &action.old {
                    self.command(Command::Discard(name.clone()));
                }
            }
            Step::SetAside => self.set_aside(action),
            Step::Release if action.kind == Kind::Evacuate => {}
            Step::Release => self.release(&action.targets),
            Step::HandOver => {
                self.revive(action, sight);
                self.hand_over(action, sight);
            }
            Step::Evict => self.evict(action, sight),
            Step::Return if action.level == Level::Orchestrator => {
                for at in action.targets.clone() {
                    self.command(Command::SetShare { at: at.clone(), wanted: true });
                    self.command(Command::EndEviction { at });
                }
            }
            _ => {}
        }
    }

    fn release(&mut self, names: &[ResourceName]) {
        for name in names {
            self.command(Command::Release(name.clone()));
        }
    }

    fn evict(&mut self, action: &Action, sight: &Sight) {
        let others = self.published.iter().flatten().filter(|endpoint| !action.targets.contains(&endpoint.name));
        let reference = others
            .min_by_key(|endpoint| endpoint.clients)
            .map(|endpoint| endpoint.address.strip_prefix("mqtt://").unwrap_or(&endpoint.address).to_owned());
        self.revive(action, sight);
        for at in &action.targets {
            if sight.orchestrators.get(at).is_some_and(|view| !view.draining) {
                self.command(Command::Evict { at: at.clone(), server_reference: reference.clone() });
            }
        }
    }

    /// A resource that died while leaving must be restarted to hand over its messages.
    fn revive(&mut self, action: &Action, sight: &Sight) {
        let died = |at: &&ResourceName| matches!(sight.condition(at), Some(Condition::Ended(_)));
        for at in action.targets.iter().filter(|_| action.kind != Kind::Evacuate).filter(died) {
            if let Some(member) = self.book.members.get(at) {
                let wanted = member.wanted.clone();
                self.command(Command::Allocate(wanted));
            }
        }
    }

    fn step_done(&mut self, level: Level, step: Step, now: Moment) {
        let Some(mut action) = self.book.actions.get(&level).cloned() else { return };
        self.refusals.remove(&level);
        let phase = match step {
            Step::Boot => Some(Phase::Joining),
            Step::Join | Step::Configure | Step::Return => Some(Phase::Serving),
            Step::Drain | Step::Evict => Some(Phase::Leaving),
            _ => None,
        };
        if let Some(phase) = phase {
            for name in &action.targets {
                self.set_phase(name, phase, now);
            }
        }
        if matches!(step, Step::Release | Step::SetAside) {
            for name in action.targets.clone() {
                self.record(Record::Gone { name });
            }
        }
        let Some(next) = action.next(step) else {
            self.end(action, now);
            return;
        };
        if next == Step::Forget && action.failing.is_none() {
            for name in action.old.clone() {
                self.record(Record::Gone { name });
            }
        }
        action.begin(next, now);
        self.record(Record::Action(action));
    }

    /// A failing step: added resources are removed, leaving ones stay.
    fn turn_back(&mut self, level: Level, step: Step, why: String, now: Moment, sight: &Sight) {
        let Some(mut action) = self.book.actions.get(&level).cloned() else { return };
        self.refusals.remove(&level);
        action.note(&why);
        let again = action.failing.is_some();
        action.failing.get_or_insert(why);
        if action.kind.starts_again() {
            self.note_failed_restart(&action, now);
            self.end(action, now);
            return;
        }
        if action.kind == Kind::GiveUp {
            self.wait_again(&action.targets, now);
            self.end(action, now);
            return;
        }
        let stays = self.is_no_longer_last(&action, step, sight).is_some();
        let answers = action.targets.iter().all(|name| sight.orchestrators.contains_key(name));
        let (next, phase) = match (step, level) {
            _ if stays => (Step::Return, Phase::Serving),
            (Step::Drain | Step::HandOver | Step::Evict, _) if action.kind == Kind::ScaleIn || again => {
                (Step::Return, Phase::Serving)
            }
            (Step::Join, _) => (Step::Drain, Phase::Draining),
            (Step::Configure | Step::Announce, Level::Orchestrator) if answers => (Step::HandOver, Phase::Draining),
            _ => (Step::Release, Phase::Leaving),
        };
        for name in &action.targets {
            self.set_phase(name, phase, now);
        }
        action.begin(next, now);
        self.record(Record::Action(action));
    }

    fn end(&mut self, mut action: Action, now: Moment) {
        action.end_step(now);
        let outcome = action.failing.clone().map_or(Outcome::Done, Outcome::Failed);
        if let Outcome::Failed(why) = &outcome {
            let names: Vec<&str> = action.targets.iter().map(ResourceName::as_str).collect();
            self.last_failure = Some(format!("{} of {}: {why}", explain::kind(action.kind), names.join(", ")));
        }
        let healing = matches!(action.kind, Kind::Replace | Kind::Restart);
        let level = action.level;
        if outcome == Outcome::Done {
            match action.kind {
                Kind::Start => self.record(Record::Started { level }),
                Kind::ScaleOut => {
                    self.lead_times.insert(level, Duration::from_millis(now.since(action.started)));
                }
                _ => {}
            }
        }
        let given_up =
            if action.kind == Kind::GiveUp && outcome == Outcome::Done { action.targets.len() as u64 } else { 0 };
        self.record(Record::Ended { level, outcome: outcome.clone(), healing, given_up, at: now });
        self.count_ended(&action, &outcome, now);
        self.tell(Entry(explain::ended(&action, &outcome, now)));
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

/// An orchestrator's state of a broker that it does not serve yet.
pub(super) fn said(at: &ResourceName, broker: &ResourceName, known: Option<&BrokerView>) -> String {
    let Some(known) = known else { return format!("{at} does not know {broker} yet") };
    let why = known.last_error.as_deref().filter(|why| !why.is_empty());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{at} says `{}` of {broker}{why}", known.state.name())
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
