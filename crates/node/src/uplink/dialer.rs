//! Opening connections to brokers, which may take as long as a network is silent, and so not on a shard.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread::Builder;
use std::time::Duration;

use super::Dialed;
use crate::address::HostPort;

/// How long a broker may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Knows where brokers are and connects to them, one thread for each attempt: each broker has one at a time.
#[derive(Debug, Default)]
pub(crate) struct Dialer {
    places: Mutex<BTreeMap<String, HostPort>>,
}

impl Dialer {
    fn places(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, HostPort>> {
        // Whoever panicked while holding it left a map that is whole.
        self.places.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Notes where a broker is.
    pub(super) fn know(&self, name: &str, at: HostPort) {
        self.places().insert(name.to_owned(), at);
    }

    /// Forgets a broker.
    pub(super) fn forget(&self, name: &str) {
        self.places().remove(name);
    }

    /// Where a broker is.
    pub(super) fn address(&self, name: &str) -> Option<HostPort> {
        self.places().get(name).cloned()
    }

    /// Connects to a broker and tells the outcome.
    pub(super) fn dial(&self, name: &str, tell: impl FnOnce(Dialed) + Send + 'static) -> Result<(), String> {
        let at = self.address(name).ok_or("nobody has said where the broker is")?;
        let name = name.to_owned();
        let dial = move || {
            let outcome = connect(&at).map_err(|error| format!("cannot connect to {at}: {error}"));
            tell(Dialed { name, outcome });
        };
        Builder::new()
            .name("dialer".into())
            .spawn(dial)
            .map(drop)
            .map_err(|error| format!("cannot start a thread to connect with: {error}"))
    }
}

/// Connects to the first address that answers.
fn connect(at: &HostPort) -> io::Result<mio::net::TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in at.resolve()? {
        match connect_to(&address) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(address: &SocketAddr) -> io::Result<mio::net::TcpStream> {
    let stream = std::net::TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(mio::net::TcpStream::from_std(stream))
}
