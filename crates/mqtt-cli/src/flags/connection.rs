//! Flags of the connection: the server's address, the client's identity, and the protocol.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use tidegate_client::net::{Address, SocketOptions};
use tidegate_client::{Options, Version};

use super::property::{Properties, PropertyFlags};
use super::tls::{TLS_PORT, TlsFlags};
use super::unsupported::UnsupportedFlags;
use super::url::Url;
use super::value::{parse_expiry, parse_version};
use super::will::WillFlags;
use super::{Tool, UsageError, heading};

/// The port of MQTT without TLS, also over WebSocket unless another is given.
const DEFAULT_PORT: u16 = 1883;
/// The port of MQTT over QUIC, by custom.
const QUIC_PORT: u16 = 14_567;
const DEFAULT_KEEP_ALIVE: u16 = 60;

/// Flags of the connection.
#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ConnectionFlags {
    #[expect(clippy::doc_markdown, reason = "it is a text of --help")]
    /// The server's name or address, or unix:/PATH for a Unix socket [default: localhost]
    #[arg(short = 'h', long, value_name = "HOST", help_heading = heading::CONNECTION)]
    host: Option<String>,

    /// The server's port [default: 1883, with TLS 8883]
    #[arg(short = 'p', long, value_name = "PORT", help_heading = heading::CONNECTION)]
    port: Option<u16>,

    /// Server, credentials and topic in one.
    #[arg(
        short = 'L',
        long,
        value_name = "URL",
        value_parser = Url::parse,
        conflicts_with = "host",
        help = "All in one: mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC; mqtts:// for TLS, ws:// and wss:// for WebSocket, quic:// for QUIC",
        help_heading = heading::CONNECTION
    )]
    url: Option<Url>,

    /// Connect through a Unix socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "url", "ws", "quic", "bind"], help_heading = heading::CONNECTION)]
    unix: Option<PathBuf>,

    /// Connect over WebSocket
    #[arg(long, help_heading = heading::CONNECTION)]
    ws: bool,

    /// Connect over QUIC, to port 14567 unless another is given
    #[arg(long, conflicts_with_all = ["ws", "no_tls"], help_heading = heading::CONNECTION)]
    quic: bool,

    /// Continue from another port after this number of messages, as a device does that changes its network; needs
    /// --quic
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::CONNECTION)]
    rebind_after: Option<u64>,

    /// The path of the WebSocket
    #[arg(long, value_name = "PATH", default_value = "/mqtt", help_heading = heading::CONNECTION)]
    ws_path: String,

    /// Connect from this local name or address
    #[arg(short = 'A', long, value_name = "ADDRESS", help_heading = heading::CONNECTION)]
    bind: Option<String>,

    /// The user name
    #[arg(short = 'u', long, value_name = "NAME", allow_hyphen_values = true, help_heading = heading::CONNECTION)]
    username: Option<String>,

    /// The password; others see it in the list of processes, so prefer a file of options (-o)
    #[arg(short = 'P', long = "pw", value_name = "PASSWORD", allow_hyphen_values = true, help_heading = heading::CONNECTION)]
    password: Option<String>,

    /// The client id [default: the server's choice in MQTT 5.0, random before]
    #[arg(short = 'i', long = "id", value_name = "ID", allow_hyphen_values = true, conflicts_with = "id_prefix", help_heading = heading::MQTT)]
    id: Option<String>,

    /// The client id is this and the number of the process
    #[arg(short = 'I', long, value_name = "PREFIX", allow_hyphen_values = true, help_heading = heading::MQTT)]
    id_prefix: Option<String>,

    /// Seconds of silence after which the client pings; 0 for never
    #[arg(short = 'k', long = "keepalive", value_name = "SECONDS", default_value_t = DEFAULT_KEEP_ALIVE, help_heading = heading::MQTT)]
    keep_alive: u16,

    /// The version of MQTT: 5, 311 or 31 [default: 5 for rr and when a flag needs it, else 311]
    #[arg(short = 'V', long = "protocol-version", value_name = "VERSION", value_parser = parse_version, help_heading = heading::MQTT)]
    version: Option<Version>,

    /// Go on with the session of this client id, and leave it behind; needs -i
    #[arg(short = 'c', long = "disable-clean-session", help_heading = heading::MQTT)]
    keep_session: bool,

    /// For how many seconds the server keeps the session; -1 for ever [default: 0, with -c for ever]
    #[arg(short = 'x', long = "session-expiry-interval", value_name = "SECONDS", value_parser = parse_expiry, allow_hyphen_values = true, help_heading = heading::MQTT)]
    session_expiry: Option<u32>,

    #[command(flatten)]
    properties: PropertyFlags,

    #[command(flatten)]
    will: WillFlags,

    #[command(flatten)]
    tls: TlsFlags,

    #[command(flatten)]
    unsupported: UnsupportedFlags,

    /// Show packets on standard error
    #[arg(short = 'd', long, help_heading = heading::OTHER)]
    debug: bool,

    /// Print no errors, except errors of the command line
    #[arg(long, help_heading = heading::OTHER)]
    quiet: bool,

    /// Read flags from this file, one to a line [default: ~/.config/tidegate/{pub,sub,rr}]
    #[arg(short = 'o', long, value_name = "FILE", help_heading = heading::OTHER)]
    pub options_file: Option<PathBuf>,

    /// Print this help
    #[arg(long, action = clap::ArgAction::Help, help_heading = heading::OTHER)]
    help: Option<bool>,
}

