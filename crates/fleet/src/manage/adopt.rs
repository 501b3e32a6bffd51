//! Adopts resources without an action, independent of their level's actions: each by an action of its own, so that one
//! that does not start delays neither the others nor its level.

use std::time::Duration;

use super::action::{Action, Kind, Outcome, Step};
use super::advance::Progress;
use super::book::{Phase, Record};
use super::command::Entry;
use super::explain;
use super::machine::Manager;
use super::moment::Moment;
use super::sight::Sight;
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Allocation, Condition, Observed, ResourceName};

/// Time after a failed adoption before the same is tried again.
const PAUSE: Duration = Duration::from_secs(30);

impl Manager {
    /// Begins to adopt the resources of a level that no action handles.
    pub(super) fn adopt(&mut self, level: Level, now: Moment, sight: &Sight) {
        let there = |name: &ResourceName| sight.resource(name).is_some();
        self.not_adopted.retain(|name, _| there(name));
        for name in self.strays(level, sight) {
            let failed = self.not_adopted.get(&name);
            if failed.is_some_and(|failed| Duration::from_millis(now.since(*failed)) < PAUSE) {
                continue;
            }
            if self.book.phase(&name).is_none() {
                self.take_in(level, &name, now, sight);
            }
            let reason = "it belongs to this fleet and was not in the book";
            let action = self.new_action(Kind::Adopt, level, vec![name], Vec::new(), reason, now);
            self.record(Record::Action(action));
        }
    }

    /// Resources that are not in the book, and members without an action. An attached resource is adopted once it
    /// answers: before, it is not a member.
    fn strays(&self, level: Level, sight: &Sight) -> Vec<ResourceName> {
        let is_stray = |observed: &Observed| match &observed.condition {
            Condition::Stopping => false,
            Condition::Online => true,
            _ => observed.resource.template != ATTACHED,
        };
        let unknown = sight.resources.iter().flatten().filter(|(name, observed)| {
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

    fn take_in(&mut self, level: Level, name: &ResourceName, now: Moment, sight: &Sight) {
        let Some(template) = sight.resource(name).map(|observed| observed.resource.template.clone()) else { return };
        let cores = self.settings.level(level).map_or(1.0, |settings| settings.cores);
        let number = self.order_of(level, name);
        if number >= self.book.next(level) {
            self.record(Record::Numbers { level, next: number + 1 });
        }
        self.add_member(Allocation { name: name.clone(), level, template, cores }, number, now);
    }

    /// Brings every adoption of a level as far as it comes.
    pub(super) fn advance_adoptions(&mut self, level: Level, now: Moment, sight: &Sight) {
        let of_level = self.book.adoptions.iter().filter(|(_, action)| action.level == level);
        let names: Vec<ResourceName> = of_level.map(|(name, _)| name.clone()).collect();
        for name in names {
            while self.advance_adoption(&name, now, sight) {}
        }
    }

    /// Whether a step has ended and another one has begun.
    fn advance_adoption(&mut self, name: &ResourceName, now: Moment, sight: &Sight) -> bool {
        let Some(mut action) = self.book.adoptions.get(name).cloned() else { return false };
        let step = action.step().unwrap_or(Step::Boot);
        let comes = matches!(self.book.phase(name), Some(Phase::Pending | Phase::Joining | Phase::Serving));
        let progress = if comes {
            self.progress(&action, step, now, sight)
        } else {
            Progress::Fail(format!("something else became of {name} meanwhile"))
        };
        match progress {
            Progress::Wait(note) => {
                if let Some(action) = self.book.adoptions.get_mut(name)
                    && !note.is_empty()
                {
                    action.note(&note);
                }
                false
            }
            Progress::Fail(why) => {
                action.note(&why);
                action.failing = Some(why);
                if comes {
                    // It was there before: it is not taken away, only taken in again later.
                    self.record(Record::Gone { name: name.clone() });
                    self.not_adopted.insert(name.clone(), now);
                }
                self.end_adoption(name, action, now);
                false
            }
            Progress::Done => {
                match step {
                    Step::Boot => self.set_phase(name, Phase::Joining, now),
                    Step::Join | Step::Configure => self.set_phase(name, Phase::Serving, now),
                    _ => {}
                }
                let Some(next) = action.next(step) else {
                    self.end_adoption(name, action, now);
                    return false;
                };
                action.begin(next, now);
                self.record(Record::Action(action));
                true
            }
        }
    }

    fn end_adoption(&mut self, name: &ResourceName, mut action: Action, now: Moment) {
        action.end_step(now);
        let outcome = action.failing.clone().map_or(Outcome::Done, Outcome::Failed);
        self.record(Record::Adopted { name: name.clone(), outcome: outcome.clone() });
        self.count_ended(&action, &outcome, now);
        self.tell(Entry(explain::ended(&action, &outcome, now)));
    }
}
