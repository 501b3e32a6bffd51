//! Times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock, Unix milliseconds.
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The last millisecond of the year 9999, since 1970.
pub(crate) const LAST_MILLISECOND: u64 = 253_402_300_799_999;

/// Unix milliseconds as `2026-01-02T03:04:05.678Z`.
pub fn rfc3339(millis: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis.min(LAST_MILLISECOND))).to_string()
}
