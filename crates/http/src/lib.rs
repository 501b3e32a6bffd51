//! HTTP beside MQTT: `POST /topics/TOPIC` publishes, `GET` reads the retained message or subscribes by Server-Sent
//! Events. `/subscribe` is for WebSockets, `/queue/NAME` for queues, `/history` for messages of the past.
//!
//! Each HTTP connection with credentials, and each queue, is one session of the broker, over a socket within the process. So users,
//! rules, tenants, limits and the recorder hold for HTTP clients as they do for MQTT clients, and this crate decides
//! none of it. Everything is bounded: connections, heads, bodies, the time of an answer, and the events that a slow
//! reader leaves unread.

mod activity;
mod answer;
mod answer_room;
mod batch;
mod body_room;
mod counters;
mod events;
mod fields;
mod history;
mod message_json;
mod paced_body;
mod pieces;
mod queue;
mod queue_requests;
mod request_error;
mod routes;
mod seat;
mod server;
mod session;
mod shelf;
mod socket;
mod versions;
mod visitor;
mod watch;
mod websocket;
mod write_limit;

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

pub use rustls::{ProtocolVersion, ServerConfig};
pub use serde_json::Value;
pub use tidegate_client::{MessageProperties, TopicFilterBuf};
pub use tidegate_visitor::{Entry, Found, ReadError, Seat, ServeError};

pub use self::body_room::MAX_BODY_BYTES;
pub use self::counters::Counters;
pub use self::server::{DoorSettings, Running, start};

/// The prefix of client ids of queues. The broker gives them to clients of HTTP listeners alone.
pub const QUEUE_CLIENT_PREFIX: &str = "http-queue/";

/// The broker, as HTTP clients need it.
pub trait Gateway: Send + Sync + 'static {
    /// An MQTT connection for a caller, whose CONNECT shall have a client id that `draw` gives. [`Gateway::left`] is
    /// called with its end. It may block.
    ///
    /// # Errors
    /// When the system has no sockets left.
    fn connect(&self, caller: &Caller, draw: &dyn Fn() -> String) -> io::Result<Entry>;

    /// The TLS configuration of the next connection to a listener; `None` when too many handshakes are under way.
    fn tls(&self, listener: u16) -> Option<TlsStart>;

    /// The retained message of a topic at this node, as the rights of a connected client allow. It may block.
    ///
    /// # Errors
    /// Why the client does not get it.
    fn retained(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Found<RetainedMessage>, ReadError>;

    /// The same, also where another node has the topic: then it blocks until that node answers, for seconds.
    ///
    /// # Errors
    /// Why the client does not get it.
    fn fetch(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Option<RetainedMessage>, ReadError>;

    /// Messages of the history of a client's tenant, as its rights allow, the oldest first. It may block. It ends soon
    /// after `is_wanted` says no.
    ///
    /// # Errors
    /// Why the client does not get them.
    fn history(
        &self,
        caller: &Caller,
        client_id: &str,
        question: &HistoryQuestion,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<HistoryAnswer, HistoryError>;

    /// The user name of clients that show this token as their password; `None` unless the token is an API key.
    fn user_of_key(&self, token: &[u8]) -> Option<String>;

    /// The identity of a connected client; `None` when another node of the cluster has let it in.
    fn who(&self, caller: &Caller, client_id: &str) -> Option<Who>;

    /// A client has disconnected.
    fn left(&self, client_id: &str);
}

/// A client before the broker has let it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The number of its listener.
    pub listener: u16,
    /// Its address.
    pub peer: SocketAddr,
    /// Its TLS session, where the listener speaks TLS.
    pub tls: Option<TlsSession>,
    /// The user name that it claims.
    pub user_name: Option<String>,
}

/// A question to the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuestion {
    /// The topics; empty for all.
    pub filters: Vec<TopicFilterBuf>,
    /// Unix milliseconds of the first message; without it the last messages are meant.
    pub from: Option<u64>,
    /// The id of a message of this time, behind which the answer begins.
    pub after: Option<String>,
    /// Messages at most.
    pub limit: usize,
}

/// Messages of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryAnswer {
    /// The messages, the oldest first.
    pub messages: Vec<Value>,
    /// The nodes whose messages are missing, each with the reason.
    pub incomplete: Vec<String>,
}

/// A client that the broker has let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The number of its tenant.
    pub tenant: u16,
    /// The user name that it has proven.
    pub user_name: Option<String>,
}

/// The result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// The version.
    pub version: ProtocolVersion,
    /// The name that the client asked for (SNI), in lower case.
    pub server_name: Option<String>,
}

/// The start of a TLS handshake.
pub struct TlsStart {
    /// The configuration.
    pub config: Arc<ServerConfig>,
    /// The place among the handshakes under way; dropped with the end of the handshake.
    pub slot: Box<dyn Any + Send>,
}

impl std::fmt::Debug for TlsStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsStart")
    }
}

/// A retained message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedMessage {
    /// Its QoS, 0 to 2.
    pub qos: u8,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its properties; the expiry is the remaining time.
    pub properties: MessageProperties,
}

/// Why a client does not get messages of the history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// No pipeline of its tenant keeps a history.
    #[error("there is no history: no pipeline of the tenant has a sink of kind `history`")]
    Missing,
    /// Another fault.
    #[error(transparent)]
    Read(#[from] ReadError),
}
