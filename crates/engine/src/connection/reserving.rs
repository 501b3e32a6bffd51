//! A PUBLISH that waits for room at other shards.

/// The reservation of the message that a publisher waits with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reserving {
    /// No room was asked for.
    #[default]
    Not,
    /// Other shards were asked under this number.
    Asked(u32),
    /// All have room, and keep it under this number at these shards, one bit each.
    Granted { number: u32, shards: u64 },
    /// A queue has no room.
    Refused,
}
