//! Addresses as keys: of listeners, where clients come in, and of the admin listener.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tidegate_node::{AddressError, HostPort, ListenAddress};
use tidegate_store::RealDisk;

use super::value::{Kind, Problem, Raw, Value, quoted};

/// Longest path of a Unix socket, bytes: what `sockaddr_un` holds on Linux, less the closing zero.
const UNIX_PATH_LEN: usize = 107;

/// A port of this machine that is not reachable from others.
pub fn loopback(port: u16) -> HostPort {
    HostPort { host: "127.0.0.1".to_owned(), port }
}

/// The path of a Unix socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketPathError {
    /// The broker does not make it.
    #[error("the directory {} of its Unix socket does not exist: create it first", .0.display())]
    Missing(PathBuf),
    /// It cannot be written.
    #[error("the directory {} of its Unix socket cannot be used: {source}", .directory.display())]
    Unusable {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file that is no socket has its name.
    #[error("{} exists and is no socket: remove it, or choose another path", .0.display())]
    Occupied(PathBuf),
}

/// Checks the path of a Unix socket and its directory; other addresses have none.
///
/// # Errors
/// When the directory does not exist or cannot be written, or another file has the name of the socket.
pub fn check_socket_path(address: &ListenAddress) -> Result<(), SocketPathError> {
    let ListenAddress::Unix(path) = address else { return Ok(()) };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    if !directory.exists() {
        return Err(SocketPathError::Missing(directory.to_owned()));
    }
    if path.metadata().is_ok_and(|file| !file.file_type().is_socket()) {
        return Err(SocketPathError::Occupied(path.clone()));
    }
    RealDisk::check(directory).map_err(|source| SocketPathError::Unusable { directory: directory.to_owned(), source })
}

/// The name of a listener that was given none, such as `tcp-1883`.
pub fn default_name(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(at) => format!("tcp-{}", at.port),
        ListenAddress::Tls(at) => format!("tls-{}", at.port),
        ListenAddress::WebSocket { at, .. } => format!("ws-{}", at.port),
        ListenAddress::WebSocketTls { at, .. } => format!("wss-{}", at.port),
        ListenAddress::Quic(at) => format!("quic-{}", at.port),
        ListenAddress::Http(at) => format!("http-{}", at.port),
        ListenAddress::Https(at) => format!("https-{}", at.port),
        ListenAddress::Coap(at) => format!("coap-{}", at.port),
        ListenAddress::Coaps(at) => format!("coaps-{}", at.port),
        ListenAddress::Unix(_) => "unix".to_owned(),
        ListenAddress::Process => "process".to_owned(),
    }
}

/// The same listener on loopback, to suggest it.
pub fn on_loopback(address: &ListenAddress) -> ListenAddress {
    match address {
        ListenAddress::Tcp(at) => ListenAddress::Tcp(loopback(at.port)),
        ListenAddress::Tls(at) => ListenAddress::Tls(loopback(at.port)),
        ListenAddress::WebSocket { at, path } => ListenAddress::WebSocket { at: loopback(at.port), path: path.clone() },
        ListenAddress::WebSocketTls { at, path } => {
            ListenAddress::WebSocketTls { at: loopback(at.port), path: path.clone() }
        }
        ListenAddress::Quic(at) => ListenAddress::Quic(loopback(at.port)),
        ListenAddress::Http(at) => ListenAddress::Http(loopback(at.port)),
        ListenAddress::Https(at) => ListenAddress::Https(loopback(at.port)),
        ListenAddress::Coap(at) => ListenAddress::Coap(loopback(at.port)),
        ListenAddress::Coaps(at) => ListenAddress::Coaps(loopback(at.port)),
        ListenAddress::Unix(path) => ListenAddress::Unix(path.clone()),
        ListenAddress::Process => ListenAddress::Process,
    }
}

/// Reads an address as a person writes it. A bare port is one of this machine, with or without `ws://`.
fn parse(text: &str) -> Result<ListenAddress, Problem> {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let full = match text.split_once("://") {
        None if is_port(text) => format!("127.0.0.1:{text}"),
        Some((scheme, rest)) if is_port(rest.split('/').next().unwrap_or_default()) => {
            format!("{scheme}://127.0.0.1:{rest}")
        }
        _ => text.to_owned(),
    };
    let address: ListenAddress = full.parse().map_err(|error| refusal(&error))?;
    match &address {
        ListenAddress::Unix(path) if path.as_os_str().len() > UNIX_PATH_LEN => Err(Problem::new(format!(
            "must have a path of at most {UNIX_PATH_LEN} bytes, not {}",
            path.as_os_str().len()
        ))),
        ListenAddress::WebSocket { path, .. } | ListenAddress::WebSocketTls { path, .. }
            if path.contains(|c: char| c == '?' || c == '#' || c.is_whitespace()) =>
        {
            Err(Problem::new(format!("must have a plain path, not {path:?}")))
        }
        _ => Ok(address),
    }
}

