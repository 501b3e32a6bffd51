//! A bridge of theirs, while it is put together.

use tidegate_bridge::TopicRule;

use super::Line;
use super::keys::{Refusal, truth};

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 1883;

const PASSWORD: &str =
    "not carried over: write it into a file that only the broker's user can read, and name that with `password_file`";
const LOCAL_PASSWORD: &str = "not carried over: write it into a file that only the broker's user can read, and name that with `local_password_file`";
const NO_SETTING: &str = "not carried over: bridges have no such setting here";

/// A key of ours with its value, and the line of theirs that says so.
pub(super) type Setting<'a> = (&'static str, String, Line<'a>);

/// A bridge of theirs.
#[derive(Clone, Debug)]
pub(super) struct DraftBridge<'a> {
    /// The line that opened it.
    pub(super) line: Line<'a>,
    /// What it carries, in words that are ours, too.
    pub(super) topics: Vec<String>,
    /// The place of the other broker.
    place: Option<(String, Line<'a>)>,
    secure: bool,
    settings: Vec<Setting<'a>>,
}

impl<'a> DraftBridge<'a> {
    /// Opened by this line.
    pub(super) fn new(line: Line<'a>) -> Self {
        // Ours stand in metrics and topics.
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = line.value.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        let settings = vec![("name", name, line)];
        Self { line, topics: Vec::new(), place: None, secure: false, settings }
    }

    /// Takes a line that belongs to it.
    ///
    /// # Errors
    /// Why it is not carried over.
    pub(super) fn take(&mut self, line: &Line<'a>) -> Result<(), Refusal> {
        let value = line.value.to_owned();
        match line.key {
            "address" | "addresses" => self.take_addresses(line),
            "topic" => {
                let rule = value.parse::<TopicRule>().map_err(|error| format!("not carried over: {error}"))?;
                self.topics.push(rule.to_string());
                Ok(())
            }
            "remote_clientid" | "clientid" => self.set("client_id", value, line),
            "remote_username" | "username" => self.set("username", value, line),
            "remote_password" | "password" => Err(PASSWORD.to_owned()),
            "local_username" => self.set("local_username", value, line),
            "local_password" => Err(LOCAL_PASSWORD.to_owned()),
            "local_clientid" => Err("not carried over: here it is `bridge.` and the name of the bridge".to_owned()),
            "keepalive_interval" => self.set("keep_alive", format!("{value}s"), line),
            "notifications" => self.set("notifications", truth(&value)?, line),
            "bridge_cafile" => self.set_secure("ca", value, line),
            "bridge_certfile" => self.set_secure("certificate", value, line),
            "bridge_keyfile" => self.set_secure("key", value, line),
            "bridge_insecure" => self.set("any_host_name", truth(&value)?, line),
            "bridge_protocol_version" => self.take_version(line),
            "bridge_receive_maximum" => self.set("window", value, line),
            "cleansession" if truth(&value)? == "false" => Ok(()),
            "cleansession" => {
                Err("not carried over: what waits for a bridge is kept; `session_expiry` says for how long".to_owned())
            }
            // Whatever they say, a bridge connects by itself, tries again, and says that it is one where that is known.
            "start_type" if value == "automatic" => Ok(()),
            "restart_timeout" | "try_private" | "bridge_attempt_unsubscribe" => Ok(()),
            _ => Err(NO_SETTING.to_owned()),
        }
    }

    fn take_addresses(&mut self, line: &Line<'a>) -> Result<(), Refusal> {
        let mut all = line.value.split_whitespace();
        let first = all.next().ok_or("not carried over: it names no address")?;
        let has_port = first
            .rsplit_once(':')
            .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')));
        self.place = Some((if has_port { first.to_owned() } else { format!("{first}:{DEFAULT_PORT}") }, *line));
        match all.count() {
            0 => Ok(()),
            _ => Err(format!("carried over in part: a bridge has one broker here, and it is {first}")),
        }
    }

    fn take_version(&mut self, line: &Line<'a>) -> Result<(), Refusal> {
        match line.value {
            "mqttv50" => self.set("protocol", "5".to_owned(), line),
            "mqttv311" => self.set("protocol", "3.1.1".to_owned(), line),
            other => Err(format!("not carried over: bridges do not speak {other:?}")),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the last word of an arm, of which others refuse")]
    fn set(&mut self, key: &'static str, value: String, line: &Line<'a>) -> Result<(), Refusal> {
        self.settings.push((key, value, *line));
        Ok(())
    }

    fn set_secure(&mut self, key: &'static str, value: String, line: &Line<'a>) -> Result<(), Refusal> {
        self.secure = true;
        self.set(key, value, line)
    }

    /// What it lacks to be one.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        match (&self.place, self.topics.as_slice()) {
            (None, _) => Some("left out: it has no `address`"),
            (Some(_), []) => Some("left out: it has no `topic`"),
            (Some(_), [_, ..]) => None,
        }
    }

    /// What it is here, but for its topics.
    pub(super) fn settings(self) -> Vec<Setting<'a>> {
        let scheme = if self.secure { "mqtts" } else { "mqtt" };
        let broker = self.place.map(|(place, line)| ("broker", format!("{scheme}://{place}"), line));
        self.settings.into_iter().chain(broker).collect()
    }
}
