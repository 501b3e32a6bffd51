//! The manager's state, and the order of its checks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::action::Action;
use super::book::{Book, Phase, Record};
use super::command::{Command, Endpoint, Entry};
use super::explain;
use super::judge::{Judge, LevelSeen, Verdict};
use super::moment::Moment;
use super::seen::Counted;
use super::settings::Settings;
use super::sight::{BrokerState, Sight};
use super::tally::Tally;
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Condition, ResourceName};

/// The last decision of a level.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) seen: LevelSeen,
    pub(super) verdict: Verdict,
    /// The action, for people.
    pub(super) did: String,
}

/// The manager of one fleet. See the [module](super).
pub struct Manager {
    pub(super) settings: Settings,
    pub(super) book: Book,
    pub(super) judges: BTreeMap<Level, Box<dyn Judge>>,
    pub(super) observation: u64,
    /// Observations in a row without an answer.
    pub(super) silent: BTreeMap<ResourceName, u32>,
    /// The last reported counters of messages: by resource, orchestrator, and kind.
    pub(super) counters: BTreeMap<(ResourceName, ResourceName, Counted), (Moment, u64)>,
    /// The endpoints that the entry point names, as far as known.
    pub(super) published: Option<Vec<Endpoint>>,
    /// Orchestrators that it cannot name, and why.
    pub(super) unnamed: BTreeMap<ResourceName, String>,
    /// When the last adoption of a resource failed.
    pub(super) not_adopted: BTreeMap<ResourceName, Moment>,
    pub(super) tally: Tally,
    pub(super) lead_times: BTreeMap<Level, Duration>,
    pub(super) judged: BTreeMap<Level, Judged>,
    /// How often the step under way has asked and was refused, by level.
    pub(super) refusals: BTreeMap<Level, u32>,
    /// Why the last action that failed did.
    pub(super) last_failure: Option<String>,
    /// Changes of the book that are not kept yet.
    unkept: Vec<Record>,
    commands: Vec<Command>,
    /// The subjects of the requests.
    asked: BTreeSet<String>,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("book", &self.book)
            .field("observation", &self.observation)
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// A manager with a book and one judge per level. Observations are numbered from `observation`.
    pub fn new(settings: Settings, judges: BTreeMap<Level, Box<dyn Judge>>, book: Book, observation: u64) -> Self {
        let mut manager = Self {
            settings,
            book,
            judges,
            observation,
            silent: BTreeMap::new(),
            counters: BTreeMap::new(),
            published: None,
            unnamed: BTreeMap::new(),
            not_adopted: BTreeMap::new(),
            tally: Tally::default(),
            lead_times: BTreeMap::new(),
            judged: BTreeMap::new(),
            refusals: BTreeMap::new(),
            last_failure: None,
            unkept: Vec::new(),
            commands: Vec::new(),
            asked: BTreeSet::new(),
        };
        for (level, at) in manager.book.ended.clone() {
            if let Some(judge) = manager.judges.get_mut(&level) {
                judge.note_action(at);
            }
        }
        manager
    }

