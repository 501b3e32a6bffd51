//! Counts as real numbers.

/// A count as a real number. Counts here stay below 2^53, where this is exact.
#[expect(clippy::cast_precision_loss, reason = "counts of nodes, bytes and microseconds stay below 2^53")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// A finite number that is not negative as a count, cut off; anything else is 0.
#[expect(clippy::cast_sign_loss, reason = "negative numbers become 0 first, and the cast saturates")]
pub(crate) fn whole(number: f64) -> u64 {
    if number.is_finite() { number.max(0.0) as u64 } else { 0 }
}
