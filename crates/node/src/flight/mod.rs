//! The flight recorder: what happened to clients, connections and messages lately, for `tidegate why`.
//!
//! Each shard writes into a ring of its own, without a lock. Beside the ring the last events of each client and address
//! are kept, so that a busy client does not push another's history out. Everything is bounded, in number and in bytes.

mod event;
mod recorder;
#[cfg(test)]
mod tests;

pub use event::{FlightEvent, FlightKind, FlightSubject};
pub(crate) use recorder::Recorder;

/// Longest client id, topic and detail that an event keeps, bytes; what is longer is cut off.
pub const MAX_FLIGHT_TEXT: usize = 512;

/// How much a shard remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightSettings {
    /// Events of each shard; the oldest makes room. 0 records nothing.
    pub entries: u32,
    /// Clients and addresses of each shard whose last events are kept beside that; the one that was heard of longest
    /// ago makes room.
    pub subjects: u32,
    /// Last events kept of each of them.
    pub entries_per_subject: u32,
    /// Events of one kind (the life of connections; what happens to messages) recorded per second for one client or
    /// address; further ones are only counted.
    pub per_second: u32,
}

impl Default for FlightSettings {
    fn default() -> Self {
        Self { entries: 4096, subjects: 1024, entries_per_subject: 8, per_second: 5 }
    }
}

/// What a recorder has done; numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlightCounters {
    /// Events recorded.
    pub recorded: u64,
    /// Events that were only counted, since there were too many of their kind in a second.
    pub suppressed: u64,
}

/// What a recorder knows about a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightAnswer {
    /// Events, oldest first.
    pub events: Vec<FlightEvent>,
    /// Events since the last one recorded that were only counted.
    pub suppressed: u64,
}

impl FlightAnswer {
    /// Adds what another shard knows.
    pub(crate) fn merge(&mut self, other: Self) {
        self.events.extend(other.events);
        self.events.sort_by_key(|event| event.at);
        self.suppressed += other.suppressed;
    }
}
