//! Runs the manager: looks at the fleet, calls the state machine, executes its commands, and waits.

mod endpoint;
mod entry_point;
mod error;
mod external_metrics;
mod local_api;
mod logins;
mod memory;
mod metrics_listener;
mod orchestrator_api;
mod state_directory;
mod stopping;

pub use entry_point::{EntryPoint, EntryPointError, NoEntryPoint, Remembered, Unnamed};
pub use error::DriverError;
pub use logins::{LoginError, Logins};
pub use metrics_listener::MetricsListener;
pub use orchestrator_api::OrchestratorError;
pub use stopping::LEFT;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_admin::DrainRequest;

use self::endpoint::HttpEndpoint;
use self::error::CommandError;
use self::local_api::{LocalApi, Shown};
use self::orchestrator_api::OrchestratorApi;
pub use self::state_directory::{StateDirectory, is_running};
use super::history::History;
use super::journal::Journal;
use super::{Command, Endpoint, Entry, Judge, Manager, Moment, OrchestratorView, Settings, Sight};
use crate::clock::Clock;
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Condition, Look, Observed, Provider, ResourceName};

/// The file with the address of a manager.
pub const MANAGER_FILE: &str = "manager.json";
/// The last `status` and `plan`, for when no manager runs.
pub const STATUS_FILE: &str = "status.json";
/// Orchestrators that are asked at once.
const ASKED_AT_ONCE: usize = 16;
/// Time until the first look at a step that has just begun; each further one comes after twice the time, up to the
/// setting.
const FIRST_CHECK: Duration = Duration::from_millis(20);

/// Time between two questions whether a resource has ended.
const WATCH: Duration = Duration::from_millis(250);

/// Time that a look may take beyond three intervals until the manager counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// The parts of a driver.
pub struct Parts {
    /// The settings of the manager.
    pub settings: Settings,
    /// The judges, by level.
    pub judges: BTreeMap<Level, Box<dyn Judge>>,
    /// The provider of resources.
    pub provider: Box<dyn Provider>,
    /// The entry point by which clients find the orchestrators.
    pub entry_point: Box<dyn EntryPoint>,
    /// The login of the fleet at brokers, by template.
    pub logins: Logins,
    /// The file of the token that orchestrators' admin API asks for, where it does.
    pub admin_token: Option<PathBuf>,
    /// The directory of the journal, the history and the status.
    pub directory: StateDirectory,
    /// The port of the manager's own endpoint on loopback; 0 for any.
    pub port: u16,
    /// The listener for other machines.
    pub metrics: Option<MetricsListener>,
}

/// A manager at work. It holds the fleet's lock; its end leaves the fleet running.
pub struct Driver {
    manager: Manager,
    provider: Box<dyn Provider>,
    entry_point: Box<dyn EntryPoint>,
    logins: Logins,
    directory: PathBuf,
    journal: Journal,
    history: History,
    orchestrators: OrchestratorApi,
    shown: Shown,
    api: HttpEndpoint,
    /// The listener for other machines; it ends with the driver.
    metrics: Option<HttpEndpoint>,
    sight: Sight,
    /// Time until the next look at actions in progress.
    pace: Duration,
    /// CPU and memory as of the last observation, which looks in between do not sample.
    usage: BTreeMap<ResourceName, (Option<f64>, Option<u64>)>,
    /// The last problem logged for each subject, so that it is logged once.
    complaints: BTreeMap<String, String>,
    clock: Clock,
    /// When the memory of the policies was saved last.
    remembered: Option<Instant>,
    _lock: File,
}

