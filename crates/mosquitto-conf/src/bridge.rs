//! A bridge of theirs, while it is put together.

use std::collections::BTreeSet;

use tidegate_conversion::{Outcome, Setting, Value};

use crate::lines::Line;
use crate::taken::Taken;
use crate::values::{leading_number, truth};

/// The default port of an address.
const DEFAULT_PORT: u16 = 1883;

const EITHER: &str = "a bridge has either certificates or a pre-shared key";

/// The folder of the system's authorities, which are asked where no file is named.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs";

/// The form of a topic.
const TOPIC: &str = "topics are PATTERN [out | in | both [QOS [LOCAL [REMOTE]]]]";

/// Why Mosquitto takes no such prefixes for a pattern.
fn remapping(pattern: &str, prefixes: &[&str]) -> Option<&'static str> {
    let is_given = |prefix: &&&str| **prefix != "\"\"";
    if pattern == "\"\"" {
        let both = prefixes.iter().filter(is_given).count() == 2;
        return (!both).then_some("an empty pattern needs both prefixes");
    }
    for prefix in prefixes.iter().filter(is_given) {
        if prefix.contains(['+', '#']) {
            return Some("a prefix has a wildcard");
        }
        let whole = format!("{prefix}{pattern}");
        let levels: Vec<&str> = whole.split('/').collect();
        let alone = |level: &&str| level.len() == 1 || !level.contains(['+', '#']);
        let last = levels.iter().rev().skip(1).all(|level| *level != "#");
        if !last || !levels.iter().all(alone) {
            return Some("a prefix and the pattern are no topic filter together");
        }
    }
    None
}

/// The direction and the QoS of a topic, from the words behind its pattern; `None` if Mosquitto takes no such words.
fn direction_and_qos(words: &[&str]) -> Option<(String, i64)> {
    let direction = words.first().map_or_else(|| "out".to_owned(), |word| word.to_ascii_lowercase());
    let qos = words.get(1).map_or(0, |word| leading_number(word).unwrap_or_default());
    (["in", "out", "both"].contains(&direction.as_str()) && (0..=2).contains(&qos)).then_some((direction, qos))
}

/// Whether an address ends with a port from 1 to 65,535, if with any.
fn has_fitting_port(address: &str) -> bool {
    let port = address.rsplit_once(':').map(|(_, port)| leading_number(port).unwrap_or_default());
    port.is_none_or(|port| (1..=65_535).contains(&port))
}

#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    /// The line that opened it.
    pub(crate) opened_by: usize,
    pub(crate) name: String,
    /// Its topics, with the line of the first.
    topics: Vec<String>,
    /// The place of the other broker.
    place: Option<(String, usize)>,
    secure: bool,
    /// Why it cannot be had here.
    closed: Option<String>,
    /// Keys of a pre-shared key that it has.
    shared_key: BTreeSet<&'static str>,
    /// Whether it has certificates or authorities.
    has_certificates: bool,
    /// The client id here, if a line names it or the client id at the other broker.
    local_id: Option<String>,
    remote_id: Option<String>,
    settings: Vec<Setting>,
}

impl Bridge {
    /// Opened by this line.
    pub(crate) fn new(index: usize, line: &Line<'_>) -> Self {
        // Our names occur in metrics and topics.
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let word = line.tokens().next().unwrap_or_default();
        let name: String = word.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        let settings = vec![Setting::new("name", Value::Text(name.clone()), index)];
        Self {
            opened_by: index,
            name,
            topics: Vec::new(),
            place: None,
            secure: false,
            closed: None,
            shared_key: BTreeSet::new(),
            has_certificates: false,
            local_id: None,
            remote_id: None,
            settings,
        }
    }

    /// Takes a line that belongs to it.
    pub(crate) fn take(&mut self, index: usize, line: &Line<'_>) -> Taken {
        let text = line.text().to_owned();
        if let Some(why) = self.refusal(line) {
            return Taken::invalid(why);
        }
        match line.key {
            "address" | "addresses" => self.take_addresses(index, line),
            "topic" => self.take_topic(line),
            "remote_clientid" | "clientid" => {
                self.remote_id = Some(text.clone());
                self.set("client_id", Value::Text(text), index)
            }
            "remote_username" | "username" => self.set("username", Value::Text(text), index),
            "remote_password" | "password" => Taken::refused(
                "write it into a file that only the broker's user can read, and name that with `password_file`",
            ),
            "bridge_cafile" => self.set_secure("ca", text, index),
            "bridge_certfile" => self.set_secure("certificate", text, index),
            "bridge_keyfile" => self.set_secure("key", text, index),
            "bridge_insecure" => self.truth("any_host_name", index, line),
            "notifications" => self.truth("notifications", index, line),
            "keepalive_interval" => {
                // Mosquitto takes 5 seconds for anything less.
                let seconds = leading_number(line.word()).unwrap_or_default().max(5);
                self.set("keep_alive", Value::Text(format!("{seconds}s")), index)
            }
            "bridge_receive_maximum" => match leading_number(line.word()).and_then(|window| u16::try_from(window).ok())
            {
                Some(window @ 1..) => self.set("window", Value::Number(window.into()), index),
                _ => Taken::invalid(format!("{:?} is no number", line.word())),
            },
            "bridge_protocol_version" | "start_type" | "notifications_local_only" | "cleansession" => {
                self.take_choice(index, line)
            }
            _ => self.take_other(line),
        }
    }

