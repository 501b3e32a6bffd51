//! FLEET.toml: the settings of a manager.

mod dns;
mod kubernetes;
mod levels;
mod machines;
mod metrics;
mod policy;

pub use dns::{Dns, DnsEndpoint, DnsPolicy, DnsUpdate};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::decide::{Bounds, Decider, PolicyName, Sla};
use crate::level::Level;
use crate::load::SignalSettings;
use crate::manage::driver::{Logins, MetricsListener};
use crate::manage::{DecidedElsewhere, Judge, OnDrainLimit, PolicyJudge, Settings};
use crate::provider::attached::{Attached, WithAttached};
use crate::provider::machines::{ByLevel, MACHINE, MachineSettings, Machines};
use crate::provider::process::{self, ListenRange, Processes, Template};
use crate::provider::{Provider, ProviderError};
use tidegate_document::{FileText, Findings, Keys, ReadError};
use tidegate_units::size::{MIB, TIB};

/// The most resources that an agreement may allow.
const MOST: u64 = 10_000;
const SECOND: Duration = Duration::from_secs(1);
/// The scheme of a bus in a directory.
const EMBEDDED: &str = "embedded://";
/// The bus in the state directory of the fleet, as processes name it that run in `resources/NAME` below it: the path of a
/// socket has at most 107 bytes.
const OWN_BUS: &str = "embedded://../../bus";
const DAY: Duration = Duration::from_secs(86_400);

/// A fleet file that was read and found right.
#[derive(Clone, Debug)]
pub struct FleetFile {
    /// The settings of the manager.
    pub settings: Settings,
    /// The state directory, when the file names one; absolute or relative to the file.
    pub directory: Option<PathBuf>,
    /// The port of the manager's own endpoint; 0 for any.
    pub api_port: u16,
    /// The listener at which other machines read the manager's metrics.
    pub metrics: Option<MetricsListener>,
    /// The entry point, where there is one.
    pub dns: Option<Dns>,
    /// Resources that were there before.
    pub attached: Vec<Attached>,
    /// The file of the token that orchestrators' admin API asks for; absolute or relative to the file.
    pub admin_token: Option<PathBuf>,
    kubernetes: Option<kubernetes::Settings>,
    machines: Option<MachineSettings>,
    policies: BTreeMap<Level, PolicyName>,
    policy: crate::decide::Settings,
    /// The signals of levels with a section of their own.
    signals: BTreeMap<Level, SignalSettings>,
    sla: Sla,
    places: BTreeMap<Level, ListenRange>,
    routing: String,
    /// The bus that orchestrators share, when the file names one.
    bus: Option<String>,
    /// The bytes that a bus in a directory keeps.
    bus_max_bytes: u64,
    templates: BTreeMap<String, Template>,
}

/// Why a fleet file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetFileError {
    /// It cannot be read.
    #[error("fleet file: {0}")]
    Read(#[from] ReadError),
    /// It is wrong.
    #[error("{0}")]
    Wrong(Findings),
}

impl FleetFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, FleetFileError> {
        let mut file = Self::read(&FileText::load(path)?).map_err(FleetFileError::Wrong)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        file.directory = file.directory.map(|directory| parent.join(directory));
        for login in file.templates.values_mut().filter_map(|template| template.login.as_mut()) {
            login.password_file = parent.join(&login.password_file);
        }
        file.dns = file.dns.map(|dns| dns.below(parent));
        file.metrics = file.metrics.map(|metrics| metrics::below(metrics, parent));
        file.admin_token = file.admin_token.map(|token| parent.join(token));
        file.bus = file.bus.map(|bus| bus_below(bus, parent));
        file.machines = file.machines.map(|machines| machines.below(parent));
        #[cfg(feature = "kubernetes")]
        {
            file.kubernetes = file.kubernetes.map(|kubernetes| kubernetes.below(parent));
        }
        Ok(file)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(file: &FileText) -> Result<Self, Findings> {
        file.read(read)
    }

