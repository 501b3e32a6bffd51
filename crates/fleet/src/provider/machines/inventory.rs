//! The machines of a fleet: which command is called when. Pure: the time and the ends of calls are handed in.
//!
//! A name belongs to one machine. `allocate` is called only while `list` shows no machine of the name and no earlier
//! call can still make one: `list` may [lag](Limits::lag) behind. A call whose manager died is waited for until its time
//! limit and the lag are over; nothing kills it, so it may make a machine later still. Whatever `list` shows of a released
//! name, or a second time of one name, is an orphan and removed.

mod seen;

pub(super) use seen::{MachineLife, SeenMachine};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answer::{self, Listed, MachineState};
use super::call::{Call, level_of};
use super::error::MachineError;
use super::listing::Listing;
use super::record::MachineRecord;
use super::runner::Outcome;
use super::secrets::Secrets;
use super::settings::{Limits, MachineSettings};
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

    /// The pause until `list` is tried again before it has ended well once; `None` if it has, or the error stands.
    pub(super) fn next_try(&self, now: u64) -> Option<Duration> {
        let tries = &self.listing.tries;
        let stands = matches!(tries.error(), None | Some(MachineError::NotStarted { .. }));
        let is_over = self.has_listed() || stands || tries.report(self.limits()).is_some();
        (!is_over).then(|| tries.pause(now))
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
        let settles = machine.is_settling(&self.listing, now);
        if settles || !machine.asked.is_due(now) {
            self.listing.wanted |= settles && now >= machine.settles_ms;
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

    /// Removes what `list` shows of a released name, and notes when it is gone: after a release that has succeeded, and a
    /// later list without it. `list` may omit a machine that runs, so one that was ever there is released unseen.
    fn pursue(&mut self, now: u64, name: &ResourceName) {
        let lag = millis(self.limits().lag);
        let by_id = self.settings.commands.releases_by_id();
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
                let id = listed.id.clone();
                if !lags {
                    self.begin_release(now, name, id);
                }
                return;
            }
            None if done.is_none() && machine.is_settling(&self.listing, now) => {
                self.listing.wanted |= now >= machine.settles_ms;
                return;
            }
            None if done.is_none() && !machine.record.gone && self.listing.is_after(asked) => {
                if let Some(id) = machine.unseen(by_id) {
                    self.begin_release(now, name, id);
                    return;
                }
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

    fn begin_release(&mut self, now: u64, name: &ResourceName, id: String) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        if machine.released.is_due(now) && self.running < MAX_CALLS {
            machine.released.begin();
            machine.releasing = Some(id.clone());
            self.running += 1;
            self.outbox.push(Call::Release(name.clone(), id));
        }
    }

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
                        machine.settles_ms = if error.may_have_worked() { settles_ms } else { 0 };
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
        let command = || Call::List.shown(&self.settings, None);
        let read = |text: String| {
            let problem = |error: answer::AnswerError| Secrets::of(&self.settings).hide(&error.to_string(), false);
            let wrong = |error| MachineError::Answer { command: command(), problem: problem(error) };
            answer::read(&text).map_err(wrong)
        };
        match outcome.and_then(read).and_then(|all| self.check_vanished(all)) {
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

    /// Refuses a list without any of several machines that were there: more likely its credentials or its region are
    /// wrong than that all have ended at once. A machine that does not answer is released, and then no longer counts.
    fn check_vanished(&self, all: Vec<Listed>) -> Result<Vec<Listed>, MachineError> {
        let is_there =
            |it: &&Machine| it.record.id.is_some() && it.record.released_ms.is_none() && it.missing_ms.is_none();
        let there: BTreeSet<&str> =
            self.machines.values().filter(is_there).map(|it| it.record.wanted.name.as_str()).collect();
        if there.len() < 2 || all.iter().any(|listed| there.contains(listed.name.as_str())) {
            return Ok(all);
        }
        let command = Call::List.shown(&self.settings, None);
        Err(MachineError::Vanished { command, count: there.len() })
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
            // The stored messages of an orchestrator survive the end of its machine.
            if state == MachineState::Ended && level_of(name.as_str()) == Some(Level::Orchestrator) {
                continue;
            }
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

    /// The identifier to release it with while `list` does not show it. `None` if it was never asked for nor shown, or
    /// if the command needs an identifier and none is known: it is removed when `list` shows it.
    fn unseen(&self, by_id: bool) -> Option<String> {
        let by_name = || (self.record.asked_ms > 0 && !by_id).then(|| self.record.wanted.name.to_string());
        self.record.id.clone().or_else(by_name)
    }

    /// Whether the release of this identifier is under way.
    fn is_releasing(&self, id: &str) -> bool {
        self.released.is_running() && self.releasing.as_deref() == Some(id)
    }
}
