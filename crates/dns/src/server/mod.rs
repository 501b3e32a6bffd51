//! The server: sockets, and a thread for them.
//!
//! It is a small server of our own on tokio, with `hickory-proto` for the wire, and not `hickory-server`. Every answer
//! is computed on demand, so that server's catalog of records would be empty. It also accepts any number of TCP
//! connections, any length of query and any number of queries of one network, and depends on a resolver's crates.

mod tcp;
mod udp;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_panics::contain;
use tokio::sync::oneshot;

use crate::counters::Counters;
use crate::error::{MAX_LISTENERS, StartError};
use crate::settings::{Limits, Settings};
use crate::wire::{Contents, Responder};
use crate::zone::Zone;

/// Attempts to find a port that is free for UDP and TCP.
const PORT_ATTEMPTS: usize = 16;
/// Pause after the system refused to hand over a packet or connection, so that a fault that lasts does not take the
/// whole core.
const FAULT_PAUSE: Duration = Duration::from_millis(100);

/// A server that answers, on its own thread, until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    zone: Zone,
    counters: Arc<Counters>,
    addresses: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Binds its addresses and begins to answer. The zone has no endpoints yet: until [`Zone::set_endpoints`], queries
    /// for one get SERVFAIL.
    ///
    /// # Errors
    /// When an address is taken or not this machine's, or a setting cannot be met.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        check(settings)?;
        let bound = settings.listen.iter().map(|address| bind(*address)).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<SocketAddr> = bound.iter().map(|(address, ..)| *address).collect();
        let seed = settings.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let contents = Contents::new(settings, &addresses, seed, serial_of(SystemTime::now()))?;
        let responder = Arc::new(Responder::new(contents, &settings.limits, Instant::now()));
        let (zone, counters) = (responder.contents().zone().clone(), Arc::clone(responder.counters()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let sockets = {
            let _inside = runtime.enter();
            let within =
                |(_, udp, tcp)| Ok((tokio::net::UdpSocket::from_std(udp)?, tokio::net::TcpListener::from_std(tcp)?));
            bound.into_iter().map(within).collect::<io::Result<Vec<_>>>()?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let limits = settings.limits;
        let thread = thread::Builder::new().name("dns".to_owned()).spawn(move || {
            runtime.block_on(async {
                serve(sockets, &responder, limits);
                // An error is the end, too: the server was dropped.
                let _ = stopped.await;
            });
        })?;
        Ok(Self { zone, counters, addresses, stop: Some(stop), thread: Some(thread) })
    }

    /// The handle by which endpoints are set. It outlives the server, without effect.
    pub fn zone(&self) -> Zone {
        self.zone.clone()
    }

    /// The addresses it listens on, with the ports that were chosen, in the order of the settings.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Its counters since the start.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Closes its sockets and ends its thread.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the DNS thread panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts the tasks of all sockets; they end with the runtime.
fn serve(sockets: Vec<(tokio::net::UdpSocket, tokio::net::TcpListener)>, responder: &Arc<Responder>, limits: Limits) {
    let places = tcp::ConnectionLimit::new(&limits);
    for (socket, listener) in sockets {
        let for_datagrams = Arc::clone(responder);
        tokio::spawn(udp::serve(socket, for_datagrams));
        tokio::spawn(tcp::serve(listener, Arc::clone(responder), places.clone(), limits));
    }
}

/// The answer to a query. No packet is known to make the decoder panic; if there is one, it must not end the service
/// for all others.
async fn answered<T>(ask: impl FnOnce() -> Option<T>) -> Option<T> {
    match contain(ask) {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(%error, "a DNS query was not answered; please report it");
            tokio::time::sleep(FAULT_PAUSE).await;
            None
        }
    }
}

fn check(settings: &Settings) -> Result<(), StartError> {
    if !(1..=MAX_LISTENERS).contains(&settings.listen.len()) {
        return Err(StartError::Listeners(settings.listen.len()));
    }
    let Limits { burst, tcp_connections, tcp_connections_per_network, tcp_idle, tcp_life, .. } = settings.limits;
    let bounds = [
        ("burst", burst == 0),
        ("tcp_connections", tcp_connections == 0),
        ("tcp_connections_per_network", tcp_connections_per_network == 0),
        ("tcp_idle", tcp_idle.is_zero()),
        ("tcp_life", tcp_life.is_zero()),
    ];
    bounds.into_iter().find(|(_, none)| *none).map_or(Ok(()), |(name, _)| Err(StartError::Limit(name)))
}

/// Takes an address for UDP and TCP, the same port for both.
fn bind(address: SocketAddr) -> Result<(SocketAddr, UdpSocket, TcpListener), StartError> {
    let attempt = || -> io::Result<_> {
        let tcp = TcpListener::bind(address)?;
        let address = tcp.local_addr()?;
        let udp = UdpSocket::bind(address)?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        Ok((address, udp, tcp))
    };
    let mut bound = attempt();
    for _ in 1..PORT_ATTEMPTS {
        // A port that the system chose for TCP may be in use for UDP.
        match &bound {
            Err(error) if address.port() == 0 && error.kind() == io::ErrorKind::AddrInUse => bound = attempt(),
            _ => break,
        }
    }
    bound.map_err(|source| StartError::Bind { address, source })
}

/// The serial number that a zone begins with: seconds of the clock, so that it grows over restarts (RFC 1912, section
/// 2.2).
fn serial_of(now: SystemTime) -> u32 {
    now.duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() as u32)
}

#[cfg(test)]
mod tests;
