//! Processes on this machine.
//!
//! Each has a directory of its own below the fleet's, with its files, its log (at most [`MAX_LOG`] bytes, and as much
//! of the former one) and a record from which a later manager finds it. It does not end with its manager. Its child
//! processes carry a mark in the environment, so that all are killed at a release, and none is lost when the manager
//! dies before it has recorded the process id.

mod cgroup;
mod check;
mod claims;
mod ending;
mod hosts;
pub mod placeholder;
mod ports;
pub(super) mod probe;
mod proc_files;
mod record;
mod spawn;
mod template;

pub use claims::of_this_machine as claims_of_this_machine;
pub use hosts::{Hosts, HostsError, MAX_HOSTS};
pub(super) use record::replace;
pub use template::{Login, Probe, SHIPPED, StopSignal, Template};
pub(crate) use template::{login, refuse_relay};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use self::cgroup::Cgroups;
use self::probe::ProbeError;
use self::proc_files::Identity;
use self::record::Record;
use crate::level::Level;
use tidegate_units::size;

use super::{Allocation, Condition, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName};

/// Most bytes of a process's log; beyond, it starts again and the old one is kept as `output.old`.
pub const MAX_LOG: u64 = 1024 * 1024;

/// The standard output and error of a process.
const LOG: &str = "output.log";
/// Probes at once.
const PROBES: usize = 16;

/// The addresses and ports on which processes listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenRange {
    /// The addresses.
    pub hosts: Hosts,
    /// The ports that they may get.
    pub ports: RangeInclusive<u16>,
}

impl Default for ListenRange {
    /// This machine alone, below the ports that connections leave from.
    fn default() -> Self {
        Self { hosts: Hosts::Shared("127.0.0.1".to_owned()), ports: 20_000..=29_999 }
    }
}

/// The settings of processes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory that holds one of each process.
    pub directory: PathBuf,
    /// Their addresses, by level.
    pub places: BTreeMap<Level, ListenRange>,
    /// How orchestrators choose a broker, for `{routing}`.
    pub routing: String,
    /// The bus that orchestrators share, for `{bus}`.
    pub bus: String,
    /// Bytes that a bus in a directory keeps, for `{bus.size}`.
    pub bus_max_bytes: u64,
    /// Their templates, by name.
    pub templates: BTreeMap<String, Template>,
    /// This program, for templates that run it.
    pub executable: PathBuf,
    /// The directory in which the fleets of this machine claim ports: [`claims_of_this_machine`].
    pub claims: PathBuf,
}

impl Settings {
    fn place(&self, level: Level) -> ListenRange {
        self.places.get(&level).cloned().unwrap_or_default()
    }

    /// The address that a process listens on, whatever the fleet file says since it was started.
    fn host(&self, record: &Record) -> String {
        let first = || self.place(record.wanted.level).hosts.all().into_iter().next();
        record.host.clone().or_else(first).unwrap_or_default()
    }

    /// Cgroups of several fleets lie side by side: the name holds a hash of the fleet's directory.
    fn cgroup_name(&self, name: &ResourceName) -> String {
        format!("tidegate-{:08x}-{name}", self.hash())
    }

    /// The first port to try: fleets that name no range begin at different places, so that they do not race
    /// for ports.
    fn first_port(&self, place: &ListenRange) -> usize {
        let hash = usize::try_from(self.hash()).unwrap_or_default();
        if place.ports == ListenRange::default().ports { hash % place.ports.len() } else { 0 }
    }

    fn hash(&self) -> u32 {
        crc32c::crc32c(self.directory.as_os_str().as_encoded_bytes())
    }
}

/// A provider of processes on this machine.
#[derive(Debug)]
pub struct Processes {
    settings: Settings,
    cgroups: Cgroups,
    records: BTreeMap<ResourceName, Record>,
    /// Processes spawned by this manager, to notice their end.
    children: BTreeMap<ResourceName, Child>,
    /// CPU time at the last observation.
    samples: BTreeMap<ResourceName, (Instant, Duration)>,
    /// Processes that have answered since they were spawned, or existed before this manager.
    answered: BTreeSet<ResourceName>,
    /// Begin of the stop of each resource that is being stopped.
    stopping: BTreeMap<ResourceName, Instant>,
    /// Processes that live and did not answer at the last observation.
    hanging: BTreeSet<ResourceName>,
    /// Processes that lived at the last observation and were not being stopped.
    living: BTreeSet<ResourceName>,
}

