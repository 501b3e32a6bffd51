//! A clock for limits: it begins with the time of day and then runs on the monotonic clock, so that a change of the
//! machine's clock neither ends nor extends a limit.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The time of day at a start, and the time since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began_ms: u64,
    at: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), at: Instant::now() }
    }

    /// The time of day in milliseconds since 1970, without changes of the machine's clock since the start.
    pub(crate) fn now_ms(self) -> u64 {
        let passed = u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.began_ms.saturating_add(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_ignores_changes_of_the_machine_clock() {
        let hour = std::time::Duration::from_secs(3600);
        let Some(at) = Instant::now().checked_sub(hour) else { return };
        let clock = Clock { began_ms: 5, at };
        let now = clock.now_ms();
        assert!((5 + 3_600_000..5 + 7_200_000).contains(&now), "{now}");
    }
}