    /// Why Mosquitto does not start with a line, for keys with words of their own.
    fn refusal(&mut self, line: &Line<'_>) -> Option<&'static str> {
        let mut numbers = line.tokens().map(|word| leading_number(word).unwrap_or_default());
        match line.key {
            "bridge_cafile" | "bridge_capath" | "bridge_certfile" | "bridge_keyfile" => {
                self.has_certificates = true;
                (!self.shared_key.is_empty()).then_some(EITHER)
            }
            "bridge_psk" | "bridge_identity" => self.has_certificates.then_some(EITHER),
            "bridge_reload_type" => {
                (!["lazy", "immediate"].contains(&line.word())).then_some("it is neither lazy nor immediate")
            }
            // A space or a comment behind the version is part of it.
            "bridge_protocol_version" => {
                (!["mqttv31", "mqttv311", "mqttv50"].contains(&line.rest)).then_some("no version has this name")
            }
            "bridge_tcp_keepalive" => {
                let three = numbers.by_ref().take(3).filter(|number| *number > 0).count() == 3;
                (!three).then_some("it needs three numbers above 0")
            }
            "restart_timeout" => match (numbers.next(), numbers.next()) {
                (None, _) => Some("it has no value"),
                (Some(base), Some(cap)) if cap < base.max(1) => Some("its cap is below its base"),
                _ => None,
            },
            _ => None,
        }
    }

    /// Why Mosquitto does not start with it, whose lines are all known.
    pub(crate) fn unfit(&self) -> Option<&'static str> {
        if self.place.is_none() {
            return Some("a bridge has no `address`");
        }
        if self.topics.is_empty() {
            return Some("a bridge has no `topic`");
        }
        (self.shared_key.len() == 1).then_some("`bridge_psk` and `bridge_identity` belong together")
    }

    /// The client id here, if it is known: by default it contains the client id at the other broker.
    pub(crate) fn local_id(&self) -> Option<String> {
        let of_remote = || self.remote_id.as_ref().map(|remote| format!("local.{remote}"));
        self.local_id.clone().or_else(of_remote)
    }

    fn take_choice(&mut self, index: usize, line: &Line<'_>) -> Taken {
        match (line.key, line.word()) {
            (_, "mqttv50") => self.set("protocol", Value::Text("5".into()), index),
            (_, "mqttv311") => self.set("protocol", Value::Text("3.1.1".into()), index),
            ("bridge_protocol_version", "mqttv31") => {
                self.set("protocol", Value::Text("3.1.1".into()), index);
                Taken::changed("MQTT 3.1.1 is the least that bridges speak")
            }
            ("start_type", "automatic") | ("notifications_local_only" | "cleansession", "false" | "0") => {
                Taken::CARRIED
            }
            ("start_type", "lazy" | "once") => {
                Taken::changed("a bridge connects at the start, and again when it was cut")
            }
            ("notifications_local_only", "true" | "1") => {
                self.set("notifications", Value::Truth(false), index);
                Taken::changed("states are published to both brokers here, or to none: they are published to none")
            }
            ("cleansession", "true" | "1") => {
                Taken::changed("queued messages of a bridge are kept; `session_expiry` says for how long")
            }
            (_, other) => Taken::invalid(format!("{other:?} is no value of `{}`", line.key)),
        }
    }

    /// A key without a counterpart: if it restricts access, the bridge is left out.
    fn take_other(&mut self, line: &Line<'_>) -> Taken {
        match line.key {
            "bridge_tls_use_os_certs" => match truth(line) {
                Ok(true) => self.secured_by_system(),
                Ok(false) => Taken::CARRIED,
                Err(reason) => Taken::invalid(&reason),
            },
            "bridge_capath" if line.text().trim_end_matches('/') == SYSTEM_AUTHORITIES => self.secured_by_system(),
            "bridge_capath" => {
                self.close("the authorities of `bridge_capath` are not read: name one file with `bridge_cafile`")
            }
            "bridge_psk" | "bridge_identity" => {
                self.shared_key.insert(if line.key == "bridge_psk" { "bridge_psk" } else { "bridge_identity" });
                self.close("pre-shared keys are not spoken here")
            }
            "bridge_require_ocsp" if truth(line) != Ok(false) => self.close("stapled OCSP answers are not asked for"),
            "bridge_outgoing_retain" if truth(line) != Ok(true) => self.close("RETAIN is carried as it was published"),
            "bridge_alpn" => self.close("no ALPN protocol is offered"),
            "bridge_tls_version" => {
                self.secure |= self.settings.iter().any(|setting| setting.key == "ca");
                Taken::changed("TLS 1.2 or 1.3 is spoken, as the other broker can")
            }
            "local_username" | "local_password" => {
                Taken::changed("the bridge comes in by a listener that asks for no name")
            }
            "local_clientid" => {
                self.local_id = Some(line.text().to_owned());
                Taken::changed("here it is `bridge.` and the name of the bridge")
            }
            "round_robin" => Taken::changed("a bridge has one broker here"),
            "bridge_bind_address" => Taken::changed("the system chooses the address that it connects from"),
            _ => Taken::changed("a bridge does that in its own way"),
        }
    }