impl Driver {
    /// Takes the fleet in a state directory over from the manager before.
    ///
    /// # Errors
    /// When its state cannot be read, or its endpoint cannot listen.
    pub fn open(parts: Parts) -> Result<Self, DriverError> {
        let StateDirectory { path: directory, lock } = parts.directory;
        let orchestrators = OrchestratorApi::open(parts.admin_token)?;
        let clock = Clock::start();
        let (journal, mut book) = Journal::open(&directory)?;
        book.end_future(Moment(clock.now_ms()));
        let last = History::last_observation(&directory)?;
        let history = History::open(&directory)?;
        let shown = Shown::new(parts.settings.interval * 3 + PATIENCE);
        let failed = |source| DriverError::Listen { port: parts.port, source };
        let local = (Ipv4Addr::LOCALHOST, parts.port).into();
        let api = HttpEndpoint::start(local, Arc::new(LocalApi(shown.clone())), None).map_err(failed)?;
        let metrics = parts.metrics.map(|listener| metrics_listener::start(listener, shown.clone())).transpose()?;
        let mut settings = parts.settings;
        for (level, level_settings) in &mut settings.levels {
            level_settings.stack = parts.provider.stack(*level);
        }
        let name = settings.fleet.clone();
        let mut manager = Manager::new(settings, parts.judges, book, last);
        memory::recall(&mut manager, &directory)?;
        let mut driver = Self {
            manager,
            provider: parts.provider,
            entry_point: parts.entry_point,
            logins: parts.logins,
            directory,
            journal,
            history,
            orchestrators,
            shown,
            api,
            metrics,
            sight: Sight::default(),
            pace: FIRST_CHECK,
            usage: BTreeMap::new(),
            complaints: BTreeMap::new(),
            clock,
            remembered: None,
            _lock: lock,
        };
        driver.finish_stop()?;
        driver.show();
        let about = json!({"fleet": name, "pid": std::process::id(), "http": format!("http://{}", driver.address())});
        write(&driver.directory.join(MANAGER_FILE), &about)?;
        Ok(driver)
    }

    fn now(&self) -> Moment {
        Moment(self.clock.now_ms())
    }

    /// The address of the manager.
    pub fn address(&self) -> SocketAddr {
        self.api.address()
    }