/// The plan of a connection that its flags result in.
#[derive(Debug)]
pub(crate) struct Plan {
    pub options: Options,
    pub address: Address,
    pub sockets: SocketOptions,
    pub properties: Properties,
    /// The topic of the URL.
    pub url_topic: Option<String>,
    /// After this number of messages the client continues from another port.
    pub rebind_after: Option<u64>,
    pub quiet: bool,
}

impl ConnectionFlags {
    /// Puts the flags together. `needs_v5` are further flags that only MQTT 5.0 has, and whether each is there.
    ///
    /// # Errors
    /// When they contradict each other, or ask for something that does not exist yet.
    pub(crate) fn plan(&self, tool: Tool, needs_v5: &[(&'static str, bool)]) -> Result<Plan, UsageError> {
        self.unsupported.check()?;
        let version = self.version(tool, needs_v5)?;
        let mut properties = self.properties.read(tool)?;
        self.set_session_expiry(version, &mut properties)?;
        let url = self.url.as_ref();
        let username = self.username.clone().or_else(|| url?.username.clone());
        let password = self.password.clone().or_else(|| url?.password.clone());
        if password.is_some() && username.is_none() && version != Version::V5 {
            return Err(UsageError::new("before MQTT 5.0 a password needs a user name: add -u NAME, or -V 5"));
        }
        let options = Options {
            version,
            clean_start: !self.keep_session,
            keep_alive: self.keep_alive,
            username,
            password: password.map(String::into_bytes),
            will: self.will.will(&properties.will)?,
            properties: properties.connect.clone(),
            trace: self.debug,
            ..Options::new(self.client_id(version))
        };
        let address = self.address()?;
        let tls = match &address {
            Address::Quic { host, .. } => Some(self.tls.quic_connector(host)?),
            address if address.is_tls() => Some(self.tls.connector()?),
            _ => None,
        };
        if self.rebind_after.is_some() && !matches!(address, Address::Quic { .. }) {
            return Err(UsageError::new("--rebind-after needs QUIC, which outlives a change of the port: add --quic"));
        }
        Ok(Plan {
            options,
            address,
            sockets: SocketOptions { bind: self.bind.clone(), tls, ..SocketOptions::default() },
            properties,
            url_topic: url.map(|url| url.topic.clone()).filter(|topic| !topic.is_empty()),
            rebind_after: self.rebind_after,
            quiet: self.quiet,
        })
    }

    /// Whether errors are to be kept quiet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    fn version(&self, tool: Tool, needs_v5: &[(&'static str, bool)]) -> Result<Version, UsageError> {
        let own = [("-D", !self.properties.is_empty()), ("-x", self.session_expiry.is_some())];
        let need = own.iter().chain(needs_v5).find(|(_, given)| *given);
        match (need, self.version) {
            (Some((flag, _)), Some(version)) if version != Version::V5 => {
                Err(UsageError::new(format!("{flag} needs MQTT 5.0, and -V asks for {version}")))
            }
            (Some(_), _) => Ok(Version::V5),
            (None, Some(version)) => Ok(version),
            (None, None) if tool == Tool::Request => Ok(Version::V5),
            (None, None) => Ok(Version::V311),
        }
    }

    fn set_session_expiry(&self, version: Version, properties: &mut Properties) -> Result<(), UsageError> {
        let by_property = properties.connect.session_expiry_interval;
        if self.session_expiry.is_some() && by_property.is_some() {
            return Err(UsageError::new("the session expiry interval is set twice: leave -x or the property out"));
        }
        let without_end = version == Version::V5 && self.keep_session;
        let expiry = self.session_expiry.or(by_property).or(without_end.then_some(u32::MAX));
        properties.connect.session_expiry_interval = expiry;
        if self.id.is_none() && (self.keep_session || expiry == Some(u32::MAX)) {
            return Err(UsageError::new("a session that outlives the command needs a name to be found by: add -i ID"));
        }
        Ok(())
    }

    fn client_id(&self, version: Version) -> String {
        match (&self.id, &self.id_prefix) {
            (Some(id), _) => id.clone(),
            (None, Some(prefix)) => format!("{prefix}{}", std::process::id()),
            (None, None) if version == Version::V5 => String::new(),
            // 23 characters, as MQTT 3.1 allows.
            (None, None) => format!("tidegate-{:014x}", random() >> 8),
        }
    }

    /// The path of `--unix`, or of a host as `--listen` writes it.
    fn unix_path(&self) -> Result<Option<PathBuf>, UsageError> {
        let Some(path) = self.host.as_deref().and_then(|host| host.strip_prefix("unix:")) else {
            return Ok(self.unix.clone());
        };
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(UsageError::new("-h unix: names no socket; write unix:/PATH"));
        }
        let others =
            [("-p", self.port.is_some()), ("--ws", self.ws), ("--quic", self.quic), ("-A", self.bind.is_some())];
        match others.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(UsageError::new(format!("{flag} is of no use over a Unix socket; leave it out"))),
            None => Ok(Some(PathBuf::from(path))),
        }
    }

    fn address(&self) -> Result<Address, UsageError> {
        if let Some(path) = self.unix_path()? {
            self.tls.refuse_over("a Unix socket")?;
            return Ok(Address::Unix { path });
        }
        if self.host.as_deref().is_some_and(|host| host.contains("://")) {
            return Err(UsageError::new("-h names a host; a URL is -L mqtts://HOST:PORT/TOPIC"));
        }
        let url = self.url.as_ref();
        let host = url.map(|url| url.host.clone()).or_else(|| self.host.clone());
        let host = host.unwrap_or_else(|| "localhost".to_owned());
        let port = self.port.or_else(|| url?.port);
        if self.quic && url.is_some_and(|url| !url.quic) {
            return Err(UsageError::new("--quic asks for QUIC, and the URL for something else: write quic://"));
        }
        if self.quic || url.is_some_and(|url| url.quic) {
            self.tls.refuse_none()?;
            return Ok(Address::Quic { host, port: port.unwrap_or(QUIC_PORT) });
        }
        let tls = self.tls.is_wanted(url.map(|url| url.tls), port)?;
        let port = port.unwrap_or(if tls { TLS_PORT } else { DEFAULT_PORT });
        if !self.ws && !url.is_some_and(|url| url.web) {
            return Ok(if tls { Address::Tls { host, port } } else { Address::Tcp { host, port } });
        }
        let path = self.ws_path.clone();
        if !path.starts_with('/') || path.contains(|character: char| character.is_ascii_control() || character == ' ') {
            return Err(UsageError::new("--ws-path starts with '/' and has no spaces"));
        }
        Ok(if tls { Address::WebSocketTls { host, port, path } } else { Address::WebSocket { host, port, path } })
    }
}

/// A number that no other process has.
pub(crate) fn random() -> u64 {
    // The standard library keys its hashes with the system's randomness.
    RandomState::new().build_hasher().finish()
}

/// How many messages of QoS 1 and 2 may be under way, as a flag of those commands that publish.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InFlightFlag {
    /// How many messages of QoS 1 and 2 are under way at once at most [default: 20]
    #[arg(short = 'M', long, value_name = "COUNT", value_parser = in_flight, help_heading = heading::MQTT)]
    pub max_inflight: Option<NonZeroU16>,
}

/// A number of messages that cannot be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a number from 1 to 65535")]
struct InFlightError;

fn in_flight(text: &str) -> Result<NonZeroU16, InFlightError> {
    text.parse().map_err(|_| InFlightError)
}
