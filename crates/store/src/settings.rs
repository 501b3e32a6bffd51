//! Settings for opening a store.

use std::time::Duration;

/// When a batch counts as committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the `fdatasync` of the group it was written with: it survives power loss.
    Commit,
    /// As soon as it is written: it survives the end of the process, and power loss once it is older than `window`.
    Relaxed {
        /// Longest time between a write and its `fdatasync`.
        window: Duration,
    },
}

/// Limits and habits of a store. The defaults suit a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When a batch counts as committed.
    pub durability: Durability,
    /// Size at which a journal file is closed and the next one begun, bytes. A single larger batch makes a larger file.
    pub segment_bytes: u64,
    /// A merge begins when the closed journal files hold more than this and more than half the table, bytes; at the
    /// latest at half of `replay_max_bytes`.
    pub merge_min_bytes: u64,
    /// Memory in which a merge sorts the journal at once, at least a file of it, bytes. A larger journal is sorted in portions through files. Also the
    /// memory of the index that loads have of the journal, above which a merge begins or, where the closed files hold less
    /// than `merge_min_bytes` or than an eighth of the table, each load builds the index again.
    pub merge_memory_bytes: u64,
    /// Most journal that a start may have to replay, bytes, or as much as the table holds if that is more. From half of
    /// it on writing is slowed down so that merges keep up, and at the limit it waits for the merge, unless merges
    /// fail. At least four times `segment_bytes`.
    pub replay_max_bytes: u64,
    /// Time without a write after which the journal is merged before it reaches its threshold.
    pub checkpoint_after: Duration,
    /// Journal up to which that is not worth it, nor with less than an eighth of the table, bytes.
    pub checkpoint_min_bytes: u64,
    /// Bytes of all files above which [`Status::is_full`](crate::Status::is_full) is true. Writes are accepted for
    /// another `min_free_bytes`, so that entries can be deleted. 0 is no limit.
    pub max_bytes: u64,
    /// Free space of the file system below which [`Status::is_full`](crate::Status::is_full) says so, bytes.
    pub min_free_bytes: u64,
    /// Size of the reserve file, bytes. It gives a start and deletions space when another program has filled the disk.
    /// While a part of it is used, [`Status::is_full`](crate::Status::is_full) is true. The threads of a running store
    /// create it where `min_free_bytes` stay free beside it. 0 means no reserve.
    pub reserve_bytes: u64,
    /// Bytes handed in and not yet committed above which [`Status::is_full`](crate::Status::is_full) says so.
    pub max_pending_bytes: u64,
    /// Loads that may wait at once; one more is answered with [`ReadError::Busy`](crate::ReadError::Busy).
    pub max_waiting_loads: usize,
}

const MIB: u64 = 1024 * 1024;

impl Default for Settings {
    fn default() -> Self {
        Self {
            durability: Durability::Commit,
            segment_bytes: 32 * MIB,
            merge_min_bytes: 64 * MIB,
            merge_memory_bytes: 256 * MIB,
            replay_max_bytes: 512 * MIB,
            checkpoint_after: Duration::from_secs(5),
            checkpoint_min_bytes: 4 * MIB,
            max_bytes: 0,
            min_free_bytes: 64 * MIB,
            reserve_bytes: 64 * MIB,
            max_pending_bytes: 256 * MIB,
            max_waiting_loads: 65_536,
        }
    }
}
