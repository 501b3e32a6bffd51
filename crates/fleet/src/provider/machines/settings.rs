//! The section `[machines]` of a fleet file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::level::Level;
use crate::provider::process::placeholder::{self, Unknown};
use crate::provider::process::{Login, login};
use tidegate_document::Keys;

/// The template of machines, as status, logins and the entry point name it.
pub const MACHINE: &str = "machine";

/// The names of all placeholders; `call` has their values.
const PLACEHOLDERS: [&str; 8] = ["fleet", "name", "id", "role", "size", "cores", "bus", "routing"];

const SECOND: Duration = Duration::from_secs(1);

/// The section `[machines]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSettings {
    /// The commands.
    pub commands: MachineCommands,
    /// Their limits.
    pub limits: Limits,
    /// The machines, by level. Resources of other levels are processes.
    pub levels: BTreeMap<Level, MachineLevel>,
    /// The directory that commands run in, and that relative programs are below: that of the fleet file.
    pub directory: PathBuf,
    /// The name of the fleet, for `{fleet}`.
    pub fleet: String,
    /// The bus of the orchestrators, for `{bus}`; empty without one.
    pub bus: String,
    /// How orchestrators choose a broker, for `{routing}`.
    pub routing: String,
    /// Files of passwords and tokens, which errors of commands do not pass on.
    pub secret_files: Vec<PathBuf>,
}

/// The three commands: a program and its arguments each, with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineCommands {
    /// Makes the machine `{name}`, or starts it again. A machine that runs already is a success.
    pub allocate: Vec<String>,
    /// Prints the machines of the fleet as JSON.
    pub list: Vec<String>,
    /// Removes the machine `{name}`, `{id}`. A machine that is gone already is a success.
    pub release: Vec<String>,
}

/// The limits of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time after which a command is killed and has failed.
    pub time_limit: Duration,
    /// Failures in a row after which the manager receives the error.
    pub tries: u32,
    /// Pause after a failure; each further failure doubles it.
    pub backoff: Duration,
    /// The longest pause.
    pub backoff_limit: Duration,
    /// The shortest time from one `list` to the next.
    pub list_interval: Duration,
    /// How long `list` may lag behind: omit a new machine, or show a removed one.
    pub lag: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time_limit: SECOND * 120,
            tries: 3,
            backoff: SECOND * 2,
            backoff_limit: SECOND * 60,
            list_interval: SECOND * 5,
            lag: SECOND * 30,
        }
    }
}

/// The sections `[machines.brokers]` and `[machines.orchestrators]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineLevel {
    /// The size of a machine, for `{size}`.
    pub size: String,
    /// The MQTT port, unless `list` names another one.
    pub port: u16,
    /// Whether the MQTT port uses TLS.
    pub secure: bool,
    /// The port of the admin API, unless `list` names another one; orchestrators have one.
    pub admin_port: Option<u16>,
    /// The login of the fleet at these brokers; `None` is anonymous.
    pub login: Option<Login>,
}

impl MachineSettings {
    /// Reads the section.
    pub(crate) fn read(keys: &mut Keys<'_>) -> Option<Self> {
        let commands = MachineCommands::read(keys);
        let limits = Limits::read(keys);
        let brokers = keys.table("brokers", |keys| Some(MachineLevel::read(Level::Broker, keys)));
        let orchestrators = keys.table("orchestrators", |keys| Some(MachineLevel::read(Level::Orchestrator, keys)));
        let levels = [(Level::Broker, brokers), (Level::Orchestrator, orchestrators)];
        let levels: BTreeMap<_, _> = levels.into_iter().filter_map(|(level, read)| Some((level, read?))).collect();
        if levels.is_empty() {
            keys.refuse(
                "brokers",
                "and `orchestrators` are both missing",
                "write [machines.brokers] with size = \"small\"",
            );
        }
        let (directory, fleet, bus, routing, secret_files) = Default::default();
        Some(Self { commands: commands?, limits, levels, directory, fleet, bus, routing, secret_files })
    }

    /// The same with files named relative to a directory.
    pub(crate) fn below(mut self, directory: &Path) -> Self {
        let of_commands = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        // Commands run in it, and from there a relative path of a program would begin again.
        self.directory = std::path::absolute(of_commands).unwrap_or_else(|_| of_commands.to_owned());
        for login in self.levels.values_mut().filter_map(|level| level.login.as_mut()) {
            login.password_file = directory.join(&login.password_file);
        }
        self
    }
}

