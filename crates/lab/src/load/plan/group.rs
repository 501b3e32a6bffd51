//! Clients that do the same.

use serde::{Deserialize, Serialize};

use super::Pace;
use crate::limits::Limits;

/// Clients that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientGroup {
    /// The name of the group in the results.
    pub name: String,
    /// The number of clients.
    pub count: u32,
    /// Their role.
    pub role: Role,
    /// How they connect.
    #[serde(default)]
    pub connect: ConnectOptions,
    /// Their disturbances.
    #[serde(default)]
    pub disturbances: Vec<Disturbance>,
    /// Whether the results have the differences of round trips between nodes and over the order of their begin.
    #[serde(default)]
    pub rounds: bool,
    /// The limits of its clients together: they then have a process of their own, within these limits, like a component
    /// of a platform (LAV-10).
    #[serde(default)]
    pub limits: Option<Limits>,
}

impl ClientGroup {
    /// A group that connects with defaults and is not disturbed.
    pub fn new(name: &str, count: u32, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            count,
            role,
            connect: ConnectOptions::default(),
            disturbances: Vec::new(),
            rounds: false,
            limits: None,
        }
    }

    /// Whether its clients answer messages under their own name.
    pub const fn is_respondent(&self) -> bool {
        matches!(self.role, Role::Respondent { .. })
    }

    /// Whether its clients read slowly on purpose: late deliveries are then their own fault.
    pub fn is_slow(&self) -> bool {
        self.role.subscribing().is_some_and(|subscribing| subscribing.slow.is_some())
    }

    /// Whether its clients forward their messages, so that their latency is only a part of the path.
    pub const fn passes_on(&self) -> bool {
        matches!(self.role, Role::Relay { .. } | Role::Respondent { .. })
    }
}

/// The role of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Role {
    /// Publishes.
    Publisher(Publishing),
    /// Subscribes and receives.
    Subscriber(Subscribing),
    /// Publishes requests and receives the answers: latency is that of the way there and back.
    Requester {
        /// The requests.
        requests: Publishing,
        /// The answers.
        answers: Subscribing,
    },
    /// Forwards its messages, unchanged but for the topic: the answering side of requests, or a stage of a pipeline.
    /// Each message must reach one relay only.
    Relay {
        /// The subscriptions.
        subscribing: Subscribing,
        /// How the topic begins that is passed on.
        from: String,
        /// How it begins then.
        to: String,
        /// The QoS of its forwarded messages.
        qos: u8,
        /// Time of a relay for each message before it forwards it, in microseconds: one message at a time, like an
        /// application with work to do.
        #[serde(default)]
        work_us: u32,
        /// The encoding of forwarded documents; `None` leaves them unchanged. Only JSON documents are converted.
        #[serde(default)]
        encoding: Option<Encoding>,
    },
    /// Answers each message under its own name: one of the recipients of a survey.
    Respondent {
        /// The subscriptions.
        subscribing: Subscribing,
        /// How the topic begins that is answered.
        from: String,
        /// How the answer's begins.
        to: String,
        /// The QoS of the answer.
        qos: u8,
    },
    /// Connected without messages.
    Idle,
}

impl Role {
    /// The published messages.
    pub(crate) const fn publishing(&self) -> Option<&Publishing> {
        match self {
            Self::Publisher(publishing) | Self::Requester { requests: publishing, .. } => Some(publishing),
            _ => None,
        }
    }

    /// The subscriptions.
    pub(crate) const fn subscribing(&self) -> Option<&Subscribing> {
        match self {
            Self::Subscriber(subscribing)
            | Self::Requester { answers: subscribing, .. }
            | Self::Relay { subscribing, .. }
            | Self::Respondent { subscribing, .. } => Some(subscribing),
            Self::Publisher(_) | Self::Idle => None,
        }
    }

    /// The subscriptions of a client of this role.
    pub const fn subscribing_mut(&mut self) -> Option<&mut Subscribing> {
        match self {
            Self::Subscriber(subscribing)
            | Self::Requester { answers: subscribing, .. }
            | Self::Relay { subscribing, .. }
            | Self::Respondent { subscribing, .. } => Some(subscribing),
            Self::Publisher(_) | Self::Idle => None,
        }
    }
}

/// The published messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publishing {
    /// To which topics.
    pub topics: Topics,
    /// The QoS, 0 to 2.
    #[serde(default)]
    pub qos: u8,
    /// Whether messages are retained.
    #[serde(default)]
    pub retain: bool,
    /// The payload.
    #[serde(default)]
    pub payload: Payload,
    /// When.
    pub pace: Pace,
    /// The measured messages of each client; `None` for as many as fit into the duration.
    #[serde(default)]
    pub messages: Option<u64>,
    /// The time after which a message need not be delivered any more, in seconds (MQTT 5).
    #[serde(default)]
    pub expiry_s: Option<u32>,
}

/// The topics of a publisher, in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// The name. `{client}` is the number of the client in its group, `{topic}` that of its topic, both from 0;
    /// `{client%50}` and `{client/50}` are the remainder and the quotient.
    pub pattern: String,
    /// Topics of each client.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

impl Topics {
    /// One topic for each client.
    pub fn one(pattern: &str) -> Self {
        Self { pattern: pattern.to_owned(), count: 1 }
    }
}

