//! Templates of processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::level::Level;
use tidegate_document::{FileText, Findings, Keys};

use super::placeholder::{self, Unknown};

/// The shipped templates, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("tidegate", include_str!("templates/tidegate.toml")),
    ("mosquitto", include_str!("templates/mosquitto.toml")),
    ("rabbitmq", include_str!("templates/rabbitmq.toml")),
    ("nats", include_str!("templates/nats.toml")),
    ("orchestrator", include_str!("templates/orchestrator.toml")),
];

/// Ports that a template may ask for.
const MAX_PORTS: usize = 16;

/// The check whether a process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The process lives; no probe is sent.
    Process,
    /// A TCP connection is accepted at the port of this name.
    Tcp(String),
    /// An MQTT 3.1.1 CONNECT is answered with a CONNACK at the port of this name, whatever the CONNACK says.
    Mqtt(String),
    /// `GET` of a path is answered with 2xx at the port of this name.
    Http(String, String),
}

/// The signal that asks a process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
}

/// The login of the fleet at a broker (BRK-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user name; may hold placeholders.
    pub username: String,
    /// The file that holds the password.
    pub password_file: PathBuf,
}

/// A template of processes: a command, its files, ports, probe and end (BRK-03: a template is all that another kind of
/// broker needs). Texts may contain the placeholders of [`placeholder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// The level of its resources.
    pub level: Level,
    /// The program: the first of these that is installed. A name without `/` is looked for in `PATH` and the `sbin`
    /// directories.
    pub commands: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Files that are written into its directory before it starts, by name.
    pub files: Vec<(String, String)>,
    /// Environment variables in addition to the manager's.
    pub environment: Vec<(String, String)>,
    /// Names of its ports; `{port}` is the first.
    pub ports: Vec<String>,
    /// Its MQTT address.
    pub address: String,
    /// The address of its admin API.
    pub admin: Option<String>,
    /// The check whether it serves.
    pub probe: Probe,
    /// Time for an answer to the probe.
    pub probe_timeout: Duration,
    /// The signal to stop.
    pub stop_signal: StopSignal,
    /// Time to stop, after which it is killed.
    pub stop_limit: Duration,
    /// The login of the fleet; `None` is anonymous.
    pub login: Option<Login>,
}

impl Template {
    /// The shipped template of that name.
    pub fn shipped(name: &str) -> Option<Result<Self, Findings>> {
        let (name, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
        Some(Self::read(name, &FileText::new(format!("{name}.toml"), *text)))
    }

    /// Reads a template from its own file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(name: &str, file: &FileText) -> Result<Self, Findings> {
        file.read(|keys| Self::from_keys(name, keys))
    }

    /// Reads a template from a table.
    pub fn from_keys(name: &str, keys: &mut Keys<'_>) -> Option<Self> {
        let levels = [("broker", Level::Broker), ("orchestrator", Level::Orchestrator)];
        let commands = keys.need("command", "\"mosquitto\"", Keys::texts);
        let mut template = Self {
            name: name.to_owned(),
            level: keys.word("level", &levels).unwrap_or(Level::Broker),
            commands: commands?,
            args: keys.texts("args").unwrap_or_default(),
            files: keys.text_table("files").unwrap_or_default(),
            environment: keys.text_table("environment").unwrap_or_default(),
            ports: keys.texts("ports").unwrap_or_else(|| vec!["mqtt".to_owned()]),
            address: keys.text("address").unwrap_or_else(|| "mqtt://{host}:{port}".to_owned()),
            admin: keys.text("admin"),
            probe: Probe::Process,
            probe_timeout: Duration::from_secs(1),
            stop_signal: StopSignal::Term,
            stop_limit: Duration::from_secs(10),
            login: keys.table("login", login),
        };
        refuse_relay(keys);
        template.check_ports(keys);
        if let Some((probe, timeout)) = probe(&template.ports, keys) {
            (template.probe, template.probe_timeout) = (probe, timeout);
        }
        keys.table("stop", |keys| {
            let signals = [("TERM", StopSignal::Term), ("INT", StopSignal::Int), ("QUIT", StopSignal::Quit)];
            template.stop_signal = keys.word("signal", &signals).unwrap_or(StopSignal::Term);
            let limits = Duration::from_millis(100)..=Duration::from_secs(600);
            template.stop_limit = keys.duration("limit", limits).unwrap_or(template.stop_limit);
            Some(())
        });
        template.check_files(keys);
        template.check_placeholders(keys);
        Some(template)
    }

