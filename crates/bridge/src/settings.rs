//! The settings of a bridge.

use std::num::NonZeroU16;

use tidegate_client::Version;
use tidegate_client::net::{Address, SocketOptions};

use crate::routes::Routes;

/// A bridge.
#[derive(Clone, Debug)]
pub struct BridgeSettings {
    /// Its name, in logs, metrics and the topic of its state.
    pub name: String,
    /// The carried topics.
    pub routes: Routes,
    /// The client of this broker.
    pub local: EndSettings,
    /// The client of the other one.
    pub remote: EndSettings,
    /// Messages of QoS 1 and 2 that each broker gives at once without an acknowledgement, and is given.
    pub window: NonZeroU16,
    /// How long each broker keeps the session while the bridge is away, in seconds; `u32::MAX` for ever.
    pub session_expiry: u32,
    /// True if the state of the other connection is published here at `$SYS/broker/connection/NAME/state`: `1` or `0`,
    /// retained.
    pub notifications: bool,
}

/// A client of one broker.
#[derive(Clone)]
pub struct EndSettings {
    /// The address of the broker.
    pub address: Address,
    /// How it is reached.
    pub socket: SocketOptions,
    /// The client id; the broker's own for this client.
    pub client_id: String,
    /// The user name.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// Seconds of silence after which it pings; 0 for no pings.
    pub keep_alive: u16,
    /// The version of MQTT; without one it is 5.0, or the highest that the broker accepts.
    pub version: Option<Version>,
}

impl std::fmt::Debug for EndSettings {
    /// Leaves the password out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndSettings")
            .field("address", &self.address)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}
