//! The inputs of one look, and the book compared with them.

use super::action::{Action, Kind};
use super::book::{Book, Phase};
use super::moment::Moment;
use super::settings::Settings;
use super::sight::Sight;
use super::silences::Silences;
use crate::level::Level;
use crate::provider::ResourceName;
use crate::provider::attached::ATTACHED;

/// The inputs of one look. They do not change while it lasts.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) settings: &'a Settings,
    pub(super) silences: &'a Silences,
    pub(super) sight: &'a Sight,
    pub(super) observation: u64,
    pub(super) now: Moment,
}

impl<'a> Turn<'a> {
    /// The fleet in this look, by the book as it is now.
    pub(super) fn fleet(self, book: &'a Book) -> FleetSeen<'a> {
        let Turn { settings, silences, sight, observation, now } = self;
        FleetSeen { settings, book, silences, sight, observation, now }
    }
}

/// The book compared with the inputs of a look. It changes nothing.
#[derive(Clone, Copy)]
pub(super) struct FleetSeen<'a> {
    pub(super) settings: &'a Settings,
    pub(super) book: &'a Book,
    pub(super) silences: &'a Silences,
    pub(super) sight: &'a Sight,
    pub(super) observation: u64,
    pub(super) now: Moment,
}

impl FleetSeen<'_> {
    /// True if a member counts as dead: its end was seen, the provider does not have it, or it has been silent for too
    /// long.
    pub(super) fn is_dead(&self, name: &ResourceName) -> bool {
        self.silences.is_dead(name, self.sight, self.settings.down_after)
    }

    /// True if a member existed before the fleet and is not the manager's.
    pub(super) fn is_attached(&self, name: &ResourceName) -> bool {
        self.book.members.get(name).is_some_and(|member| member.wanted.template == ATTACHED)
    }

    /// True if this fleet, or its provider for it, has given a resource this name at some time.
    pub(super) fn has_named(&self, name: &ResourceName) -> bool {
        self.book.has_named(name) || self.settings.is_stacked(name)
    }

    /// The brokers that serve and are not known to be dead.
    pub(super) fn living_brokers(&self) -> Vec<ResourceName> {
        let mut brokers = self.book.names(Level::Broker, &[Phase::Serving]);
        brokers.retain(|broker| !self.is_dead(broker));
        brokers
    }

    /// The orchestrators that serve and are not known to be dead.
    pub(super) fn living_orchestrators(&self) -> Vec<ResourceName> {
        let mut serving = self.book.names(Level::Orchestrator, &[Phase::Serving]);
        serving.retain(|name| !self.is_dead(name));
        serving
    }

    /// True if orchestrators serve, and each of them has answered: only all of them together know the work of brokers.
    pub(super) fn all_answered(&self) -> bool {
        let serving = self.living_orchestrators();
        !serving.is_empty() && serving.iter().all(|name| self.sight.orchestrators.contains_key(name))
    }

    /// An action at its first step, with the next number.
    pub(super) fn new_action(
        &self,
        kind: Kind,
        level: Level,
        targets: Vec<ResourceName>,
        old: Vec<ResourceName>,
        reason: &str,
    ) -> Action {
        let mut action = Action {
            number: self.book.last_action + 1,
            kind,
            level,
            reason: reason.to_owned(),
            observation: self.observation,
            targets,
            old,
            forget_first: self.settings.stack(level).is_some(),
            failing: None,
            started: self.now,
            steps: Vec::new(),
        };
        let first = action.first();
        action.begin(first, self.now);
        action
    }
}
