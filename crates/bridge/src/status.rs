//! The status of a bridge for other parts of the process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One of the two brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This broker.
    Local,
    /// The other one.
    Remote,
}

impl Side {
    /// The side across.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Local => Self::Remote,
            Self::Remote => Self::Local,
        }
    }

    /// Its name in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// The numbers of a bridge; they may be read at any time, by anybody.
#[derive(Debug, Default)]
pub struct BridgeStatus {
    local: EndStatus,
    remote: EndStatus,
}

/// One end's.
#[derive(Debug, Default)]
struct EndStatus {
    connected: AtomicBool,
    carried: AtomicU64,
    dropped: AtomicU64,
    looped: AtomicU64,
    beyond: AtomicU64,
}

impl BridgeStatus {
    /// Whether the broker of this side is reached.
    pub fn is_connected(&self, side: Side) -> bool {
        self.end(side).connected.load(Ordering::Relaxed)
    }

    /// Messages that the broker of this side has taken: at QoS 0 the sent ones.
    pub fn carried_to(&self, side: Side) -> u64 {
        self.end(side).carried.load(Ordering::Relaxed)
    }

    /// Messages for the broker of this side that it has refused, that it can never take, or of QoS 0 while it was away.
    pub fn dropped_to(&self, side: Side) -> u64 {
        self.end(side).dropped.load(Ordering::Relaxed)
    }

    /// Messages for the broker of this side that were not carried, because a loop of bridges had brought them back.
    pub fn looped_to(&self, side: Side) -> u64 {
        self.end(side).looped.load(Ordering::Relaxed)
    }

    /// Messages that the broker of this side has sent beyond the window, and that were taken nevertheless.
    pub fn beyond_window_from(&self, side: Side) -> u64 {
        self.end(side).beyond.load(Ordering::Relaxed)
    }

    pub(crate) fn note_connected(&self, side: Side, connected: bool) {
        self.end(side).connected.store(connected, Ordering::Relaxed);
    }

    pub(crate) fn note_carried(&self, to: Side) {
        self.end(to).carried.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_dropped(&self, to: Side) {
        self.end(to).dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_looped(&self, to: Side) {
        self.end(to).looped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_beyond_window(&self, from: Side) {
        self.end(from).beyond.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self, side: Side) -> &EndStatus {
        match side {
            Side::Local => &self.local,
            Side::Remote => &self.remote,
        }
    }
}
