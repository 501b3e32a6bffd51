//! The section `[machines]`, with which machines of a cloud take the place of processes.

use super::FleetFile;
use crate::level::Level;
use crate::provider::machines::{MACHINE, MachineSettings};
use tidegate_document::Keys;

/// Reads the section.
pub(super) fn read(keys: &mut Keys<'_>) -> Option<MachineSettings> {
    if keys.has("machines") && keys.has("kubernetes") {
        keys.refuse("machines", "and `kubernetes` are both there", "a fleet has machines or pods: remove one of them");
    }
    keys.table("machines", MachineSettings::read)
}

impl FleetFile {
    /// Whether resources of a level are machines.
    pub(super) fn has_machines(&self, level: Level) -> bool {
        self.machines.as_ref().is_some_and(|machines| machines.levels.contains_key(&level))
    }

    /// Whether orchestrators are machines, which a manager cannot stop without their stored state.
    pub fn keeps_orchestrators(&self) -> bool {
        self.has_machines(Level::Orchestrator)
    }

    /// Machines are made by a command, whatever the sections of the levels name as templates.
    pub(super) fn with_machines(mut self, keys: &mut Keys<'_>) -> Self {
        if self.has_machines(Level::Orchestrator)
            && self.bus.as_ref().is_none_or(|bus| bus.starts_with(super::EMBEDDED))
        {
            let hint = "write fleet.bus = \"nats://HOST:PORT\" or \"kafka://HOST:PORT\"";
            keys.refuse("machines", "has orchestrators, and they need a bus that all machines reach", hint);
        }
        let Some(machines) = &mut self.machines else { return self };
        if self.bus.is_none() && machines.commands.name_the_bus() {
            keys.refuse("machines", "passes {bus} on, and there is no `fleet.bus`", "write fleet.bus, or remove {bus}");
        }
        self.settings.fleet.clone_into(&mut machines.fleet);
        machines.bus = self.bus.clone().unwrap_or_default();
        self.routing.clone_into(&mut machines.routing);
        for level in machines.levels.keys() {
            if let Some(settings) = self.settings.levels.get_mut(level) {
                settings.templates = vec![(MACHINE.to_owned(), 1)];
            }
        }
        self
    }
}
