//! Drains resources that another controller removes, such as an autoscaler or the operator of a machine, while they
//! still answer.

use super::action::{Action, Kind, Step};
use super::book::Phase;
use super::machine::Manager;
use super::moment::Moment;
use super::sight::Sight;
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

impl Manager {
    /// Begins to drain the members of a level that another controller removes, or has removed.
    pub(super) fn evacuate(&mut self, level: Level, now: Moment, sight: &Sight) -> Option<String> {
        let members = self.book.names(level, &[Phase::Pending, Phase::Joining, Phase::Serving, Phase::Lost]);
        let taken: Vec<ResourceName> =
            members.into_iter().filter(|name| self.is_taken_away(level, name, sight)).collect();
        if taken.is_empty() {
            return None;
        }
        Some(self.begin_action(Kind::Evacuate, level, taken, Vec::new(), "another controller removes it", now))
    }

    /// A provider with a stack lists resources that it has to create as starting: an unlisted one has been removed.
    fn is_taken_away(&self, level: Level, name: &ResourceName, sight: &Sight) -> bool {
        let stacked = self.settings.stack(level).is_some_and(|stack| stack.number(name).is_some());
        match sight.condition(name) {
            Some(Condition::Stopping) => !self.is_attached(name),
            Some(_) => false,
            None => stacked && sight.is_absent(name),
        }
    }

    /// Whether orchestrators are to forget a broker although it is still there.
    pub(super) fn is_to_be_forgotten(&self, broker: &ResourceName) -> bool {
        let action = self.book.actions.get(&Level::Broker);
        let forgets = |action: &Action| action.step() == Some(Step::Forget) && action.targets.contains(broker);
        action.is_some_and(forgets) && self.book.phase(broker) == Some(Phase::Leaving)
    }
}