impl Processes {
    /// Finds the processes that a manager before this one has left.
    ///
    /// # Errors
    /// When the directory cannot be used or a record in it cannot be read.
    pub fn open(settings: Settings) -> Result<Self, ProviderError> {
        let directory = settings.directory.clone();
        fs::create_dir_all(&directory).map_err(|source| io("make", &directory, source))?;
        let directory = fs::canonicalize(&directory).map_err(|source| io("find", &directory, source))?;
        let mut records = record::read_all(&directory)?;
        let settings = Settings { directory, ..settings };
        for (name, record) in &mut records {
            // The manager died between spawning it and writing its process id: its mark gives it away.
            if record.process.is_none() && record.stopping_since_ms.is_none() {
                record.process = proc_files::leader(&mark(&settings, name)).and_then(Identity::of);
                record.write(&settings.directory.join(name.as_str()))?;
            }
        }
        let cgroups = Cgroups::detect();
        if let Some(why) = cgroups.block_reason() {
            tracing::warn!(
                why,
                "the CPU of processes is not limited; loads are fractions of their shares all the same"
            );
        }
        // Processes that live have had their time to start: without an answer they are down.
        let lives = |record: &Record| record.process.as_ref().is_some_and(Identity::lives);
        let answered = records.iter().filter(|(_, record)| lives(record)).map(|(name, _)| name.clone()).collect();
        let (children, samples, stopping, hanging, living) = Default::default();
        let mut processes = Self { settings, cgroups, records, children, samples, answered, stopping, hanging, living };
        processes.claim_known()?;
        Ok(processes)
    }

    /// The template of a resource.
    pub fn template(&self, name: &str) -> Option<&Template> {
        self.settings.templates.get(name)
    }

    fn directory(&self, name: &ResourceName) -> PathBuf {
        self.settings.directory.join(name.as_str())
    }

    fn template_of(&self, name: &str) -> Result<&Template, ProviderError> {
        self.settings.templates.get(name).ok_or_else(|| ProviderError::UnknownTemplate(name.to_owned()))
    }

    /// Records a process before it is spawned.
    fn plan(&mut self, wanted: &Allocation) -> Result<(), ProviderError> {
        let names = self.template_of(&wanted.template)?.ports.clone();
        let directory = self.directory(&wanted.name);
        // Held until the record is written: a claim without one is no longer good.
        let (host, chosen, _claims) = self.claim_place(wanted.level, &directory, &names)?;
        fs::create_dir_all(&directory).map_err(|source| io("make", &directory, source))?;
        let (cgroup, note) = self.limit(wanted);
        let record = Record {
            wanted: wanted.clone(),
            host: Some(host),
            ports: names.into_iter().zip(chosen).collect(),
            process: None,
            cgroup,
            stopping_since_ms: None,
            note,
        };
        record.write(&directory)?;
        self.records.insert(wanted.name.clone(), record);
        Ok(())
    }

    /// Makes a cgroup with its share of CPU, where that may be done; else says why not.
    fn limit(&self, wanted: &Allocation) -> (Vec<PathBuf>, String) {
        match self.cgroups.make(&self.settings.cgroup_name(&wanted.name), wanted.cores) {
            Ok(directories) => (directories, String::new()),
            Err(why) => (Vec::new(), format!("CPU is not limited: {why}")),
        }
    }

    fn spawn(&mut self, name: &ResourceName) -> Result<(), ProviderError> {
        let directory = self.directory(name);
        self.follow_hosts(name)?;
        self.add_ports(name)?;
        // The cgroup may be gone after a restart of the machine, or may no longer be allowed.
        let limit = self.records.get(name).map(|record| self.limit(&record.wanted));
        if let Some((record, (cgroup, note))) = self.records.get_mut(name).zip(limit)
            && (&record.cgroup, &record.note) != (&cgroup, &note)
        {
            (record.cgroup, record.note) = (cgroup, note);
            record.write(&directory)?;
        }
        let Some(record) = self.records.get(name) else { return Ok(()) };
        let values = values(&self.settings, &directory, record);
        let template = self.template_of(&record.wanted.template)?;
        let mark = mark(&self.settings, name);
        let value = mark.split_once('=').map_or("", |(_, value)| value);
        let plan = spawn::Plan { template, directory: &directory, values, cgroup: &record.cgroup, mark: value };
        let child = plan.spawn()?;
        let process = Identity::of(child.id());
        self.children.insert(name.clone(), child);
        self.samples.remove(name);
        self.answered.remove(name);
        self.hanging.remove(name);
        self.stopping.remove(name);
        if let Some(record) = self.records.get_mut(name) {
            record.process = process;
            record.stopping_since_ms = None;
            record.write(&directory)?;
        }
        Ok(())
    }

