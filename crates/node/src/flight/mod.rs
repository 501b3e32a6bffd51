//! The flight recorder: recent events of clients, connections and messages, for `tidegate why`.
//!
//! Each shard writes into its own ring, without a lock. Beside the ring the last events of each client and address
//! are kept, so that a busy client does not push another's history out. Everything is bounded, in number and in bytes.

mod event;
mod recorder;
#[cfg(test)]
mod tests;

pub use event::{FlightEvent, FlightKind, FlightSubject};
pub(crate) use recorder::Recorder;

/// Longest client id, topic and detail that an event keeps, bytes; longer texts are cut off.
pub const MAX_FLIGHT_TEXT: usize = 512;

/// How much a shard remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightSettings {
    /// Events of each shard; the oldest is evicted. 0 disables the recorder.
    pub entries: u32,
    /// Clients and addresses of each shard whose last events are kept in addition; the one without events for longest
    /// is evicted.
    pub subjects: u32,
    /// Last events kept of each of them.
    pub entries_per_subject: u32,
    /// Events of one kind (the life of connections, or messages) recorded per second for one client or address; further
    /// ones are only counted.
    pub per_second: u32,
}

impl Default for FlightSettings {
    fn default() -> Self {
        Self { entries: 4096, subjects: 1024, entries_per_subject: 8, per_second: 5 }
    }
}

tidegate_engine::summed! {
    /// Counters of a recorder; they only grow.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FlightCounters {
        /// Events recorded.
        pub recorded: u64,
        /// Events that were only counted, since there were too many of their kind in a second.
        pub suppressed: u64,
    }
}

/// The events of a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightAnswer {
    /// Events, oldest first.
    pub events: Vec<FlightEvent>,
    /// Events since the last one recorded that were only counted.
    pub suppressed: u64,
}

impl FlightAnswer {
    /// Adds the events of another shard.
    pub(crate) fn merge(&mut self, other: Self) {
        self.events.extend(other.events);
        self.events.sort_by_key(|event| event.at);
        self.suppressed += other.suppressed;
    }
}