    /// The policy of each level.
    ///
    /// # Errors
    /// Never for a file that was read: its settings are checked then.
    pub fn judges(&self) -> Result<BTreeMap<Level, Box<dyn Judge>>, crate::decide::SettingsError> {
        let judge = |level: &Level| {
            let name = self.policies.get(level).copied().unwrap_or(PolicyName::Default);
            let mut settings = self.policy.clone();
            if let Some(signals) = self.signals.get(level) {
                settings.signals = *signals;
            }
            let decider = Decider::new(name, &settings)?;
            let judge: Box<dyn Judge> = Box::new(PolicyJudge::new(decider, self.sla));
            if self.is_decided_elsewhere(*level) {
                return Ok((*level, Box::new(DecidedElsewhere::advised_by(judge)) as Box<dyn Judge>));
            }
            Ok((*level, judge))
        };
        Level::ALL.iter().map(judge).collect()
    }

    /// The policy of a level.
    pub fn policy(&self, level: Level) -> PolicyName {
        self.policies.get(&level).copied().unwrap_or(PolicyName::Default)
    }

    /// The settings for processes, below a state directory, for templates that run `executable`.
    pub fn processes(&self, directory: &Path, executable: PathBuf) -> process::Settings {
        process::Settings {
            directory: directory.join("resources"),
            places: self.places.clone(),
            routing: self.routing.clone(),
            bus: self.bus.clone().unwrap_or_else(|| OWN_BUS.to_owned()),
            bus_max_bytes: self.bus_max_bytes,
            templates: self.templates.clone(),
            executable,
            claims: process::claims_of_this_machine(),
        }
    }