    /// Takes note of children that have ended, so that they do not stay as zombies.
    fn reap(&mut self) {
        self.children.retain(|_, child| !matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
    }

    fn resource(&self, record: &Record) -> Resource {
        let values = values(&self.settings, &self.directory(&record.wanted.name), record);
        let template = self.settings.templates.get(&record.wanted.template);
        let fill = |text: &String| placeholder::fill(text, &values).unwrap_or_default();
        let wanted = &record.wanted;
        let missing = template.is_none().then(|| format!("its template `{}` is no longer there", wanted.template));
        Resource {
            name: wanted.name.clone(),
            level: wanted.level,
            template: wanted.template.clone(),
            address: template.map(|template| fill(&template.address)).unwrap_or_default(),
            admin: template.and_then(|template| template.admin.as_ref().map(fill)),
            pid: record.process.as_ref().map(|process| process.pid),
            note: missing.or_else(|| self.moves_later(record)).unwrap_or_else(|| record.note.clone()),
        }
    }

    /// CPU since the last observation, as a fraction of the share.
    fn cpu(&mut self, name: &ResourceName, now: Instant) -> Option<f64> {
        let record = self.records.get(name)?;
        let process = record.process.as_ref()?;
        let used = cgroup::used(&record.cgroup).unwrap_or_else(|| process.group_cpu());
        let cores = record.wanted.cores;
        let (before, used_before) = self.samples.insert(name.clone(), (now, used))?;
        let given = now.saturating_duration_since(before).as_secs_f64() * cores;
        (given > 0.0).then(|| used.saturating_sub(used_before).as_secs_f64() / given)
    }

    /// Memory of its processes.
    fn memory(&self, name: &ResourceName) -> Option<u64> {
        self.records.get(name)?.process.as_ref()?.group_memory()
    }

    fn condition(&mut self, name: &ResourceName, probed: Option<Result<(), ProbeError>>) -> Condition {
        self.living.remove(name);
        let Some(record) = self.records.get(name) else { return Condition::Stopping };
        if record.stopping_since_ms.is_some() {
            return Condition::Stopping;
        }
        let lives = record.process.as_ref().is_some_and(Identity::lives);
        if lives {
            self.living.insert(name.clone());
        }
        match (lives, probed) {
            (false, _) => Condition::Ended(ending::exit_report(&self.directory(name))),
            (true, Some(Ok(()))) => {
                self.answered.insert(name.clone());
                self.hanging.remove(name);
                Condition::Online
            }
            (true, Some(Err(why))) if self.answered.contains(name) => {
                self.hanging.insert(name.clone());
                Condition::Down(why.to_string())
            }
            (true, _) => Condition::Starting,
        }
    }

    /// Probes all live processes, several in parallel, so that a hanging one delays few.
    fn probe(&self) -> BTreeMap<ResourceName, Result<(), ProbeError>> {
        let lives = |record: &Record| {
            record.stopping_since_ms.is_none() && record.process.as_ref().is_some_and(Identity::lives)
        };
        let asked: Vec<_> = self
            .records
            .iter()
            .filter(|(_, record)| lives(record))
            .filter_map(|(name, record)| Some((name, record, self.settings.templates.get(&record.wanted.template)?)))
            .collect();
        let mut answers = BTreeMap::new();
        for group in asked.chunks(PROBES) {
            thread::scope(|scope| {
                let threads: Vec<_> = group
                    .iter()
                    .map(|(name, record, template)| {
                        let host = self.settings.host(record);
                        let ask = move || probe::ask(&template.probe, &host, &record.ports, template.probe_timeout);
                        (*name, scope.spawn(ask))
                    })
                    .collect();
                for (name, thread) in threads {
                    let answer = thread.join().unwrap_or(Err(ProbeError::Failed));
                    answers.insert(name.clone(), answer);
                }
            });
        }
        answers
    }
}

/// Cuts a log that exceeds the limit; the former content is kept once.
fn cut_log(log: &Path) {
    if log.metadata().is_ok_and(|metadata| metadata.len() <= MAX_LOG) {
        return;
    }
    let cut = fs::copy(log, log.with_extension("old"))
        .and_then(|_| fs::OpenOptions::new().write(true).open(log))
        .and_then(|file| file.set_len(0));
    if let Err(error) = cut {
        tracing::warn!(log = %log.display(), %error, "cannot cut the log of a process");
    }
}

impl Provider for Processes {
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError> {
        self.reap();
        if !self.records.contains_key(&wanted.name) {
            self.plan(wanted)?;
        }
        let record = self.records.get(&wanted.name);
        let lives = record.and_then(|record| record.process.as_ref()).is_some_and(Identity::lives);
        let stopping = lives && record.is_some_and(|record| record.stopping_since_ms.is_some());
        if (!lives || self.hanging.contains(&wanted.name)) && !stopping {
            // Remaining child processes of a dead one would hold its ports and its store, and a hanging one is killed
            // at once. It is spawned when all of them have ended; until then this is repeated.
            if proc_files::kill_marked(&mark(&self.settings, &wanted.name)) {
                self.spawn(&wanted.name)?;
            }
        }
        let resource = self.records.get(&wanted.name).map(|record| self.resource(record));
        resource.ok_or_else(|| ProviderError::UnknownTemplate(wanted.template.clone()))
    }

