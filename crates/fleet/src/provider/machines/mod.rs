//! Machines of any cloud, through three commands of the fleet file: `allocate`, `list`, `release`.
//!
//! Commands run beside the manager's loop, each with a time limit; failures are tried again after growing pauses. The
//! `inventory` decides which command is called when, and is pure. A machine is found by the name that the manager gave it.

mod answer;
mod by_level;
mod call;
mod error;
mod inventory;
mod listing;
mod record;
mod runner;
mod secrets;
mod settings;
mod tries;

pub use by_level::ByLevel;
pub use error::MachineError;
pub use settings::{Limits, MACHINE, MachineCommands, MachineLevel, MachineSettings};

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::inventory::{Inventory, MachineLife, SeenMachine};
use self::runner::Runner;
use self::secrets::Secrets;
use super::probes::{PATIENCE, ProbeTarget, Probes, Unanswered};
use super::{Allocation, Condition, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName};
use crate::clock::Clock;

/// Time that an observation waits for `list`. The output of a longer one is used later.
const LIST_PATIENCE: Duration = Duration::from_millis(2500);

/// Longest pause between two looks whether a signal ends the first wait.
const SIGNAL_LOOK: Duration = Duration::from_millis(50);

/// The machines of one fleet.
pub struct Machines {
    inventory: Inventory,
    runner: Box<dyn Runner>,
    clock: Clock,
    /// The directory of records.
    directory: PathBuf,
    probes: Probes,
    /// Machines that have answered, or ran before this manager.
    answered: BTreeSet<ResourceName>,
    /// Machines that run and did not answer at the last observation.
    hanging: BTreeSet<ResourceName>,
}

impl std::fmt::Debug for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines").field("inventory", &self.inventory).finish_non_exhaustive()
    }
}

impl Machines {
    /// Lists the machines that a manager before this one has left. Records are kept in `directory`. `is_stopped` is asked
    /// again and again meanwhile: whether the manager has to end.
    ///
    /// # Errors
    /// When the records cannot be read, `list` fails `tries` times, or the manager has to end; a `list` that cannot be
    /// started ends it at once.
    pub fn open(
        settings: MachineSettings,
        directory: PathBuf,
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Self, ProviderError> {
        let (limit, secrets) = (settings.limits.time_limit, Secrets::of(&settings));
        let runner = Box::new(runner::CommandRunner::new(settings.directory.clone(), limit, secrets));
        let io = |source| ProviderError::Io { attempt: "make", path: directory.clone(), source };
        std::fs::create_dir_all(&directory).map_err(io)?;
        let records = record::load(&directory)?;
        // A command under way is killed at its limit.
        let patience = settings.limits.time_limit + LIST_PATIENCE;
        let (probes, answered, hanging) = Default::default();
        let inventory = Inventory::new(settings, records);
        let mut machines = Self { inventory, runner, clock: Clock::start(), directory, probes, answered, hanging };
        machines.first_list(patience, is_stopped)?;
        let now = machines.clock.now_ms();
        let runs = |seen: SeenMachine| matches!(seen.life, MachineLife::Running(..)).then_some(seen.resource.name);
        machines.answered = machines.inventory.seen(now).into_iter().filter_map(runs).collect();
        Ok(machines)
    }

    /// Lists the machines, as often as `tries` says.
    fn first_list(&mut self, patience: Duration, is_stopped: &mut dyn FnMut() -> bool) -> Result<(), ProviderError> {
        loop {
            self.inventory.tick(self.clock.now_ms());
            self.send()?;
            self.attend(patience, is_stopped, |machines| !machines.inventory.is_listing())?;
            match self.inventory.next_try(self.clock.now_ms()) {
                None => return self.check_list().map_err(Into::into),
                // No call is under way: this waits for the pause.
                Some(pause) => self.attend(pause, is_stopped, |_| false)?,
            }
        }
    }

    /// Takes the calls that end within a time, until it is over or the manager has to end: then no call is under way.
    fn attend(
        &mut self,
        longest: Duration,
        is_stopped: &mut dyn FnMut() -> bool,
        is_over: impl Fn(&Self) -> bool,
    ) -> Result<(), MachineError> {
        let deadline = Instant::now() + longest;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || is_over(self) {
                return Ok(());
            }
            if is_stopped() {
                self.runner.end_all();
                return Err(MachineError::Interrupted);
            }
            self.collect(left.min(SIGNAL_LOOK));
        }
    }

