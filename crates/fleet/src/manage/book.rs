//! The state that outlives a manager.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::action::{Action, Kind, Outcome};
use super::moment::Moment;
use crate::level::Level;
use crate::provider::{Allocation, ResourceName};

/// The stage of a member of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Requested, without an answer yet.
    Pending,
    /// It answers; orchestrators and brokers are being joined.
    Joining,
    /// It is meant to serve.
    Serving,
    /// It gets no more work and finishes its pending work.
    Draining,
    /// It has died, and another resource replaces it.
    Lost,
    /// It is being taken away.
    Leaving,
    /// It was stopped with the fleet, and starts again with it on its stored state.
    Stopped,
}

/// A resource of the fleet as the book knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The requested allocation.
    pub wanted: Allocation,
    /// Its stage.
    pub phase: Phase,
    /// Since when.
    pub since: Moment,
    /// Its place in the order of arrival.
    pub order: u64,
    /// Time since which it is dead and waits for a restart; `None` if it has served since.
    #[serde(default)]
    pub lost_since: Option<Moment>,
    /// How often starting it again has failed since then.
    #[serde(default)]
    pub failed_restarts: u32,
    /// True from the request to send its clients away until it accepts clients.
    #[serde(default)]
    pub evicted: bool,
}

impl Member {
    /// The same in another phase.
    pub(super) fn in_phase(&self, phase: Phase, now: Moment) -> Self {
        let mut member = Self { phase, since: now, ..self.clone() };
        match phase {
            Phase::Lost => {
                member.lost_since.get_or_insert(now);
            }
            Phase::Serving => (member.lost_since, member.failed_restarts) = (None, 0),
            _ => {}
        }
        member
    }
}

/// Totals of the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Actions that ended.
    pub actions: u64,
    /// Number of ended replacements and restarts of dead resources.
    pub healed: u64,
    /// Number of failed actions.
    pub failed: u64,
    /// Orchestrators that were given up because they could not be restarted.
    #[serde(default)]
    pub given_up: u64,
}

/// One change of the book. A step's changes are kept together or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "record")]
pub enum Record {
    /// A member is new or has changed.
    Member(Member),
    /// A member is removed.
    Gone {
        /// The name.
        name: ResourceName,
    },
    /// An action has begun or progressed.
    Action(Action),
    /// An action has ended.
    Ended {
        /// Its level.
        level: Level,
        /// How.
        outcome: Outcome,
        /// Whether it healed.
        healing: bool,
        /// Orchestrators that it gave up.
        #[serde(default)]
        given_up: u64,
        /// When.
        at: Moment,
    },
    /// The adoption of a resource has ended.
    Adopted {
        /// The name.
        name: ResourceName,
        /// How.
        outcome: Outcome,
    },
    /// The first resources of a level are there; from now on the policy decides.
    Started {
        /// The level.
        level: Level,
    },
    /// Names of a level below this number have been used.
    Numbers {
        /// The level.
        level: Level,
        /// The next number.
        next: u64,
    },
    /// Everything, in place of all records before.
    Whole(Book),
}

/// Members, actions and totals: the state that outlives a manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Book {
    /// The members by name.
    pub members: BTreeMap<ResourceName, Member>,
    /// The action under way at each level.
    pub actions: BTreeMap<Level, Action>,
    /// The adoptions under way, beside those, by the resource that each takes in.
    #[serde(default)]
    pub adoptions: BTreeMap<ResourceName, Action>,
    /// When the last action of each level ended.
    pub ended: BTreeMap<Level, Moment>,
    /// When the last action of each level that failed ended.
    pub failed: BTreeMap<Level, Moment>,
    /// Levels whose first resources are there.
    pub started: Vec<Level>,
    /// The next number of a name at each level; 1 by default.
    pub next: BTreeMap<Level, u64>,
    /// The number of the newest action.
    pub last_action: u64,
    /// Whether the fleet is being stopped. A manager that finds this set finishes the stop before it starts anything.
    #[serde(default)]
    pub stopping: bool,
    /// Counts.
    pub totals: Totals,
}

