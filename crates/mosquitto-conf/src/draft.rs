//! The configuration under way, while the lines go in.

use std::collections::BTreeMap;

use tidegate_conversion::{Outcome, Sections, Setting, Value};

use crate::bridge::Bridge;
use crate::default_listener::{self, PLACE};
use crate::form::{form, says_nothing};
use crate::keys::{Key, Part, Rule, key};
use crate::lines::Line;
use crate::listener::{DEFAULT_PORT, Listener, Security, port};
use crate::once::Once;
use crate::taken::{LineOwner, Taken};
use crate::values::{Invalid, Translated, truth};

/// The configuration under way.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts about the lines")]
pub(crate) struct Draft<'a> {
    /// One for each line that has been taken.
    pub(crate) taken: Vec<Taken>,
    /// The objects that the lines belong to.
    pub(crate) owners: Vec<LineOwner>,
    pub(crate) broker: Sections,
    /// Settings of all listeners.
    pub(crate) everywhere: Vec<Setting>,
    /// The listener of keys before the first `listener`, once one opened it.
    pub(crate) default: Option<Listener<'a>>,
    pub(crate) listeners: Vec<Listener<'a>>,
    pub(crate) bridges: Vec<Bridge>,
    pub(crate) security: Security<'a>,
    /// Why all listeners are closed.
    pub(crate) closed: Option<String>,
    /// Whether there is a `listener` line anywhere.
    pub(crate) has_listeners: bool,
    /// Whether no line opens a listener: Mosquitto then serves any client of this machine, and no other.
    pub(crate) local_only: bool,
    /// The last value of `per_listener_settings`.
    pub(crate) per_listener: bool,
    /// Whether a line before set `per_listener_settings`.
    was_per_listener: bool,
    persistence: Option<usize>,
    location: Option<(usize, &'a str)>,
    log_level: Option<usize>,
    /// Whether a line before names a file of the log.
    has_log_file: bool,
    /// The owners of the next lines of each file.
    pub(crate) files: BTreeMap<usize, Current>,
    once: Once<'a>,
}

/// The owners of the next lines of a file. Each file begins without them, also an included one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Current {
    /// The number of the listener; `None` for the default one.
    pub(crate) listener: Option<usize>,
    /// The number of the bridge.
    pub(crate) bridge: Option<usize>,
    /// Whether the plugin restricts nothing.
    harmless_plugin: Option<bool>,
}

/// Why a line is refused.
const UNKNOWN: &str = "it knows no such key";

/// Why a line has no effect.
const NOT_OPENED: &str = "it is about a default listener that is not opened";

/// Plugins without access control, by the name of their file.
const HARMLESS_PLUGINS: &[&str] = &[
    "mosquitto_message_logger",
    "mosquitto_message_timestamp",
    "mosquitto_client_lifecycle_stats",
    "mosquitto_client_properties",
    "mosquitto_add_properties",
    "mosquitto_connection_state",
    "mosquitto_persist_sqlite",
    "mosquitto_sparkplug_aware",
];

/// The levels of our log, from the least verbose.
const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

