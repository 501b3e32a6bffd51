//! From keys to settings.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_bridge::net::{Address, SocketOptions, TlsConnector, TlsFileError, TlsOptions};
use tidegate_bridge::{BridgeSettings, EndSettings, Routes, RoutesError, TopicRuleError, Version};
use tidegate_engine::ListenerId;
use tidegate_node::{ListenAddress, Node};

use crate::Config;
use crate::orchestrator::{BrokerAddress, BrokerAddressError};
use crate::own_sockets::announce_to;
use crate::sections::Listener;
use crate::sections::bridge::{Bridge, BridgeProtocol};

/// How long the other broker may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest file of a password, bytes.
const MAX_PASSWORD_FILE: u64 = 64 << 10;
/// Seconds of silence after which the bridge asks its own broker whether it lives.
const LOCAL_KEEP_ALIVE: u16 = 60;

/// Why a bridge is invalid.
#[derive(Debug, thiserror::Error)]
pub enum BridgeConfigError {
    /// The address of the other broker is invalid.
    #[error(transparent)]
    Broker(#[from] BrokerAddressError),
    /// A line of topics is invalid.
    #[error(transparent)]
    Topic(#[from] TopicRuleError),
    /// The topics are none of a bridge.
    #[error(transparent)]
    Topics(#[from] RoutesError),
    /// It has no way to its own broker.
    #[error("{}", no_listener(.0))]
    NoListener(String),
    /// A password cannot be read.
    #[error("cannot read the password in {path}: {source}")]
    Password {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("bridge `{bridge}`: TLS cannot be set up (ca, certificate, key): {source}")]
    Tls {
        /// The bridge.
        bridge: String,
        /// Why.
        source: TlsFileError,
    },
}

fn no_listener(name: &str) -> String {
    if name.is_empty() {
        "a bridge needs a listener without TLS and WebSocket: add one at 127.0.0.1 or at unix:/PATH".to_owned()
    } else {
        format!("there is no listener `{name}` without TLS and WebSocket that a bridge could come in by")
    }
}

impl Bridge {
    /// The address of the other broker.
    ///
    /// # Errors
    /// When the address of the other broker is invalid.
    pub fn place(&self) -> Result<BrokerAddress, BridgeConfigError> {
        Ok(BrokerAddress::of_parts(Some("bridge"), &self.broker)?)
    }

    /// The topics that it carries.
    ///
    /// # Errors
    /// When a rule for topics is invalid.
    pub fn routes(&self) -> Result<Routes, BridgeConfigError> {
        let rules: Result<Vec<_>, _> = self.topics.0.iter().map(|line| line.parse()).collect();
        Ok(Routes::new(rules?)?)
    }

    fn version(&self) -> Option<Version> {
        match self.protocol {
            BridgeProtocol::Auto => None,
            BridgeProtocol::V5 => Some(Version::V5),
            BridgeProtocol::V311 => Some(Version::V311),
        }
    }

    /// The client id at the other broker: different for bridges of one name on two machines, and the same on all nodes
    /// of a cluster.
    fn remote_client_id(&self, cluster: Option<&str>) -> String {
        if !self.client_id.is_empty() {
            return self.client_id.clone();
        }
        if let Some(cluster) = cluster {
            return format!("{cluster}.{}", self.name);
        }
        format!("{}.{}", tidegate_proc::host_name().as_deref().unwrap_or("tidegate"), self.name)
    }

    fn tls(&self) -> Result<TlsConnector, BridgeConfigError> {
        let file = |path: &Option<String>| path.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
        let options = TlsOptions {
            ca_file: file(&self.ca),
            certificate: file(&self.certificate),
            key: file(&self.key),
            any_hostname: self.any_host_name,
            ..TlsOptions::default()
        };
        TlsConnector::new(&options).map_err(|source| BridgeConfigError::Tls { bridge: self.name.clone(), source })
    }

    fn remote(&self, cluster: Option<&str>) -> Result<EndSettings, BridgeConfigError> {
        let BrokerAddress { at, secure, user_name, password, .. } = self.place()?;
        let tls = if secure { Some(self.tls()?) } else { None };
        let (host, port) = (at.host, at.port);
        let address = if secure { Address::Tls { host, port } } else { Address::Tcp { host, port } };
        let written = self.password_file.as_deref().map(read_password).transpose()?;
        Ok(EndSettings {
            address,
            socket: SocketOptions { connect_timeout: CONNECT_TIMEOUT, tls, ..SocketOptions::default() },
            client_id: self.remote_client_id(cluster),
            username: self.username.clone().or(user_name),
            password: written.or(password.map(String::into_bytes)),
            keep_alive: u16::try_from(self.keep_alive.as_secs()).unwrap_or(u16::MAX),
            version: self.version(),
        })
    }

    /// Reads all files that it names.
    ///
    /// # Errors
    /// When a file cannot be read or used.
    pub fn check_files(&self) -> Result<(), BridgeConfigError> {
        let anywhere = Address::Unix { path: PathBuf::new() };
        self.remote(None).and(self.local(anywhere)).map(drop)
    }

    fn local(&self, address: Address) -> Result<EndSettings, BridgeConfigError> {
        Ok(EndSettings {
            address,
            socket: SocketOptions { connect_timeout: CONNECT_TIMEOUT, ..SocketOptions::default() },
            client_id: format!("bridge.{}", self.name),
            username: self.local_username.clone(),
            password: self.local_password_file.as_deref().map(read_password).transpose()?,
            keep_alive: LOCAL_KEEP_ALIVE,
            version: Some(Version::V5),
        })
    }
}

impl Bridge {
    /// The listener that the bridge comes in by, with its place among all.
    ///
    /// # Errors
    /// If no listener fits.
    pub fn listener_of<'l>(&self, listeners: &'l [Listener]) -> Result<(usize, &'l Listener), BridgeConfigError> {
        let plain = |listener: &Listener| {
            matches!(listener.address, ListenAddress::Tcp(_) | ListenAddress::Unix(_)) && !listener.proxy_protocol
        };
        let wanted = |listener: &Listener| self.local_listener.is_empty() || listener.name == self.local_listener;
        let found = listeners.iter().enumerate().find(|(_, listener)| plain(listener) && wanted(listener));
        found.ok_or_else(|| BridgeConfigError::NoListener(self.local_listener.clone()))
    }

    /// The address at which this broker listens for the bridge; the system may have chosen the port.
    fn local_address(&self, listeners: &[Listener], node: &Node) -> Result<Address, BridgeConfigError> {
        let (index, listener) = self.listener_of(listeners)?;
        if let ListenAddress::Unix(path) = &listener.address {
            return Ok(Address::Unix { path: path.clone() });
        }
        let socket = node.socket_of(|id| id == ListenerId(u16::try_from(index).unwrap_or(u16::MAX)));
        let at = socket.ok_or_else(|| BridgeConfigError::NoListener(self.local_listener.clone()))?;
        let at = reachable(at);
        Ok(Address::Tcp { host: at.ip().to_string(), port: at.port() })
    }
}

impl Config {
    /// The settings of a bridge.
    ///
    /// # Errors
    /// When a file cannot be read. What can be known without files was looked at before.
    pub fn bridge_settings(&self, bridge: &Bridge, node: &Node) -> Result<BridgeSettings, BridgeConfigError> {
        let mut local = bridge.local(bridge.local_address(&self.listeners, node)?)?;
        local.socket.announce = Some(announce_to(node.handle()));
        let cluster = Some(&*self.cluster.prefix).filter(|_| !self.cluster.name.is_empty());
        Ok(BridgeSettings {
            name: bridge.name.clone(),
            routes: bridge.routes()?,
            local,
            remote: bridge.remote(cluster)?,
            window: NonZeroU16::new(bridge.window).unwrap_or(NonZeroU16::MIN),
            session_expiry: u32::try_from(bridge.session_expiry.as_secs()).unwrap_or(u32::MAX),
            notifications: bridge.notifications,
        })
    }
}

/// An address that can be connected to: one of this machine where a listener has all.
fn reachable(at: SocketAddr) -> SocketAddr {
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, at.port())
}

/// The first line of a file.
fn read_password(path: &str) -> Result<Vec<u8>, BridgeConfigError> {
    let failed = |source| BridgeConfigError::Password { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = tidegate_setting_file::open(std::path::Path::new(path)).map_err(failed)?;
    file.take(MAX_PASSWORD_FILE).read_to_end(&mut bytes).map_err(failed)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty")));
    }
    Ok(line.to_vec())
}
