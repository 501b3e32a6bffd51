//! The time to which certificates are compared.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(since).unwrap_or(i64::MAX)
}