impl MachineCommands {
    fn read(keys: &mut Keys<'_>) -> Option<Self> {
        let allocate = command("allocate", "[\"./cloud\", \"allocate\", \"{fleet}\", \"{name}\", \"{size}\"]", keys);
        let list = command("list", "[\"./cloud\", \"list\", \"{fleet}\"]", keys);
        let release = command("release", "[\"./cloud\", \"release\", \"{id}\"]", keys);
        let (allocate, list, release) = (allocate?, list?, release?);
        if !names(&allocate, "name") {
            let hint = "add \"{name}\": a later manager finds the machine in `list` by its name";
            keys.refuse("allocate", "does not pass the name of the machine on", hint);
        }
        for (key, command) in [("allocate", &allocate), ("list", &list)] {
            if !names(command, "fleet") {
                let hint = "add \"{fleet}\": a cloud may have machines of several fleets, with the same names";
                keys.refuse(key, "does not say which fleet", hint);
            }
        }
        if !names(&release, "name") && !names(&release, "id") {
            keys.refuse("release", "does not say which machine", "add \"{id}\" or \"{name}\"");
        }
        if let Some(argument) = ["{name}", "{id}", "{size}", "{role}", "{cores}"]
            .iter()
            .find(|it| list.iter().any(|text| text.contains(**it)))
        {
            keys.refuse("list", &format!("has {argument}, and it lists all machines of the fleet"), "use {fleet}");
        }
        if names(&allocate, "id") {
            keys.refuse("allocate", "has {id}, which the cloud has not given yet", "use {name}");
        }
        Some(Self { allocate, list, release })
    }

    /// Whether a command passes the bus on.
    pub(crate) fn name_the_bus(&self) -> bool {
        [&self.allocate, &self.list, &self.release].into_iter().any(|command| names(command, "bus"))
    }

    /// Whether `release` can tell two machines of one name apart.
    pub(super) fn releases_by_id(&self) -> bool {
        names(&self.release, "id")
    }
}

fn names(command: &[String], placeholder: &str) -> bool {
    let placeholder = format!("{{{placeholder}}}");
    command.iter().any(|text| text.contains(&placeholder))
}

fn command(key: &str, example: &str, keys: &mut Keys<'_>) -> Option<Vec<String>> {
    let command = keys.need(key, example, Keys::texts)?;
    if command.is_empty() {
        keys.refuse(key, "names no program", &format!("write, for example, {key} = {example}"));
    }
    let known: BTreeMap<String, String> = PLACEHOLDERS.iter().map(|name| ((*name).to_owned(), String::new())).collect();
    for text in &command {
        if let Err(Unknown(name)) = placeholder::fill(text, &known) {
            let known: Vec<String> = PLACEHOLDERS.iter().map(|name| format!("{{{name}}}")).collect();
            keys.refuse(
                key,
                &format!("has the unknown placeholder {{{name}}}"),
                &format!("known: {}", known.join(" ")),
            );
        }
    }
    Some(command)
}

impl Limits {
    fn read(keys: &mut Keys<'_>) -> Self {
        let usual = Self::default();
        let hour = SECOND * 3600;
        let backoff = keys.duration("backoff", SECOND / 100..=hour).unwrap_or(usual.backoff);
        let tries = keys.number("tries", 1..=100).and_then(|tries| u32::try_from(tries).ok());
        Self {
            time_limit: keys.duration("time_limit", SECOND / 10..=hour).unwrap_or(usual.time_limit),
            tries: tries.unwrap_or(usual.tries),
            backoff,
            backoff_limit: keys
                .duration("backoff_limit", SECOND / 100..=hour)
                .unwrap_or(usual.backoff_limit)
                .max(backoff),
            list_interval: keys.duration("list_interval", SECOND / 10..=hour).unwrap_or(usual.list_interval),
            lag: keys.duration("lag", Duration::ZERO..=hour).unwrap_or(usual.lag),
        }
    }
}

impl MachineLevel {
    fn read(level: Level, keys: &mut Keys<'_>) -> Self {
        let (admin_port, login, secure) = match level {
            Level::Broker => (None, keys.table("login", login), keys.truth("secure").unwrap_or(false)),
            Level::Orchestrator => (Some(port("admin_port", keys).unwrap_or(18083)), None, false),
        };
        let usual = if secure { 8883 } else { 1883 };
        Self {
            size: keys.text("size").unwrap_or_default(),
            port: port("port", keys).unwrap_or(usual),
            secure,
            admin_port,
            login,
        }
    }
}

fn port(key: &str, keys: &mut Keys<'_>) -> Option<u16> {
    keys.number(key, 1..=65_535).and_then(|port| u16::try_from(port).ok())
}
