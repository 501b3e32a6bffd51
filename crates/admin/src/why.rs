//! `GET /api/v1/why`: what happened to a client, a topic or an address.

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::request::{Method, Request, with_query};

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A client id.
    Client(String),
    /// A topic name.
    Topic(String),
    /// An address or network.
    Address(String),
}

impl Subject {
    /// `client`, `topic` or `address`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Client(_) => "client",
            Self::Topic(_) => "topic",
            Self::Address(_) => "address",
        }
    }
}

/// A question for recent events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WhyFields", into = "WhyFields")]
pub struct WhyRequest {
    /// The subject.
    pub subject: Subject,
    /// The tenant whose clients are meant, by name; the empty name is the default one. `None` is all tenants.
    pub tenant: Option<String>,
}

/// [`WhyRequest`] as it is sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WhyFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

impl TryFrom<WhyFields> for WhyRequest {
    type Error = InvalidRequest;

    fn try_from(fields: WhyFields) -> Result<Self, InvalidRequest> {
        let WhyFields { client, topic, address, tenant } = fields;
        let subjects = [client.map(Subject::Client), topic.map(Subject::Topic), address.map(Subject::Address)];
        let mut named = subjects.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(subject), None) => Ok(Self { subject, tenant }),
            _ => Err(InvalidRequest::new("ask about one of `client`, `topic` and `address`")),
        }
    }
}

impl From<WhyRequest> for WhyFields {
    fn from(request: WhyRequest) -> Self {
        let WhyRequest { subject, tenant } = request;
        let of_tenant = Self { tenant, ..Self::default() };
        match subject {
            Subject::Client(name) => Self { client: Some(name), ..of_tenant },
            Subject::Topic(name) => Self { topic: Some(name), ..of_tenant },
            Subject::Address(name) => Self { address: Some(name), ..of_tenant },
        }
    }
}

impl Request for WhyRequest {
    type Answer = Story;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/why";

    fn path(&self) -> String {
        with_query(Self::ROUTE, self)
    }
}

/// The events of a subject, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// The events.
    pub events: Vec<StoryEvent>,
    /// Events after the last one that were only counted.
    #[serde(default)]
    pub suppressed: u64,
    /// Nodes of the cluster that answered, or the single broker.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Nodes of the cluster that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryEvent {
    /// When, milliseconds since 1970.
    #[serde(default)]
    pub at_ms: u64,
    /// The kind of event, a word such as `refused`.
    pub kind: String,
    /// The node of the cluster on which it happened, or the single broker.
    #[serde(default)]
    pub node: String,
    /// The number of the shard that recorded it.
    #[serde(default)]
    pub shard: u16,
    /// The name of the client's tenant, if the client is known; empty for the default one.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The client id, if it is known.
    #[serde(default)]
    pub client: Option<String>,
    /// The topic, if it was about a message.
    #[serde(default)]
    pub topic: Option<String>,
    /// The client's address, if it is known.
    #[serde(default)]
    pub address: Option<String>,
    /// Why.
    #[serde(default)]
    pub reason: Option<ReasonEntry>,
    /// The details; may be empty.
    #[serde(default)]
    pub detail: String,
    /// Events like this one before it that were only counted.
    #[serde(default)]
    pub suppressed: u64,
}

/// A reason of `tidegate manual reasons`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonEntry {
    /// Its number.
    pub number: u64,
    /// Its name in metrics.
    pub label: String,
    /// Its sentence.
    #[serde(default)]
    pub text: String,
    /// The reason code of MQTT 5.
    #[serde(default)]
    pub code: u8,
    /// The remedy; may be empty.
    #[serde(default)]
    pub advice: String,
}
