//! Machines for some levels, processes for the others.

use super::{MachineSettings, Machines};
use crate::level::Level;
use crate::provider::{Allocation, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName, Stack};

use super::call::level_of;

/// Machines of some levels, and beside them a provider of the resources of the other levels.
#[derive(Debug)]
pub struct ByLevel<P> {
    levels: Vec<Level>,
    machines: Machines,
    others: P,
}

impl<P: Provider> ByLevel<P> {
    /// A provider that has both.
    pub fn new(settings: &MachineSettings, machines: Machines, others: P) -> Self {
        Self { levels: settings.levels.keys().copied().collect(), machines, others }
    }

    /// A process that was made before its level had machines is still a process.
    fn named(&mut self, name: &ResourceName) -> Result<&mut dyn Provider, ProviderError> {
        let of_machines = level_of(name.as_str()).is_some_and(|level| self.levels.contains(&level));
        let is_process = self.others.list()?.iter().any(|resource| resource.name == *name);
        Ok(if of_machines && !is_process { &mut self.machines } else { &mut self.others })
    }
}

impl<P: Provider> Provider for ByLevel<P> {
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError> {
        self.named(&wanted.name)?.allocate(wanted)
    }

    fn list(&mut self) -> Result<Vec<Resource>, ProviderError> {
        let mut all = self.machines.list()?;
        all.extend(self.others.list()?);
        Ok(all)
    }

    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.named(name)?.release(name)
    }

    fn discard(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.named(name)?.discard(name)
    }

    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.named(name)?.stop(name)
    }

    fn set_aside(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.named(name)?.set_aside(name)
    }

    fn stack(&self, level: Level) -> Option<Stack> {
        self.others.stack(level)
    }

    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError> {
        let mut all = self.machines.observe(look)?;
        all.extend(self.others.observe(look)?);
        Ok(all)
    }
}
