//! The address of a bus: its kind, its servers, and the credentials.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tidegate_units::percent::unescape;

/// A lease that outlasts elections among servers of NATS and short breaks of a network.
pub(crate) const USUAL_LEASE: Duration = Duration::from_secs(10);

/// Why a text is no address of a bus. It never repeats the address, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another scheme, or none.
    #[error(
        "the bus is neither `embedded` nor begins with embedded://, nats:// or kafka://; write for example nats://127.0.0.1:4222"
    )]
    Scheme,
    /// `embedded://` without a directory.
    #[error(
        "the address of the bus names no directory; write embedded://DIRECTORY, for example embedded:///var/lib/tidegate/bus"
    )]
    NoDirectory,
    /// Something behind the directory.
    #[error("the address of the bus has something behind its directory; only `?serve=no` may stand there")]
    Directory,
    /// No server.
    #[error("the address of the bus names no server; write host or host:port after the scheme")]
    NoServer,
    /// Something that is not host:port.
    #[error(
        "server {0} of the bus is not host or host:port; separate several by commas, and put [ ] around IPv6 addresses"
    )]
    Server(usize),
    /// A path, a query or a fragment.
    #[error("the address of the bus has something behind its servers; it ends with the last of them")]
    Rest,
    /// Too many servers in an address.
    #[error("the address of the bus names more than 32 servers; a few suffice, the others are found")]
    TooMany,
    /// A user without a password, or an invalid escape.
    #[error("the user of the bus is not user:password; write both, with %40 for @, %3A for : and %25 for %")]
    Credentials,
}

/// A server of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Name or address, without brackets.
    pub host: String,
    /// Its port, not 0.
    pub port: u16,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The user of the bus. The password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    password: String,
}

#[cfg(any(feature = "nats", feature = "kafka"))]
impl Credentials {
    pub(crate) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).field("password", &"***").finish()
    }
}

/// Port of NATS where an address names none.
const NATS_PORT: u16 = 4222;
const KAFKA_PORT: u16 = 9092;

/// A bus: `embedded`, `embedded://DIRECTORY[?serve=no]`, `nats://[user:password@]host[:port][,host[:port]]` or `kafka://...` likewise.
/// Neither `Debug` nor `Display` shows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// In this process.
    Embedded,
    /// Shared by the processes of one machine that name the same directory: one of them serves it to all.
    Directory {
        /// The directory of its logs, its lock and its socket.
        path: PathBuf,
        /// Whether this process may serve it.
        serves: bool,
    },
    /// Servers of NATS with JetStream.
    Nats {
        /// At least one.
        servers: Vec<Server>,
        /// The credentials, where the servers require them.
        credentials: Option<Credentials>,
    },
    /// Brokers of Kafka.
    Kafka {
        /// At least one.
        servers: Vec<Server>,
        /// The credentials (SASL PLAIN), where the brokers require them.
        credentials: Option<Credentials>,
    },
}

/// A lease with which groups on Kafka outlast the death of a broker: the least lease (`LEAST_LEASE` of its client), and
/// some seconds for busy machines.
const KAFKA_LEASE: Duration = Duration::from_secs(30);

impl Address {
    /// The lease of groups that outlasts events of servers of this kind: the death of one of several among them.
    pub fn usual_lease(&self) -> Duration {
        match self {
            Self::Embedded | Self::Directory { .. } | Self::Nats { .. } => USUAL_LEASE,
            Self::Kafka { .. } => KAFKA_LEASE,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "embedded" {
            return Ok(Self::Embedded);
        }
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let port = match scheme {
            "nats" => NATS_PORT,
            "kafka" => KAFKA_PORT,
            "embedded" => return parse_directory(rest),
            _ => return Err(AddressError::Scheme),
        };
        let (credentials, servers) = match rest.rsplit_once('@') {
            Some((user, servers)) => (Some(credentials(user)?), servers),
            None => (None, rest),
        };
        let servers = parse_servers(servers, port)?;
        Ok(if scheme == "nats" { Self::Nats { servers, credentials } } else { Self::Kafka { servers, credentials } })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, servers, credentials) = match self {
            Self::Embedded => return f.write_str("embedded"),
            Self::Directory { path, serves } => {
                return write!(f, "embedded://{}{}", path.display(), if *serves { "" } else { NO_SERVER });
            }
            Self::Nats { servers, credentials } => ("nats", servers, credentials),
            Self::Kafka { servers, credentials } => ("kafka", servers, credentials),
        };
        write!(f, "{scheme}://")?;
        if let Some(credentials) = credentials {
            write!(f, "{}:***@", credentials.user)?;
        }
        let servers: Vec<String> = servers.iter().map(Server::to_string).collect();
        f.write_str(&servers.join(","))
    }
}

