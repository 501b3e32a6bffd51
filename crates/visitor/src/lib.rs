//! A client without MQTT as the broker serves it: its connection, its place in the quotas of its tenant, and its reads
//! of retained messages. The listeners for HTTP and CoAP use it, and share the thread of a server.

mod fetches;
mod line;
mod message_json;
mod outcome;
mod read;
mod server;

use std::os::unix::net::UnixStream;

pub use self::fetches::Fetches;
pub use self::line::{Line, new_client_id, options};
pub use self::message_json::message_json;
pub use self::outcome::{Credentials, Failure, Outcome};
pub use self::read::{Found, ReadError};
pub use self::server::{ServeError, ServerThread, bind_all};

/// An MQTT connection for a client.
pub struct Entry {
    /// The client id of its CONNECT.
    pub client_id: String,
    /// The connection.
    pub stream: UnixStream,
    /// Its place in the quotas of its tenant.
    pub seat: Box<dyn Seat>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Entry").field(&self.client_id).finish()
    }
}

/// The place of a connection in the quotas of its tenant.
pub trait Seat: Send + Sync {
    /// Counts the connection no longer, until [`Seat::resume`]: its client has neither requests nor subscriptions.
    fn rest(&mut self);

    /// Counts the connection again. False at the tenant's connection limit.
    fn resume(&mut self) -> bool;

    /// Counts the session no longer: it ends with the connection.
    fn pass(&mut self);

    /// Counts the connection and its session until their end, which is near.
    fn leave(&mut self);
}
