//! The counts of a pipeline.

/// Counts of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Taken from the broker.
    pub taken: u64,
    /// Confirmed by all sinks.
    pub delivered: u64,
    /// Confirmed by single sinks: a message with two sinks counts twice. Dead letters do not count.
    pub sink_deliveries: u64,
    /// Left out by a filter or by WHERE.
    pub filtered: u64,
    /// Not delivered: steps failed, or a sink refused. They are dead letters, where there is a place for these.
    pub failed: u64,
    /// The failed messages that became dead letters.
    pub dead_letters: u64,
    /// The failed messages that had passed [`MAX_HOPS`](crate::MAX_HOPS) pipelines.
    pub looped: u64,
    /// Batches that sinks have answered.
    pub batches: u64,
    /// The time that these took, milliseconds.
    pub batch_ms: u64,
    /// Batches that were tried once more.
    pub retried: u64,
    /// Windows that ended before their time, as there was no room for more messages.
    pub ended_early: u64,
    /// Messages of QoS 0 for which there was no room, and messages that the source has dropped before they were taken.
    pub dropped: u64,
}
