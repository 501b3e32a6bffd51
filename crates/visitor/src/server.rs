//! The thread of a server, and its sockets.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;

/// Threads for questions to shards; further ones wait.
const WORKERS: usize = 4;

/// Why a protocol is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {protocol}: {source}")]
    Bind {
        /// The protocol.
        protocol: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The system has no threads or files left.
    #[error("cannot start the thread for {protocol}: {source}")]
    System {
        /// The protocol.
        protocol: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Binds the addresses of a listener: with port 0 all get the same free port.
///
/// # Errors
/// If an address is taken.
pub fn bind_all<S>(
    protocol: &'static str,
    addresses: &[SocketAddr],
    bind: impl Fn(SocketAddr) -> io::Result<(S, SocketAddr)>,
) -> Result<Vec<(S, SocketAddr)>, ServeError> {
    let mut port = 0;
    let bound = addresses.iter().map(|address| {
        let mut address = *address;
        if address.port() == 0 {
            address.set_port(port);
        }
        let (socket, bound) = bind(address).map_err(|source| ServeError::Bind { protocol, address, source })?;
        port = bound.port();
        Ok((socket, bound))
    });
    bound.collect()
}

/// A thread that serves all listeners of a protocol.
#[derive(Debug)]
pub struct ServerThread {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
    protocol: &'static str,
}

impl ServerThread {
    /// Starts it with a runtime for one thread. `serve` gets the order to stop.
    ///
    /// # Errors
    /// If the system has nothing left.
    pub fn start<F: Future<Output = ()>>(
        protocol: &'static str,
        serve: impl FnOnce(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> Result<Self, ServeError> {
        let failed = |source| ServeError::System { protocol, source };
        let (stop, stopped) = watch::channel(false);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(WORKERS).build().map_err(failed)?;
        let work = move || {
            runtime.block_on(serve(stopped));
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(protocol.to_lowercase()).spawn(work).map_err(failed)?;
        Ok(Self { stop, thread, protocol })
    }

    /// Orders it to stop, and waits for its end, within `grace`.
    pub fn stop(self, grace: Duration) {
        let Self { stop, thread, protocol } = self;
        // A thread that has ended has nothing to stop.
        let _ = stop.send(true);
        let (ended, end) = std::sync::mpsc::channel::<Infallible>();
        let waiting = thread::Builder::new().name(format!("{}-end", protocol.to_lowercase())).spawn(move || {
            // Its panic has ended the process already.
            let _ = thread.join();
            drop(ended);
        });
        if waiting.is_ok() {
            let _ = end.recv_timeout(grace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_listener_get_one_free_port() {
        let addresses = ["127.0.0.1:0", "[::1]:0", "127.0.0.1:7"].map(|text| text.parse::<SocketAddr>().unwrap());
        let bind = |address: SocketAddr| {
            let port = if address.port() == 0 { 4_711 } else { address.port() };
            if port == 7 { Err(io::ErrorKind::AddrInUse.into()) } else { Ok(((), SocketAddr::new(address.ip(), port))) }
        };
        let bound = bind_all("CoAP", &addresses[..2], bind).unwrap();
        assert!(bound.iter().all(|((), address)| address.port() == 4_711));
        let error = bind_all("CoAP", &addresses, bind).unwrap_err();
        assert!(error.to_string().starts_with("cannot listen on 127.0.0.1:7 for CoAP: "), "{error}");
    }

    #[test]
    fn a_stop_waits_for_the_end_of_the_work() {
        let (done, work) = std::sync::mpsc::channel();
        let server = ServerThread::start("HTTP", move |mut stop| async move {
            let _ = stop.changed().await;
            done.send(()).unwrap();
        });
        server.unwrap().stop(Duration::from_secs(120));
        assert_eq!(work.try_recv(), Ok(()));
    }
}
