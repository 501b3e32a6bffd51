//! The machines of a fleet: which command is called when. Pure: the time and the ends of calls are handed in.
//!
//! A name belongs to one machine. `allocate` is called only while `list` shows no machine of the name and no earlier
//! call can still make one: `list` may [lag](Limits::lag) behind, and a call whose manager died may be under way for its
//! whole time limit. Whatever `list` shows of a released name, or a second time of one name, is an orphan and removed.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{self, Listed, MachineState};
use super::call::{Call, level_of};
use super::error::MachineError;
use super::listing::Listing;
use super::record::MachineRecord;
use super::runner::Outcome;
use super::settings::{Limits, MACHINE, MachineSettings};
use super::tries::{Tries, millis};
use crate::level::Level;
use crate::provider::{Allocation, Release, Resource, ResourceName};

/// Commands under way at once, `list` not counted.
const MAX_CALLS: usize = 16;
/// Time for which a released name is remembered, so that its machine is removed when it appears late: a day.
const KEEP_RELEASED_MS: u64 = 24 * 3600 * 1000;
/// Most released names that are remembered; beyond, the oldest is forgotten.
pub(super) const MAX_RELEASED: usize = 10_000;

/// A machine that was asked for.
#[derive(Clone, Debug)]
struct Machine {
    record: MachineRecord,
    asked: Tries,
    released: Tries,
    /// The identifier that the last release was called with.
    releasing: Option<String>,
    /// Until when a call that has ended, or whose end is unknown, may still make it appear.
    settles_ms: u64,
    /// As `list` has shown it last.
    last: Option<Listed>,
    /// Since when `list` does not show it any more.
    missing_ms: Option<u64>,
}

/// The condition of a machine without a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MachineLife {
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
pub(super) struct SeenMachine {
    pub(super) resource: Resource,
    pub(super) life: MachineLife,
    pub(super) cpu: Option<f64>,
    pub(super) memory: Option<u64>,
}

/// The machines of a fleet.
#[derive(Clone, Debug)]
pub(super) struct Inventory {
    settings: MachineSettings,
    machines: BTreeMap<ResourceName, Machine>,
    listing: Listing,
    /// Second machines of a name, by name and identifier.
    extras: BTreeMap<(ResourceName, String), Tries>,
    /// Calls to begin.
    outbox: Vec<Call>,
    /// Whether records have changed since they were saved.
    changed: bool,
    running: usize,
}

impl Inventory {
    /// Continues with the records of an earlier manager.
    pub(super) fn new(settings: MachineSettings, records: Vec<MachineRecord>) -> Self {
        let open = millis(settings.limits.time_limit).saturating_add(millis(settings.limits.lag));
        let machine = |record: MachineRecord| {
            let settles_ms = if record.asked_ms == 0 { 0 } else { record.asked_ms.saturating_add(open) };
            (record.wanted.name.clone(), Machine { settles_ms, ..Machine::of(record) })
        };
        let machines = records.into_iter().map(machine).collect();
        let (listing, extras, outbox) = Default::default();
        Self { settings, machines, listing, extras, outbox, changed: false, running: 0 }
    }

    pub(super) fn settings(&self) -> &MachineSettings {
        &self.settings
    }

    fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// The allocation of a name.
    pub(super) fn wanted(&self, name: &ResourceName) -> Option<&Allocation> {
        self.machines.get(name).map(|machine| &machine.record.wanted)
    }

    /// The records, when they have changed since the last time.
    pub(super) fn take_changed(&mut self) -> Option<Vec<MachineRecord>> {
        let changed = std::mem::take(&mut self.changed);
        changed.then(|| self.records())
    }

    /// The records could not be saved.
    pub(super) fn not_saved(&mut self) {
        self.changed = true;
    }

    pub(super) fn records(&self) -> Vec<MachineRecord> {
        self.machines.values().map(|machine| machine.record.clone()).collect()
    }

