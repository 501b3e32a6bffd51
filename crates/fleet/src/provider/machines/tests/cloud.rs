//! A model of a cloud behind three commands, with its faults, and a manager's side of it on a virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::call::Call;
use super::super::inventory::{Inventory, MachineLife, SeenMachine};
use super::super::record::MachineRecord;
use super::super::runner::Outcome;
use super::super::*;
use crate::level::Level;

/// Milliseconds of a turn.
pub(super) const TURN: u64 = 500;

/// A machine of the cloud.
#[derive(Clone, Debug)]
pub(super) struct Vm {
    pub(super) name: String,
    pub(super) state: &'static str,
    /// When its last change is shown by `list`.
    pub(super) shown_ms: u64,
    /// It was removed then.
    pub(super) removed_ms: Option<u64>,
}

/// The effect of an `allocate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// It fails and makes nothing.
    Fails,
    /// It makes a machine and fails all the same.
    FailsAfter,
    /// It makes a machine, and takes longer than its limit.
    TooLong,
    /// It makes two machines.
    Twice,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cloud {
    pub(super) vms: BTreeMap<String, Vm>,
    made: u64,
    under_way: Vec<(u64, Call, bool)>,
    /// How long a command takes.
    pub(super) delay_ms: u64,
    /// How long `list` lags.
    pub(super) lag_ms: u64,
    /// The fault of the next `allocate`s.
    pub(super) faults: Vec<Fault>,
    /// How many `list`s and releases fail from now on.
    pub(super) failing_lists: u32,
    pub(super) refused_releases: u32,
    /// Whether `list` shows no machine, and succeeds.
    pub(super) hides: bool,
    /// Every call that was begun, with its time.
    pub(super) calls: Vec<(u64, Call)>,
    /// How many machines were made for a name.
    pub(super) made_for: BTreeMap<String, u32>,
    /// Whether a machine has no identifier but its name: a second one cannot be made.
    pub(super) names_are_ids: bool,
}

impl Cloud {
    fn begin(&mut self, now: u64, call: Call) {
        self.calls.push((now, call.clone()));
        self.under_way.push((now + self.delay_ms, call, true));
    }

    /// The calls that end now. Calls of a dead manager take their effect, too.
    fn turn(&mut self, now: u64) -> Vec<(Call, Outcome)> {
        let (ended, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.under_way).into_iter().partition(|(ends, ..)| *ends <= now);
        self.under_way = rest;
        let mut outcomes = Vec::new();
        for (_, call, is_heard) in ended {
            let outcome = match &call {
                Call::List => self.list(now),
                Call::Allocate(name) => self.allocate(now, name.as_str()),
                Call::Release(_, id) => self.release(now, id),
            };
            if is_heard {
                outcomes.push((call, outcome));
            }
        }
        outcomes
    }

    fn forget_manager(&mut self) {
        for (.., is_heard) in &mut self.under_way {
            *is_heard = false;
        }
    }

