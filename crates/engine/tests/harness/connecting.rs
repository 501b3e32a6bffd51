//! A CONNECT packet, built like a sentence.

use std::num::{NonZeroU16, NonZeroU32};

use tidegate_engine::{ListenerId, Preset};
use tidegate_mqtt::{Connect, ConnectProperties, Version};

use super::Message;

/// How a client connects.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is a field of CONNECT or of the harness")]
pub(crate) struct Connecting {
    pub version: Version,
    /// Whether it says by its protocol level that it is a bridge.
    pub bridge: bool,
    pub client_id: String,
    pub clean_start: bool,
    pub keep_alive: u16,
    pub expiry: Option<u32>,
    pub receive_maximum: Option<u16>,
    pub max_packet: Option<u32>,
    pub aliases: Option<u16>,
    pub will: Option<Message>,
    pub user: Option<(String, String)>,
    pub request_response: Option<bool>,
    pub request_problem: Option<bool>,
    pub authentication_method: Option<String>,
    pub listener: ListenerId,
    /// The shard that accepts the socket; `None` is the next in turn.
    pub accept_on: Option<u16>,
    /// Facts known about it before its CONNECT arrives.
    pub preset: Preset,
    /// The host that the shell names.
    pub host: Option<String>,
    pub own: bool,
    /// True if the client answers its packets automatically.
    pub automatic: bool,
}

fn connecting(version: Version, client_id: &str) -> Connecting {
    Connecting {
        version,
        bridge: false,
        client_id: client_id.to_owned(),
        clean_start: true,
        keep_alive: 0,
        expiry: None,
        receive_maximum: None,
        max_packet: None,
        aliases: None,
        will: None,
        user: None,
        request_response: None,
        request_problem: None,
        authentication_method: None,
        listener: ListenerId(0),
        accept_on: None,
        preset: Preset::default(),
        host: None,
        own: false,
        automatic: true,
    }
}

/// An MQTT 5 client that starts clean and leaves no session.
pub(crate) fn v5(client_id: &str) -> Connecting {
    connecting(Version::V5, client_id)
}

/// An MQTT 3.1.1 client with a clean session.
pub(crate) fn v311(client_id: &str) -> Connecting {
    connecting(Version::V311, client_id)
}

/// An MQTT 3.1 client with a clean session.
pub(crate) fn v31(client_id: &str) -> Connecting {
    connecting(Version::V31, client_id)
}

impl Connecting {
    /// As a bridge of another broker.
    pub(crate) fn bridge(mut self) -> Self {
        self.bridge = true;
        self
    }

    /// Resumes the session, and keeps it for an hour (for ever before MQTT 5).
    pub(crate) fn lasting(mut self) -> Self {
        self.clean_start = false;
        if self.version.is_v5() {
            self.expiry = Some(3600);
        }
        self
    }

    pub(crate) fn clean(mut self, clean: bool) -> Self {
        self.clean_start = clean;
        self
    }

    /// Session Expiry Interval, seconds.
    pub(crate) fn expiry(mut self, seconds: u32) -> Self {
        self.expiry = Some(seconds);
        self
    }

    pub(crate) fn keep_alive(mut self, seconds: u16) -> Self {
        self.keep_alive = seconds;
        self
    }

    pub(crate) fn receive_maximum(mut self, count: u16) -> Self {
        self.receive_maximum = Some(count);
        self
    }

    /// Maximum Packet Size, bytes.
    pub(crate) fn max_packet(mut self, bytes: u32) -> Self {
        self.max_packet = Some(bytes);
        self
    }

    /// Topic Alias Maximum.
    pub(crate) fn aliases(mut self, maximum: u16) -> Self {
        self.aliases = Some(maximum);
        self
    }

    pub(crate) fn will(mut self, will: Message) -> Self {
        self.will = Some(will);
        self
    }

    pub(crate) fn user(mut self, name: &str, password: &str) -> Self {
        self.user = Some((name.to_owned(), password.to_owned()));
        self
    }

    pub(crate) fn at_host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    pub(crate) fn request_response(mut self, wanted: bool) -> Self {
        self.request_response = Some(wanted);
        self
    }

    pub(crate) fn request_problem(mut self, wanted: bool) -> Self {
        self.request_problem = Some(wanted);
        self
    }

    pub(crate) fn authentication_method(mut self, method: &str) -> Self {
        self.authentication_method = Some(method.to_owned());
        self
    }

    pub(crate) fn through(mut self, listener: u16) -> Self {
        self.listener = ListenerId(listener);
        self
    }

    /// The broker itself connects, for a bridge or a pipeline.
    pub(crate) fn own(mut self) -> Self {
        self.own = true;
        self
    }

    pub(crate) fn known_as(mut self, preset: Preset) -> Self {
        self.preset = preset;
        self
    }

    pub(crate) fn accept_on(mut self, shard: u16) -> Self {
        self.accept_on = Some(shard);
        self
    }

    /// The test itself acknowledges received packets.
    pub(crate) fn manual(mut self) -> Self {
        self.automatic = false;
        self
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match &self.will {
            Some(will) => will.as_will(|will| self.encode_with(Some(will))),
            None => self.encode_with(None),
        }
    }

    fn encode_with(&self, will: Option<tidegate_mqtt::Will<'_>>) -> Vec<u8> {
        let packet = Connect {
            version: self.version,
            bridge: self.bridge,
            clean_start: self.clean_start,
            keep_alive: self.keep_alive,
            client_id: &self.client_id,
            will,
            username: self.user.as_ref().map(|user| user.0.as_str()),
            password: self.user.as_ref().map(|user| user.1.as_bytes()),
            properties: ConnectProperties {
                session_expiry_interval: self.expiry,
                receive_maximum: self.receive_maximum.and_then(NonZeroU16::new),
                maximum_packet_size: self.max_packet.and_then(NonZeroU32::new),
                topic_alias_maximum: self.aliases,
                request_response_information: self.request_response,
                request_problem_information: self.request_problem,
                authentication_method: self.authentication_method.as_deref(),
                ..ConnectProperties::default()
            },
        };
        let mut bytes = Vec::new();
        packet.encode(&mut bytes).expect("a CONNECT that can be encoded");
        bytes
    }
}
