//! Drains resources that another controller removes, such as an autoscaler or the operator of a machine, while they
//! still answer.

use super::action::{Action, Kind, Step};
use super::begin::Beginning;
use super::book::Phase;
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

impl Beginning<'_> {
    /// Begins to drain the members of a level that another controller removes, or has removed.
    pub(super) fn evacuate(&mut self, level: Level) -> Option<String> {
        let fleet = self.fleet();
        let mut taken = fleet.book.names(level, &[Phase::Pending, Phase::Joining, Phase::Serving, Phase::Lost]);
        taken.retain(|name| fleet.is_taken_away(level, name));
        if taken.is_empty() {
            return None;
        }
        Some(self.begin_action(Kind::Evacuate, level, taken, Vec::new(), "another controller removes it"))
    }
}

impl FleetSeen<'_> {
    /// A provider with a stack lists resources that it has to create as starting: an unlisted one has been removed.
    fn is_taken_away(&self, level: Level, name: &ResourceName) -> bool {
        let stacked = self.settings.stack(level).is_some_and(|stack| stack.number(name).is_some());
        match self.sight.condition(name) {
            Some(Condition::Stopping) => !self.is_attached(name),
            Some(_) => false,
            None => stacked && self.sight.is_absent(name),
        }
    }

    /// Whether orchestrators have to forget a broker that still exists.
    pub(super) fn is_to_be_forgotten(&self, broker: &ResourceName) -> bool {
        let action = self.book.actions.get(&Level::Broker);
        let forgets = |action: &Action| action.step() == Some(Step::Forget) && action.targets.contains(broker);
        action.is_some_and(forgets) && self.book.phase(broker) == Some(Phase::Leaving)
    }
}
