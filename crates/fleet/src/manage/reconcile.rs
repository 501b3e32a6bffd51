//! Corrects the orchestrators' lists of brokers, and ends evictions of orchestrators that serve again: an orchestrator
//! that missed a change, because it was down or is new, gets it at the next look.

use super::book::Phase;
use super::command::Command;
use super::sight::{BrokerState, OrchestratorView};
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

impl FleetSeen<'_> {
    /// The commands that bring all orchestrators in line with the book.
    pub(super) fn reconcile(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        for (at, view) in &self.sight.orchestrators {
            if !matches!(self.book.phase(at), None | Some(Phase::Leaving)) {
                self.reconcile_members(at, view, &mut commands);
                self.reconcile_strangers(at, view, &mut commands);
            }
        }
        let evicted = self.returned_members().filter(|(_, view)| view.draining);
        commands.extend(evicted.map(|(at, _)| Command::EndEviction { at: at.clone() }));
        commands
    }

    /// Members that the manager has evicted and that are meant to serve again. Evictions by others are not its own to
    /// end.
    fn returned_members(&self) -> impl Iterator<Item = (&ResourceName, &OrchestratorView)> {
        let is_back = |name: &ResourceName| {
            self.sight.condition(name) != Some(&Condition::Stopping)
                && self.book.members.get(name).is_some_and(|member| member.evicted && member.phase == Phase::Serving)
        };
        self.sight.orchestrators.iter().filter(move |(name, _)| is_back(name))
    }

    /// Evicted members that accept clients again.
    pub(super) fn ended_evictions(&self) -> Vec<ResourceName> {
        let ended = self.returned_members().filter(|(_, view)| !view.draining);
        ended.map(|(name, _)| name.clone()).collect()
    }

    fn reconcile_members(&self, at: &ResourceName, view: &OrchestratorView, commands: &mut Vec<Command>) {
        let brokers: Vec<(ResourceName, Phase)> =
            self.book.level(Level::Broker).map(|member| (member.wanted.name.clone(), member.phase)).collect();
        for (broker, phase) in brokers {
            let state = view.brokers.get(&broker).map(|broker| broker.state);
            let leaves = matches!(state, Some(BrokerState::Draining | BrokerState::Drained));
            let at = at.clone();
            if state.is_some() && self.is_to_be_forgotten(&broker) {
                let ended = matches!(self.sight.condition(&broker), None | Some(Condition::Ended(_)));
                if leaves || ended {
                    // Pending messages for an ended broker go to others.
                    let force = ended && view.brokers.get(&broker).is_some_and(|known| known.owed > 0);
                    commands.push(Command::RemoveBroker { at, broker, force });
                    continue;
                }
            }
            match phase {
                Phase::Joining | Phase::Serving if state.is_none() || leaves => {
                    let there = self.sight.resource(&broker).map(|observed| &observed.condition);
                    if !matches!(there, None | Some(Condition::Ended(_) | Condition::Stopping)) {
                        let replaces = self.replaced_by(&broker);
                        commands.push(Command::AddBroker { at, broker, replaces });
                    }
                }
                Phase::Draining | Phase::Leaving if state.is_some() && !leaves => {
                    commands.push(Command::DrainBroker { at, broker });
                }
                _ => {}
            }
        }
    }

    /// Dead brokers that one takes the place of.
    fn replaced_by(&self, broker: &ResourceName) -> Vec<ResourceName> {
        let action = self.book.actions.get(&Level::Broker).filter(|action| action.targets.contains(broker));
        action.map(|action| action.old.clone()).unwrap_or_default()
    }

    /// Former brokers of this fleet. Pending messages for them go to others. Brokers that were never in this fleet
    /// belong to another and stay.
    fn reconcile_strangers(&self, at: &ResourceName, view: &OrchestratorView, commands: &mut Vec<Command>) {
        for (broker, known) in &view.brokers {
            let gone = self.book.phase(broker).is_none() && self.has_named(broker) && self.sight.is_absent(broker);
            if gone {
                let force = known.owed > 0;
                commands.push(Command::RemoveBroker { at: at.clone(), broker: broker.clone(), force });
            }
        }
    }
}
