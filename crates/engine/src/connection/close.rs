//! How connections and sessions end: reasons, expiry, and undelivered messages.

/// The clients that a drain disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// MQTT 5 clients: they receive the reason and another server.
    Told,
    /// Everyone.
    Everyone,
}
