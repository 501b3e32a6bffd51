//! The machines as they are reported.

use super::{Inventory, Machine};
use crate::level::Level;
use crate::provider::machines::answer::{Listed, MachineState};
use crate::provider::machines::settings::MACHINE;
use crate::provider::machines::tries::{Tries, millis};
use crate::provider::{Resource, ResourceName};

/// The condition of a machine without a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum MachineLife {
    Starting,
    /// It runs, at this host and port.
    Running(String, u16),
    /// It should run, and its address is unknown.
    Lost(String),
    Stopping,
    Ended(String),
}

/// A machine as it is reported.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct SeenMachine {
    pub(in super::super) resource: Resource,
    pub(in super::super) life: MachineLife,
    pub(in super::super) cpu: Option<f64>,
    pub(in super::super) memory: Option<u64>,
}

impl Inventory {
    /// All machines of the fleet that are there, or were made and are missing.
    pub(in super::super) fn seen(&self, now: u64) -> Vec<SeenMachine> {
        self.machines.iter().filter_map(|(name, machine)| self.seen_one(now, name, machine)).collect()
    }

    fn seen_one(&self, now: u64, name: &ResourceName, machine: &Machine) -> Option<SeenMachine> {
        let (record, listed) = (&machine.record, self.listing.kept(name));
        let level = record.wanted.level;
        let life = match record.released_ms {
            Some(_) if record.gone => return None,
            Some(_) => MachineLife::Stopping,
            None => self.life(now, machine, listed)?,
        };
        let fresh = listed.filter(|_| self.listing.is_fresh(now));
        let (cpu, memory) = (fresh.and_then(|listed| listed.cpu), fresh.and_then(|listed| listed.memory));
        Some(SeenMachine { resource: self.resource(level, name), life, cpu, memory })
    }

    /// `None` for one that has not been made.
    fn life(&self, now: u64, machine: &Machine, listed: Option<&Listed>) -> Option<MachineLife> {
        let settles = machine.asked.done().is_some() && machine.is_settling(&self.listing, now);
        if let Some(listed) = listed {
            return Some(match listed.state {
                MachineState::Starting => MachineLife::Starting,
                MachineState::Running => self.running(machine, listed),
                MachineState::Stopping => MachineLife::Stopping,
                MachineState::Ended if settles => MachineLife::Starting,
                MachineState::Ended => MachineLife::Ended("its machine has ended, by `list`".to_owned()),
            });
        }
        if settles {
            return Some(MachineLife::Starting);
        }
        let lag = millis(self.limits().lag);
        let seconds = lag / 1000;
        if machine.record.id.is_none() {
            let why = format!("`allocate` has succeeded, and `list` has not shown its machine within {seconds} s");
            return machine.asked.done().map(|_| MachineLife::Ended(why));
        }
        // Only a list can show the absence: while `list` fails, no time counts.
        let end = machine.missing_ms.map(|since| since.saturating_add(lag));
        let lags = end.is_none_or(|end| now < end || !self.listing.is_after(Some(end)));
        Some(match &machine.last {
            _ if !lags => MachineLife::Ended(format!("`list` has not shown its machine for {seconds} s")),
            Some(last) => self.running(machine, last),
            None => MachineLife::Lost("`list` does not show its machine".to_owned()),
        })
    }

    fn running(&self, machine: &Machine, listed: &Listed) -> MachineLife {
        let usual = self.settings.levels.get(&machine.record.wanted.level).map(|level| level.port);
        let port = listed.port.or(usual).unwrap_or_default();
        listed.host.clone().map_or(MachineLife::Starting, |host| MachineLife::Running(host, port))
    }

    pub(super) fn resource(&self, level: Level, name: &ResourceName) -> Resource {
        let machine = self.machines.get(name);
        let listed = self.listing.kept(name).or_else(|| machine?.last.as_ref());
        let settings = self.settings.levels.get(&level);
        let host = listed.and_then(|listed| listed.host.as_deref()).unwrap_or_default();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let at =
            |scheme: &str, port: u16| if host.is_empty() { String::new() } else { format!("{scheme}://{host}:{port}") };
        let port = listed.and_then(|listed| listed.port).or_else(|| settings.map(|it| it.port)).unwrap_or_default();
        let scheme = if settings.is_some_and(|it| it.secure) { "mqtts" } else { "mqtt" };
        let usual = settings.and_then(|settings| settings.admin_port);
        let admin = usual.map(|usual| listed.and_then(|listed| listed.admin_port).unwrap_or(usual));
        Resource {
            name: name.clone(),
            level,
            template: machine.map_or_else(|| MACHINE.to_owned(), |machine| machine.record.wanted.template.clone()),
            address: at(scheme, port),
            admin: admin.filter(|_| !host.is_empty()).map(|port| at("http", port)),
            pid: None,
            note: self.note(name, listed),
        }
    }

    fn note(&self, name: &ResourceName, listed: Option<&Listed>) -> String {
        let machine = self.machines.get(name);
        let failed = machine.and_then(|machine| [&machine.released, &machine.asked].into_iter().find_map(Tries::error));
        if let Some(error) = failed {
            return error.to_string();
        }
        if let Some(error) = self.list_error() {
            return format!("as `list` has shown it last: {error}");
        }
        if let Some((_, kept)) =
            self.listing.extras().find(|(of, extra)| *of == name && extra.state == MachineState::Ended)
            && machine.is_some_and(|machine| machine.record.wanted.level == Level::Orchestrator)
        {
            return format!(
                "its ended machine `{}` is kept, with its stored messages: remove it in the cloud",
                kept.id
            );
        }
        if self.listing.extras().any(|(of, _)| of == name) && !self.settings.commands.releases_by_id() {
            return "it has a second machine; write {id} in machines.release, so that one of them can be removed"
                .to_owned();
        }
        match listed {
            None => "`list` does not show its machine yet".to_owned(),
            Some(listed) if listed.cpu.is_none() => "`list` prints no `cpu` of its machine".to_owned(),
            Some(_) => String::new(),
        }
    }
}