    /// Waits for the end of `list`.
    fn collect_list(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.inventory.is_listing() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.collect(left);
        }
    }

    /// Takes the calls that have ended.
    fn collect(&mut self, patience: Duration) {
        for (call, outcome) in self.runner.ended(patience) {
            if let Err(error) = &outcome {
                tracing::warn!(%error, "{call} has failed");
            }
            self.inventory.ended(self.clock.now_ms(), &call, outcome);
        }
    }

    /// Saves changed records, then begins the calls.
    fn send(&mut self) -> Result<(), ProviderError> {
        if let Some(records) = self.inventory.take_changed() {
            record::save(&self.directory, &records).inspect_err(|_| self.inventory.not_saved())?;
        }
        for call in self.inventory.take_calls() {
            let name = match &call {
                call::Call::List => None,
                call::Call::Allocate(name) | call::Call::Release(name, _) => Some(name),
            };
            let (settings, wanted) = (self.inventory.settings(), name.and_then(|name| self.inventory.wanted(name)));
            let (command, shown) = (call.command(settings, wanted), call.shown(settings, wanted));
            self.runner.begin(call, command, shown);
        }
        Ok(())
    }

    fn check_list(&self) -> Result<(), MachineError> {
        self.inventory.list_error().map_or(Ok(()), Err)
    }

    /// Follows the commands, and returns the machines as `list` has shown them last; their notes say when it fails.
    fn look(&mut self) -> Result<Vec<SeenMachine>, ProviderError> {
        self.collect(Duration::ZERO);
        self.inventory.tick(self.clock.now_ms());
        self.send()?;
        Ok(self.inventory.seen(self.clock.now_ms()))
    }

    fn condition(
        &mut self,
        name: &ResourceName,
        life: MachineLife,
        answer: Option<Result<(), Unanswered>>,
    ) -> Condition {
        self.hanging.remove(name);
        match (life, answer) {
            (MachineLife::Stopping, _) => Condition::Stopping,
            (MachineLife::Ended(why), _) => {
                self.answered.remove(name);
                Condition::Ended(why)
            }
            (MachineLife::Running(..), Some(Ok(()))) => {
                self.answered.insert(name.clone());
                Condition::Online
            }
            (MachineLife::Running(..), Some(Err(Unanswered(why)))) if self.answered.contains(name) => {
                self.hanging.insert(name.clone());
                Condition::Down(why)
            }
            (MachineLife::Starting | MachineLife::Running(..), _) => Condition::Starting,
            (MachineLife::Lost(why), _) => Condition::Down(why),
        }
    }
}

impl Provider for Machines {
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError> {
        self.collect(Duration::ZERO);
        let allocated = self.inventory.allocate(self.clock.now_ms(), wanted);
        self.send()?;
        if self.hanging.contains(&wanted.name) {
            return Err(MachineError::Hanging(wanted.name.clone()).into());
        }
        Ok(allocated?)
    }

    fn list(&mut self) -> Result<Vec<Resource>, ProviderError> {
        Ok(self.look()?.into_iter().map(|seen| seen.resource).collect())
    }

    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.collect(Duration::ZERO);
        let released = self.inventory.release(self.clock.now_ms(), name);
        self.inventory.tick(self.clock.now_ms());
        self.send()?;
        // Whether it is gone is seen in a list alone.
        if released == Ok(Release::Stopping) {
            self.check_list()?;
        }
        Ok(released?)
    }

    /// As [`release`](Self::release): three commands cannot stop a machine and keep it.
    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.release(name)
    }

    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError> {
        let mut all = self.look()?;
        if look == Look::Everything && self.inventory.is_listing() {
            self.collect_list(LIST_PATIENCE);
            all = self.look()?;
        }
        let is_secure = |seen: &SeenMachine| {
            self.inventory.settings().levels.get(&seen.resource.level).is_some_and(|level| level.secure)
        };
        let target = |seen: &SeenMachine| match &seen.life {
            MachineLife::Running(host, port) => {
                Some(ProbeTarget { host: host.clone(), port: *port, secure: is_secure(seen) })
            }
            _ => None,
        };
        let targets: Vec<Option<ProbeTarget>> = all.iter().map(target).collect();
        let asked: Vec<ProbeTarget> = targets.iter().flatten().cloned().collect();
        let mut answers = self.probes.ask(&asked, PATIENCE).into_iter();
        let mut observed = Vec::new();
        for (seen, target) in all.into_iter().zip(targets) {
            let answer = target.and_then(|_| answers.next());
            let condition = self.condition(&seen.resource.name, seen.life, answer);
            observed.push(Observed { resource: seen.resource, condition, cpu: seen.cpu, memory: seen.memory });
        }
        let known = |name: &ResourceName| observed.iter().any(|it| it.resource.name == *name);
        self.answered.retain(known);
        self.hanging.retain(known);
        Ok(observed)
    }
}

#[cfg(test)]
mod tests;
