//! The configuration that comes out, while the lines go in.

use tidegate_node::ListenAddress;

use super::Line;
use super::bridge::DraftBridge;
use super::keys::{Fate, PLUGINS, TLS, Treatment, USERS, treatment, truth};
use super::tls::Tls;
use crate::config::Config;
use crate::config::path::KeyPath;
use crate::config::sections::auth::Auth;
use crate::config::sections::bridge::Bridge;
use crate::config::sections::{Listener, LogLevel};
use crate::config::source::{FileText, Source};
use crate::config::value::Raw;

/// The port of a listener that names none.
const DEFAULT_PORT: u16 = 1883;

/// The data directory, where no location is named.
const DEFAULT_DIRECTORY: &str = "data";

/// What `protocol` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Protocol {
    #[default]
    Mqtt,
    WebSocket,
}

/// A listener of theirs, while it is put together.
#[derive(Clone, Debug)]
struct DraftListener<'a> {
    /// The line that opened it.
    line: Line<'a>,
    port: u16,
    bind: Option<&'a str>,
    protocol: Protocol,
    allow_anonymous: Option<bool>,
    tls: Tls<'a>,
    /// Keys of ours with their values.
    settings: Vec<(&'static str, String, Line<'a>)>,
}

/// The configuration under way.
pub(super) struct Draft<'a> {
    config: Config,
    /// The listener of `port` and `bind_address`, once a line opened it.
    default: Option<DraftListener<'a>>,
    listeners: Vec<DraftListener<'a>>,
    bridges: Vec<DraftBridge<'a>>,
    /// Whether there is a `listener` line anywhere, so that without `port` there is no default listener.
    has_listeners: bool,
    /// Settings of all listeners.
    everywhere: Vec<(&'static str, String, Line<'a>)>,
    allow_anonymous: Option<bool>,
    /// Whether users, access rules or plugins say who may do what, none of which is carried over.
    guarded: bool,
    per_listener: bool,
    /// The line that has everything kept, and the one that says where.
    persistence: Option<Line<'a>>,
    location: Option<Line<'a>>,
    /// The line that names a file of users.
    users: Option<Line<'a>>,
    log_level: Option<LogLevel>,
}

