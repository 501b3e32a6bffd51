//! Whether the servers can be reached.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The state of the connection to the servers of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Never reached so far.
    Connecting {
        /// Since when.
        since: Instant,
    },
    /// Reached. An embedded bus always is.
    Connected {
        /// Since when.
        since: Instant,
        /// How often it was lost before.
        lost: u64,
    },
    /// Lost; it is tried again and again.
    Lost {
        /// Since when.
        since: Instant,
    },
}

impl Connection {
    /// Whether the servers can be reached.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected { .. })
    }
}

/// A callback that is called at each change of a connection. It should only hand the news over.
pub type Observer = Arc<dyn Fn(Connection) + Send + Sync>;

/// The state of a connection, for a backend to change.
pub(crate) struct Link {
    state: Mutex<(Connection, u64)>,
    /// The last report about unreachable servers.
    failure: Mutex<Option<String>>,
    /// Their addresses, without the user.
    servers: String,
    observer: Observer,
}

impl Link {
    pub(crate) fn new(servers: String, observer: Observer) -> Arc<Self> {
        let state = Mutex::new((Connection::Connecting { since: Instant::now() }, 0));
        Arc::new(Self { state, failure: Mutex::default(), servers, observer })
    }

    pub(crate) fn state(&self) -> Connection {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// The addresses of the servers.
    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An attempt to reach the servers failed.
    pub(crate) fn failed(&self, why: String) {
        if !self.state().is_connected() {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    }

    pub(crate) fn connected(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.change(|lost| Connection::Connected { since: Instant::now(), lost }, true);
    }

    pub(crate) fn lost(&self) {
        self.change(|_| Connection::Lost { since: Instant::now() }, false);
    }

    fn change(&self, make: impl FnOnce(u64) -> Connection, connected: bool) {
        let next = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            // A connection that was never made cannot be lost: it keeps connecting.
            if state.0.is_connected() == connected {
                return;
            }
            if !connected {
                state.1 += 1;
            }
            state.0 = make(state.1);
            state.0
        };
        if next.is_connected() {
            tracing::info!(servers = self.servers, "the bus is connected");
        } else {
            tracing::warn!(servers = self.servers, "the bus is unreachable; appends wait");
        }
        (self.observer)(next);
    }
}