impl<'a> Draft<'a> {
    /// An empty draft that knows all lines.
    pub(crate) fn new(lines: &[Line<'a>]) -> Self {
        let per_listener = lines.iter().rev().find(|line| line.key == "per_listener_settings");
        let per_listener = per_listener.is_some_and(|line| truth(line) == Ok(true));
        let opens = |line: &Line<'_>| line.key == "listener" || PLACE.contains(&line.key);
        let has_listeners = lines.iter().any(|line| line.key == "listener");
        let opener = default_listener::opener(lines, per_listener).filter(|_| has_listeners);
        Self {
            taken: Vec::new(),
            owners: Vec::new(),
            broker: Vec::new(),
            everywhere: Vec::new(),
            default: opener.map(|index| Listener::new(Some(index), DEFAULT_PORT, None)),
            listeners: Vec::new(),
            bridges: Vec::new(),
            security: Security::default(),
            closed: None,
            has_listeners,
            local_only: !lines.iter().any(opens),
            per_listener,
            was_per_listener: false,
            persistence: None,
            location: None,
            log_level: None,
            has_log_file: false,
            files: BTreeMap::new(),
            once: Once::default(),
        }
    }

    pub(crate) fn take(&mut self, index: usize, line: Line<'a>) {
        let taken = match key(line.key) {
            Some(key) => match self.refusal(&line) {
                Some(why) => Taken::invalid(&why),
                None if says_nothing(&line) => Taken::changed("it says nothing without a value"),
                None => self.take_key(index, line, key),
            },
            None => Taken::invalid(UNKNOWN),
        };
        if taken.invalid {
            self.closed.get_or_insert_with(|| format!("Mosquitto does not start with `{}`", line.key));
        }
        self.owners.push(key(line.key).map_or(LineOwner::Broker, |key| self.owner(&line, key)));
        self.taken.push(taken);
    }

    /// An unreadable folder may contain lines that restrict access.
    pub(crate) fn include_failed(&mut self, _index: usize, reason: &str) {
        self.closed.get_or_insert_with(|| format!("its included files are not known: {reason}"));
        self.owners.push(LineOwner::Broker);
        self.taken.push(Taken::refused(reason));
    }

    /// Why Mosquitto does not start with a line, by its form and the lines before it.
    fn refusal(&mut self, line: &Line<'a>) -> Option<String> {
        let again = self.once.refusal(line, self.per_listener).map(str::to_owned);
        if line.rest.contains('\0') {
            return Some("it has a character of no width, at which lines end for it".to_owned());
        }
        again.or_else(|| match form(line.key) {
            Some(form) => form.check(line).err().map(|invalid| invalid.to_string()),
            None => Some(UNKNOWN.to_owned()),
        })
    }

    fn take_key(&mut self, index: usize, line: Line<'a>, key: &'static Key) -> Taken {
        let word = match line.word() {
            "0" if key.default == Some("false") => "false",
            "1" if key.default == Some("true") => "true",
            word => word,
        };
        if key.default == Some(word) {
            return Taken::CARRIED;
        }
        match key.rule {
            Rule::Changed => Taken::changed(key.how),
            Rule::Refused => Taken::refused(key.how),
            Rule::ClosesAll => {
                self.closed.get_or_insert_with(|| format!("`{}`: {}", key.name, key.how));
                Taken::refused(key.how)
            }
            Rule::ClosesListener => {
                let reason = format!("`{}`: {}", key.name, key.how);
                match self.current(index, &line) {
                    Some(listener) => listener.close(reason),
                    None => self.closed = self.closed.take().or(Some(reason)),
                }
                Taken::refused(key.how)
            }
            Rule::Broker(section, ours, translate) => {
                self.translate(translate(&line), index, ours, |draft, setting| {
                    draft.broker.retain(|(name, other)| (*name, other.key) != (section, setting.key));
                    draft.broker.push((section, setting));
                })
            }
            Rule::EveryListener(ours, translate) if self.per_listener && line.key == "allow_zero_length_clientid" => {
                self.take_setting(index, &line, ours, translate(&line))
            }
            Rule::EveryListener(ours, translate) => self.translate(translate(&line), index, ours, |draft, setting| {
                draft.everywhere.retain(|other| other.key != setting.key);
                draft.everywhere.push(setting);
            }),
            Rule::Listener(ours, translate) => self.take_setting(index, &line, ours, translate(&line)),
            Rule::Part(part) => self.take_part(index, line, part),
        }
    }

    fn take_setting(
        &mut self,
        index: usize,
        line: &Line<'a>,
        ours: &'static str,
        translated: Result<Translated, Invalid>,
    ) -> Taken {
        if translated.is_ok() && self.current(index, line).is_none() {
            return Taken::changed(NOT_OPENED);
        }
        self.translate(translated, index, ours, |draft, setting| {
            if let Some(listener) = draft.current(index, line) {
                listener.settings.retain(|other| other.key != setting.key);
                listener.settings.push(setting);
            }
        })
    }

    fn translate(
        &mut self,
        translated: Result<Translated, Invalid>,
        index: usize,
        ours: &'static str,
        put: impl FnOnce(&mut Self, Setting),
    ) -> Taken {
        match translated {
            Ok(Translated { value, changed }) => {
                put(self, Setting::new(ours, value, index));
                changed.map_or(Taken::CARRIED, |why| Taken::changed(&why))
            }
            Err(reason) => Taken::invalid(&reason),
        }
    }

    fn take_part(&mut self, index: usize, line: Line<'a>, part: Part) -> Taken {
        match part {
            Part::Place if line.key == "listener" => self.open(index, &line),
            Part::Place => self.of_listener(index, &line, |listener| listener.take_place(&line)),
            Part::Tls => self.of_listener(index, &line, |listener| listener.tls.take(index, line)),
            Part::Mount if self.listeners.is_empty() => Taken::invalid("it is before the first `listener`"),
            Part::Mount if line.text().contains(['+', '#']) => Taken::invalid("it has a wildcard"),
            Part::Mount => self.of_listener(index, &line, |listener| {
                listener.mount = Some(line.text());
                Ok(None)
            }),
            Part::Versions => self.of_listener(index, &line, |listener| {
                let all = ["3", "4", "5"]
                    .iter()
                    .all(|version| line.value.split([',', ' ', '\t']).any(|word| word == *version));
                if !all {
                    listener.close("it serves some versions of MQTT alone, and all are served here");
                }
                Ok(None)
            }),
            Part::Anonymous => match truth(&line) {
                Ok(allowed) => self.anonymous(index, &line, allowed),
                Err(reason) => Taken::invalid(&reason),
            },
            Part::Users | Part::Rules => self.files(index, line, part),
            Part::Plugin => self.plugin(index, &line),
            Part::PerListener => match truth(&line) {
                Ok(on) => self.take_per_listener(on),
                Err(reason) => Taken::invalid(&reason),
            },
            Part::Included => Taken::CARRIED,
            Part::Bridge => self.bridge(index, &line),
            Part::LogType => self.log_type(index, &line),
            Part::LogDestination => self.log_destination(&line),
            Part::Persistence => self.persistence(index, &line),
        }
    }

    fn open(&mut self, index: usize, line: &Line<'a>) -> Taken {
        let mut words = line.words();
        let number = match port(words.next().unwrap_or_default()) {
            Ok(number) => number,
            Err(reason) => return Taken::invalid(&reason),
        };
        let bind = words.next();
        if number != 0 && bind.is_some_and(|host| host.contains(|c: char| c.is_whitespace() || "[]".contains(c))) {
            return Taken::invalid("its address is neither a host name nor an IP address");
        }
        if number == 0 && bind.is_none() {
            return Taken::invalid("port 0 is for Unix sockets, and no path follows");
        }
        self.files.entry(line.file).or_default().listener = Some(self.listeners.len());
        self.listeners.push(Listener::new(Some(index), number, bind));
        Taken::CARRIED
    }

    /// Mosquitto stores settings by the value at their lines, and looks for them by the last value.
    fn take_per_listener(&mut self, on: bool) -> Taken {
        if self.was_per_listener && !on {
            let why = "settings that an earlier `per_listener_settings true` gave to listeners are lost in Mosquitto";
            self.closed.get_or_insert_with(|| format!("`per_listener_settings false`: {why}"));
            return Taken::refused(why);
        }
        self.was_per_listener |= on;
        Taken::CARRIED
    }

    /// The listener that a line belongs to: the last one of its file, else the default one. Beside others that one is
    /// there only if Mosquitto opens it.
    pub(crate) fn current(&mut self, index: usize, line: &Line<'a>) -> Option<&mut Listener<'a>> {
        let own = self.files.get(&line.file).and_then(|current| current.listener);
        if let Some(own) = own.filter(|_| !PLACE.contains(&line.key)) {
            return self.listeners.get_mut(own);
        }
        if self.default.is_none() && !self.has_listeners {
            // Without anything that asks for more it is on loopback alone, see `finish`.
            self.default = Some(Listener::new(Some(index), DEFAULT_PORT, None));
        }
        self.default.as_mut()
    }

    fn of_listener(
        &mut self,
        index: usize,
        line: &Line<'a>,
        take: impl FnOnce(&mut Listener<'a>) -> Result<Option<&'static str>, Invalid>,
    ) -> Taken {
        let Some(listener) = self.current(index, line) else {
            return Taken::changed(NOT_OPENED);
        };
        match take(listener) {
            Ok(None) => match &listener.closed {
                Some(reason) => Taken::refused(&reason.clone()),
                None => Taken::CARRIED,
            },
            Ok(Some(why)) => Taken::changed(why),
            Err(reason) => Taken::invalid(&reason),
        }
    }

    /// The access settings of the listener, or of the broker.
    fn security(&mut self, index: usize, line: &Line<'a>) -> Option<&mut Security<'a>> {
        if self.per_listener || line.key == "listener_allow_anonymous" {
            return self.current(index, line).map(|listener| &mut listener.security);
        }
        Some(&mut self.security)
    }

    fn anonymous(&mut self, index: usize, line: &Line<'a>, allowed: bool) -> Taken {
        match self.security(index, line) {
            Some(security) => security.anonymous = Some(allowed),
            None => return Taken::changed(NOT_OPENED),
        }
        Taken::CARRIED
    }

    fn files(&mut self, index: usize, line: Line<'a>, part: Part) -> Taken {
        match self.security(index, &line) {
            Some(security) if part == Part::Users => security.users = Some((index, line.text())),
            Some(security) => security.rules = Some((index, line.text())),
            None => return Taken::changed(NOT_OPENED),
        }
        Taken::CARRIED
    }

    fn plugin(&mut self, index: usize, line: &Line<'a>) -> Taken {
        let loads = ["plugin", "auth_plugin", "global_plugin", "plugin_load"].contains(&line.key);
        if loads {
            let file = line.words().last().unwrap_or_default();
            let name = file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
            self.files.entry(line.file).or_default().harmless_plugin = Some(HARMLESS_PLUGINS.contains(&name));
        }
        let harmless = self.files.get(&line.file).and_then(|current| current.harmless_plugin);
        if harmless.is_none() && line.key != "plugin_use" {
            return Taken::invalid("it is before the first plugin of its file");
        }
        let is_option = line.key.starts_with("auth_opt_") || line.key.starts_with("plugin_opt_");
        if is_option && line.text().is_empty() {
            return Taken::invalid("it has no value");
        }
        if harmless == Some(true) {
            return Taken::changed("the plugin is not loaded; it restricts nothing");
        }
        let reason = format!("it is guarded by a plugin (`{} {}`), and plugins are not loaded", line.key, line.value);
        if loads || line.key == "plugin_use" {
            let closed = if line.key.starts_with("global_") || line.key == "plugin_load" {
                &mut self.closed
            } else {
                match self.security(index, line) {
                    Some(security) => &mut security.closed,
                    None => &mut self.closed,
                }
            };
            closed.get_or_insert(reason);
        }
        Taken::refused("plugins are not loaded; the listeners that this one guards are left out")
    }

    fn bridge(&mut self, index: usize, line: &Line<'a>) -> Taken {
        if line.key == "connection" {
            if line.value.is_empty() {
                return Taken::invalid("it has no name");
            }
            self.files.entry(line.file).or_default().bridge = Some(self.bridges.len());
            self.bridges.push(Bridge::new(index, line));
            return Taken::CARRIED;
        }
        let own = self.files.get(&line.file).and_then(|current| current.bridge);
        match own.and_then(|own| self.bridges.get_mut(own)) {
            Some(bridge) => bridge.take(index, line),
            None => Taken::invalid("it is before the first `connection` of its file"),
        }
    }

    fn log_destination(&mut self, line: &Line<'a>) -> Taken {
        let mut words = line.tokens();
        match words.next().unwrap_or_default() {
            "stderr" => return Taken::CARRIED,
            "file" if words.next().is_none() => return Taken::invalid("it names no file"),
            "file" if std::mem::replace(&mut self.has_log_file, true) => {
                return Taken::invalid("a line before names a file, too");
            }
            "file" | "none" | "syslog" | "stdout" | "topic" | "dlt" => {}
            other => return Taken::invalid(format!("the destination {other:?} is not known")),
        }
        Taken::changed("the log goes to standard error; systemd or the container keeps it")
    }

    /// Theirs names the kinds of lines; ours the least important kind.
    fn log_type(&mut self, index: usize, line: &Line<'a>) -> Taken {
        let level = match line.word() {
            "error" | "none" => 0,
            "warning" => 1,
            "notice" | "information" => 2,
            "subscribe" | "unsubscribe" | "debug" | "all" | "websockets" | "internal" => 3,
            other => return Taken::invalid(format!("the kind {other:?} is not known")),
        };
        if self.log_level.is_none_or(|before| before < level) {
            self.log_level = Some(level);
            let word = LEVELS.get(level).copied().unwrap_or("info");
            self.broker.retain(|(section, _)| *section != "log");
            self.broker.push(("log", Setting::new("level", Value::Text(word.to_owned()), index)));
        }
        Taken::CARRIED
    }

    fn persistence(&mut self, index: usize, line: &Line<'a>) -> Taken {
        if line.key == "persistence_location" {
            self.location = Some((index, line.text()));
        } else {
            match truth(line) {
                Ok(on) => self.persistence = on.then_some(index),
                Err(reason) => return Taken::invalid(&reason),
            }
        }
        Taken::CARRIED
    }

    /// Names the data directory: the folder of Mosquitto's file, which without a location was its working directory.
    pub(crate) fn keep(&mut self) {
        let location = self.location.filter(|(_, path)| !path.is_empty());
        let Some(index) = self.persistence else {
            if let Some((index, _)) = location {
                self.changed(index, "it says nothing, since `persistence` is not true");
            }
            return;
        };
        let (at, path) = location.unwrap_or((index, "data"));
        self.broker.push(("store", Setting::new("directory", Value::Text(path.to_owned()), at)));
        let why = format!("everything is kept in {path} from now on; mosquitto.db is not read");
        self.changed(at, &why);
    }

    /// The socket of bridges that have a listener of their own.
    pub(crate) fn socket_of_bridges(&self) -> String {
        match self.location.filter(|(_, path)| self.persistence.is_some() && !path.is_empty()) {
            Some((_, path)) => format!("{}/bridges.sock", path.trim_end_matches('/')),
            None => "tidegate-bridges.sock".to_owned(),
        }
    }

    /// Replaces the outcome of a line that had been carried.
    pub(crate) fn changed(&mut self, index: usize, why: &str) {
        if let Some(taken) = self.taken.get_mut(index).filter(|taken| taken.outcome == Outcome::Carried) {
            *taken = Taken::changed(why);
        }
    }

    /// A line whose listener or bridge is left out.
    pub(crate) fn refused(&mut self, index: usize, why: &str) {
        if let Some(taken) = self.taken.get_mut(index).filter(|taken| taken.outcome != Outcome::Refused) {
            *taken = Taken::refused(why);
        }
    }
}