fn refusal(error: &AddressError) -> Problem {
    let problem = Problem::new(format!("cannot be read: {error}"));
    match error {
        AddressError::Form(text) if text.starts_with(':') || text.starts_with('*') => {
            problem.hint("for every address of this machine write 0.0.0.0:PORT")
        }
        _ => problem,
    }
}

impl Value for ListenAddress {
    fn read(raw: &Raw, _: &Kind) -> Result<Self, Problem> {
        match raw {
            Raw::Text(text) | Raw::Word(text) => parse(text),
            Raw::Integer(number) => parse(&number.to_string()),
            _ => Err(Problem::new("must be an address in quotes, such as \"127.0.0.1:1883\"")),
        }
    }

    fn show(&self) -> String {
        quoted(&self.to_string())
    }
}

/// The address of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// Nowhere.
    Off,
    /// Here.
    At(HostPort),
}

impl AdminAddress {
    /// The default: an address of this machine, or none in a program without the feature `admin`.
    pub(crate) fn of_this_program() -> Self {
        if cfg!(feature = "admin") { Self::At(loopback(18083)) } else { Self::Off }
    }

    /// The host and port to listen on; `None` in a program without the feature `admin`.
    pub fn host_port(&self) -> Option<&HostPort> {
        match self {
            Self::At(at) if cfg!(feature = "admin") => Some(at),
            _ => None,
        }
    }
}

impl Value for AdminAddress {
    fn read(raw: &Raw, _: &Kind) -> Result<Self, Problem> {
        let text = match raw {
            Raw::Text(text) | Raw::Word(text) if text == "off" => return Ok(Self::Off),
            Raw::Text(text) | Raw::Word(text) => text.clone(),
            Raw::Integer(number) => number.to_string(),
            _ => String::new(),
        };
        match parse(text.strip_prefix("http://").unwrap_or(&text)) {
            Ok(ListenAddress::Tcp(at)) => Ok(Self::At(at)),
            _ => Err(Problem::new(format!("must be an address such as \"127.0.0.1:18083\", or \"off\", not {text:?}"))),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Off => quoted("off"),
            Self::At(at) => quoted(&at.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(address) => address.to_string(),
            Err(problem) => format!("{}; {}", problem.message, problem.hint.unwrap_or_default()),
        }
    }

    #[test]
    fn a_file_in_the_place_of_a_socket_is_a_fault() {
        let file = std::env::temp_dir().join(format!("tidegate-no-socket-{}", std::process::id()));
        let address = ListenAddress::Unix(file.clone());
        assert!(check_socket_path(&address).is_ok());
        std::fs::write(&file, "").unwrap();
        let error = check_socket_path(&address).unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(error.ends_with("exists and is no socket: remove it, or choose another path"), "{error}");
        let socket = std::os::unix::net::UnixListener::bind(&file).unwrap();
        assert!(check_socket_path(&address).is_ok());
        drop(socket);
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_bare_port_is_on_this_machine() {
        assert_eq!(shown("1883"), "127.0.0.1:1883");
        assert_eq!(shown("tcp://1883"), "127.0.0.1:1883");
        assert_eq!(shown("ws://9001"), "ws://127.0.0.1:9001/mqtt");
        assert_eq!(shown("ws://9001/a/b"), "ws://127.0.0.1:9001/a/b");
        assert_eq!(shown("tls://8883"), "mqtts://127.0.0.1:8883");
        assert_eq!(shown("quic://14567"), "quic://127.0.0.1:14567");
        assert_eq!(shown("coap://5683"), "coap://127.0.0.1:5683");
        assert_eq!(shown("wss://443"), "wss://127.0.0.1:443/mqtt");
    }

    #[test]
    fn other_addresses_are_the_listeners() {
        assert_eq!(shown("0.0.0.0:1883"), "0.0.0.0:1883");
        assert_eq!(shown("mqtt://localhost:1883/"), "localhost:1883");
        assert_eq!(shown("unix:///run/t.sock"), "unix:/run/t.sock");
    }

    #[test]
    fn each_slip_gets_its_own_advice() {
        let refused = |text: &str, expected: &str| {
            let said = shown(text);
            assert!(said.contains(expected), "{text}: {said}");
        };
        refused("localhost", "write HOST:PORT");
        refused("127.0.0.1:70000", "is too large");
        refused(":1883", "0.0.0.0:PORT");
        refused("*", "0.0.0.0:PORT");
        refused("sctp://h:8883", "mqtts://");
        refused("ws://h:9001/a?b", "plain path");
        refused(&format!("unix:/{}", "x".repeat(107)), "at most 107 bytes, not 108");
    }

    #[test]
    fn the_admin_address_may_be_off() {
        let read = |text: &str| AdminAddress::read(&Raw::Word(text.into()), &Kind::AdminAddress);
        assert_eq!(read("off"), Ok(AdminAddress::Off));
        assert_eq!(read("18083"), Ok(AdminAddress::At(loopback(18083))));
        assert_eq!(read("http://[::1]:80"), read("[::1]:80"));
        assert!(read("on").is_err());
        assert!(read("unix:/run/admin").is_err());
    }
}
