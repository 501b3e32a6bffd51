//! The progress of an action.

use std::time::Duration;

use super::action::{Action, Kind, Outcome, Step};
use super::book::{Phase, Record};
use super::command::{Command, Entry};
use super::decisions::Decisions;
use super::explain;
use super::members::requests_to_hand_over;
use super::named::NamedEndpoints;
use super::progress::{RefusedSteps, StepCheck};
use super::progress_state::Progress;
use super::recorder::Recorder;
use super::tally::Tally;
use super::turn::{FleetSeen, Turn};
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

/// Steps that may end within one look.
const MAX_STEPS: usize = 32;

/// The parts that change when actions advance.
pub(super) struct Advancing<'a> {
    pub(super) turn: Turn<'a>,
    pub(super) recorder: &'a mut Recorder,
    pub(super) endpoints: &'a NamedEndpoints,
    pub(super) refused: &'a mut RefusedSteps,
    pub(super) decisions: &'a mut Decisions,
    pub(super) tally: &'a mut Tally,
    pub(super) last_failure: &'a mut Option<String>,
}

impl Advancing<'_> {
    fn fleet(&self) -> FleetSeen<'_> {
        self.turn.fleet(self.recorder.book())
    }

    /// Ends every step whose condition is met, begins the next one, and requests the commands of the current step.
    pub(super) fn advance(&mut self, level: Level) {
        for _ in 0..MAX_STEPS {
            let Some(action) = self.recorder.book().actions.get(&level) else { return };
            let Some(step) = action.step() else { return };
            let check = StepCheck { fleet: self.fleet(), endpoints: self.endpoints, refused: self.refused };
            match check.progress(action, step) {
                Progress::Wait(note) => {
                    let action = action.clone();
                    self.recorder.note(level, &note);
                    self.drive(&action, step);
                    return;
                }
                Progress::Done => self.step_done(level, step),
                Progress::Fail(why) => self.turn_back(level, step, why),
            }
        }
    }

    /// Requests the commands of a step. `reconcile` requests commands about brokers to orchestrators, and ends evictions.
    fn drive(&mut self, action: &Action, step: Step) {
        match step {
            Step::Allocate => {
                for name in &action.targets {
                    self.recorder.allocate(name);
                }
            }
            Step::Discard => {
                for name in &action.old {
                    self.recorder.command(Command::Discard(name.clone()));
                }
            }
            Step::SetAside => {
                for name in &action.targets {
                    self.recorder.command(Command::SetAside(name.clone()));
                }
            }
            Step::Release if action.kind == Kind::Evacuate => {}
            Step::Release => self.release(&action.targets),
            Step::HandOver => {
                self.revive(action);
                for command in requests_to_hand_over(action, self.turn.sight) {
                    self.recorder.command(command);
                }
            }
            Step::Evict => self.evict(action),
            Step::Return if action.level == Level::Orchestrator => {
                for at in action.targets.clone() {
                    self.recorder.command(Command::SetShare { at, wanted: true });
                }
            }
            _ => {}
        }
    }

    fn release(&mut self, names: &[ResourceName]) {
        for name in names {
            self.recorder.command(Command::Release(name.clone()));
        }
    }

    fn evict(&mut self, action: &Action) {
        let others = self.endpoints.named().filter(|endpoint| !action.targets.contains(&endpoint.name));
        let reference = others
            .min_by_key(|endpoint| endpoint.clients)
            .map(|endpoint| endpoint.address.strip_prefix("mqtt://").unwrap_or(&endpoint.address).to_owned());
        self.revive(action);
        for at in &action.targets {
            if self.turn.sight.orchestrators.get(at).is_some_and(|view| !view.draining) {
                self.recorder.set_evicted(at, true);
                self.recorder.command(Command::Evict { at: at.clone(), server_reference: reference.clone() });
            }
        }
    }

    /// A resource that died while leaving must be restarted to hand over its messages.
    fn revive(&mut self, action: &Action) {
        let died = |at: &&ResourceName| matches!(self.turn.sight.condition(at), Some(Condition::Ended(_)));
        for at in action.targets.iter().filter(|_| action.kind != Kind::Evacuate).filter(died) {
            self.recorder.allocate(at);
        }
    }

    fn step_done(&mut self, level: Level, step: Step) {
        let Some(mut action) = self.recorder.book().actions.get(&level).cloned() else { return };
        self.refused.reset(level);
        let phase = match step {
            Step::Boot => Some(Phase::Joining),
            Step::Join | Step::Configure | Step::Return => Some(Phase::Serving),
            Step::Drain | Step::Evict => Some(Phase::Leaving),
            _ => None,
        };
        if let Some(phase) = phase {
            self.recorder.set_phases(&action.targets, phase, self.turn.now);
        }
        if matches!(step, Step::Release | Step::SetAside) {
            self.recorder.forget(&action.targets);
        }
        let Some(next) = action.next(step) else {
            self.end(action);
            return;
        };
        if next == Step::Forget && action.failing.is_none() {
            self.recorder.forget(&action.old);
        }
        action.begin(next, self.turn.now);
        self.recorder.record(Record::Action(action));
    }

    /// A failing step: added resources are removed, leaving ones stay.
    fn turn_back(&mut self, level: Level, step: Step, why: String) {
        let Some(mut action) = self.recorder.book().actions.get(&level).cloned() else { return };
        self.refused.reset(level);
        action.note(&why);
        let again = action.failing.is_some();
        action.failing.get_or_insert(why);
        if action.kind.starts_again() {
            self.recorder.note_failed_restart(&action, self.turn.now);
            self.end(action);
            return;
        }
        if action.kind == Kind::GiveUp {
            self.recorder.wait_again(&action.targets, self.turn.now);
            self.end(action);
            return;
        }
        let stays = self.fleet().is_no_longer_last(&action, step).is_some();
        let answers = action.targets.iter().all(|name| self.turn.sight.orchestrators.contains_key(name));
        // Without a table no orchestrator is a member, so that there is nothing to hand over, and none can serve.
        let has_no_table = self.turn.sight.cluster().is_some_and(|cluster| cluster.partitions.is_empty());
        let (next, phase) = match (step, level) {
            (_, Level::Orchestrator) if has_no_table && action.kind != Kind::ScaleIn => (Step::Release, Phase::Leaving),
            _ if stays => (Step::Return, Phase::Serving),
            (Step::Drain | Step::HandOver | Step::Evict, _) if action.kind == Kind::ScaleIn || again => {
                (Step::Return, Phase::Serving)
            }
            (Step::Join, _) => (Step::Drain, Phase::Draining),
            (Step::Configure | Step::Announce, Level::Orchestrator) if answers => (Step::HandOver, Phase::Draining),
            _ => (Step::Release, Phase::Leaving),
        };
        self.recorder.set_phases(&action.targets, phase, self.turn.now);
        action.begin(next, self.turn.now);
        self.recorder.record(Record::Action(action));
    }

    fn end(&mut self, mut action: Action) {
        action.end_step(self.turn.now);
        let outcome = action.failing.clone().map_or(Outcome::Done, Outcome::Failed);
        if let Outcome::Failed(why) = &outcome {
            let names: Vec<&str> = action.targets.iter().map(ResourceName::as_str).collect();
            *self.last_failure = Some(format!("{} of {}: {why}", explain::kind(action.kind), names.join(", ")));
        }
        let healing = matches!(action.kind, Kind::Replace | Kind::Restart);
        let level = action.level;
        if outcome == Outcome::Done {
            match action.kind {
                Kind::Start => self.recorder.record(Record::Started { level }),
                Kind::ScaleOut => {
                    self.decisions.lead_times.insert(level, Duration::from_millis(self.turn.now.since(action.started)));
                }
                _ => {}
            }
        }
        let given_up =
            if action.kind == Kind::GiveUp && outcome == Outcome::Done { action.targets.len() as u64 } else { 0 };
        self.recorder.record(Record::Ended { level, outcome: outcome.clone(), healing, given_up, at: self.turn.now });
        self.tally.count_ended(&action, &outcome, self.turn.now);
        self.recorder.tell(Entry(explain::ended(&action, &outcome, self.turn.now)));
    }
}
