//! The settings of an orchestrator: its name, and the brokers of its fleet.

mod broker_tls;
mod identity;

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_engine::{BrokerLinkOptions, BrokerLinkSettings, Continued};
use tidegate_mqtt::Version;
use tidegate_node::{BrokerSettings, FleetError, HostPort, ListenAddress, NodeHandle, OrchestratorMoves};

use self::broker_tls::BrokerTlsError;
pub use self::identity::check_identity;
use crate::Config;
use crate::credentials::without_credentials;
use crate::list::Networks;
use crate::sections::Listener;
use crate::sections::orchestrator::{BrokerLinkProtocol, Orchestrator};
use tidegate_units::size::MIB;

/// The file in the data directory that keeps the name.
const NAME_FILE: &str = "orchestrator-name";
/// Longest name, bytes.
const MAX_NAME: usize = 64;

/// Why an address is not one of a broker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerAddressError {
    /// Not of the form of one.
    #[error(
        "`{0}` is no address of a broker: write mqtt://HOST:PORT, or NAME=mqtt://USER:PASSWORD@HOST:PORT, with mqtts:// for TLS"
    )]
    Form(String),
    /// A scheme that is not spoken.
    #[error("brokers are reached by mqtt:// or mqtts://, not by {0}://")]
    Scheme(String),
    /// A name that cannot be one.
    #[error("`{0}` cannot be a broker's name: use letters, digits, `-`, `_` and `.`, at most {MAX_NAME}")]
    Name(String),
}

/// A broker's address as a person writes it.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Its name; the host and port where none was given.
    pub name: String,
    /// Host and port.
    pub at: HostPort,
    /// Whether TLS is spoken there.
    pub secure: bool,
    /// User name, if the address has one.
    pub user_name: Option<String>,
    /// Password, if the address has one.
    pub password: Option<String>,
}

impl std::fmt::Debug for BrokerAddress {
    /// Leaves the password out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerAddress").field("name", &self.name).field("at", &self.at).finish_non_exhaustive()
    }
}

impl BrokerAddress {
    /// Reads `[NAME=][mqtt://|mqtts://][USER[:PASSWORD]@]HOST:PORT`.
    ///
    /// # Errors
    /// When the text is no address of a broker.
    pub fn parse(text: &str) -> Result<Self, BrokerAddressError> {
        let scheme_at = text.find("://").unwrap_or(text.len());
        let (name, rest) = match text.find('=') {
            Some(at) if at < scheme_at => (Some(&text[..at]), &text[at + 1..]),
            _ => (None, text),
        };
        Self::of_parts(name, rest)
    }

    /// Reads the address of a broker whose name is known, or is to be made of the address.
    ///
    /// # Errors
    /// When the text is no address of a broker.
    pub fn of_parts(name: Option<&str>, address: &str) -> Result<Self, BrokerAddressError> {
        let form = || BrokerAddressError::Form(without_credentials(address));
        let (secure, authority) = match address.split_once("://") {
            Some(("mqtt" | "tcp", rest)) => (false, rest),
            Some(("mqtts" | "ssl" | "tls", rest)) => (true, rest),
            Some((scheme, _)) => return Err(BrokerAddressError::Scheme(without_credentials(scheme))),
            None => (false, address),
        };
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, authority),
        };
        let place = place.trim_end_matches('/');
        let address: ListenAddress = format!("tcp://{place}").parse().map_err(|_| form())?;
        let at = address.host_port().cloned().ok_or_else(form)?;
        if at.port == 0 {
            return Err(form());
        }
        let name = name.map_or_else(|| place.replace([':', '[', ']'], "-"), str::to_owned);
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(valid) {
            return Err(BrokerAddressError::Name(name));
        }
        let (user_name, password) = match credentials.map(|text| text.split_once(':').unwrap_or((text, ""))) {
            Some((user, password)) => (decoded(user), decoded(password)),
            None => (None, None),
        };
        Ok(Self { name, at, secure, user_name, password })
    }
}

/// Whether two addresses are one as they are written. Two names of one machine are not seen through.
pub fn same_place(one: &HostPort, other: &HostPort) -> bool {
    one.port == other.port && one.host.eq_ignore_ascii_case(&other.host)
}

/// Text with `%41` for `A`; `None` for none.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = behind.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = escaped.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

