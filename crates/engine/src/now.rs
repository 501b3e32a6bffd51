//! Time as the engine sees it: handed in with every call, never read.

/// A point on the monotonic clock in milliseconds since an arbitrary start. Deadlines live on this clock, so that a step
/// of the wall clock neither revives nor kills a message or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// A deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// This moment plus a number of milliseconds, saturating at [`Millis::NEVER`].
    #[inline]
    #[must_use]
    pub fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// This moment plus a number of seconds, saturating at [`Millis::NEVER`].
    #[inline]
    #[must_use]
    pub fn plus_seconds(self, seconds: u32) -> Self {
        self.plus(u64::from(seconds) * 1000)
    }

    /// Milliseconds from `earlier` to this moment, or 0 when it lies ahead.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The present: one reading of both clocks for a whole turn of the event loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time; every deadline is on this clock.
    pub monotonic: Millis,
    /// Milliseconds since the Unix epoch; used for what leaves the process: exported deadlines and `$SYS` times.
    pub unix: u64,
}

impl Now {
    /// Turns a monotonic deadline into an absolute one that outlives the process ([`Millis::NEVER`] stays never).
    pub fn to_unix(self, deadline: Millis) -> u64 {
        if deadline == Millis::NEVER {
            return u64::MAX;
        }
        (self.unix + deadline.0).saturating_sub(self.monotonic.0)
    }

    /// The monotonic deadline of an absolute time, which may have passed while the process was away.
    pub fn from_unix(self, unix: u64) -> Millis {
        if unix == u64::MAX {
            return Millis::NEVER;
        }
        Millis((self.monotonic.0 + unix).saturating_sub(self.unix))
    }
}
