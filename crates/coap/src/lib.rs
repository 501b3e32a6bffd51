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

pub use tidegate_client::{MessageProperties, ReasonCode};
pub use tidegate_visitor::{Credentials, Entry, Failure, Found, Outcome, ReadError, Seat, ServeError};

pub use self::counters::{Counters, Outcomes};
pub use self::dtls::{Keys, KeysError};
pub use self::endpoint::{Action, Endpoint, Event, JobId, PeerId, SessionId, Settings};
pub use self::fields::Shown;
pub use self::limits::{MAX_WAITING_BYTES, Millis};
pub use self::server::{Counted, DoorSettings, Running, start};

/// The broker, as CoAP clients need it.
pub trait Gateway: Send + Sync + 'static {
    /// An MQTT connection for a caller, whose CONNECT shall have a client id that `draw` gives. [`Gateway::left`] is
    /// called with its end. It may block.
    ///
    /// # Errors
    /// When the system has no sockets left.
    fn connect(&self, caller: &Caller, draw: &dyn Fn() -> String) -> io::Result<Entry>;

    /// The retained message of a topic at this node, as the rights of a connected client allow. It may block.
    ///
    /// # Errors
    /// Why the client does not get it.
    fn retained(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Found<Shown>, ReadError>;

    /// The same, also where another node has the topic: then it blocks until that node answers, for seconds.
    ///
    /// # Errors
    /// Why the client does not get it.
    fn fetch(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Option<Shown>, ReadError>;

    /// The user name of clients that show this token as their password; `None` unless the token is an API key.
    fn user_of_key(&self, token: &[u8]) -> Option<String>;

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
    /// The user name that it claims.
    pub user_name: Option<String>,
    /// Its identity, which it has proven by a pre-shared key.
    pub identity: Option<String>,
}
