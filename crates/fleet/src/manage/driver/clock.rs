//! The manager's clock: it begins with the time of day and then runs on the monotonic clock, so that a change of the
//! machine's clock neither ends nor extends a limit.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::manage::Moment;

/// The time of day at a start, and the time since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Moment,
    at: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Moment(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)), at: Instant::now() }
    }

    /// The time of day, without changes of the clock since the start.
    pub(super) fn now(self) -> Moment {
        let passed = u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        Moment(self.began.0.saturating_add(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_ignores_changes_of_the_machine_clock() {
        let hour = std::time::Duration::from_secs(3600);
        let Some(at) = Instant::now().checked_sub(hour) else { return };
        let clock = Clock { began: Moment(5), at };
        let now = clock.now().0;
        assert!((5 + 3_600_000..5 + 7_200_000).contains(&now), "{now}");
    }
}