impl<'a> Draft<'a> {
    /// Begins with nothing but the knowledge of all lines.
    pub(super) fn new(file: &FileText, lines: &[Line<'a>]) -> Self {
        let per_listener = lines.iter().rev().find(|line| line.key == "per_listener_settings");
        Self {
            config: Config::draft(file.clone()),
            default: None,
            listeners: Vec::new(),
            bridges: Vec::new(),
            has_listeners: lines.iter().any(|line| line.key == "listener"),
            everywhere: Vec::new(),
            allow_anonymous: None,
            guarded: lines.iter().any(|line| guards(line.key)),
            per_listener: per_listener.is_some_and(|line| truth(line.value).as_deref() == Ok("true")),
            persistence: None,
            location: None,
            users: None,
            log_level: None,
        }
    }

    /// Takes one line.
    pub(super) fn take(&mut self, line: &Line<'a>) -> Fate {
        let Some(treatment) = treatment(line.key) else {
            return Fate::Left("not carried over: this is no key that Mosquitto documents".to_owned());
        };
        let done = match treatment {
            Treatment::Not(reason) => {
                if reason == TLS
                    && let Some(listener) = self.current(line)
                {
                    listener.tls.beyond_us = true;
                }
                Err(reason.to_owned())
            }
            Treatment::Always | Treatment::PerListener | Treatment::Included => Ok(()),
            Treatment::Broker(section, key, translate) => {
                translate(line.value).and_then(|value| self.set(section, 0, key, value, line))
            }
            Treatment::EveryListener(key, translate) => {
                translate(line.value).and_then(|value| self.set_listeners(key, value, line))
            }
            Treatment::Listener(key, translate) => {
                translate(line.value).and_then(|value| self.set_current(key, value, line))
            }
            Treatment::Place => self.place(line),
            Treatment::Anonymous => truth(line.value).map(|word| self.anonymous(word == "true", line)),
            Treatment::Tls => self.tls(line),
            Treatment::Users => self.users(line),
            Treatment::Rules => self.rules(line),
            Treatment::Bridge => self.bridge(line),
            Treatment::LogType => self.log_type(line),
            Treatment::Persistence => self.persistence(line),
            Treatment::LogDestination => log_destination(line.value),
        };
        done.map_or_else(Fate::Left, |()| Fate::Carried)
    }

    /// Sets a key of ours, if our own check takes the value.
    fn set(
        &mut self,
        section: &'static str,
        index: usize,
        key: &'static str,
        value: String,
        line: &Line<'a>,
    ) -> Result<(), String> {
        let path = KeyPath { section, index, key };
        let source = Source::File(line.offset..line.offset + line.key.len());
        self.config
            .try_set(path, &Raw::Word(value), source)
            .map_err(|problem| format!("not carried over: {path} {}", problem.message))
    }

    /// The listener that lines belong to: the last one opened, else the default one.
    fn current(&mut self, line: &Line<'a>) -> Option<&mut DraftListener<'a>> {
        if !self.listeners.is_empty() {
            return self.listeners.last_mut();
        }
        let opens = ["port", "mqtt_port", "bind_address"].contains(&line.key) || !self.has_listeners;
        if self.default.is_none() && opens {
            self.default = Some(DraftListener::new(*line, DEFAULT_PORT, None));
        }
        self.default.as_mut()
    }

    fn set_current(&mut self, key: &'static str, value: String, line: &Line<'a>) -> Result<(), String> {
        let listener = self.current(line).ok_or(
            "not carried over: it stands before the first `listener`, for a default listener that is not opened",
        )?;
        listener.settings.push((key, value, *line));
        Ok(())
    }

    fn set_listeners(&mut self, key: &'static str, value: String, line: &Line<'a>) -> Result<(), String> {
        if self.per_listener && !self.listeners.is_empty() {
            return self.set_current(key, value, line);
        }
        self.everywhere.push((key, value, *line));
        Ok(())
    }

    fn anonymous(&mut self, allowed: bool, line: &Line<'a>) {
        let here = self.per_listener || line.key == "listener_allow_anonymous";
        match self.current(line) {
            Some(listener) if here => listener.allow_anonymous = Some(allowed),
            _ => self.allow_anonymous = Some(allowed),
        }
    }

    fn place(&mut self, line: &Line<'a>) -> Result<(), String> {
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("not carried over: {text:?} is no port"));
        if line.key == "listener" {
            let (number, bind) = line.value.split_once(char::is_whitespace).unwrap_or((line.value, ""));
            let bind = Some(bind.trim()).filter(|bind| !bind.is_empty());
            self.listeners.push(DraftListener::new(*line, port(number)?, bind));
            return Ok(());
        }
        let value = line.value;
        let listener = self.current(line).ok_or(
            "not carried over: it stands before the first `listener`, for a default listener that is not opened",
        )?;
        match (line.key, value) {
            ("bind_address", address) => listener.bind = Some(address),
            ("protocol", "mqtt") => listener.protocol = Protocol::Mqtt,
            ("protocol", "websockets") => listener.protocol = Protocol::WebSocket,
            ("protocol", other) => return Err(format!("not carried over: the protocol {other:?} is not served")),
            _ => listener.port = port(value)?,
        }
        Ok(())
    }

    fn tls(&mut self, line: &Line<'a>) -> Result<(), String> {
        let listener = self.current(line).ok_or(
            "not carried over: it stands before the first `listener`, for a default listener that is not opened",
        )?;
        listener.tls.take(line)
    }

    /// A file of users becomes a provider that is asked for all listeners.
    fn users(&mut self, line: &Line<'a>) -> Result<(), String> {
        self.for_all_listeners(line, "write an [[auth]] for each, with `listeners`")?;
        if self.config.auths.is_empty() {
            self.config.auths.push(Auth::default());
        }
        self.set("auth", 0, "kind", "password-file".to_owned(), line)?;
        self.set("auth", 0, "file", line.value.to_owned(), line)?;
        self.users = Some(*line);
        Ok(())
    }

    fn rules(&mut self, line: &Line<'a>) -> Result<(), String> {
        self.for_all_listeners(line, "write a rule with `listeners` into a rules file")?;
        self.set("access", 0, "acl_file", line.value.to_owned(), line)
    }

    fn bridge(&mut self, line: &Line<'a>) -> Result<(), String> {
        if line.key == "connection" {
            self.bridges.push(DraftBridge::new(*line));
            return Ok(());
        }
        let bridge = self.bridges.last_mut().ok_or("not carried over: it stands before the first `connection`")?;
        bridge.take(line)
    }

    /// Adds a bridge to the result.
    fn build(&mut self, mut bridge: DraftBridge<'a>, remarks: &mut Vec<(Line<'a>, String)>) {
        let (index, line) = (self.config.bridges.len(), bridge.line);
        if let Some(reason) = bridge.lacks() {
            return remarks.push((line, reason.to_owned()));
        }
        self.config.bridges.push(Bridge::default());
        let topics = Raw::List(std::mem::take(&mut bridge.topics));
        let source = Source::File(line.offset..line.offset + line.key.len());
        // Each line of them was read before.
        if let Err(problem) = self.config.try_set(KeyPath { section: "bridge", index, key: "topics" }, &topics, source)
        {
            remarks.push((line, format!("not carried over: topics {}", problem.message)));
        }
        for (key, value, line) in bridge.settings() {
            if let Err(reason) = self.set("bridge", index, key, value, &line) {
                remarks.push((line, reason));
            }
        }
    }