    /// The address at which other machines read metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(HttpEndpoint::address)
    }

    /// The state machine.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The last look.
    pub fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Works until a message is received or the sender is dropped. `after` is called after each look.
    ///
    /// # Errors
    /// When the book cannot be saved: no command may then be executed.
    pub fn run(&mut self, stop: &Receiver<()>, mut after: impl FnMut(&Self)) -> Result<(), DriverError> {
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            if now >= next {
                // An observation that came late does not make the next ones hurry.
                let late = now.saturating_duration_since(next);
                next = (next + self.manager.settings().interval).max(now);
                self.observe()?;
                self.manager.count_observation(late, now.elapsed());
            } else {
                self.check()?;
            }
            after(self);
            let rest = next.saturating_duration_since(Instant::now());
            let wait = if self.manager.is_busy() { rest.min(self.pace) } else { rest };
            // A new step may end at once; a lasting one is looked at less often.
            self.pace = (self.pace * 2).min(self.manager.settings().check);
            if is_stopped_within(wait, stop, || self.provider.has_ended()) {
                return Ok(());
            }
        }
    }

    /// One observation, with its consequences.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn observe(&mut self) -> Result<(), DriverError> {
        self.look(Look::Everything);
        let commands = self.manager.observe(Moment(self.clock.now_ms()), &self.sight);
        self.execute(&commands)?;
        self.keep_memory()
    }

    /// One look at the actions in progress.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn check(&mut self) -> Result<(), DriverError> {
        self.look(Look::Conditions);
        let commands = self.manager.check(Moment(self.clock.now_ms()), &self.sight);
        self.execute(&commands)
    }

    fn look(&mut self, look: Look) {
        let resources = match self.provider.observe(look) {
            Ok(observed) => Some(self.with_usage(observed, look)),
            Err(error) => {
                self.complain("provider", &error.to_string());
                None
            }
        };
        if let Some(resources) = &resources {
            self.complain_of_attached(resources);
        }
        let orchestrators = resources.as_ref().map(|resources| self.ask(resources)).unwrap_or_default();
        self.sight = Sight { resources, orchestrators };
    }

    /// Resources that were not sampled keep their last sample.
    fn with_usage(&mut self, observed: Vec<Observed>, look: Look) -> BTreeMap<ResourceName, Observed> {
        if look == Look::Everything {
            let known = observed.iter().map(|it| (it.resource.name.clone(), (it.cpu, it.memory)));
            self.usage = known.collect();
        }
        let used = |observed: Observed| {
            let (cpu, memory) = self.usage.get(&observed.resource.name).copied().unwrap_or_default();
            let (cpu, memory) = (observed.cpu.or(cpu), observed.memory.or(memory));
            (observed.resource.name.clone(), Observed { cpu, memory, ..observed })
        };
        observed.into_iter().map(used).collect()
    }

    /// No other part watches attached resources, so their failures are logged here.
    fn complain_of_attached(&mut self, resources: &BTreeMap<ResourceName, Observed>) {
        for observed in resources.values().filter(|observed| observed.resource.template == ATTACHED) {
            let subject = format!("attached {}", observed.resource.name);
            match &observed.condition {
                Condition::Down(why) => self.complain(&subject, why),
                _ => drop(self.complaints.remove(&subject)),
            }
        }
    }

    /// Updates the entry point. Orchestrators that it cannot name are retried at the next look.
    fn set_endpoints(&mut self, endpoints: &[Endpoint]) -> Result<(), CommandError> {
        let unnamed = self.entry_point.set_endpoints(endpoints)?;
        for (name, problem) in &unnamed {
            self.complain(&format!("the entry point's name of {name}"), problem);
        }
        self.manager.endpoints_set(endpoints, unnamed);
        Ok(())
    }

    /// Asks all orchestrators, several in parallel, so that a hanging one delays few.
    fn ask(&mut self, resources: &BTreeMap<ResourceName, Observed>) -> BTreeMap<ResourceName, OrchestratorView> {
        let asked: Vec<(&ResourceName, &str)> =
            resources.iter().filter_map(|(name, observed)| Some((name, observed.resource.admin.as_deref()?))).collect();
        let mut views = BTreeMap::new();
        let mut problems = Vec::new();
        for group in asked.chunks(ASKED_AT_ONCE) {
            thread::scope(|scope| {
                let api = &self.orchestrators;
                let threads: Vec<_> =
                    group.iter().map(|(name, admin)| (*name, scope.spawn(move || api.view(admin)))).collect();
                for (name, thread) in threads {
                    match thread.join() {
                        Ok(Ok(view)) => {
                            views.insert(name.clone(), view);
                        }
                        Ok(Err(error)) => problems.push((name.clone(), error.to_string())),
                        Err(_) => problems.push((name.clone(), "asking it failed".to_owned())),
                    }
                }
            });
        }
        for name in views.keys() {
            self.complaints.remove(name.as_str());
        }
        self.complain_of_namesakes(&views);
        // A starting or dead one is reported elsewhere.
        let online = |name: &ResourceName| resources.get(name).is_some_and(|it| it.condition == Condition::Online);
        for (name, problem) in problems.into_iter().filter(|(name, _)| online(name)) {
            self.complain(name.as_str(), &problem);
        }
        views
    }

    /// Two orchestrators of one name would take each other's sessions over at brokers, again and again.
    fn complain_of_namesakes(&mut self, views: &BTreeMap<ResourceName, OrchestratorView>) {
        let mut named: BTreeMap<&str, &ResourceName> = BTreeMap::new();
        for (name, view) in views.iter().filter(|(_, view)| !view.calls_itself.is_empty()) {
            if let Some(other) = named.insert(&view.calls_itself, name) {
                let called = &view.calls_itself;
                self.complain(
                    called,
                    &format!("{other} and {name} both call themselves `{called}`: give each a --name of its own"),
                );
            }
        }
    }

    fn execute(&mut self, commands: &[Command]) -> Result<(), DriverError> {
        if commands.iter().any(|command| matches!(command, Command::Keep(_))) {
            self.pace = FIRST_CHECK.min(self.manager.settings().check);
        }
        for command in commands {
            if let Err(error) = self.execute_one(command)? {
                let (attempt, problem) = (command.describe(), error.to_string());
                self.complain(&attempt, &problem);
                self.manager.failed(command, &problem);
            }
        }
        self.show();
        let kept = json!({"status": self.status(), "plan": self.manager.plan()});
        write(&self.directory.join(STATUS_FILE), &kept)
    }

    /// Executes one command. A failure goes to the manager; only a failure to save its book stops it.
    fn execute_one(&mut self, command: &Command) -> Result<Result<(), CommandError>, DriverError> {
        Ok(match command {
            Command::Keep(records) => {
                self.journal.keep(records)?;
                Ok(())
            }
            Command::Tell(Entry(entry)) => {
                if entry.get("kind").is_some_and(|kind| kind == "action") {
                    let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
                    tracing::info!(action = %entry["number"], kind = word("action"), outcome = word("outcome"), "a fleet action ended");
                }
                self.history.add(entry).map_err(CommandError::from)
            }
            Command::Allocate(wanted) => self.provider.allocate(wanted).map(drop).map_err(CommandError::from),
            Command::Release(name) => self.provider.release(name).map(drop).map_err(CommandError::from),
            Command::Discard(name) => self.provider.discard(name).map(drop).map_err(CommandError::from),
            Command::SetAside(name) => self.provider.set_aside(name).map(drop).map_err(CommandError::from),
            Command::SetEndpoints(endpoints) => self.set_endpoints(endpoints),
            Command::AddBroker { at, broker, replaces } => {
                let address = self.address_of(broker);
                address.and_then(|address| self.tell(at, |api, admin| api.add(admin, broker, &address, replaces)))
            }
            Command::DrainBroker { at, broker } => self.tell(at, |api, admin| api.drain_broker(admin, broker)),
            Command::RemoveBroker { at, broker, force } => {
                self.tell(at, |api, admin| api.remove(admin, broker, *force))
            }
            Command::Evict { at, server_reference } => {
                let settings = self.manager.settings();
                let request = DrainRequest {
                    server_reference: server_reference.clone(),
                    per_second: settings.evict_per_second,
                    evict_after_s: settings.evict_after.as_secs(),
                };
                self.tell(at, |api, admin| api.evict(admin, &request))
            }
            Command::SetShare { at, wanted } => self.tell(at, |api, admin| api.set_share(admin, *wanted)),
            Command::EndEviction { at } => self.tell(at, OrchestratorApi::end_eviction),
        })
    }

    fn tell(
        &self,
        at: &ResourceName,
        tell: impl FnOnce(&OrchestratorApi, &str) -> Result<(), OrchestratorError>,
    ) -> Result<(), CommandError> {
        let admin = self.sight.resource(at).and_then(|observed| observed.resource.admin.as_deref());
        let admin = admin.ok_or_else(|| CommandError::NoAdmin(at.clone()))?;
        Ok(tell(&self.orchestrators, admin)?)
    }

    /// The address of a broker, with the fleet's login.
    fn address_of(&self, broker: &ResourceName) -> Result<String, CommandError> {
        let observed = self.sight.resource(broker).ok_or_else(|| CommandError::NoAddress(broker.clone()))?;
        Ok(self.logins.address(&observed.resource)?)
    }

    /// The status as `tidegate fleet status --json` prints it.
    pub fn status(&self) -> Value {
        let mut status = self.manager.status(self.now(), &self.sight);
        if let Some(object) = status.as_object_mut() {
            let manager = json!({
                "state": "running", "pid": std::process::id(), "http": format!("http://{}", self.address()),
                "directory": self.directory,
            });
            object.insert("manager".to_owned(), manager);
        }
        status
    }

    fn show(&self) {
        let metrics = self.manager.metrics(&self.sight) + &self.entry_point.metrics();
        let numbers = self.manager.scaling_numbers(&self.sight);
        self.shown.set(self.status(), self.manager.plan(), metrics, numbers);
    }

    /// Logs a problem once, not at every look.
    fn complain(&mut self, subject: &str, problem: &str) {
        let new = self.complaints.insert(subject.to_owned(), problem.to_owned()).as_deref() != Some(problem);
        if new {
            tracing::warn!(subject, problem, "a resource of the fleet failed");
        }
        if self.complaints.len() > 1024 {
            self.complaints.clear();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = remove(&self.directory.join(MANAGER_FILE));
    }
}