    fn secured_by_system(&mut self) -> Taken {
        self.secure = true;
        Taken::CARRIED
    }

    /// A pattern in quotes, which Mosquitto 2.1 takes with spaces.
    fn take_quoted_topic(&mut self, line: &Line<'_>, quoted: &str) -> Taken {
        let Some((_, rest)) = quoted.split_once('"') else {
            return Taken::invalid("the quote before a topic is not closed");
        };
        let words: Vec<&str> = Line { value: rest, ..*line }.tokens().collect();
        if direction_and_qos(&words).is_none() {
            return Taken::invalid(TOPIC);
        }
        self.topics.push(line.text().to_owned());
        self.close("topics with a space cannot be written here")
    }

    fn take_topic(&mut self, line: &Line<'_>) -> Taken {
        let mut words: Vec<&str> = line.tokens().collect();
        // A comment: no field after the direction begins with the character.
        if let Some(comment) = words.iter().skip(2).position(|word| word.starts_with('#')) {
            words.truncate(comment + 2);
        }
        // Mosquitto skips further words.
        words.truncate(5);
        let Some(pattern) = words.first() else { return Taken::invalid(TOPIC) };
        if let Some(quoted) = line.value.strip_prefix('"').filter(|_| *pattern != "\"\"") {
            return self.take_quoted_topic(line, quoted);
        }
        let Some((direction, qos)) = direction_and_qos(words.get(1..).unwrap_or_default()) else {
            return Taken::invalid(TOPIC);
        };
        let prefixes = words.get(3..).unwrap_or_default();
        if let Some(why) = remapping(pattern, prefixes) {
            return Taken::invalid(why);
        }
        let qos = qos.to_string();
        let fields = [*pattern, &direction, &qos];
        let given: Vec<&str> = fields.iter().copied().take(words.len()).chain(prefixes.iter().copied()).collect();
        self.topics.push(given.join(" "));
        Taken::CARRIED
    }

    fn take_addresses(&mut self, index: usize, line: &Line<'_>) -> Taken {
        if self.place.is_some() {
            return Taken::invalid("a line before has the address");
        }
        if !line.words().all(has_fitting_port) {
            return Taken::invalid("a port is a number from 1 to 65,535");
        }
        let mut all = line.words();
        let Some(first) = all.next() else { return Taken::invalid("it names no address") };
        let has_port = first
            .rsplit_once(':')
            .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')));
        self.place = Some((if has_port { first.to_owned() } else { format!("{first}:{DEFAULT_PORT}") }, index));
        match all.count() {
            0 => Taken::CARRIED,
            _ => Taken::changed(&format!("a bridge has one broker here, and it is {first}")),
        }
    }

    fn set(&mut self, key: &'static str, value: Value, index: usize) -> Taken {
        self.settings.retain(|setting| setting.key != key);
        self.settings.push(Setting::new(key, value, index));
        Taken::CARRIED
    }

    fn set_secure(&mut self, key: &'static str, value: String, index: usize) -> Taken {
        self.secure = true;
        self.set(key, Value::Text(value), index)
    }

    fn truth(&mut self, key: &'static str, index: usize, line: &Line<'_>) -> Taken {
        match truth(line) {
            Ok(value) => self.set(key, Value::Truth(value), index),
            Err(reason) => Taken::invalid(&reason),
        }
    }

    /// It restricts and has no counterpart.
    fn close(&mut self, reason: &str) -> Taken {
        self.closed.get_or_insert_with(|| reason.to_owned());
        Taken::new(Outcome::Refused, reason)
    }

    /// Why it is left out.
    pub(crate) fn lacks(&self) -> Option<String> {
        if let Some(reason) = &self.closed {
            return Some(reason.clone());
        }
        let settings = |key: &str| self.settings.iter().any(|setting| setting.key == key);
        (settings("certificate") != settings("key"))
            .then(|| "`bridge_certfile` and `bridge_keyfile` belong together".to_owned())
    }

    /// Its settings here, through a listener of this broker.
    pub(crate) fn settings(self, local_listener: &str) -> Vec<Setting> {
        let scheme = if self.secure { "mqtts" } else { "mqtt" };
        let opened = self.opened_by;
        let place =
            self.place.map(|(place, index)| Setting::new("broker", Value::Text(format!("{scheme}://{place}")), index));
        let topics = Setting::new("topics", Value::List(self.topics), opened);
        let local = Setting::new("local_listener", Value::Text(local_listener.to_owned()), opened);
        self.settings.into_iter().chain(place).chain([topics, local]).collect()
    }
}
