//! Opening connections to brokers, which may take as long as a network is silent, and so not on a shard.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::Builder;
use std::time::Duration;

use rustls::ClientConnection;

use super::Dialed;
use super::tls::{BrokerLinkTls, shake_hands};
use crate::address::HostPort;
use crate::transport::Transport;

/// How long a broker may take to accept a connection, and again for the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a broker is, and whether TLS is spoken there.
#[derive(Clone, Debug)]
pub(crate) struct BrokerEndpoint {
    pub(crate) at: HostPort,
    pub(crate) tls: Option<BrokerLinkTls>,
}

/// Knows where brokers are and connects to them, one thread for each attempt: each broker has one at a time.
#[derive(Debug, Default)]
pub(crate) struct Dialer {
    places: Mutex<BTreeMap<String, BrokerEndpoint>>,
    hold: Mutex<Hold>,
    released: Condvar,
}

/// The brokers that are not connected to yet.
#[derive(Debug, Default)]
enum Hold {
    /// None.
    #[default]
    Nothing,
    /// All but the connections of dead orchestrators.
    All,
    /// These.
    Some(BTreeSet<String>),
}

impl Hold {
    fn holds(&self, name: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => !name.contains('@'),
            Self::Some(names) => names.contains(name),
        }
    }
}

/// Why a broker is not connected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("the broker's address is unknown")]
    NoAddress,
    #[error("cannot start a thread to connect with: {0}")]
    Thread(#[source] io::Error),
    #[error("cannot connect to {at}: {source}")]
    Connect { at: HostPort, source: io::Error },
}

impl Dialer {
    fn places(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, BrokerEndpoint>> {
        // A poisoned lock is fine: the map is consistent at every step.
        self.places.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Connects to no broker before [`Dialer::release`].
    pub(crate) fn held() -> Self {
        Self { hold: Mutex::new(Hold::All), ..Self::default() }
    }

    /// Connects to brokers from now on, except these.
    pub(crate) fn release(&self, but: BTreeSet<String>) {
        *self.hold() = if but.is_empty() { Hold::Nothing } else { Hold::Some(but) };
        self.released.notify_all();
    }

    fn hold(&self) -> std::sync::MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until a broker may be connected to.
    fn wait_for_release(&self, name: &str) {
        let waited = self.released.wait_while(self.hold(), |hold| hold.holds(name));
        drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    /// Notes where a broker is.
    pub(crate) fn know(&self, name: &str, place: BrokerEndpoint) {
        self.places().insert(name.to_owned(), place);
    }

    /// Forgets a broker.
    pub(crate) fn forget(&self, name: &str) {
        self.places().remove(name);
    }

    /// Where a broker is.
    pub(crate) fn place(&self, name: &str) -> Option<BrokerEndpoint> {
        self.places().get(name).cloned()
    }

    /// Connects to a broker and reports the outcome.
    pub(crate) fn dial(
        self: &Arc<Self>,
        name: &str,
        tell: impl FnOnce(Dialed) + Send + 'static,
    ) -> Result<(), DialError> {
        let place = self.place(name).ok_or(DialError::NoAddress)?;
        let (name, dialer) = (name.to_owned(), Arc::clone(self));
        let dial = move || {
            dialer.wait_for_release(&name);
            let outcome = connect(&place).map_err(|source| DialError::Connect { at: place.at, source });
            tell(Dialed { name, outcome });
        };
        Builder::new().name("dialer".into()).spawn(dial).map(drop).map_err(DialError::Thread)
    }
}

/// Connects to the first address that answers.
fn connect(place: &BrokerEndpoint) -> io::Result<Transport> {
    let (stream, session) = connect_plainly(place, || Ok(CONNECT_TIMEOUT))?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    stream.set_nonblocking(true)?;
    let stream = mio::net::TcpStream::from_std(stream);
    Ok(match session {
        Some(session) => Transport::outbound(stream, *session),
        None => Transport::Tcp(stream),
    })
}

/// A connection that blocks, with TLS where that is spoken. `limit` is asked before each address, and again before its
/// handshake: how long that may take, or that there is no time left.
pub(super) fn connect_plainly(
    place: &BrokerEndpoint,
    limit: impl Fn() -> io::Result<Duration>,
) -> io::Result<(TcpStream, Option<Box<ClientConnection>>)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in place.at.resolve()? {
        match connect_to(&address, place, &limit) {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(
    address: &SocketAddr,
    place: &BrokerEndpoint,
    limit: &impl Fn() -> io::Result<Duration>,
) -> io::Result<(TcpStream, Option<Box<ClientConnection>>)> {
    let mut stream = TcpStream::connect_timeout(address, limit()?)?;
    stream.set_nodelay(true)?;
    let session = match &place.tls {
        Some(tls) => Some(Box::new(shake_hands(tls, &place.at.host, &mut stream, limit()?)?)),
        None => None,
    };
    Ok((stream, session))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::TcpListener;
    use std::sync::Arc;

    use rustls::crypto::ring::default_provider;
    use rustls::{ClientConfig, RootCertStore};

    use super::*;

    #[test]
    fn a_held_broker_is_dialed_when_it_is_released() {
        let dialer = Arc::new(Dialer::held());
        let nowhere = HostPort { host: "127.0.0.1".to_owned(), port: 0 };
        let (tell, heard) = std::sync::mpsc::channel();
        for name in ["a", "b", "a@dead"] {
            dialer.know(name, BrokerEndpoint { at: nowhere.clone(), tls: None });
            let tell = tell.clone();
            dialer.dial(name, move |dialed| tell.send(dialed.name).unwrap()).unwrap();
        }
        assert_eq!(heard.recv().unwrap(), "a@dead");
        dialer.release(["a".to_owned()].into());
        assert_eq!(heard.recv().unwrap(), "b");
        dialer.release(BTreeSet::new());
        assert_eq!(heard.recv().unwrap(), "a");
    }

    #[test]
    fn the_time_that_is_left_is_asked_for_before_each_step() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = HostPort { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        // The system accepts the connection, and no process answers the TLS handshake.
        let config =
            ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let tls = Some(BrokerLinkTls::new(Arc::new(config)));
        let asked = Cell::new(0);
        let limit = || {
            asked.set(asked.get() + 1);
            if asked.get() == 1 { Ok(CONNECT_TIMEOUT) } else { Err(io::Error::from(io::ErrorKind::TimedOut)) }
        };
        let error = connect_plainly(&BrokerEndpoint { at, tls }, limit).map(drop).unwrap_err();
        assert_eq!((error.kind(), asked.get()), (io::ErrorKind::TimedOut, 2));
    }
}
