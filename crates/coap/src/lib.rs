//! CoAP beside MQTT [RFC 7252]: `PUT` and `POST` publish, `GET` reads the retained message, and an observer
//! [RFC 7641] subscribes. Bodies may come in blocks [RFC 7959].
//!
//! - [`Endpoint`] is a listener without I/O: it takes datagrams, the time and events of the broker, and returns the
//!   datagrams to send and the requests to the broker.
//! - [`start`] drives endpoints over sockets, where a listener has [`Keys`] over DTLS.
//!
//! A client with its credentials is one session of the broker, over a socket within the process. So users, rules,
//! tenants, limits and the recorder hold for CoAP clients as they do for MQTT clients, and this crate decides none of
//! it. No bytes of a client make it panic or grow without bound; `limits` has the bounds.

mod answer;
mod block;
mod counters;
#[cfg(feature = "dtls")]
mod dtls;
#[cfg(not(feature = "dtls"))]
#[path = "dtls_absent.rs"]
mod dtls;
mod endpoint;
mod fields;
mod format;
mod limits;
pub mod message;
mod request;
mod server;
mod session;

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

pub use tidegate_client::{MessageProperties, ReasonCode};

pub use self::counters::{Counters, Outcomes};
pub use self::dtls::{Keys, KeysError};
pub use self::endpoint::{Action, Endpoint, Event, JobId, PeerId, SessionId, Settings};
pub use self::fields::{Credentials, Shown};
pub use self::limits::Millis;
pub use self::server::{Counted, DoorSettings, Running, ServeError, start};

/// The broker, as CoAP clients need it.
pub trait Gateway: Send + Sync + 'static {
    /// An MQTT connection for a caller, whose CONNECT shall have a client id that `draw` gives. [`Gateway::left`] is
    /// called with its end. It may block.
    ///
    /// # Errors
    /// When the system has no sockets left.
    fn connect(&self, caller: &Caller, draw: &dyn Fn() -> String) -> io::Result<Entry>;

    /// The retained message of a topic, as the rights of a connected client allow. It may block.
    ///
    /// # Errors
    /// Why the client is not given it.
    fn retained(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Option<Shown>, ReadError>;

    /// The user name of clients that show this token as their password; `None` unless the token is an API key.
    fn user_of_key(&self, token: &[u8]) -> Option<String>;

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
    /// The client has neither requests nor observations: its connection does not count until [`Seat::resume`].
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
    /// The user name that it claims.
    pub user_name: Option<String>,
    /// Its identity, which it has proven by a pre-shared key.
    pub identity: Option<String>,
}

/// Why a retained message is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The client may not read the topic.
    NotAuthorized,
    /// There can be no such topic.
    InvalidTopic,
    /// Another node of the cluster has the topic and does not answer; its name, unless the topic moves.
    Elsewhere(Option<String>),
    /// Another node of the cluster has the session of the client.
    SessionElsewhere,
    /// The broker does not answer.
    Unavailable,
}

/// The broker's answer to a message or a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reason.
    pub code: ReasonCode,
    /// The reason in the broker's words.
    pub why: Option<String>,
}

/// Why the broker does not carry a request out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has refused CONNECT with a reason.
    Refused(Outcome),
    /// It has ended the connection with a reason.
    Ended(Outcome),
    /// It has closed the connection without a reason.
    Closed,
    /// The request cannot be sent to this broker.
    Invalid(String),
}
