//! Members that do not answer.

use std::collections::BTreeMap;

use super::book::Book;
use super::sight::{BrokerState, Sight};
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

/// Observations in a row without an answer, by member.
#[derive(Debug, Default)]
pub(super) struct Silences(BTreeMap<ResourceName, u32>);

impl Silences {
    /// Counts the members that do not answer in an observation.
    pub(super) fn count(&mut self, book: &Book, sight: &Sight) {
        if sight.resources.is_none() {
            return;
        }
        self.0.retain(|name, _| book.members.contains_key(name));
        for (name, member) in &book.members {
            let answers = match member.wanted.level {
                Level::Orchestrator => sight.answers(name),
                Level::Broker => broker_answers(name, sight),
            };
            let silent = self.0.entry(name.clone()).or_default();
            *silent = if answers { 0 } else { silent.saturating_add(1) };
        }
    }

    /// For how many observations a member has been silent.
    pub(super) fn of(&self, name: &ResourceName) -> u32 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// True if a member counts as dead: its end was seen, the provider does not have it, or it has been silent for
    /// `down_after` observations.
    pub(super) fn is_dead(&self, name: &ResourceName, sight: &Sight, down_after: u32) -> bool {
        let ended = matches!(sight.condition(name), Some(Condition::Ended(_))) || sight.is_absent(name);
        ended || self.0.get(name).is_some_and(|silent| *silent >= down_after)
    }
}

/// True if a broker answers. Orchestrators are more reliable than a probe, which a busy broker may delay: a broker is
/// alive if one of them uses it, and dead if all of them have lost it.
fn broker_answers(broker: &ResourceName, sight: &Sight) -> bool {
    let views = sight.orchestrators.values().filter_map(|view| view.brokers.get(broker));
    let states: Vec<BrokerState> = views.map(|view| view.state).collect();
    let works = |state: &BrokerState| !matches!(state, BrokerState::Down | BrokerState::Connecting);
    if states.iter().any(works) {
        return true;
    }
    let lost = !states.is_empty() && states.iter().all(|state| *state == BrokerState::Down);
    !lost && sight.is_online(broker)
}