    fn check_ports(&self, keys: &mut Keys<'_>) {
        if self.ports.is_empty() || self.ports.len() > MAX_PORTS {
            keys.refuse("ports", "must name 1 to 16 ports", "write ports = [\"mqtt\"]");
        }
        let plain = |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        if !self.ports.iter().all(plain) {
            keys.refuse("ports", "must hold names of a to z", "write ports = [\"mqtt\", \"admin\"]");
        }
    }

    fn check_files(&self, keys: &mut Keys<'_>) {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        for (name, _) in &self.files {
            let ours = [super::LOG, super::record::FILE].contains(&name.as_str());
            if name.is_empty() || ours || name.starts_with('.') || !name.bytes().all(plain) {
                let hint =
                    "use letters, digits, `.`, `_` and `-`; `resource.json` and `output.log` are the fleet's own";
                keys.refuse("files", &format!("has the file name {name:?}"), hint);
            }
        }
    }

    /// Every placeholder must have a value.
    fn check_placeholders(&self, keys: &mut Keys<'_>) {
        let known: BTreeMap<String, String> =
            placeholder::names(&self.ports).into_iter().map(|name| (name, String::new())).collect();
        let one = |key: &'static str| move |text: &String| (key, text.clone());
        let texts = self.args.iter().map(one("args"));
        let texts = texts.chain(self.files.iter().map(|(_, text)| ("files", text.clone())));
        let texts = texts.chain(self.environment.iter().map(|(_, text)| ("environment", text.clone())));
        let texts = texts.chain([("address", self.address.clone())]).chain(self.admin.iter().map(one("admin")));
        for (key, text) in texts {
            if let Err(Unknown(name)) = placeholder::fill(&text, &known) {
                let names: Vec<String> = known.keys().map(|name| format!("{{{name}}}")).collect();
                keys.refuse(
                    key,
                    &format!("has the unknown placeholder {{{name}}}"),
                    &format!("known: {}", names.join(" ")),
                );
            }
        }
    }
}

/// Orchestrators of a fleet once had addresses for relayed clients in the fleet file.
pub(crate) fn refuse_relay(keys: &mut Keys<'_>) {
    if keys.text("relay").is_some() {
        let problem = "is no longer used: orchestrators tell each other their addresses over the bus of the fleet";
        let hint = "remove it, and start the orchestrator with `--node {name}` on that bus: docs/orchestrators.md";
        keys.refuse("relay", problem, hint);
    }
}

pub(crate) fn login(keys: &mut Keys<'_>) -> Option<Login> {
    let username = keys.need("username", "\"fleet\"", Keys::text);
    let file = keys.need("password_file", "\"/etc/tidegate/fleet-password\"", Keys::text);
    Some(Login { username: username?, password_file: file?.into() })
}

fn probe(ports: &[String], keys: &mut Keys<'_>) -> Option<(Probe, Duration)> {
    keys.need("probe", "{ kind = \"mqtt\" }", |keys, key| {
        keys.table(key, |keys| {
            let kind = keys.need("kind", "\"mqtt\"", |keys, key| {
                keys.word(key, &[("process", 0), ("tcp", 1), ("mqtt", 2), ("http", 3)])
            });
            let port = keys.text("port").or_else(|| ports.first().cloned()).unwrap_or_default();
            if !ports.contains(&port) {
                keys.refuse("port", "names no port of this template", &format!("known: {}", ports.join(", ")));
            }
            let path = keys.text("path").unwrap_or_else(|| "/".to_owned());
            let limits = Duration::from_millis(10)..=Duration::from_secs(30);
            let timeout = keys.duration("timeout", limits).unwrap_or(Duration::from_secs(1));
            let probe = match kind? {
                0 => Probe::Process,
                1 => Probe::Tcp(port),
                2 => Probe::Mqtt(port),
                _ => Probe::Http(port, path),
            };
            Some((probe, timeout))
        })
    })
}