    fn list(&mut self) -> Result<Vec<Resource>, ProviderError> {
        Ok(self.records.values().map(|record| self.resource(record)).collect())
    }

    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        let release = self.end(name)?;
        if release == Release::Gone && self.records.contains_key(name) {
            self.forget(name)?;
        }
        Ok(release)
    }

    fn discard(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        let release = self.end_within(name, Some(Duration::ZERO))?;
        if release == Release::Gone && self.records.contains_key(name) {
            self.forget(name)?;
        }
        Ok(release)
    }

    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        let release = self.end(name)?;
        let directory = self.directory(name);
        if release == Release::Gone
            && let Some(record) = self.records.get_mut(name)
        {
            record.process = None;
            record.stopping_since_ms = None;
            record.write(&directory)?;
        }
        Ok(release)
    }

    fn set_aside(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        let release = self.end(name)?;
        if release == Release::Gone && self.records.contains_key(name) {
            self.keep_aside(name)?;
        }
        Ok(release)
    }

    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError> {
        self.reap();
        self.records.keys().for_each(|name| cut_log(&self.directory(name).join(LOG)));
        let mut probed = self.probe();
        let now = Instant::now();
        let names: Vec<ResourceName> = self.records.keys().cloned().collect();
        let mut observed = Vec::new();
        for name in names {
            let everything = look == Look::Everything;
            let cpu = everything.then(|| self.cpu(&name, now)).flatten();
            let memory = everything.then(|| self.memory(&name)).flatten();
            let condition = self.condition(&name, probed.remove(&name));
            if let Some(record) = self.records.get(&name) {
                observed.push(Observed { resource: self.resource(record), condition, cpu, memory });
            }
        }
        Ok(observed)
    }

    fn has_ended(&mut self) -> bool {
        self.reap();
        self.living.iter().any(|name| {
            let record = self.records.get(name).filter(|record| record.stopping_since_ms.is_none());
            record.is_some_and(|record| !record.process.as_ref().is_some_and(Identity::lives))
        })
    }
}

impl From<StopSignal> for Signal {
    fn from(signal: StopSignal) -> Self {
        match signal {
            StopSignal::Term => Self::TERM,
            StopSignal::Int => Self::INT,
            StopSignal::Quit => Self::QUIT,
        }
    }
}

/// `NAME=VALUE` in the environment of everything that belongs to a resource.
fn mark(settings: &Settings, name: &ResourceName) -> String {
    format!("{}={}", spawn::MARK, settings.directory.join(name.as_str()).display())
}

/// Threads that work clients in one process, at most; a cluster has 64 in all.
const MAX_SHARDS: f64 = 16.0;

fn values(settings: &Settings, directory: &Path, record: &Record) -> BTreeMap<String, String> {
    let first = settings.templates.get(&record.wanted.template).and_then(|template| template.ports.first());
    let port = first.and_then(|name| record.ports.get(name)).copied().unwrap_or_default();
    let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
    let fixed = [
        ("name", record.wanted.name.to_string()),
        ("dir", directory.display().to_string()),
        ("host", settings.host(record)),
        ("port", port.to_string()),
        ("exe", settings.executable.display().to_string()),
        ("user", user),
        ("routing", settings.routing.clone()),
        ("bus", settings.bus.clone()),
        ("bus.size", size::show(settings.bus_max_bytes)),
        ("shards", record.wanted.cores.ceil().clamp(1.0, MAX_SHARDS).to_string()),
    ];
    let named = record.ports.iter().map(|(name, port)| (format!("port.{name}"), port.to_string()));
    fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(named).collect()
}

fn io(attempt: &'static str, path: &Path, source: std::io::Error) -> ProviderError {
    ProviderError::Io { attempt, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
