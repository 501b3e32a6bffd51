//! The model of the world executes commands.

use super::super::*;
use super::world::*;
use crate::level::Level;
use crate::provider::{Allocation, ResourceName};

impl World {
    /// Executes a command; an impossible one is an error, and a forbidden one a violation.
    pub(super) fn execute(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Keep(_) => {}
            Command::Allocate(wanted) => self.allocate(wanted)?,
            Command::Release(name) | Command::Discard(name) => self.release(name),
            Command::SetAside(_) if self.full_aside => return Err("full".to_owned()),
            Command::SetAside(name) => self.set_aside(name),
            Command::AddBroker { at, broker, .. } => {
                let since = self.now;
                let known =
                    self.asked(at)?.brokers.entry(broker.clone()).or_insert(Known { since, draining: false, owed: 0 });
                known.draining = false;
            }
            Command::DrainBroker { at, broker } => {
                self.asked(at)?.brokers.get_mut(broker).ok_or("unknown broker")?.draining = true;
            }
            Command::RemoveBroker { at, broker, force } => self.remove(at, broker, *force)?,
            Command::Evict { at, .. } => self.asked(at)?.draining = true,
            Command::EndEviction { at } => self.asked(at)?.draining = false,
            Command::SetShare { at, wanted } => {
                if *wanted && matches!(self.things.get(at), Some(Thing { life: Life::Held(..), .. })) {
                    self.violations.push(format!("{at} was asked to take a share, and is being removed"));
                }
                let online = |name: &&ResourceName| self.is_online(name);
                let brokers = self.names(Level::Broker);
                let brokers = brokers.iter().filter(online).count();
                if *wanted && self.serving(at).is_empty() && brokers > 0 {
                    self.violations.push(format!("{at} was asked to take a share, and serves no broker"));
                }
                self.asked(at)?;
                self.cluster.set_share(at, *wanted);
            }
            Command::SetEndpoints(_) if self.refuses_names => return Err("the entry point refuses".to_owned()),
            Command::SetEndpoints(endpoints) => self.endpoints.clone_from(endpoints),
            Command::Tell(Entry(value)) => self.history.push(value.clone()),
        }
        Ok(())
    }

    fn asked(&mut self, at: &ResourceName) -> Result<&mut Orchestrator, String> {
        if !self.is_online(at) {
            return Err(format!("{at} does not answer"));
        }
        Ok(self.orchestrators.entry(at.clone()).or_default())
    }

    fn allocate(&mut self, wanted: &Allocation) -> Result<(), String> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err("refused".to_owned());
        }
        let until = self.now + BOOT;
        let thing = self
            .things
            .entry(wanted.name.clone())
            .or_insert(Thing { wanted: wanted.clone(), life: Life::Booting(until) });
        if matches!(thing.life, Life::Ended | Life::Hanging) {
            thing.life = Life::Booting(until);
        }
        if wanted.level == Level::Orchestrator {
            self.orchestrators.entry(wanted.name.clone()).or_default();
        }
        for level in Level::ALL {
            if self.names(level).len() > self.most[&level] {
                self.violations.push(format!("more than the SLA's maximum: {:?}", self.names(level)));
            }
        }
        Ok(())
    }

    fn release(&mut self, name: &ResourceName) {
        let Some(thing) = self.things.get(name) else { return };
        if matches!(thing.life, Life::Stopping(_) | Life::Held(..)) {
            return;
        }
        if self.stacked && self.names(thing.wanted.level).last() != Some(name) {
            self.violations.push(format!("{name} was released and is not the last"));
        }
        let (level, life) = (thing.wanted.level, thing.life.clone());
        let owed: u64 = match level {
            Level::Broker if life == Life::Ended || life == Life::Hanging => 0,
            Level::Broker => {
                self.orchestrators.values().filter_map(|it| it.brokers.get(name)).map(|known| known.owed).sum()
            }
            Level::Orchestrator => self.view(name).owed + self.view(name).clients,
        };
        let own = self.cluster.count(name);
        if own > 0 && life == Life::Online && self.cluster.members() > 1 {
            self.violations.push(format!("{name} was released while {own} partitions were at home there"));
        }
        if owed > 0 {
            self.violations.push(format!("{name} was released while {owed} were owed"));
        }
        let others = self.things.values().filter(|thing| thing.wanted.level == level && thing.life == Life::Online);
        let left = others.filter(|thing| thing.wanted.name != *name).count();
        if life == Life::Online && left < self.least[&level] {
            self.violations.push(format!("{name} was released although only {left} would be left"));
        }
        if level == Level::Orchestrator && !self.stacked {
            self.orchestrators.remove(name);
        }
        if let Some(thing) = self.things.get_mut(name) {
            let until = self.now + if self.stacked { GRACE } else { STOP };
            thing.life = if self.stacked { Life::Held(until, false) } else { Life::Stopping(until) };
        }
    }

    fn set_aside(&mut self, name: &ResourceName) {
        if self.is_online(name) {
            self.violations.push(format!("{name} was given up and works"));
        }
        if self.things.remove(name).is_some() {
            self.set_aside += self.view(name).owed;
            self.orchestrators.remove(name);
        }
    }

    fn remove(&mut self, at: &ResourceName, broker: &ResourceName, force: bool) -> Result<(), String> {
        let lives = self.things.contains_key(broker);
        let orchestrator = self.asked(at)?;
        let Some(known) = orchestrator.brokers.get(broker) else { return Ok(()) };
        if known.owed > 0 && !force {
            return Err(format!("{} are owed", known.owed));
        }
        if known.owed > 0 && lives {
            self.violations.push(format!("{broker} was removed at {at} by force although it is there"));
            return Ok(());
        }
        // Messages of a removed broker go to others.
        orchestrator.parked += known.owed;
        orchestrator.brokers.remove(broker);
        Ok(())
    }
}
