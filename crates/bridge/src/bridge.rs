//! A bridge that runs: its two ends, each on a thread.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Instant;

use tidegate_client::net::{Driver, Waker};
use tidegate_client::{TopicError, TopicNameBuf};

use crate::end::{Across, End, Shared, options};
use crate::settings::{BridgeSettings, EndSettings};
use crate::status::{BridgeStatus, Side};

/// Why a bridge cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The system has no sockets or threads left.
    #[error("the bridge `{name}` cannot be started: {source}")]
    System {
        /// The bridge.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its name makes no topic.
    #[error("the bridge `{name}` cannot have this name: the topic of its state {source}")]
    Name {
        /// The bridge.
        name: String,
        /// The fault of the topic.
        source: TopicError,
    },
}

/// A running bridge. It stops when it is asked to, or dropped.
#[derive(Debug)]
pub struct Bridge {
    name: String,
    status: Arc<BridgeStatus>,
    stop: Arc<AtomicBool>,
    wakers: [Waker; 2],
    /// Nothing ever comes; it ends when both threads have ended.
    ended: Receiver<Infallible>,
}

impl Bridge {
    /// Starts both ends. They connect by themselves, and again whenever they have to.
    ///
    /// # Errors
    /// When the system has no sockets or threads left, or the name makes no topic.
    pub fn start(settings: &BridgeSettings) -> Result<Self, BridgeError> {
        let failed = |source| BridgeError::System { name: settings.name.clone(), source };
        let driver = |end: &EndSettings| {
            Driver::new(options(settings, end), end.address.clone(), end.socket.clone()).map_err(failed)
        };
        let (local, remote) = (driver(&settings.local)?, driver(&settings.remote)?);
        let (to_local, for_local) = mpsc::channel();
        let (to_remote, for_remote) = mpsc::channel();
        let (running, ended) = mpsc::channel();
        let shared = Shared {
            name: settings.name.as_str().into(),
            routes: Arc::new(settings.routes.clone()),
            status: Arc::default(),
            stop: Arc::default(),
            running,
            state_topic: state_topic(settings)?,
        };
        let wakers = [local.waker(), remote.waker()];
        let [wakes_local, wakes_remote] = wakers.clone();
        let across = Across { orders: to_remote, waker: wakes_remote };
        let local = End::new(Side::Local, &settings.local, local, for_local, across, &shared);
        let across = Across { orders: to_local, waker: wakes_local };
        let remote = End::new(Side::Remote, &settings.remote, remote, for_remote, across, &shared);
        // Dropped by an error below, it stops the end that has started.
        let Shared { status, stop, .. } = shared;
        let bridge = Self { name: settings.name.clone(), status, stop, wakers, ended };
        for (end, side) in [(local, Side::Local), (remote, Side::Remote)] {
            let thread = thread::Builder::new().name(format!("bridge-{}", side.name()));
            thread.spawn(move || end.run()).map_err(failed)?;
        }
        Ok(bridge)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its numbers.
    pub fn status(&self) -> Arc<BridgeStatus> {
        Arc::clone(&self.status)
    }

    /// Disconnects both ends. Brokers keep the sessions, with the messages in flight.
    pub fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
        for waker in &self.wakers {
            // An end that cannot be woken is left behind.
            let _ = waker.wake();
        }
    }

    /// Whether both ends have stopped.
    pub fn has_stopped(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Waits until both ends have stopped, but not beyond `deadline`: an end that is connecting stops late.
    pub fn wait_until_stopped(&self, deadline: Instant) {
        // It ends as soon as both threads have.
        let _ = self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.ask_to_stop();
    }
}

fn state_topic(settings: &BridgeSettings) -> Result<Option<TopicNameBuf>, BridgeError> {
    if !settings.notifications {
        return Ok(None);
    }
    let topic = TopicNameBuf::new(format!("$SYS/broker/connection/{}/state", settings.name));
    topic.map(Some).map_err(|source| BridgeError::Name { name: settings.name.clone(), source })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::num::NonZeroU16;
    use std::time::Duration;

    use tidegate_client::net::{Address, SocketOptions};

    use super::*;
    use crate::Routes;

    /// Longest wait for an event: a test that gets there has failed.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn end(listener: &TcpListener) -> EndSettings {
        EndSettings {
            address: Address::Tcp { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() },
            socket: SocketOptions::default(),
            client_id: "c".into(),
            username: None,
            password: None,
            keep_alive: 60,
            version: None,
        }
    }

    #[test]
    fn a_dropped_bridge_stops_both_ends() {
        let [local, remote] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let settings = BridgeSettings {
            name: "cloud".into(),
            routes: Routes::new(vec!["t".parse().unwrap()]).unwrap(),
            local: end(&local),
            remote: end(&remote),
            window: NonZeroU16::MIN,
            session_expiry: 60,
            notifications: false,
        };
        let bridge = Bridge::start(&settings).unwrap();
        assert!(!bridge.has_stopped());
        let streams = [local, remote].map(|listener| listener.accept().unwrap().0);
        drop(bridge);
        for mut stream in streams {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
    }
}