    fn list(&mut self, now: u64) -> Outcome {
        if self.failing_lists > 0 {
            self.failing_lists -= 1;
            return Err(exited("list", 1, "try later"));
        }
        let mut rows = Vec::new();
        for (id, vm) in &self.vms {
            let is_shown = !self.hides && (vm.removed_ms.is_some() || now >= vm.shown_ms);
            if is_shown && vm.removed_ms.is_none_or(|removed| now < removed + self.lag_ms) {
                let (name, state) = (&vm.name, vm.state);
                rows.push(format!(r#"{{"name":"{name}","id":"{id}","host":"10.0.0.1","state":"{state}"}}"#));
            }
        }
        Ok(format!("[{}]", rows.join(",")))
    }

    fn allocate(&mut self, now: u64, name: &str) -> Outcome {
        let fault = if self.faults.is_empty() { Fault::None } else { self.faults.remove(0) };
        if fault != Fault::Fails {
            self.make(now, name);
        }
        if fault == Fault::Twice {
            self.make(now, name);
        }
        match fault {
            Fault::None | Fault::Twice => Ok("made\n".to_owned()),
            Fault::Fails | Fault::FailsAfter => Err(exited("allocate", 3, "no quota")),
            Fault::TooLong => Err(MachineError::TooLong {
                command: "allocate".to_owned(),
                limit: Duration::from_secs(10),
                stderr: String::new(),
            }),
        }
    }

    fn make(&mut self, now: u64, name: &str) {
        let ended = self.vms.iter_mut().find(|(_, vm)| vm.name == name && vm.state == "ended");
        if let Some((_, vm)) = ended {
            vm.state = "running";
            return;
        }
        self.made += 1;
        *self.made_for.entry(name.to_owned()).or_default() += 1;
        let id = if self.names_are_ids { name.to_owned() } else { format!("i-{}", self.made) };
        let vm = Vm { name: name.to_owned(), state: "running", shown_ms: now + self.lag_ms, removed_ms: None };
        self.vms.insert(id, vm);
    }

    fn release(&mut self, now: u64, id: &str) -> Outcome {
        if self.refused_releases > 0 {
            self.refused_releases -= 1;
            return Err(exited("release", 9, "it is protected"));
        }
        if let Some(vm) = self.vms.get_mut(id) {
            vm.removed_ms.get_or_insert(now);
        }
        Ok(String::new())
    }

    /// The names of the machines that cost money, one for each machine.
    pub(super) fn living(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.vms.values().filter(|vm| vm.removed_ms.is_none()).map(|vm| vm.name.clone()).collect();
        names.sort();
        names
    }

    pub(super) fn count(&self, wanted: impl Fn(&Call) -> bool) -> usize {
        self.calls.iter().filter(|(_, call)| wanted(call)).count()
    }
}

pub(super) fn exited(command: &str, code: i32, stderr: &str) -> MachineError {
    MachineError::Exited { command: command.to_owned(), code, stderr: stderr.to_owned() }
}

/// Settings with short limits: a lag of 5 s, commands of at most 10 s.
pub(in super::super) fn settings() -> MachineSettings {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let level =
        |admin_port| MachineLevel { size: "small".to_owned(), port: 1883, secure: false, admin_port, login: None };
    let second = Duration::from_secs(1);
    MachineSettings {
        commands: MachineCommands {
            allocate: text(&["./cloud", "allocate", "{fleet}", "{name}", "{role}", "{size}", "{cores}"]),
            list: text(&["./cloud", "list", "{fleet}"]),
            release: text(&["./cloud", "release", "{name}", "{id}"]),
        },
        limits: Limits {
            time_limit: second * 10,
            tries: 3,
            backoff: second,
            backoff_limit: second * 4,
            list_interval: second * 2,
            lag: second * 5,
        },
        levels: [(Level::Broker, level(None)), (Level::Orchestrator, level(Some(18083)))].into(),
        directory: PathBuf::new(),
        fleet: "demo".to_owned(),
        bus: String::new(),
        routing: "topic-hash".to_owned(),
        secret_files: Vec::new(),
    }
}

pub(super) fn name(text: &str) -> ResourceName {
    text.parse().unwrap()
}

pub(super) fn wanted(text: &str) -> Allocation {
    let level = if text.starts_with("broker") { Level::Broker } else { Level::Orchestrator };
    Allocation { name: name(text), level, template: MACHINE.to_owned(), cores: 1.0 }
}

/// A cloud, the inventory of a manager, and the disk between managers.
pub(super) struct World {
    pub(super) now: u64,
    pub(super) cloud: Cloud,
    pub(super) inventory: Inventory,
    pub(super) disk: Vec<MachineRecord>,
    settings: MachineSettings,
    /// The last error of each name.
    pub(super) errors: BTreeMap<String, MachineError>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(settings())
    }

    pub(super) fn with(settings: MachineSettings) -> Self {
        let inventory = Inventory::new(settings.clone(), Vec::new());
        let cloud = Cloud { delay_ms: 1_000, ..Cloud::default() };
        let (disk, errors) = Default::default();
        let mut world = Self { now: 1_000_000, cloud, inventory, disk, settings, errors };
        world.first_list();
        world
    }

    fn first_list(&mut self) {
        self.until("a list", |world| world.inventory.has_listed());
    }

    /// A turn passes.
    pub(super) fn turn(&mut self) {
        self.now += TURN;
        for (call, outcome) in self.cloud.turn(self.now) {
            self.inventory.ended(self.now, &call, outcome);
        }
        self.inventory.tick(self.now);
        self.send();
    }

    pub(super) fn send(&mut self) {
        if let Some(records) = self.inventory.take_changed() {
            self.disk = records;
        }
        for call in self.inventory.take_calls() {
            self.cloud.begin(self.now, call);
        }
    }

    pub(super) fn until(&mut self, awaited: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            self.turn();
        }
        panic!("{awaited} did not happen: {:#?}", self.inventory);
    }

    /// The manager dies; another one continues with the records on the disk.
    pub(super) fn kill_manager(&mut self) {
        self.cloud.forget_manager();
        // The records are read back as a later manager reads them.
        let text = serde_json::to_string(&self.disk).unwrap();
        self.inventory = Inventory::new(self.settings.clone(), serde_json::from_str(&text).unwrap());
        self.first_list();
    }

    pub(super) fn ask(&mut self, text: &str) {
        match self.inventory.allocate(self.now, &wanted(text)) {
            Ok(_) => drop(self.errors.remove(text)),
            Err(error) => drop(self.errors.insert(text.to_owned(), error)),
        }
        self.send();
    }

    pub(super) fn ask_to_release(&mut self, text: &str) -> Result<Release, MachineError> {
        let release = self.inventory.release(self.now, &name(text));
        self.send();
        release
    }

    /// Asks at each turn until the machine runs.
    pub(super) fn allocate(&mut self, text: &str) {
        for _ in 0..1_000 {
            if matches!(self.life(text), Some(MachineLife::Running(..))) {
                return;
            }
            self.ask(text);
            self.turn();
        }
        panic!("{text} does not run: {:#?}", self.inventory);
    }

    pub(super) fn release(&mut self, text: &str) {
        for _ in 0..1_000 {
            if self.ask_to_release(text) == Ok(Release::Gone) {
                return;
            }
            self.turn();
        }
        panic!("{text} is not gone: {:#?}", self.inventory);
    }

    pub(super) fn seen(&self, text: &str) -> Option<SeenMachine> {
        self.inventory.seen(self.now).into_iter().find(|seen| seen.resource.name.as_str() == text)
    }

    pub(super) fn life(&self, text: &str) -> Option<MachineLife> {
        self.seen(text).map(|seen| seen.life)
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        self.inventory.seen(self.now).into_iter().map(|seen| seen.resource.name.to_string()).collect()
    }

    pub(super) fn pass(&mut self, ms: u64) {
        for _ in 0..ms / TURN {
            self.turn();
        }
    }
}