    /// Its saved state.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Why the last action that failed did, as far as this manager has seen.
    pub fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// The orchestrators that the entry point names.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.published.iter().flatten()
    }

    /// Whether the first resources of both levels are there.
    pub fn is_started(&self) -> bool {
        Level::ALL.iter().all(|level| self.book.started.contains(level))
    }

    /// Whether an action in progress needs a look before the next observation.
    pub fn is_busy(&self) -> bool {
        !self.book.actions.is_empty() || !self.book.adoptions.is_empty()
    }

    /// An observation: who is down is noted, actions come further, and each level without one is healed or decided
    /// about.
    pub fn observe(&mut self, now: Moment, sight: &Sight) -> Vec<Command> {
        self.observation += 1;
        self.note_silence(sight);
        self.look(now, sight);
        for level in Level::ALL {
            self.observe_level(level, now, sight);
        }
        // The commands of new actions are requested at once.
        self.look(now, sight);
        self.tell(Entry(explain::observation(self, now)));
        self.finish()
    }

    /// A look between observations: actions advance, without decisions.
    pub fn check(&mut self, now: Moment, sight: &Sight) -> Vec<Command> {
        self.look(now, sight);
        self.finish()
    }

    /// A command failed. It is requested again at the next look; several failures fail its action.
    pub fn failed(&mut self, command: &Command, problem: &str) {
        if let Command::SetEndpoints(asked) = command {
            self.endpoints_refused(asked, problem);
        }
        let Some(subject) = command.subject() else { return };
        if let Some(action) = self.book.adoptions.get_mut(subject) {
            action.note(&format!("{}: {problem}", command.describe()));
        }
        let of = |action: &Action| action.targets.contains(subject) || action.old.contains(subject);
        for (level, action) in &mut self.book.actions {
            if of(action) {
                action.note(&format!("{}: {problem}", command.describe()));
                *self.refusals.entry(*level).or_default() += 1;
            }
        }
    }

    fn look(&mut self, now: Moment, sight: &Sight) {
        for level in Level::ALL {
            self.advance(level, now, sight);
            self.advance_adoptions(level, now, sight);
        }
        self.reconcile(sight);
        self.ask_for_shares(sight);
        self.set_endpoints(sight);
    }

    fn observe_level(&mut self, level: Level, now: Moment, sight: &Sight) {
        if sight.resources.is_some() {
            self.adopt(level, now, sight);
        }
        let seen = self.seen(level, now, sight);
        let Some(judge) = self.judges.get_mut(&level) else { return };
        let verdict = judge.judge(&seen);
        let did = match self.block_reason(level, sight) {
            Some(why) => why,
            None => self.begin(level, &verdict, now, sight),
        };
        self.judged.insert(level, Judged { seen, verdict, did });
    }

    /// Why no action can begin at a level.
    fn block_reason(&mut self, level: Level, sight: &Sight) -> Option<String> {
        if sight.resources.is_none() {
            return Some("the provider does not answer: nothing is begun".to_owned());
        }
        let action = self.book.actions.get(&level)?;
        Some(format!("action {} is under way", action.number))
    }

    /// Counts who does not answer.
    fn note_silence(&mut self, sight: &Sight) {
        if sight.resources.is_none() {
            return;
        }
        let members = &self.book.members;
        self.silent.retain(|name, _| members.contains_key(name));
        for (name, member) in members {
            let answers = match member.wanted.level {
                Level::Orchestrator => sight.answers(name),
                Level::Broker => Self::answers(name, sight),
            };
            let silent = self.silent.entry(name.clone()).or_default();
            *silent = if answers { 0 } else { silent.saturating_add(1) };
        }
    }

    /// Whether a broker answers. Orchestrators are more reliable than a probe, which a busy broker may delay: a broker
    /// is alive if one of them uses it, and dead if all of them have lost it.
    fn answers(broker: &ResourceName, sight: &Sight) -> bool {
        let views = sight.orchestrators.values().filter_map(|view| view.brokers.get(broker));
        let states: Vec<BrokerState> = views.map(|view| view.state).collect();
        let works = |state: &BrokerState| !matches!(state, BrokerState::Down | BrokerState::Connecting);
        if states.iter().any(works) {
            return true;
        }
        let lost = !states.is_empty() && states.iter().all(|state| *state == BrokerState::Down);
        !lost && sight.is_online(broker)
    }

    /// Whether a member counts as dead: its end was seen, the provider does not have it, or it has been silent for too
    /// long.
    pub(super) fn is_dead(&self, name: &ResourceName, sight: &Sight) -> bool {
        let ended = matches!(sight.condition(name), Some(Condition::Ended(_))) || sight.is_absent(name);
        ended || self.silent.get(name).is_some_and(|silent| *silent >= self.settings.down_after)
    }

    /// Whether a member existed before the fleet and is not the manager's.
    pub(super) fn is_attached(&self, name: &ResourceName) -> bool {
        self.book.members.get(name).is_some_and(|member| member.wanted.template == ATTACHED)
    }

    /// Changes the book. The change is kept before the next command.
    pub(super) fn record(&mut self, record: Record) {
        self.unkept.push(record.clone());
        self.book.apply(record);
    }

    /// Requests a command, after all its changes of the book.
    pub(super) fn command(&mut self, command: Command) {
        if !self.unkept.is_empty() {
            let records = std::mem::take(&mut self.unkept);
            self.commands.push(Command::Keep(records));
        }
        // Asking twice in one look does no harm and no good.
        if matches!(command, Command::Tell(_)) || self.asked.insert(command.describe()) {
            self.commands.push(command);
        }
    }

    pub(super) fn tell(&mut self, entry: Entry) {
        self.command(Command::Tell(entry));
    }

    fn finish(&mut self) -> Vec<Command> {
        if !self.unkept.is_empty() {
            let records = std::mem::take(&mut self.unkept);
            self.commands.push(Command::Keep(records));
        }
        self.asked.clear();
        std::mem::take(&mut self.commands)
    }

    /// Whether this fleet, or its provider for it, has given a resource this name at some time.
    pub(super) fn has_named(&self, name: &ResourceName) -> bool {
        self.book.has_named(name) || self.settings.is_stacked(name)
    }

    /// The next number of a name at a level.
    pub(super) fn number(&mut self, level: Level) -> u64 {
        let number = self.book.next(level);
        self.record(Record::Numbers { level, next: number + 1 });
        number
    }

    /// Sets the phase of a member.
    pub(super) fn set_phase(&mut self, name: &ResourceName, phase: Phase, now: Moment) {
        if let Some(member) = self.book.members.get(name)
            && member.phase != phase
        {
            let member = member.in_phase(phase, now);
            self.record(Record::Member(member));
        }
    }
}