/// Waits until the next look is due, or a resource has ended: no client should be sent to it. Returns whether the manager is
/// stopped.
fn is_stopped_within(wait: Duration, stop: &Receiver<()>, mut has_ended: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + wait;
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        match stop.recv_timeout(rest.min(WATCH)) {
            Err(RecvTimeoutError::Timeout) if rest > WATCH && !has_ended() => {}
            Err(RecvTimeoutError::Timeout) => return false,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
}

fn write(path: &Path, value: &Value) -> Result<(), DriverError> {
    let new = path.with_extension("new");
    fs::write(&new, format!("{value}\n")).and_then(|()| fs::rename(&new, path)).map_err(io_at("write", path))
}

fn remove(path: &Path) -> Result<(), DriverError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_at("remove", path)(error)),
        _ => Ok(()),
    }
}

fn io_at(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DriverError {
    let path = path.to_owned();
    move |source| DriverError::Io { attempt, path, source }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_end_of_a_resource_ends_the_wait_for_the_next_look() {
        let (stopper, stop) = channel();
        let hour = Duration::from_secs(3_600);
        let mut asked = 0;
        let mut has_ended = || {
            asked += 1;
            asked == 2
        };
        assert!(!is_stopped_within(hour, &stop, &mut has_ended));
        assert_eq!(asked, 2);
        assert!(!is_stopped_within(Duration::ZERO, &stop, || true), "the look is due");
        stopper.send(()).unwrap();
        assert!(is_stopped_within(hour, &stop, || false));
    }
}
