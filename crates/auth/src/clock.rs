//! The clock, as a trait that tests replace.

use std::fmt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Milliseconds since an unspecified moment. It never goes back.
    fn monotonic_ms(&self) -> u64;

    /// Milliseconds since 1970 (UTC), as far as the machine knows.
    fn unix_ms(&self) -> u64;
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that only moves when the test moves it.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct HandClock {
    ms: std::sync::atomic::AtomicU64,
}

#[cfg(test)]
impl HandClock {
    /// Its initial Unix time.
    pub(crate) const UNIX_START_MS: u64 = 1_700_000_000_000;

    pub(crate) fn advance(&self, ms: u64) {
        self.ms.fetch_add(ms, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(test)]
impl Clock for HandClock {
    fn monotonic_ms(&self) -> u64 {
        self.ms.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn unix_ms(&self) -> u64 {
        Self::UNIX_START_MS + self.monotonic_ms()
    }
}
