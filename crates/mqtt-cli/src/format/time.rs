//! Times as text.

use jiff::Zoned;

/// The time by a conversion that is known to work.
pub(super) fn strftime(conversion: &str, now: &Zoned) -> String {
    jiff::fmt::strtime::format(conversion, now).unwrap_or_default()
}