/// A limit of packets; MQTT has no packet beyond the highest one.
fn packet_limit(bytes: u64) -> u32 {
    if bytes >= 256 * MIB { u32::MAX } else { u32::try_from(bytes).unwrap_or(u32::MAX) }
}

impl Orchestrator {
    /// The brokers that the configuration names.
    ///
    /// # Errors
    /// If an address is invalid.
    pub fn fleet_brokers(&self) -> Result<Vec<BrokerAddress>, BrokerAddressError> {
        self.brokers.0.iter().map(|text| BrokerAddress::parse(text)).collect()
    }

    /// The settings of the fleet for engines of an orchestrator.
    pub fn broker_link_settings(&self) -> Option<BrokerLinkSettings> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.enabled.then(|| BrokerLinkSettings {
            orchestrator: self.name.clone(),
            policy: self.policy,
            window: Some(self.window).filter(|window| *window != 0),
            probe_interval_ms: ms(self.probe_interval),
            probe_timeout_ms: ms(self.probe_timeout),
            reassign_after_ms: ms(self.reassign_after),
            return_timeout_ms: ms(self.return_timeout),
            max_owed_messages: self.max_owed_messages.into(),
            max_owed_bytes: self.max_owed_bytes.0,
            session_expiry_seconds: u32::try_from(self.session_expiry.as_secs()).unwrap_or(u32::MAX),
            merge_filters: self.merge_filters,
            unannounced_packet_limit: packet_limit(self.unannounced_packet_limit.0),
            ..BrokerLinkSettings::default()
        })
    }
}

impl Config {
    /// A broker, with all that is needed to reach it.
    ///
    /// # Errors
    /// When TLS is spoken there, and cannot be set up.
    pub fn broker_settings(&self, address: BrokerAddress) -> Result<BrokerSettings, BrokerTlsError> {
        let options = self.broker_link_options(&address);
        let tls = if address.secure { Some(self.orchestrator.broker_tls()?) } else { None };
        Ok(BrokerSettings { name: address.name, at: address.at, tls, options })
    }

    /// How brokers are spoken to.
    pub fn broker_link_options(&self, address: &BrokerAddress) -> BrokerLinkOptions {
        BrokerLinkOptions {
            version: match self.orchestrator.protocol {
                BrokerLinkProtocol::Auto => None,
                BrokerLinkProtocol::V5 => Some(Version::V5),
                BrokerLinkProtocol::V311 => Some(Version::V311),
            },
            user_name: address.user_name.clone(),
            password: address.password.clone().map(|password| password.into_bytes().into()),
            // An orchestrator that cannot return under the same name needs no session there.
            lasting: self.store.directory.is_some() || !self.orchestrator.name.is_empty(),
        }
    }
}

/// The name of the listener for relayed clients.
pub const RELAY_LISTENER: &str = "relay";