    /// The provider of resources: processes of this machine, with their state below a directory and for templates that
    /// run `executable`; or the pods of the section `[kubernetes]`; or for the levels of the section `[machines]`
    /// machines; and in each case the attached ones. `is_stopped` is asked while machines are listed: whether the manager
    /// has to end.
    ///
    /// # Errors
    /// When the state cannot be read, the cluster or the machines cannot be listed, the manager has to end, or a
    /// requirement of processes is missing: an address to listen on, a program.
    pub fn provider(
        &self,
        directory: &Path,
        executable: PathBuf,
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Box<dyn Provider>, ProviderError> {
        let provider: Box<dyn Provider> = match &self.kubernetes {
            #[cfg(feature = "kubernetes")]
            Some(settings) => Box::new(crate::provider::kubernetes::Kubernetes::open(settings.clone())?),
            #[cfg(not(feature = "kubernetes"))]
            Some(nothing) => match *nothing {},
            None => {
                let processes = Processes::open(self.processes(directory, executable))?;
                let of_processes = self.settings.levels.iter().filter(|(level, _)| !self.has_machines(**level));
                let weights = of_processes.flat_map(|(_, level)| &level.templates);
                processes.check(weights.map(|(template, _)| template.as_str()))?;
                match &self.machines {
                    Some(settings) => {
                        let own = MachineSettings { secret_files: self.secret_files(), ..settings.clone() };
                        let machines = Machines::open(own, directory.to_owned(), is_stopped)?;
                        Box::new(ByLevel::new(settings, machines, processes))
                    }
                    None => Box::new(processes),
                }
            }
        };
        Ok(match self.attached.clone() {
            attached if attached.is_empty() => provider,
            attached => Box::new(WithAttached::new(attached, provider)),
        })
    }

    /// The files of passwords and tokens of the fleet.
    fn secret_files(&self) -> Vec<PathBuf> {
        let of_templates = self.templates.values().filter_map(|template| template.login.as_ref());
        let of_machines = self.machines.iter().flat_map(|machines| machines.levels.values());
        let logins = of_templates.chain(of_machines.filter_map(|level| level.login.as_ref()));
        logins.map(|login| login.password_file.clone()).chain(self.admin_token.clone()).collect()
    }

    /// The login of the fleet at brokers.
    pub fn logins(&self) -> Logins {
        let login = |(name, template): (&String, &Template)| Some((name.clone(), template.login.clone()?));
        let mut logins: BTreeMap<_, _> = self.templates.iter().filter_map(login).collect();
        #[cfg(feature = "kubernetes")]
        for set in self.kubernetes.iter().flat_map(|kubernetes| kubernetes.sets.values()) {
            // A StatefulSet may be called as a template is: who has no login there is anonymous.
            logins.remove(&set.stateful_set);
            logins.extend(set.login.clone().map(|login| (set.stateful_set.clone(), login)));
        }
        for login in
            self.machines.iter().flat_map(|machines| machines.levels.values()).filter_map(|it| it.login.clone())
        {
            logins.insert(MACHINE.to_owned(), login);
        }
        Logins::new(logins)
    }
}

fn read(keys: &mut Keys<'_>) -> Option<FleetFile> {
    let fleet = keys.need("fleet", "a section [fleet] with name = \"demo\"", |keys, key| keys.table(key, fleet));
    let sla = keys.need("sla", "a section [sla] with brokers = { min = 1, max = 6 }", |keys, key| keys.table(key, sla));
    let mut templates = shipped();
    templates.extend(keys.table("templates", |keys| Some(own_templates(keys))).unwrap_or_default());
    let sla = sla?;
    let brokers = keys.table("brokers", |keys| levels::read(Level::Broker, &sla, &templates, keys));
    let orchestrators = keys.table("orchestrators", |keys| levels::read(Level::Orchestrator, &sla, &templates, keys));
    let mut brokers = brokers.unwrap_or_else(|| levels::LevelSection::of(Level::Broker, &sla));
    let mut orchestrators = orchestrators.unwrap_or_else(|| levels::LevelSection::of(Level::Orchestrator, &sla));
    levels::check_hosts(&brokers, &orchestrators, keys);
    let kubernetes = kubernetes::read(keys);
    let machines = machines::read(keys);
    let of_level = |name: &str| templates.get(name).is_some_and(|template| template.level == Level::Orchestrator);
    let attached = |name: &str| orchestrators.attached.iter().any(|attached| attached.name.as_str() == name);
    let numbered = |name: &str| name.strip_prefix("orchestrator-").is_some_and(|number| number.parse::<u64>().is_ok());
    let of_others = kubernetes.is_some() || machines.is_some();
    let is_known = |name: &str| of_others || of_level(name) || attached(name) || numbered(name);
    let dns = keys.table("dns", |keys| Some(dns::read(keys, is_known)));
    let metrics = keys.table("metrics", metrics::read);
    let fleet = fleet?;
    let (name, policy) = policy::read(keys, fleet.settings.interval);
    let mut attached = std::mem::take(&mut brokers.attached);
    attached.append(&mut orchestrators.attached);
    let mut settings = fleet.settings;
    settings.most_in_all = sla.most_in_all;
    settings.entry_ttl = dns.as_ref().map_or(Duration::ZERO, |dns| dns.ttl);
    let levels = [(Level::Broker, brokers), (Level::Orchestrator, orchestrators)];
    let policies = levels.iter().map(|(level, section)| (*level, section.policy.unwrap_or(name))).collect();
    let signals = levels.iter().filter_map(|(level, section)| Some((*level, section.signals?))).collect();
    let places = levels.iter().map(|(level, section)| (*level, section.place.clone())).collect();
    let routing = levels[1].1.routing.clone();
    let admin_token = levels[1].1.admin_token.clone();
    settings.levels = levels.into_iter().map(|(level, section)| (level, section.settings)).collect();
    let (directory, api_port, sla) = (fleet.directory, fleet.api_port, sla.sla);
    let file = FleetFile {
        settings,
        directory,
        api_port,
        metrics,
        dns,
        attached,
        admin_token,
        kubernetes,
        machines,
        policies,
        policy,
        signals,
        sla,
        places,
        routing,
        bus: fleet.bus,
        bus_max_bytes: fleet.bus_max_bytes,
        templates,
    };
    let file = file.with_machines(keys);
    #[cfg(feature = "kubernetes")]
    let file = file.with_stateful_sets();
    Some(file)
}

struct Fleet {
    settings: Settings,
    directory: Option<PathBuf>,
    bus: Option<String>,
    bus_max_bytes: u64,
    api_port: u16,
}

fn fleet(keys: &mut Keys<'_>) -> Option<Fleet> {
    let name = keys.need("name", "\"demo\"", Keys::text)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.len() > 40 || !name.bytes().all(plain) {
        keys.refuse("name", "must be 1 to 40 letters, digits, `-` and `_`", "it names the state directory, too");
    }
    let interval = keys.duration("interval", SECOND / 10..=SECOND * 3600).unwrap_or(SECOND * 15);
    let limits = SECOND..=DAY;
    let on_drain_limit = [("return", OnDrainLimit::Return), ("wait", OnDrainLimit::Wait)];
    let mut number = |key: &str, range, default: u32| {
        keys.number(key, range).and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
    };
    let down_after = number("down_after", 1..=1000, 5);
    let evict_per_second = number("evict_per_second", 1..=1_000_000, 500);
    let settings = Settings {
        fleet: name,
        interval,
        check: keys.duration("check", SECOND / 100..=SECOND * 60).unwrap_or(SECOND / 2).min(interval),
        levels: BTreeMap::new(),
        most_in_all: None,
        down_after,
        boot_limit: keys.duration("boot_limit", limits.clone()).unwrap_or(SECOND * 120),
        restart_limit: keys.duration("restart_limit", limits.clone()).unwrap_or(SECOND * 600),
        join_limit: keys.duration("join_limit", limits.clone()).unwrap_or(SECOND * 60),
        drain_limit: keys.duration("drain_limit", limits.clone()).unwrap_or(SECOND * 120),
        on_drain_limit: keys.word("on_drain_limit", &on_drain_limit).unwrap_or_default(),
        entry_ttl: Duration::ZERO,
        evict_per_second,
        evict_after: keys.duration("evict_after", Duration::ZERO..=DAY).unwrap_or(SECOND * 10),
    };
    let api_port = keys.number("api_port", 0..=65_535).and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let (directory, bus) = (keys.text("directory").map(PathBuf::from), bus(keys));
    let bus_max_bytes = keys.bytes("bus_max_bytes", 64 * MIB..=16 * TIB).unwrap_or(1024 * MIB);
    Some(Fleet { settings, directory, bus, bus_max_bytes, api_port })
}

/// The bus that orchestrators share; their own configuration checks all of the address.
fn bus(keys: &mut Keys<'_>) -> Option<String> {
    let bus = keys.text("bus")?;
    let is_shared = |scheme: &&str| bus.strip_prefix(*scheme).is_some_and(|rest| !rest.is_empty());
    if ![EMBEDDED, "nats://", "kafka://"].iter().any(is_shared) {
        let hint = "write embedded://DIRECTORY, nats://HOST:PORT or kafka://HOST:PORT, or leave it out for one in the state directory";
        keys.refuse("bus", "is no bus that processes share", hint);
    }
    Some(bus)
}

/// The directory of an embedded bus is relative to the fleet file, and processes run elsewhere.
fn bus_below(bus: String, parent: &Path) -> String {
    let Some(directory) = bus.strip_prefix(EMBEDDED) else { return bus };
    let path = parent.join(directory);
    format!("{EMBEDDED}{}", std::path::absolute(&path).unwrap_or(path).display())
}

/// The section [sla] (BRK-43, BRK-44).
struct SlaSection {
    sla: Sla,
    most_in_all: Option<u32>,
}

fn sla(keys: &mut Keys<'_>) -> Option<SlaSection> {
    let brokers = bounds("brokers", (1, 6), keys)?;
    let orchestrators = bounds("orchestrators", (1, 1), keys)?;
    let most_in_all = keys.number("max_in_all", 2..=2 * MOST).and_then(|most| u32::try_from(most).ok());
    match Sla::new(brokers, orchestrators, most_in_all) {
        Ok(sla) => Some(SlaSection { sla, most_in_all }),
        Err(error) => {
            keys.refuse("max_in_all", &format!("is wrong: {error}"), "it covers brokers and orchestrators together");
            None
        }
    }
}

fn bounds(key: &str, default: (u64, u64), keys: &mut Keys<'_>) -> Option<Bounds> {
    let read = keys.table(key, |keys| {
        let least = keys.number("min", 1..=MOST).unwrap_or(default.0);
        Some((least, keys.number("max", 1..=MOST).unwrap_or(default.1.max(least))))
    });
    let (least, most) = read.unwrap_or(default);
    match Bounds::new(u32::try_from(least).ok()?, u32::try_from(most).ok()?) {
        Ok(bounds) => Some(bounds),
        Err(error) => {
            keys.refuse(key, &format!("is wrong: {error}"), "write, for example, { min = 1, max = 6 }");
            None
        }
    }
}

fn shipped() -> BTreeMap<String, Template> {
    // That they can be read is held by a test.
    process::SHIPPED.iter().filter_map(|(name, _)| Some(((*name).to_owned(), Template::shipped(name)?.ok()?))).collect()
}

fn own_templates(keys: &mut Keys<'_>) -> BTreeMap<String, Template> {
    let names = keys.names();
    let mut templates = BTreeMap::new();
    for name in names {
        if let Some(template) = keys.table(&name, |keys| Template::from_keys(&name, keys)) {
            templates.insert(name, template);
        }
    }
    templates
}

#[cfg(test)]
mod tests;