    /// The calls to begin, after the records are saved.
    pub(super) fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.outbox)
    }

    /// Whether `list` is under way.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.tries.is_running()
    }

    /// Why no machine may count as absent: `list` has not ended yet, or it has failed too often since.
    pub(super) fn list_error(&self) -> Option<MachineError> {
        let tries = &self.listing.tries;
        let error = if self.has_listed() { tries.report(self.limits()) } else { tries.error() };
        error.cloned().or_else(|| (!self.has_listed()).then_some(MachineError::NotListed))
    }

    /// Whether `list` has ended well once.
    pub(super) fn has_listed(&self) -> bool {
        self.listing.good_begun.is_some()
    }

    /// Begins the calls that are due: `list`, and releases.
    pub(super) fn tick(&mut self, now: u64) {
        if self.listing.is_due(now, self.limits()) {
            self.listing.begin(now);
            self.outbox.push(Call::List);
        }
        let released: Vec<ResourceName> = self
            .machines
            .iter()
            .filter(|(_, it)| it.record.released_ms.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in released {
            self.pursue(now, &name);
        }
        self.release_extras(now);
        self.forget_released(now);
    }

    /// Begins to make a machine, or finds it made.
    ///
    /// # Errors
    /// When several tries have failed, or the name was released.
    pub(super) fn allocate(&mut self, now: u64, wanted: &Allocation) -> Result<Resource, MachineError> {
        let name = &wanted.name;
        let machine =
            self.machines.entry(name.clone()).or_insert_with(|| Machine::of(MachineRecord::of(wanted.clone())));
        if machine.record.released_ms.is_some() {
            return Err(MachineError::Released(name.clone()));
        }
        machine.record.wanted = wanted.clone();
        match self.listing.kept(name).map(|listed| listed.state) {
            None | Some(MachineState::Ended) => self.ask(now, name)?,
            Some(MachineState::Running | MachineState::Starting | MachineState::Stopping) => machine.asked.settle(),
        }
        Ok(self.resource(wanted.level, name))
    }

    fn ask(&mut self, now: u64, name: &ResourceName) -> Result<(), MachineError> {
        let Some(machine) = self.machines.get_mut(name) else { return Ok(()) };
        if machine.asked.is_running() {
            return Ok(());
        }
        if machine.is_settling(&self.listing, now) {
            self.listing.wanted |= now >= machine.settles_ms;
            return Ok(());
        }
        if !machine.asked.is_due(now) {
            return machine.asked.report(&self.settings.limits).map_or(Ok(()), |error| Err(error.clone()));
        }
        if !self.listing.is_after(machine.asked.ended()) {
            self.listing.wanted = true;
        } else if self.running < MAX_CALLS {
            machine.asked.begin();
            machine.record.asked_ms = now;
            self.changed = true;
            self.running += 1;
            self.outbox.push(Call::Allocate(name.clone()));
        }
        Ok(())
    }

    /// Begins or continues to remove a machine.
    ///
    /// # Errors
    /// When several tries have failed; it is tried again all the same.
    pub(super) fn release(&mut self, now: u64, name: &ResourceName) -> Result<Release, MachineError> {
        let Some(machine) = self.machines.get_mut(name) else { return Ok(Release::Gone) };
        if machine.record.released_ms.is_none() {
            machine.record.released_ms = Some(now);
            self.changed = true;
        }
        self.pursue(now, name);
        match self.machines.get(name) {
            Some(machine) if !machine.record.gone => {
                machine.released.report(self.limits()).map_or(Ok(Release::Stopping), |error| Err(error.clone()))
            }
            _ => Ok(Release::Gone),
        }
    }

    /// Removes what `list` shows of a released name, and notes when it is gone.
    fn pursue(&mut self, now: u64, name: &ResourceName) {
        let lag = millis(self.limits().lag);
        let Some(machine) = self.machines.get_mut(name) else { return };
        if machine.released.is_running() || machine.asked.is_running() {
            return;
        }
        let (asked, released) = (machine.asked.ended(), machine.released.ended());
        let done = machine.released.done();
        match self.listing.kept(name) {
            Some(listed) if listed.state == MachineState::Ended && done.is_some() => {}
            Some(listed) => {
                let lags = done.is_some_and(|done| now < done.saturating_add(lag));
                if machine.released.is_due(now) && !lags && self.running < MAX_CALLS {
                    machine.released.begin();
                    machine.releasing = Some(listed.id.clone());
                    self.running += 1;
                    self.outbox.push(Call::Release(name.clone(), listed.id.clone()));
                }
                return;
            }
            None if done.is_none() && machine.is_settling(&self.listing, now) => {
                self.listing.wanted |= now >= machine.settles_ms;
                return;
            }
            None => {}
        }
        if !self.listing.is_after(asked.max(released)) {
            self.listing.wanted = true;
        } else if !machine.record.gone {
            machine.record.gone = true;
            self.changed = true;
        }
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, now: u64, call: &Call, outcome: Outcome) {
        let limits = self.settings.limits.clone();
        match call {
            Call::List => self.listed(now, outcome),
            Call::Allocate(name) => {
                self.running = self.running.saturating_sub(1);
                self.listing.wanted = true;
                let Some(machine) = self.machines.get_mut(name) else { return };
                let settles_ms = now.saturating_add(millis(limits.lag));
                match outcome {
                    Ok(_) => {
                        machine.settles_ms = settles_ms;
                        machine.asked.succeeded(now);
                    }
                    Err(error) => {
                        machine.settles_ms = if error.is_open() { settles_ms } else { 0 };
                        machine.asked.failed(now, error, &limits);
                    }
                }
            }
            Call::Release(name, id) => {
                self.running = self.running.saturating_sub(1);
                self.listing.wanted = true;
                let machine = self.machines.get_mut(name).filter(|machine| machine.is_releasing(id));
                let of_machine = machine.map(|machine| &mut machine.released);
                let Some(tries) = of_machine.or_else(|| self.extras.get_mut(&(name.clone(), id.clone()))) else {
                    return;
                };
                match outcome {
                    Ok(_) => tries.succeeded(now),
                    Err(error) => tries.failed(now, error, &limits),
                }
            }
        }
    }

    fn listed(&mut self, now: u64, outcome: Outcome) {
        let command = || Call::List.command(&self.settings, None).join(" ");
        let read = |text: String| {
            let wrong =
                |error: answer::AnswerError| MachineError::Answer { command: command(), problem: error.to_string() };
            answer::read(&text).map_err(wrong)
        };
        match outcome.and_then(read) {
            Ok(all) => {
                let ids = self.machines.iter().filter_map(|(name, it)| Some((name, it.record.id.as_deref()?)));
                let ids: BTreeMap<&ResourceName, &str> = ids.collect();
                let levels: BTreeSet<Level> = self.settings.levels.keys().copied().collect();
                let is_ours = |name: &str| level_of(name).is_some_and(|level| levels.contains(&level));
                self.listing.take(now, all, is_ours, |name| ids.get(name).copied());
                self.compare(now);
            }
            Err(error) => self.listing.tries.failed(now, error, &self.settings.limits),
        }
    }

    /// Notes which machines the list shows.
    fn compare(&mut self, now: u64) {
        // Machines of an earlier manager whose records are lost.
        let unknown: Vec<MachineRecord> = self
            .listing
            .names()
            .filter(|it| !self.machines.contains_key(*it))
            .filter_map(MachineRecord::listed)
            .collect();
        for record in unknown {
            self.changed = true;
            self.machines.insert(record.wanted.name.clone(), Machine::of(record));
        }
        for (name, machine) in &mut self.machines {
            let Some(listed) = self.listing.kept(name) else {
                machine.missing_ms.get_or_insert(now);
                continue;
            };
            machine.missing_ms = None;
            if machine.record.id.as_deref() != Some(listed.id.as_str()) {
                machine.record.id = Some(listed.id.clone());
                self.changed = true;
            }
            if matches!(listed.state, MachineState::Running | MachineState::Starting) {
                machine.asked.settle();
                machine.settles_ms = 0;
            }
            machine.last = Some(listed.clone());
        }
        let mut extras = std::mem::take(&mut self.extras);
        for (name, listed) in self.listing.extras() {
            let key = (name.clone(), listed.id.clone());
            let tries = extras.remove(&key).unwrap_or_default();
            self.extras.insert(key, tries);
        }
        // One that the list has forgotten stays until its call has ended.
        self.extras.extend(extras.into_iter().filter(|(_, tries)| tries.is_running()));
    }

    fn release_extras(&mut self, now: u64) {
        if !self.settings.commands.releases_by_id() {
            return;
        }
        let lag = millis(self.limits().lag);
        let shown: Vec<(ResourceName, String, MachineState)> =
            self.listing.extras().map(|(name, listed)| (name.clone(), listed.id.clone(), listed.state)).collect();
        for (name, id, state) in shown {
            let Some(tries) = self.extras.get_mut(&(name.clone(), id.clone())) else { continue };
            let waits = tries.done().is_some_and(|done| state == MachineState::Ended || now < done.saturating_add(lag));
            let is_under_way = self.machines.get(&name).is_some_and(|machine| machine.is_releasing(&id));
            if tries.is_due(now) && !waits && !is_under_way && self.running < MAX_CALLS {
                tries.begin();
                self.running += 1;
                tracing::warn!(%name, id, "a second machine of a name is removed");
                self.outbox.push(Call::Release(name, id));
            }
        }
    }

    fn forget_released(&mut self, now: u64) {
        let since = |machine: &Machine| machine.record.released_ms.filter(|_| machine.record.gone);
        let mut gone: Vec<(u64, ResourceName)> =
            self.machines.iter().filter_map(|(name, machine)| Some((since(machine)?, name.clone()))).collect();
        gone.sort();
        let too_many = gone.len().saturating_sub(MAX_RELEASED);
        for (index, (released, name)) in gone.into_iter().enumerate() {
            let is_old = now.saturating_sub(released) > KEEP_RELEASED_MS && self.listing.kept(&name).is_none();
            if index < too_many || is_old {
                self.machines.remove(&name);
                self.changed = true;
            }
        }
    }

    /// All machines of the fleet that are there, or were made and are missing.
    pub(super) fn seen(&self, now: u64) -> Vec<SeenMachine> {
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
        let lags = machine.missing_ms.is_none_or(|since| now < since.saturating_add(lag));
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

    fn resource(&self, level: Level, name: &ResourceName) -> Resource {
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

impl Machine {
    fn of(record: MachineRecord) -> Self {
        let (asked, released, last) = Default::default();
        Self { record, asked, released, releasing: None, settles_ms: 0, last, missing_ms: None }
    }

    /// Whether a call may still make it appear in a list.
    fn is_settling(&self, listing: &Listing, now: u64) -> bool {
        self.settles_ms > 0 && (now < self.settles_ms || !listing.is_after(Some(self.settles_ms)))
    }

    /// Whether the release of this identifier is under way.
    fn is_releasing(&self, id: &str) -> bool {
        self.released.is_running() && self.releasing.as_deref() == Some(id)
    }
}
