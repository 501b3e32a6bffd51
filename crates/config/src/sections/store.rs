//! The section `[store]`: the data that outlives the process.

use std::time::Duration;

use crate::key::{Key, Section, SectionKeys, section};
use crate::value::{Kind, Problem, Range, Raw, Value, words};
use tidegate_units::size::{Bytes, MIB, TIB};

use super::SECOND;

words! {
    /// The time from which state counts as stored.
    pub enum StoreDurability {
        Commit => "commit", "an acknowledged message is on the disk and survives power loss";
        Relaxed => "relaxed", "it survives the end of the process at once, and power loss after `store.window`";
        Memory => "memory", "nothing outlives the process";
    }
}

section! {
    /// The directory of sessions, their pending messages, and retained messages. Without a directory they live as long as the
    /// process.
    "store" => Store, STORE {
        /// The directory; it is made if it is not there, for this user alone. One broker at a time.
        directory: Option<String> = None, in Kind::Text { max_len: 4096 }, flag "--data";
        /// The time from which state counts as stored.
        durability: StoreDurability = StoreDurability::Commit, in Kind::OneOf(<StoreDurability as crate::value::Words>::WORDS);
        /// With `relaxed`, the longest time until something is on the disk.
        window: Duration = Duration::from_secs(1), in Kind::Duration(Range::of(10, 60 * SECOND));
        /// Bytes of all files above which new messages and sessions are refused, while clients can still fetch their
        /// queued messages.
        max_bytes: Bytes = Bytes(0), in Kind::Size(Range::of(64 * MIB, 1024 * TIB).or_zero("as much as the disk has"));
        /// Free space of the disk below which the same happens.
        min_free: Bytes = Bytes(64 * MIB), in Kind::Size(Range::of(MIB, TIB));
        /// Size of the file `RESERVE` in the directory. When something else has filled the disk, a start, clients that fetch
        /// and deletions use its room; new messages and sessions are refused until it is whole again. It is made where
        /// `min_free` stays free beside it.
        reserve: Bytes = Bytes(64 * MIB), in Kind::Size(Range::of(MIB, 64 * 1024 * MIB).or_zero("no reserve"));
        /// Size at which a file of the journal is closed and the next one begun; at most half of `merge_memory`.
        segment_size: Bytes = Bytes(32 * MIB), in Kind::Size(Range::of(MIB, 1024 * MIB));
        /// Journal above which it is merged into the table, or half the size of the table if that is more.
        merge_at: Bytes = Bytes(64 * MIB), in Kind::Size(Range::of(4 * MIB, 64 * 1024 * MIB));
        /// Most of the journal that a start may have to replay, or as much as the table holds if that is more, and at
        /// least four files. Merges begin at half of it at the latest; from there on writing slows down, and at the
        /// limit it waits for the merge.
        replay_max: Bytes = Bytes(512 * MIB), in Kind::Size(Range::of(8 * MIB, 64 * 1024 * MIB));
        /// Memory in which a merge sorts the journal at once; more goes through files. Beside `limits.memory_ceiling`.
        merge_memory: Bytes = Bytes(0), in Kind::Size(Range::of(4 * MIB, 64 * 1024 * MIB).or_zero("a sixteenth of the memory of the machine or the container, at most 256 MiB"));
        /// Bytes that may wait to be written; above it the store counts as full. Beside `limits.memory_ceiling`.
        pending_memory: Bytes = Bytes(0), in Kind::Size(Range::of(4 * MIB, 64 * 1024 * MIB).or_zero("a sixteenth of the memory of the machine or the container, at most 256 MiB"));
        /// Time without a write after which even a small journal is merged, so that the next start replays nothing.
        checkpoint_after: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(100, 3600 * SECOND));
    }
}
