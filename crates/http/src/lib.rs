//! HTTP beside MQTT: `POST /topics/TOPIC` publishes, `GET` reads the retained message or subscribes by Server-Sent
//! Events. `/subscribe` is for WebSockets, `/queue/NAME` for queues, `/history` for messages of the past.
//!
//! Each HTTP connection with credentials, and each queue, is one session of the broker, over a socket within the process. So users,
//! rules, tenants, limits and the recorder hold for HTTP clients as they do for MQTT clients, and this crate decides
//! none of it. Everything is bounded: connections, heads, bodies, the time of an answer, and the events that a slow
//! reader leaves unread.

mod activity;
mod answer;
mod batch;
mod body_room;
mod counters;
mod events;
mod fields;
mod history;
mod message_json;
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
use std::os::unix::net::UnixStream;
use std::sync::Arc;

pub use rustls::{ProtocolVersion, ServerConfig};
pub use serde_json::Value;
pub use tidegate_client::{MessageProperties, TopicFilterBuf};

pub use self::counters::Counters;
pub use self::server::{DoorSettings, Running, ServeError, start};

/// What client ids of queues begin with. The broker gives them to clients of HTTP listeners alone.
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

    /// The retained message of a topic, as the rights of a connected client allow. It may block.
    ///
    /// # Errors
    /// Why the client is not given it.
    fn retained(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Option<RetainedMessage>, ReadError>;

    /// Messages of the history of a client's tenant, as its rights allow, the oldest first. It may block. It ends soon
    /// after `is_wanted` says no.
    ///
    /// # Errors
    /// Why the client is not given them.
    fn history(
        &self,
        caller: &Caller,
        client_id: &str,
        question: &HistoryQuestion,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<Value>, ReadError>;

    /// The user name of clients that show this token as their password; `None` unless the token is an API key.
    fn user_of_key(&self, token: &[u8]) -> Option<String>;

    /// Who a connected client is; `None` when another node of the cluster has let it in.
    fn who(&self, caller: &Caller, client_id: &str) -> Option<Who>;

    /// A client has disconnected.
    fn left(&self, client_id: &str);
}

/// An MQTT connection for a caller.
pub struct Entry {
    /// The client id of its CONNECT.
    pub client_id: String,
    /// The connection.
    pub stream: UnixStream,
    /// The connection in the quotas of its tenant.
    pub seat: Box<dyn Seat>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Entry").field(&self.client_id).finish()
    }
}

/// A connection in the quotas of its tenant.
pub trait Seat: Send + Sync {
    /// The client waits for nothing: its connection does not count until [`Seat::resume`].
    fn rest(&mut self);

    /// Counts the connection again. Returns false if the tenant is at its limit of connections.
    fn resume(&mut self) -> bool;

    /// The broker has let in a session that ends with the connection, so it is not counted.
    fn pass(&mut self);

    /// The connection is about to end: it counts until then.
    fn leave(&mut self);
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
    /// Messages at most.
    pub limit: usize,
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

/// Why a retained message is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The client may not read the topic.
    NotAuthorized,
    /// There can be no such topic.
    InvalidTopic,
    /// There is no history.
    Missing,
    /// Another node of the cluster has the topic and does not answer; its name, unless the topic moves.
    Elsewhere(Option<String>),
    /// Another node of the cluster has the session of the client.
    SessionElsewhere,
    /// The broker does not answer.
    Unavailable,
}
