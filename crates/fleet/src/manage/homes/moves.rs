//! Moves of partitions: each orchestrator gets its share, and a leaving one gives up all.

use std::collections::BTreeSet;

use super::{HomesState, HomesTable, rendezvous};
use crate::level::Level;
use crate::manage::action::{Action, Step};
use crate::manage::book::Phase;
use crate::manage::command::Command;
use crate::manage::machine::Manager;
use crate::manage::sight::Sight;
use crate::provider::ResourceName;

/// Partitions of one move. The clients of a move reconnect, so it is small.
const BATCH: usize = 8;

impl Manager {
    /// Moves some partitions that are not at their home: one move per observation, so that few clients reconnect at a
    /// time.
    pub(in crate::manage) fn share_homes(&mut self, sight: &Sight) {
        let leaving = self.book.actions.get(&Level::Orchestrator).and_then(Action::step) == Some(Step::HandOver);
        let HomesState::Agreed(table) = self.homes_state(sight) else { return };
        if leaving {
            return;
        }
        // A dead one comes back, and keeps its share.
        let mut names = self.book.names(Level::Orchestrator, &[Phase::Serving, Phase::Lost, Phase::Stopped]);
        names.retain(|name| table.places.contains_key(name));
        let able = self.able(&table, sight);
        let strays = (0..).zip(&table.homes).filter_map(|(partition, home)| {
            let to = rendezvous(&names, partition)?;
            (to != home && able.contains(home) && able.contains(to)).then(|| (partition, home.clone(), to.clone()))
        });
        let mut strays: Vec<(u16, ResourceName, ResourceName)> = strays.collect();
        if strays.is_empty() {
            return;
        }
        // Not always the same first: one move that is refused again and again does not hold up all others.
        let turn = usize::try_from(self.observation).unwrap_or_default() % strays.len();
        strays.rotate_left(turn);
        let Some((_, at, to)) = strays.first().cloned() else { return };
        let partitions = strays.iter().filter(|(_, from, target)| (from, target) == (&at, &to));
        let partitions = partitions.map(|(partition, ..)| *partition).take(BATCH).collect();
        self.command(Command::MovePartitions { at, to, partitions, epoch: table.epoch });
    }

    /// Moves some partitions of leaving orchestrators.
    pub(in crate::manage) fn hand_over(&mut self, action: &Action, sight: &Sight) {
        let HomesState::Agreed(table) = self.homes_state(sight) else { return };
        let able = self.able(&table, sight);
        for at in action.targets.iter().filter(|at| sight.orchestrators.contains_key(*at)) {
            let own = table.at(at);
            let target = |partition: &u16| rendezvous(able.iter().filter(|name| *name != at), *partition);
            let Some(to) = own.first().and_then(target).cloned() else { continue };
            let partitions = own.into_iter().filter(|partition| target(partition) == Some(&to)).take(BATCH).collect();
            let (at, epoch) = (at.clone(), table.epoch);
            self.command(Command::MovePartitions { at, to, partitions, epoch });
            return;
        }
    }

    /// The places that serve, and answer.
    fn able(&self, table: &HomesTable, sight: &Sight) -> BTreeSet<ResourceName> {
        let mut names = self.book.names(Level::Orchestrator, &[Phase::Serving]);
        names.retain(|name| {
            let serves = sight.orchestrators.get(name).is_some_and(|view| !view.draining);
            serves && table.places.contains_key(name)
        });
        names.into_iter().collect()
    }
}
