//! Adopts resources without an action, independent of their level's actions: each by its own action, so that one
//! that does not start delays neither the others nor its level.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::{Action, Kind, Outcome, Step};
use super::book::{Phase, Record};
use super::command::Entry;
use super::explain;
use super::moment::Moment;
use super::named::NamedEndpoints;
use super::progress::{RefusedSteps, StepCheck};
use super::progress_state::Progress;
use super::recorder::Recorder;
use super::tally::Tally;
use super::turn::{FleetSeen, Turn};
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Allocation, Condition, Observed, ResourceName};

/// Time after a failed adoption before the same is tried again.
const PAUSE: Duration = Duration::from_secs(30);

/// The parts that change when resources are adopted.
pub(super) struct Adopting<'a> {
    pub(super) turn: Turn<'a>,
    pub(super) recorder: &'a mut Recorder,
    pub(super) endpoints: &'a NamedEndpoints,
    pub(super) refused: &'a RefusedSteps,
    pub(super) tally: &'a mut Tally,
    /// When the last adoption of a resource failed.
    pub(super) failed: &'a mut BTreeMap<ResourceName, Moment>,
}

impl Adopting<'_> {
    fn fleet(&self) -> FleetSeen<'_> {
        self.turn.fleet(self.recorder.book())
    }

    /// Begins to adopt the resources of a level that no action handles.
    pub(super) fn adopt(&mut self, level: Level) {
        let there = |name: &ResourceName| self.turn.sight.resource(name).is_some();
        self.failed.retain(|name, _| there(name));
        for name in self.fleet().strays(level) {
            let failed = self.failed.get(&name);
            if failed.is_some_and(|failed| Duration::from_millis(self.turn.now.since(*failed)) < PAUSE) {
                continue;
            }
            if self.recorder.book().phase(&name).is_none() {
                self.take_in(level, &name);
            }
            let reason = "it belongs to this fleet and was not in the book";
            let action = self.fleet().new_action(Kind::Adopt, level, vec![name], Vec::new(), reason);
            self.recorder.record(Record::Action(action));
        }
    }

    fn take_in(&mut self, level: Level, name: &ResourceName) {
        let Some(template) = self.turn.sight.resource(name).map(|observed| observed.resource.template.clone()) else {
            return;
        };
        let cores = self.turn.settings.level(level).map_or(1.0, |settings| settings.cores);
        let number = self.fleet().order_of(level, name);
        if number >= self.recorder.book().next(level) {
            self.recorder.record(Record::Numbers { level, next: number + 1 });
        }
        self.recorder.add_member(Allocation { name: name.clone(), level, template, cores }, number, self.turn.now);
    }

    /// Brings every adoption of a level as far as it comes.
    pub(super) fn advance(&mut self, level: Level) {
        let of_level = self.recorder.book().adoptions.iter().filter(|(_, action)| action.level == level);
        let names: Vec<ResourceName> = of_level.map(|(name, _)| name.clone()).collect();
        for name in names {
            while self.advance_one(&name) {}
        }
    }

    /// Whether a step has ended and another one has begun.
    fn advance_one(&mut self, name: &ResourceName) -> bool {
        let Some(mut action) = self.recorder.book().adoptions.get(name).cloned() else { return false };
        let step = action.step().unwrap_or(Step::Boot);
        let comes = matches!(self.recorder.book().phase(name), Some(Phase::Pending | Phase::Joining | Phase::Serving));
        let progress = if comes {
            let check = StepCheck { fleet: self.fleet(), endpoints: self.endpoints, refused: self.refused };
            check.progress(&action, step)
        } else {
            Progress::Fail(format!("something else became of {name} meanwhile"))
        };
        match progress {
            Progress::Wait(note) => {
                self.recorder.note_adoption(name, &note);
                false
            }
            Progress::Fail(why) => {
                action.note(&why);
                action.failing = Some(why);
                if comes {
                    // It was there before: it is not taken away, only taken in again later.
                    self.recorder.record(Record::Gone { name: name.clone() });
                    self.failed.insert(name.clone(), self.turn.now);
                }
                self.end(name, action);
                false
            }
            Progress::Done => {
                match step {
                    Step::Boot => self.recorder.set_phase(name, Phase::Joining, self.turn.now),
                    Step::Join | Step::Configure => self.recorder.set_phase(name, Phase::Serving, self.turn.now),
                    _ => {}
                }
                let Some(next) = action.next(step) else {
                    self.end(name, action);
                    return false;
                };
                action.begin(next, self.turn.now);
                self.recorder.record(Record::Action(action));
                true
            }
        }
    }

    fn end(&mut self, name: &ResourceName, mut action: Action) {
        action.end_step(self.turn.now);
        let outcome = action.failing.clone().map_or(Outcome::Done, Outcome::Failed);
        self.recorder.record(Record::Adopted { name: name.clone(), outcome: outcome.clone() });
        self.tally.count_ended(&action, &outcome, self.turn.now);
        self.recorder.tell(Entry(explain::ended(&action, &outcome, self.turn.now)));
    }
}

impl FleetSeen<'_> {
    /// Resources that are not in the book, and members without an action. An attached resource is adopted once it
    /// answers: before, it is not a member.
    fn strays(&self, level: Level) -> Vec<ResourceName> {
        let is_stray = |observed: &Observed| match &observed.condition {
            Condition::Stopping => false,
            Condition::Online => true,
            _ => observed.resource.template != ATTACHED,
        };
        let unknown = self.sight.resources.iter().flatten().filter(|(name, observed)| {
            observed.resource.level == level && is_stray(observed) && !self.book.members.contains_key(*name)
        });
        let unfinished = self.book.names(level, &[Phase::Pending, Phase::Joining]);
        let unfinished = unfinished.into_iter().filter(|name| !self.is_looked_after(level, name));
        unknown.map(|(name, _)| name.clone()).chain(unfinished).collect()
    }

    fn is_looked_after(&self, level: Level, name: &ResourceName) -> bool {
        let action = self.book.actions.get(&level);
        self.book.adoptions.contains_key(name) || action.is_some_and(|action| action.targets.contains(name))
    }
}
