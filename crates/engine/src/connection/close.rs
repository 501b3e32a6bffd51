//! How connections and sessions end: reasons, expiry, and what was still owed.

/// Whom a drain sends away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// Those who are told so and what to use instead: MQTT 5 clients.
    Told,
    /// Everyone.
    Everyone,
}