impl Book {
    /// The book after a change.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Member(member) => {
                self.members.insert(member.wanted.name.clone(), member);
            }
            Record::Gone { name } => {
                self.members.remove(&name);
            }
            Record::Action(action) => {
                self.last_action = self.last_action.max(action.number);
                match (action.kind, action.targets.first().cloned()) {
                    (Kind::Adopt, Some(name)) => drop(self.adoptions.insert(name, action)),
                    _ => drop(self.actions.insert(action.level, action)),
                }
            }
            Record::Adopted { name, outcome } => {
                self.adoptions.remove(&name);
                self.totals.actions += 1;
                self.totals.failed += u64::from(outcome != Outcome::Done);
            }
            Record::Ended { level, outcome, healing, given_up, at } => {
                self.actions.remove(&level);
                self.ended.insert(level, at);
                if outcome != Outcome::Done {
                    self.failed.insert(level, at);
                }
                self.totals.actions += 1;
                self.totals.failed += u64::from(outcome != Outcome::Done);
                self.totals.healed += u64::from(healing && outcome == Outcome::Done);
                self.totals.given_up += given_up;
            }
            Record::Started { level } => {
                if !self.started.contains(&level) {
                    self.started.push(level);
                }
            }
            Record::Numbers { level, next } => {
                self.next.insert(level, next);
            }
            Record::Whole(book) => *self = book,
        }
    }

    /// Moves times in the future to `now`: the machine's clock was set back while no manager ran, and a limit that
    /// began in the future would last too long.
    pub fn end_future(&mut self, now: Moment) {
        let end = |moment: &mut Moment| *moment = (*moment).min(now);
        for member in self.members.values_mut() {
            end(&mut member.since);
            member.lost_since.iter_mut().for_each(end);
        }
        self.ended.values_mut().chain(self.failed.values_mut()).for_each(end);
        for action in self.actions.values_mut().chain(self.adoptions.values_mut()) {
            end(&mut action.started);
            for record in &mut action.steps {
                end(&mut record.started);
                record.ended.iter_mut().for_each(end);
            }
        }
    }

    /// The members of a level.
    pub fn level(&self, level: Level) -> impl Iterator<Item = &Member> {
        self.members.values().filter(move |member| member.wanted.level == level)
    }

    /// The names of the members of a level in one of some phases.
    pub fn names(&self, level: Level, phases: &[Phase]) -> Vec<ResourceName> {
        let of_phase = |member: &&Member| phases.contains(&member.phase);
        self.level(level).filter(of_phase).map(|member| member.wanted.name.clone()).collect()
    }

    /// How many members of a level are in one of some phases.
    pub fn count(&self, level: Level, phases: &[Phase]) -> u32 {
        let count = self.level(level).filter(|member| phases.contains(&member.phase)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The phase of a member.
    pub fn phase(&self, name: &ResourceName) -> Option<Phase> {
        self.members.get(name).map(|member| member.phase)
    }

    /// The next number of a name at a level.
    pub fn next(&self, level: Level) -> u64 {
        self.next.get(&level).copied().unwrap_or(1)
    }

    /// Whether this fleet has given a resource this name at some time.
    pub fn has_named(&self, name: &ResourceName) -> bool {
        Level::ALL.iter().any(|level| number(*level, name).is_some_and(|number| number < self.next(*level)))
    }
}

/// The number in a name that a fleet gives.
pub(super) fn number(level: Level, name: &ResourceName) -> Option<u64> {
    let rest = name.as_str().strip_prefix(level.name())?.strip_prefix('-')?;
    rest.parse().ok().filter(|_| !rest.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_stretches_no_limit() {
        let allocation = Allocation {
            name: "orchestrator-1".parse().unwrap(),
            level: Level::Orchestrator,
            template: "orchestrator".to_owned(),
            cores: 1.0,
        };
        let (since, lost_since) = (Moment(9_000), Some(Moment(8_000)));
        let member = Member {
            wanted: allocation,
            phase: Phase::Lost,
            since,
            order: 1,
            lost_since,
            failed_restarts: 0,
            evicted: false,
        };
        let mut book = Book::default();
        book.failed.insert(Level::Broker, Moment(100));
        book.apply(Record::Member(member));
        book.end_future(Moment(5_000));
        let member = book.members.values().next().unwrap();
        assert_eq!((member.since, member.lost_since), (Moment(5_000), Some(Moment(5_000))));
        assert_eq!(book.failed[&Level::Broker], Moment(100));
    }
}
