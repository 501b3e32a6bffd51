//! The manager's parts, and the order of its checks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::adopt::Adopting;
use super::advance::Advancing;
use super::begin::Beginning;
use super::book::Book;
use super::command::{Command, Endpoint, Entry};
use super::decisions::{Decisions, Judged};
use super::explain;
use super::judge::{Judge, LevelSeen};
use super::metrics::{self, ScalingNumbers};
use super::moment::Moment;
use super::named::NamedEndpoints;
use super::progress::RefusedSteps;
use super::recorder::Recorder;
use super::seen::MessageRates;
use super::settings::Settings;
use super::sight::Sight;
use super::silences::Silences;
use super::status::StatusOf;
use super::tally::Tally;
use super::turn::{FleetSeen, Turn};
use crate::level::Level;
use crate::provider::ResourceName;

/// The manager of one fleet. See the [module](super).
///
/// It composes the parts of its state and says in which order they work. Each part owns its state; the work that
/// changes several of them is in contexts, which name these parts.
pub struct Manager {
    settings: Settings,
    observation: u64,
    pub(super) recorder: Recorder,
    silences: Silences,
    pub(super) rates: MessageRates,
    endpoints: NamedEndpoints,
    pub(super) decisions: Decisions,
    refused: RefusedSteps,
    /// When the last adoption of a resource failed.
    failed_adoptions: BTreeMap<ResourceName, Moment>,
    tally: Tally,
    /// Why the last action that failed did.
    last_failure: Option<String>,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("book", self.book())
            .field("observation", &self.observation)
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// A manager with a book and one judge per level. Observations are numbered from `observation`.
    pub fn new(settings: Settings, judges: BTreeMap<Level, Box<dyn Judge>>, book: Book, observation: u64) -> Self {
        Self {
            settings,
            observation,
            decisions: Decisions::new(judges, &book.ended),
            recorder: Recorder::new(book),
            silences: Silences::default(),
            rates: MessageRates::default(),
            endpoints: NamedEndpoints::default(),
            refused: RefusedSteps::default(),
            failed_adoptions: BTreeMap::new(),
            tally: Tally::default(),
            last_failure: None,
        }
    }

    /// Its saved state.
    pub fn book(&self) -> &Book {
        self.recorder.book()
    }

    /// Continues with another book, which is saved already.
    pub(super) fn replace_book(&mut self, book: Book) {
        self.recorder.replace_book(book);
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Why the last action that failed did, as far as this manager has seen.
    pub fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// The counters.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts an observation that began so late, and took so long with everything that followed from it at once.
    pub fn count_observation(&mut self, late: Duration, took: Duration) {
        self.tally.count_observation(self.settings.interval, late, took);
    }

    /// The orchestrators that the entry point names.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.named()
    }

    /// The entry point names these, but for some that it cannot name yet, each with the reason.
    pub fn endpoints_set(&mut self, endpoints: &[Endpoint], unnamed: Vec<(ResourceName, String)>) {
        self.endpoints.set(endpoints, unnamed);
    }

    /// Whether the first resources of both levels are there.
    pub fn is_started(&self) -> bool {
        Level::ALL.iter().all(|level| self.book().started.contains(level))
    }

    /// Whether an action in progress needs a look before the next observation.
    pub fn is_busy(&self) -> bool {
        !self.book().actions.is_empty() || !self.book().adoptions.is_empty()
    }

    /// Handles an observation: notes dead resources, progresses actions, and heals or decides about each level without
    /// an action.
    pub fn observe(&mut self, now: Moment, sight: &Sight) -> Vec<Command> {
        self.observation += 1;
        self.silences.count(self.recorder.book(), sight);
        self.look(now, sight);
        for level in Level::ALL {
            self.observe_level(level, now, sight);
        }
        // The commands of new actions are requested at once.
        self.look(now, sight);
        self.recorder.tell(Entry(explain::observation(self.observation, &self.decisions, now)));
        self.recorder.finish()
    }

    /// A look between observations: actions advance, without decisions.
    pub fn check(&mut self, now: Moment, sight: &Sight) -> Vec<Command> {
        self.look(now, sight);
        self.recorder.finish()
    }

    /// A command failed. It is requested again at the next look; several failures fail its action.
    pub fn failed(&mut self, command: &Command, problem: &str) {
        if let Command::SetEndpoints(asked) = command {
            self.endpoints.refused(asked, problem);
        }
        let Some(subject) = command.subject() else { return };
        let note = format!("{}: {problem}", command.describe());
        self.recorder.note_adoption(subject, &note);
        for level in self.recorder.levels_of(subject) {
            self.recorder.note(level, &note);
            self.refused.count(level);
        }
    }