/// The content of messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// The size. The first 16 bytes are the lab's.
    #[serde(default)]
    pub size: Size,
    /// The bytes after the lab's own.
    #[serde(default)]
    pub filler: Filler,
    /// A record of a device after the lab's bytes, in place of size and filler, encoded for each message.
    #[serde(default)]
    pub record: Option<Record>,
}

/// The record of a device: a place, and readings of sensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The encoding.
    pub encoding: Encoding,
    /// The number of sensors; 16 make about 1,500 bytes of JSON.
    pub readings: u16,
    /// Customers that devices belong to in turn. Above 0 the document names its customer, and it has the lab's own bytes in a
    /// field: systems on its way can read it. The encoding is then JSON.
    #[serde(default)]
    pub customers: u16,
}

impl Record {
    /// Whether the document itself has the lab's bytes.
    pub const fn is_stamped(self) -> bool {
        self.customers > 0
    }
}

/// The encoding of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// JSON.
    Json,
    /// `MessagePack`.
    MessagePack,
}

impl Payload {
    /// Zeros of a size.
    pub fn fixed(bytes: u32) -> Self {
        Self { size: Size::Fixed(bytes), filler: Filler::Zeros, record: None }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Size {
    /// Always the same.
    Fixed(u32),
    /// Each size of a range equally often.
    Uniform {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
}

impl Default for Size {
    fn default() -> Self {
        Self::Fixed(64)
    }
}

impl Size {
    /// The smallest and the largest size.
    pub const fn bounds(self) -> (u32, u32) {
        match self {
            Self::Fixed(size) => (size, size),
            Self::Uniform { min, max } => (min, max),
        }
    }
}

/// The filler of a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filler {
    /// Zeros.
    #[default]
    Zeros,
    /// Bytes that cannot be compressed.
    Random,
    /// These bytes, again and again.
    Repeated(Vec<u8>),
}

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribing {
    /// The filters, with the same placeholders as topics.
    pub filters: Vec<String>,
    /// The QoS asked for, 0 to 2.
    #[serde(default)]
    pub qos: u8,
    /// The group of a shared subscription: each message is due to one of its members.
    #[serde(default)]
    pub shared: Option<String>,
    /// How slowly the client reads.
    #[serde(default)]
    pub slow: Option<Slow>,
    /// Whether the broker brings these messages by the client's address: then the client does not subscribe. Of a
    /// broker that knows no addresses the lab makes it subscribe, with a session that lasts.
    #[serde(default)]
    pub addressed: bool,
}

impl Subscribing {
    /// Subscribes to one filter.
    pub fn to(filter: &str, qos: u8) -> Self {
        Self { filters: vec![filter.to_owned()], qos, shared: None, slow: None, addressed: false }
    }
}

/// A reader that does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Bytes that it reads at a time.
    pub bytes: u32,
    /// The time between two reads, in milliseconds.
    pub every_ms: u64,
}

/// How a client connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectOptions {
    /// The client id; `{group}` is the group's name, `{client}` the number of the client, `{run}` the run.
    pub client_id: String,
    /// Whether an earlier session is forgotten.
    pub clean: bool,
    /// The keep-alive time in seconds; 0 for none.
    pub keep_alive_s: u16,
    /// How long the broker keeps the session, in seconds (MQTT 5).
    pub session_expiry_s: Option<u32>,
    /// Messages that the broker may have under way to the client (MQTT 5).
    pub receive_maximum: Option<u16>,
    /// How long a client waits before it reconnects after a failed or lost connection, in milliseconds. `None` means
    /// that it stays disconnected.
    pub reconnect_ms: Option<u64>,
    /// How many of the target's places they are dealt to at first; all of them when it is 0.
    pub places: u16,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            client_id: "lab-{run}-{group}-{client}".to_owned(),
            clean: true,
            keep_alive_s: 60,
            session_expiry_s: None,
            receive_maximum: None,
            reconnect_ms: None,
            places: 0,
        }
    }
}

/// A disturbance of clients of a group after publishing has begun.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Disturbance {
    /// Clients disconnect and return, again and again.
    Churn {
        /// The share of the group that does, 0 to 1.
        share: f64,
        /// How long they are connected, in milliseconds.
        online_ms: u64,
        /// How long they are away, in milliseconds.
        offline_ms: u64,
        /// Whether they leave without DISCONNECT.
        #[serde(default)]
        abrupt: bool,
    },
    /// Clients lose their connections at the same moment, and return at the same moment.
    Storm {
        /// The share of the group that does, 0 to 1.
        share: f64,
        /// When, in milliseconds after publishing has begun.
        at_ms: u64,
        /// How long they are away, in milliseconds.
        offline_ms: u64,
    },
    /// Clients connect a second time with the client id that they are connected with.
    Takeover {
        /// The share of the group that does, 0 to 1.
        share: f64,
        /// When, in milliseconds after publishing has begun.
        at_ms: u64,
    },
}

impl Disturbance {
    /// The share of the group that is disturbed.
    pub const fn share(self) -> f64 {
        match self {
            Self::Churn { share, .. } | Self::Storm { share, .. } | Self::Takeover { share, .. } => share,
        }
    }
}