    /// Refuses what is for one listener there and for all of them here.
    fn for_all_listeners(&mut self, line: &Line<'a>, instead: &str) -> Result<(), String> {
        if self.per_listener {
            self.guarded = true;
            return Err(format!("not carried over: `{}` is for one listener there; {instead}", line.key));
        }
        Ok(())
    }

    /// Theirs names the kinds of lines; ours the least important kind.
    fn log_type(&mut self, line: &Line<'a>) -> Result<(), String> {
        let level = match line.value {
            "error" | "none" => LogLevel::Error,
            "warning" => LogLevel::Warn,
            "notice" | "information" => LogLevel::Info,
            "subscribe" | "unsubscribe" | "debug" | "all" | "websockets" | "internal" => LogLevel::Debug,
            other => return Err(format!("not carried over: the kind {other:?} is not known")),
        };
        if self.log_level.is_none_or(|before| (before as u8) < level as u8) {
            self.log_level = Some(level);
            let word = ["error", "warn", "info", "debug", "trace"][level as usize];
            return self.set("log", 0, "level", word.to_owned(), line);
        }
        Ok(())
    }

    /// Puts the listeners together. Remarks are about listeners that could not stay where they were.
    pub(super) fn finish(mut self) -> (Config, Vec<(Line<'a>, String)>) {
        let mut remarks = Vec::new();
        let mut listeners: Vec<DraftListener<'a>> = self.default.take().into_iter().collect();
        listeners.append(&mut self.listeners);
        if listeners.is_empty() && !self.everywhere.is_empty() {
            // Settings of all listeners need one to stand in: the one that Mosquitto opens on loopback.
            let line = self.everywhere[0].2;
            listeners.push(DraftListener::new(line, DEFAULT_PORT, Some("127.0.0.1")));
        }
        for listener in listeners {
            match self.open(&listener, &mut remarks) {
                Ok(index) => {
                    let mut settings = listener.settings;
                    if listener.tls.is_whole() {
                        settings.extend(listener.tls.settings());
                    }
                    let idle = "says nothing here, since clients are not asked for certificates".to_owned();
                    remarks.extend(listener.tls.idle().map(|line| (line, idle.clone())));
                    self.furnish(index, settings, &mut remarks);
                    if listener.tls.names_users() {
                        self.users = self.users.or(Some(listener.line));
                    }
                }
                Err(reason) => remarks.push((listener.line, reason)),
            }
        }
        for bridge in std::mem::take(&mut self.bridges) {
            self.build(bridge, &mut remarks);
        }
        self.allow_users_without_rules(&mut remarks);
        self.keep(&mut remarks);
        (self.config, remarks)
    }

    fn persistence(&mut self, line: &Line<'a>) -> Result<(), String> {
        if line.key == "persistence" {
            self.persistence = (truth(line.value)? == "true").then_some(*line);
        } else {
            self.location = Some(*line);
        }
        Ok(())
    }

    /// Names the data directory: where Mosquitto's file was, which without a location was wherever it was started.
    fn keep(&mut self, remarks: &mut Vec<(Line<'a>, String)>) {
        let Some(line) = self.persistence else {
            let idle = self.location.map(|line| (line, "says nothing, since `persistence` is not true".to_owned()));
            return remarks.extend(idle);
        };
        let named = self.location.filter(|line| !line.value.is_empty());
        let directory = named.map_or(DEFAULT_DIRECTORY, |line| line.value);
        if let Err(reason) = self.set("store", 0, "directory", directory.to_owned(), &named.unwrap_or(line)) {
            return remarks.push((line, reason));
        }
        let remark =
            format!("everything is kept in {directory} from now on; what is in Mosquitto's own file is not read");
        remarks.push((named.unwrap_or(line), remark));
    }

    /// Without rules everybody who came in might do everything there, which has to be said here.
    fn allow_users_without_rules(&mut self, remarks: &mut Vec<(Line<'a>, String)>) {
        let Some(line) = self.users.filter(|_| self.config.access.acl_file.is_none()) else { return };
        if let Err(reason) = self.set("access", 0, "default", "allow".to_owned(), &line) {
            remarks.push((line, reason));
        }
    }

    /// Adds a listener to the result, on loopback where it would be open to everybody and was not; gives its number.
    fn open(&mut self, listener: &DraftListener<'a>, remarks: &mut Vec<(Line<'a>, String)>) -> Result<usize, String> {
        let line = listener.line;
        let asked = listener.address("0.0.0.0", self.has_listeners);
        let local = asked.parse::<ListenAddress>().is_ok_and(|address| address.is_local());
        let anonymous = listener.allow_anonymous.or(self.allow_anonymous).unwrap_or(false);
        let secured = !listener.tls.is_meant() || listener.tls.is_whole();
        let asks = self.users.is_some() || listener.tls.asks_for_certificates();
        let stays = local || (secured && !self.guarded && (anonymous || asks));
        let kept = DraftListener { bind: Some("127.0.0.1"), ..listener.clone() }.address("127.0.0.1", true);
        let address = if stays { asked.clone() } else { kept };
        if self.config.listeners.iter().any(|other| other.address.to_string() == address) {
            return Err(format!("left out: another listener is at {address} already"));
        }
        let index = self.config.listeners.len();
        self.config.listeners.push(Listener::default());
        if let Err(reason) = self.set("listener", index, "address", address.clone(), &line) {
            self.config.listeners.pop();
            return Err(reason);
        }
        if !stays {
            let missing = match (secured, anonymous) {
                (false, _) => "TLS",
                (true, true) => "access rules",
                (true, false) => "user names",
            };
            let remark = format!(
                "moved from {asked} to {address}: it asks for {missing}, which could not be carried over, and without it \
                 everybody would get in"
            );
            remarks.push((line, remark));
        } else if !local && anonymous {
            self.set("listener", index, "allow_anonymous", "true".to_owned(), &line)?;
        }
        Ok(index)
    }

    fn furnish(
        &mut self,
        index: usize,
        settings: Vec<(&'static str, String, Line<'a>)>,
        remarks: &mut Vec<(Line<'a>, String)>,
    ) {
        for (key, value, line) in self.everywhere.clone().into_iter().chain(settings) {
            if let Err(reason) = self.set("listener", index, key, value, &line) {
                remarks.push((line, reason));
            }
        }
    }
}

impl<'a> DraftListener<'a> {
    fn new(line: Line<'a>, port: u16, bind: Option<&'a str>) -> Self {
        Self {
            line,
            port,
            bind,
            protocol: Protocol::Mqtt,
            allow_anonymous: None,
            tls: Tls::default(),
            settings: Vec::new(),
        }
    }

    /// Its address as ours writes it. Without `listener` lines and without an address Mosquitto stays on loopback.
    fn address(&self, everywhere: &str, has_listeners: bool) -> String {
        let opened = has_listeners || ["port", "mqtt_port"].contains(&self.line.key);
        let host = match self.bind {
            Some(path) if self.port == 0 && path.starts_with('/') => return format!("unix:{path}"),
            Some(host) if host.contains(':') => format!("[{host}]"),
            Some(host) => host.to_owned(),
            None if opened => everywhere.to_owned(),
            None => "127.0.0.1".to_owned(),
        };
        match (self.protocol, self.tls.is_whole()) {
            (Protocol::Mqtt, false) => format!("{host}:{}", self.port),
            (Protocol::Mqtt, true) => format!("mqtts://{host}:{}", self.port),
            // Mosquitto serves every path; clients that name none ask for this one.
            (Protocol::WebSocket, false) => format!("ws://{host}:{}/mqtt", self.port),
            (Protocol::WebSocket, true) => format!("wss://{host}:{}/mqtt", self.port),
        }
    }
}

fn log_destination(value: &str) -> Result<(), String> {
    match value.split_whitespace().next().unwrap_or_default() {
        "stderr" => Ok(()),
        "topic" => Err("not carried over: the log is not published".to_owned()),
        "none" => {
            Err("not carried over: the log goes to standard error; `log.level = \"error\"` keeps it short".to_owned())
        }
        other => Err(format!(
            "not carried over: the log goes to standard error, not to {other}; whoever starts the broker puts it where it belongs"
        )),
    }
}

/// Whether a key says who may do what: without it a listener would be more open than it was.
fn guards(key: &str) -> bool {
    matches!(treatment(key), Some(Treatment::Not(reason)) if reason == USERS || reason == PLUGINS)
}
