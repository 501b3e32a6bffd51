//! The broker's address and its protocol.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A broker's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Further nodes of the same broker, or gateways: clients go to one after the other in turn, and whose connection
    /// fails or is lost tries the next one.
    #[serde(default)]
    pub others: Vec<Node>,
    /// The transport of MQTT.
    #[serde(default)]
    pub transport: Transport,
    /// Certificates (PEM) that the broker's is checked against. Without them, any certificate is taken: a measurement
    /// is no place to prove identities.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The name in the broker's certificate; `None` for the host.
    #[serde(default)]
    pub server_name: Option<String>,
    /// The path of the WebSocket.
    #[serde(default = "default_path")]
    pub path: String,
    /// The credentials of all clients.
    #[serde(default)]
    pub credentials: Option<Credentials>,
}

fn default_path() -> String {
    "/mqtt".to_owned()
}

impl Target {
    /// A broker that takes MQTT over TCP from anybody.
    pub fn tcp(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            others: Vec::new(),
            transport: Transport::Tcp,
            ca_file: None,
            server_name: None,
            path: default_path(),
            credentials: None,
        }
    }

    /// All ways in, this one first.
    pub fn places(&self) -> impl Iterator<Item = (&str, u16)> {
        let first = std::iter::once((self.host.as_str(), self.port));
        first.chain(self.others.iter().map(|place| (place.host.as_str(), place.port)))
    }
}

/// A node of a broker that has several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A user name and a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The user name; `{client}` is the number of the client in its group.
    pub username: String,
    /// The password.
    pub password: String,
}

/// The transport of MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// TLS over TCP.
    Tls,
    /// WebSocket over TCP.
    WebSocket,
    /// WebSocket over TLS.
    SecureWebSocket,
    /// A stream of QUIC.
    Quic,
}

/// The version of MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// MQTT 3.1.1.
    #[default]
    #[serde(rename = "3.1.1")]
    V311,
    /// MQTT 5.0.
    #[serde(rename = "5")]
    V5,
}

impl Protocol {
    /// The version as the codec names it.
    pub const fn version(self) -> tidegate_mqtt::Version {
        match self {
            Self::V311 => tidegate_mqtt::Version::V311,
            Self::V5 => tidegate_mqtt::Version::V5,
        }
    }
}