/// The end of the address of a directory that this process does not serve.
const NO_SERVER: &str = "?serve=no";

fn parse_directory(text: &str) -> Result<Address, AddressError> {
    let (path, serves) = text.strip_suffix(NO_SERVER).map_or((text, true), |path| (path, false));
    if path.is_empty() {
        return Err(AddressError::NoDirectory);
    }
    if path.contains(['?', '#', '\0']) {
        return Err(AddressError::Directory);
    }
    Ok(Address::Directory { path: path.into(), serves })
}

fn parse_servers(text: &str, port: u16) -> Result<Vec<Server>, AddressError> {
    if text.is_empty() {
        return Err(AddressError::NoServer);
    }
    if text.contains(['/', '?', '#']) {
        return Err(AddressError::Rest);
    }
    let servers: Vec<Server> = text
        .split(',')
        .enumerate()
        .map(|(index, server)| parse_server(server, port).ok_or(AddressError::Server(index + 1)))
        .collect::<Result<_, _>>()?;
    if servers.len() > 32 { Err(AddressError::TooMany) } else { Ok(servers) }
}

fn parse_server(text: &str, default_port: u16) -> Option<Server> {
    let (host, port) = match text.rsplit_once(':') {
        // An address of IPv6 is full of colons.
        Some((host, port)) if !text.ends_with(']') => (host, port.parse().ok().filter(|port| *port != 0)?),
        _ => (text, default_port),
    };
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').filter(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())?,
        None => host,
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    let is_host = !host.is_empty() && host.bytes().all(fits) && (text.starts_with('[') || !host.contains(':'));
    is_host.then(|| Server { host: host.to_owned(), port })
}

fn credentials(text: &str) -> Result<Credentials, AddressError> {
    let (user, password) = text.split_once(':').ok_or(AddressError::Credentials)?;
    let (user, password) = (unescape(user), unescape(password));
    let (Some(user), Some(password)) = (user, password) else { return Err(AddressError::Credentials) };
    if user.is_empty() || user.chars().chain(password.chars()).any(char::is_control) {
        return Err(AddressError::Credentials);
    }
    Ok(Credentials { user, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_is_longer_where_failover_takes_longer() {
        let lease = |text: &str| text.parse::<Address>().unwrap().usual_lease();
        assert_eq!(["embedded", "nats://h", "kafka://h"].map(lease).map(|it| it.as_secs()), [10, 10, 30]);
    }

    #[test]
    fn addresses_are_read_and_shown_without_the_password() {
        let address: Address = "nats://me:p%40ss%3a@127.0.0.1:4222,[::1]:4223".parse().unwrap();
        let Address::Nats { servers, credentials: Some(credentials) } = &address else { panic!("{address:?}") };
        assert_eq!((servers[0].port, servers[1].host.as_str()), (4222, "::1"));
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("me", "p@ss:"));
        assert_eq!(address.to_string(), "nats://me:***@127.0.0.1:4222,[::1]:4223");
        assert!(!format!("{address:?}").contains("p@ss"));
        assert_eq!("embedded".parse(), Ok(Address::Embedded));
        for (text, path, serves) in [("embedded:///var/bus", "/var/bus", true), ("embedded://b?serve=no", "b", false)] {
            let address = Address::Directory { path: path.into(), serves };
            assert_eq!((text.parse(), address.to_string()), (Ok(address), text.to_owned()));
        }
        assert_eq!("kafka://a:1,b:2".parse::<Address>().unwrap().to_string(), "kafka://a:1,b:2");
    }

    #[test]
    fn a_server_without_a_port_has_the_usual_one() {
        for (text, shown) in [
            ("nats://a", "nats://a:4222"),
            ("nats://u:p@a,[::1],b:4", "nats://u:***@a:4222,[::1]:4222,b:4"),
            ("kafka://10.0.0.9", "kafka://10.0.0.9:9092"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_reason() {
        for (text, error) in [
            ("", AddressError::Scheme),
            ("mqtt://a:1", AddressError::Scheme),
            ("nats://", AddressError::NoServer),
            ("embedded://", AddressError::NoDirectory),
            ("embedded://bus?serve=yes", AddressError::Directory),
            ("nats://a:", AddressError::Server(1)),
            ("nats://a,,b", AddressError::Server(2)),
            ("kafka://::1", AddressError::Server(1)),
            ("nats://a:1,b:0", AddressError::Server(2)),
            ("nats://::1:4", AddressError::Server(1)),
            ("nats://[::1:4", AddressError::Server(1)),
            ("kafka://a:1/topic", AddressError::Rest),
            ("nats://user@a:1", AddressError::Credentials),
            ("nats://u:%zz@a:1", AddressError::Credentials),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
        assert!(!"nats://u:secret%z@a:1".parse::<Address>().unwrap_err().to_string().contains("secret"));
    }
}