    fn look(&mut self, now: Moment, sight: &Sight) {
        for level in Level::ALL {
            self.advancing(now, sight).advance(level);
            self.adopting(now, sight).advance(level);
        }
        for name in self.fleet(now, sight).ended_evictions() {
            self.recorder.set_evicted(&name, false);
        }
        let fleet = self.fleet(now, sight);
        let mut commands = fleet.reconcile();
        commands.extend(fleet.requests_for_shares());
        commands.extend(self.endpoints.change(fleet));
        for command in commands {
            self.recorder.command(command);
        }
    }

    fn observe_level(&mut self, level: Level, now: Moment, sight: &Sight) {
        if sight.resources.is_some() {
            self.adopting(now, sight).adopt(level);
        }
        let seen = self.seen(level, now, sight);
        let Some(decision) = self.decisions.judge(&seen) else { return };
        let did = match self.block_reason(level, sight) {
            Some(why) => why,
            None => self.beginning(now, sight).begin(level, &decision),
        };
        self.decisions.keep(Judged { seen, decision, did });
    }

    /// A level as it is.
    pub(super) fn seen(&mut self, level: Level, now: Moment, sight: &Sight) -> LevelSeen {
        let lead_time = self.decisions.lead_times.get(&level).copied();
        let turn = turn(&self.settings, &self.silences, self.observation, now, sight);
        self.rates.seen(level, turn.fleet(self.recorder.book()), lead_time)
    }

    /// Why no action can begin at a level.
    fn block_reason(&self, level: Level, sight: &Sight) -> Option<String> {
        if sight.resources.is_none() {
            return Some("the provider does not answer: nothing is begun".to_owned());
        }
        let action = self.book().actions.get(&level)?;
        Some(format!("action {} is under way", action.number))
    }

    /// `levels`, `actions` and `totals` as JSON. `action` is the one under way that is oldest, `actions` are all.
    pub fn status(&self, now: Moment, sight: &Sight) -> Value {
        let (decisions, endpoints) = (&self.decisions, &self.endpoints);
        StatusOf { fleet: self.fleet(now, sight), decisions, endpoints }.all()
    }

    /// The actions that the manager would begin now, with the reason against each.
    pub fn plan(&self) -> Value {
        explain::plan(self.observation, &self.decisions)
    }

    /// The manager's metrics in the text format of Prometheus, without the entry point's.
    pub fn metrics(&self, sight: &Sight) -> String {
        metrics::page(self.book(), &self.silences, sight, &self.decisions, &self.endpoints, &self.tally)
    }

    /// The numbers that an autoscaler outside can decide by.
    pub(super) fn scaling_numbers(&self, sight: &Sight) -> ScalingNumbers {
        ScalingNumbers::of(self.book(), &self.decisions, sight)
    }

    /// The memory of the judges, and how long resources took to serve, by level.
    pub fn memory(&self) -> Value {
        self.decisions.memory()
    }

    /// Restores the memory of an earlier manager; returns descriptions of the parts that could not be restored.
    pub fn recall(&mut self, memory: &Value) -> Vec<String> {
        self.decisions.recall(memory)
    }

    fn fleet<'a>(&'a self, now: Moment, sight: &'a Sight) -> FleetSeen<'a> {
        turn(&self.settings, &self.silences, self.observation, now, sight).fleet(self.recorder.book())
    }

    fn advancing<'a>(&'a mut self, now: Moment, sight: &'a Sight) -> Advancing<'a> {
        Advancing {
            turn: turn(&self.settings, &self.silences, self.observation, now, sight),
            recorder: &mut self.recorder,
            endpoints: &self.endpoints,
            refused: &mut self.refused,
            decisions: &mut self.decisions,
            tally: &mut self.tally,
            last_failure: &mut self.last_failure,
        }
    }

    fn adopting<'a>(&'a mut self, now: Moment, sight: &'a Sight) -> Adopting<'a> {
        Adopting {
            turn: turn(&self.settings, &self.silences, self.observation, now, sight),
            recorder: &mut self.recorder,
            endpoints: &self.endpoints,
            refused: &self.refused,
            tally: &mut self.tally,
            failed: &mut self.failed_adoptions,
        }
    }

    fn beginning<'a>(&'a mut self, now: Moment, sight: &'a Sight) -> Beginning<'a> {
        Beginning {
            turn: turn(&self.settings, &self.silences, self.observation, now, sight),
            recorder: &mut self.recorder,
            refused: &mut self.refused,
            decisions: &mut self.decisions,
        }
    }
}

fn turn<'a>(
    settings: &'a Settings,
    silences: &'a Silences,
    observation: u64,
    now: Moment,
    sight: &'a Sight,
) -> Turn<'a> {
    Turn { settings, silences, sight, observation, now }
}
