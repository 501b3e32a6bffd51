//! A listener of Mosquitto while its lines are collected, and its access settings.

use tidegate_conversion::Setting;

use crate::lines::Line;
use crate::tls::Tls;
use crate::values::{Invalid, leading_number, read_alike};

/// The default port of a listener.
pub(crate) const DEFAULT_PORT: u16 = 1883;

/// The value of `protocol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    #[default]
    Mqtt,
    WebSocket,
}

/// The value of `socket_domain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    V4,
    V6,
}

/// The access settings of the broker, or of a listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Security<'a> {
    pub(crate) anonymous: Option<bool>,
    /// Files, each with the line that names it.
    pub(crate) users: Option<(usize, &'a str)>,
    pub(crate) rules: Option<(usize, &'a str)>,
    /// Why all clients are refused.
    pub(crate) closed: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Listener<'a> {
    /// The line that opened it; `None` for Mosquitto's default listener on loopback.
    pub(crate) opened_by: Option<usize>,
    pub(crate) port: u16,
    pub(crate) bind: Option<&'a str>,
    /// The value of `socket_domain`.
    pub(crate) domain: Option<Domain>,
    /// The value of `bind_interface`.
    pub(crate) interface: Option<&'a str>,
    pub(crate) protocol: Protocol,
    pub(crate) tls: Tls<'a>,
    pub(crate) mount: Option<&'a str>,
    pub(crate) security: Security<'a>,
    /// Why it cannot be had here.
    pub(crate) closed: Option<String>,
    /// Keys of ours with their values.
    pub(crate) settings: Vec<Setting>,
}

impl<'a> Listener<'a> {
    pub(crate) fn new(opened_by: Option<usize>, port: u16, bind: Option<&'a str>) -> Self {
        Self {
            opened_by,
            port,
            bind,
            domain: None,
            interface: None,
            protocol: Protocol::Mqtt,
            tls: Tls::default(),
            mount: None,
            security: Security::default(),
            closed: None,
            settings: Vec::new(),
        }
    }

    /// Closes it; the first reason is kept.
    pub(crate) fn close(&mut self, reason: impl Into<String>) {
        self.closed.get_or_insert_with(|| reason.into());
    }

    /// Takes where it is.
    ///
    /// # Errors
    ///
    /// When Mosquitto does not start with it.
    pub(crate) fn take_place(&mut self, line: &Line<'a>) -> Result<Option<&'static str>, Invalid> {
        if line.key == "bind_interface" {
            self.interface = Some(line.text());
        }
        match line.key {
            "port" | "mqtt_port" => self.port = port(line.word())?,
            "bind_address" => self.bind = Some(line.text()),
            "bind_interface" if line.text() == "lo" => self.bind = Some("127.0.0.1"),
            "bind_interface" => {
                self.close(format!("it is bound to the interface {}, whose address is not known here", line.text()));
            }
            "socket_domain" => match line.word() {
                "ipv4" => self.domain = Some(Domain::V4),
                "ipv6" => {
                    self.domain = Some(Domain::V6);
                    if self.bind.is_none() {
                        self.close("it is for IPv6 alone, and [::] serves IPv4 as well");
                    }
                }
                other => return Err(Invalid::Domain(other.to_owned())),
            },
            _ => match line.word() {
                "mqtt" => self.protocol = Protocol::Mqtt,
                "websockets" => {
                    self.protocol = Protocol::WebSocket;
                }
                other => self.close(format!("the protocol {other:?} is not served")),
            },
        }
        Ok(None)
    }

    /// Its address as ours writes it.
    pub(crate) fn address(&self) -> String {
        if let Some(path) = self.unix() {
            return format!("unix:{path}");
        }
        let host = match self.bind {
            Some(host) if host.contains(':') => format!("[{}]", host.trim_matches(['[', ']'])),
            Some(host) => host.to_owned(),
            None if self.domain == Some(Domain::V4) => "0.0.0.0".to_owned(),
            None => "[::]".to_owned(),
        };
        let (scheme, path) = match (self.protocol, self.tls.is_on()) {
            (Protocol::Mqtt, false) => ("", ""),
            (Protocol::Mqtt, true) => ("mqtts://", ""),
            (Protocol::WebSocket, false) => ("ws://", "/*"),
            (Protocol::WebSocket, true) => ("wss://", "/*"),
        };
        format!("{scheme}{host}:{}{path}", self.port)
    }

    /// Whether both need one address: Mosquitto opens the second of them not.
    pub(crate) fn clashes(&self, other: &Self) -> bool {
        let overlap = |one: &str| other.hosts().iter().any(|host| overlaps(one, host));
        let apart = self.interface.is_some() && other.interface.is_some() && self.interface != other.interface;
        !apart && self.port != 0 && self.port == other.port && self.hosts().iter().any(|host| overlap(host))
    }

    /// The addresses that it opens; names of other machines as they stand.
    fn hosts(&self) -> Vec<String> {
        let hosts = match self.bind {
            None => vec!["0.0.0.0", "::"],
            Some("localhost") => vec!["127.0.0.1"],
            Some(host) => vec![host],
        };
        let fits = |host: &&str| self.domain.is_none_or(|domain| host.contains(':') == (domain == Domain::V6));
        hosts.into_iter().filter(fits).map(str::to_owned).collect()
    }

    fn unix(&self) -> Option<&'a str> {
        self.bind.filter(|_| self.port == 0)
    }

    /// The name that ours would have without one.
    pub(crate) fn name(&self) -> String {
        let kind = match (self.unix(), self.protocol, self.tls.is_on()) {
            (Some(_), ..) => return "unix".to_owned(),
            (None, Protocol::Mqtt, false) => "tcp",
            (None, Protocol::Mqtt, true) => "tls",
            (None, Protocol::WebSocket, false) => "ws",
            (None, Protocol::WebSocket, true) => "wss",
        };
        format!("{kind}-{}", self.port)
    }

    /// Whether a bridge can use it.
    pub(crate) fn is_plain(&self) -> bool {
        self.protocol == Protocol::Mqtt && !self.tls.is_on()
    }
}

/// Whether one socket at each of two hosts is one too many.
fn overlaps(one: &str, other: &str) -> bool {
    let any = if one.contains(':') { "::" } else { "0.0.0.0" };
    one == other || (one.contains(':') == other.contains(':') && [one, other].contains(&any))
}

/// A port of theirs.
pub(crate) fn port(word: &str) -> Result<u16, Invalid> {
    read_alike(word)?;
    let number = leading_number(word).and_then(|number| u16::try_from(number).ok());
    number.ok_or_else(|| Invalid::Port(word.to_owned()))
}