/// Why an orchestrator cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum OrchestratorError {
    /// The file with its name cannot be used.
    #[error("the orchestrator's name in {}: {source}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file with its name holds no name.
    #[error("the orchestrator's name in {}: it is empty or too long; delete the file, or set orchestrator.name", .0.display())]
    NoName(PathBuf),
    /// An address of a broker is wrong.
    #[error(transparent)]
    BrokerAddress(#[from] BrokerAddressError),
    /// TLS to a broker cannot be set up.
    #[error("broker {name}: {source}")]
    BrokerTls {
        /// The broker.
        name: String,
        /// The cause.
        source: BrokerTlsError,
    },
    /// The node does not take a broker.
    #[error(transparent)]
    Node(#[from] FleetError),
}

/// The configuration with a listener there for clients that others relay, whose word from these networks is taken for
/// where a client is.
pub fn with_relay_at(mut config: Config, address: ListenAddress, networks: Networks) -> Config {
    let plain = Listener::default();
    let like = config.listeners.first().cloned().unwrap_or_default();
    config.listeners.push(Listener {
        address,
        name: RELAY_LISTENER.to_owned(),
        certificate: plain.certificate,
        key: plain.key,
        client_certificate: plain.client_certificate,
        client_ca: plain.client_ca,
        crl: plain.crl,
        crl_outdated: plain.crl_outdated,
        identity_from: plain.identity_from,
        identity_as: plain.identity_as,
        proxy_protocol: true,
        proxy_networks: networks,
        ..like
    });
    config
}

/// The configuration with the name that this orchestrator has: the configured name, the name in its data directory, or
/// a new name.
///
/// # Errors
/// When the data directory cannot be used.
pub fn with_name(config: &Config) -> Result<Config, OrchestratorError> {
    let mut config = config.clone();
    if !config.orchestrator.enabled || !config.orchestrator.name.is_empty() {
        return Ok(config);
    }
    if !config.cluster.name.is_empty() {
        config.orchestrator.name.clone_from(&config.cluster.name);
        return Ok(config);
    }
    config.orchestrator.name = match &config.store.directory {
        Some(directory) => kept_name(Path::new(directory))?,
        None => new_name(),
    };
    Ok(config)
}

fn new_name() -> String {
    format!("tidegate-{:016x}", RandomState::new().build_hasher().finish())
}

fn kept_name(directory: &Path) -> Result<String, OrchestratorError> {
    let path = directory.join(NAME_FILE);
    let wrong = |source: io::Error| OrchestratorError::Name { path: path.clone(), source };
    match fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() && name.len() <= MAX_NAME => Ok(name.trim().to_owned()),
        Ok(_) => Err(OrchestratorError::NoName(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = new_name();
            fs::create_dir_all(directory).map_err(wrong)?;
            // Brokers keep sessions under this name, so it is written to the disk before its use.
            tidegate_mirror::kept_file::replace(directory, NAME_FILE, name.as_bytes(), None).map_err(wrong)?;
            Ok(name)
        }
        Err(error) => Err(wrong(error)),
    }
}

/// Gives a running node the brokers that the configuration names.
///
/// # Errors
/// When an address or a certificate of a broker cannot be used, or the node does not answer.
pub fn add_brokers(node: &NodeHandle, config: &Config) -> Result<(), OrchestratorError> {
    if !config.orchestrator.enabled {
        return Ok(());
    }
    if !config.cluster.name.is_empty() {
        // A member of a cluster learns from the table whether it continues with connections of dead members.
        OrchestratorMoves::of(node).continue_adopted(Continued::All)?;
    }
    let brokers = config.orchestrator.fleet_brokers()?;
    if brokers.is_empty() {
        tracing::warn!(
            "the orchestrator has no broker; published messages wait or are dropped until --broker or the admin API names one"
        );
    }
    for address in brokers {
        let name = address.name.clone();
        let broker = config.broker_settings(address).map_err(|source| OrchestratorError::BrokerTls { name, source })?;
        node.fleet().set_broker(broker)?;
    }
    Ok(node.fleet().settle_former_brokers()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_orchestrators_name_is_left_by_a_crash() {
        let directory = std::env::temp_dir().join(format!("tidegate-config-name-{}", std::process::id()));
        let aside = directory.join(format!("{NAME_FILE}.new"));
        fs::create_dir_all(&aside).unwrap();
        kept_name(&directory).unwrap_err();
        assert!(!directory.join(NAME_FILE).exists(), "the file appears with its whole content");
        fs::remove_dir(&aside).unwrap();
        let name = kept_name(&directory).unwrap();
        assert_eq!(kept_name(&directory).unwrap(), name);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn addresses_of_brokers_are_read_as_people_write_them() {
        let plain = BrokerAddress::parse("mqtt://127.0.0.1:1884").unwrap();
        assert_eq!((plain.name.as_str(), plain.at.port), ("127.0.0.1-1884", 1884));
        let full = BrokerAddress::parse("b1=mqtt://me:se%40cret@host:1").unwrap();
        assert_eq!((full.name.as_str(), full.at.host.as_str()), ("b1", "host"));
        assert_eq!((full.user_name.as_deref(), full.password.as_deref()), (Some("me"), Some("se@cret")));
        assert!(!format!("{full:?}").contains("cret"));
        let same = BrokerAddress::parse("b1=host:1").unwrap();
        assert_eq!(same.at, full.at);
        assert_eq!(BrokerAddress::parse("[::1]:1883").unwrap().at.port, 1883);
        assert!(!full.secure && BrokerAddress::parse("b1=mqtts://me:secret@host:8883").unwrap().secure);
    }

    #[test]
    fn an_invalid_address_is_refused_without_its_password() {
        for (text, part) in [
            ("wss://host:1", "mqtt:// or mqtts://"),
            ("mqtt://host", "no address"),
            ("mqtt://me:secret@host:x", "***@host:x"),
            ("host:0", "no address"),
            ("a b=host:1", "cannot be a broker's name"),
            ("", "no address"),
        ] {
            let error = BrokerAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
