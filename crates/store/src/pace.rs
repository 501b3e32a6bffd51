//! Limits of the journal: when it is merged, when writes slow down so that merges keep up, and when an idle store is
//! merged. Pure, so that the policy can be read and tested in one place.

use std::time::Duration;

use crate::Settings;

/// Longest pause before a group while the journal is between half of the replay limit and all of it.
const LONGEST_SLOWING: Duration = Duration::from_millis(50);
/// How often a writer that waits for a merge looks whether it is over.
const WAITING: Duration = Duration::from_millis(10);
/// A merge rewrites the table. One for another purpose than the size of the journal is worth it when the journal is at
/// least this part of the table.
const WORTHWHILE_PART: u64 = 8;

/// Whether the next group may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// At once.
    Go,
    /// After a pause.
    Slow(Duration),
    /// Not before a merge has given room; to be asked again after a while.
    Wait(Duration),
}

/// Most bytes of journal that a start has to replay: the setting, or the size of the table if that is more, since a
/// start reads the table anyway.
pub(crate) fn replay_limit(settings: &Settings, table_bytes: u64) -> u64 {
    // Less than a few files cannot be kept to: only closed files are merged.
    settings.replay_max_bytes.max(settings.segment_bytes.saturating_mul(4)).max(table_bytes)
}

/// Bytes of closed files above which a merge is wanted.
pub(crate) fn merge_threshold(settings: &Settings, table_bytes: u64, is_full: bool) -> u64 {
    let usual = settings.merge_min_bytes.max(table_bytes / 2).min(replay_limit(settings, table_bytes) / 2);
    if is_full { usual.min(settings.segment_bytes.max(table_bytes / 8)) } else { usual }
}

/// How fast groups may be written with so much journal. Failing merges slow no writer down: the journal then grows, as
/// it does while the disk has no space for a table, and the log reports it.
pub(crate) fn pace(settings: &Settings, journal_bytes: u64, table_bytes: u64, merges_fail: bool) -> Pace {
    let limit = replay_limit(settings, table_bytes);
    let half = limit / 2;
    if merges_fail || journal_bytes <= half {
        return Pace::Go;
    }
    if journal_bytes >= limit {
        return Pace::Wait(WAITING);
    }
    let permille = u32::try_from((journal_bytes - half).saturating_mul(1000) / (limit - half)).unwrap_or(1000);
    Pace::Slow(LONGEST_SLOWING * permille / 1000)
}

/// Whether an idle store should be merged, so that the next start has little to replay.
pub(crate) fn wants_checkpoint(settings: &Settings, journal_bytes: u64, table_bytes: u64) -> bool {
    journal_bytes > settings.checkpoint_min_bytes.max(table_bytes / WORTHWHILE_PART)
}

/// True if a merge of this number of closed files is worth its work, since the index of loads takes too much memory.
pub(crate) fn is_worth_merging(settings: &Settings, closed_bytes: u64, table_bytes: u64) -> bool {
    closed_bytes > 0 && closed_bytes >= settings.merge_min_bytes.max(table_bytes / WORTHWHILE_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_merge_starts_long_before_the_replay_limit() {
        let settings = Settings::default();
        assert_eq!(merge_threshold(&settings, 0, false), settings.merge_min_bytes);
        let large = Settings { merge_min_bytes: 64 * 1024 * MIB, ..settings.clone() };
        assert_eq!(merge_threshold(&large, 0, false), large.replay_max_bytes / 2);
        for table in [0, MIB, 512 * MIB, 4096 * MIB] {
            for settings in [&settings, &large] {
                assert!(merge_threshold(settings, table, false) <= replay_limit(settings, table) / 2);
                assert!(merge_threshold(settings, table, true) <= merge_threshold(settings, table, false));
            }
        }
    }

    #[test]
    fn writes_slow_down_from_half_the_limit_and_stop_at_it() {
        let settings = Settings { replay_max_bytes: 400 * MIB, ..Settings::default() };
        let at = |journal| pace(&settings, journal * MIB, 0, false);
        assert_eq!(at(0), Pace::Go);
        assert_eq!(at(200), Pace::Go);
        assert_eq!(at(300), Pace::Slow(LONGEST_SLOWING / 2));
        assert_eq!(at(400), Pace::Wait(WAITING));
        assert_eq!(at(4_000), Pace::Wait(WAITING));
        let large_table = pace(&settings, 400 * MIB, 1_000 * MIB, false);
        assert_eq!(large_table, Pace::Go, "a start reads the table anyway");
    }

    #[test]
    fn failing_merges_slow_no_writer_down() {
        let settings = Settings::default();
        assert_eq!(pace(&settings, u64::MAX, 0, true), Pace::Go);
    }

    #[test]
    fn a_small_journal_or_a_much_larger_table_is_left_alone() {
        let settings = Settings { checkpoint_min_bytes: 4 * MIB, ..Settings::default() };
        assert!(!wants_checkpoint(&settings, 4 * MIB, 0));
        assert!(wants_checkpoint(&settings, 5 * MIB, 0));
        assert!(!wants_checkpoint(&settings, 5 * MIB, 1_000 * MIB));
        assert!(wants_checkpoint(&settings, 126 * MIB, 1_000 * MIB));
    }

    #[test]
    fn a_large_index_merges_no_much_larger_table() {
        let settings = Settings { merge_min_bytes: 64 * MIB, ..Settings::default() };
        assert!(!is_worth_merging(&settings, 32 * MIB, 2_048 * MIB), "one closed file");
        assert!(!is_worth_merging(&settings, 255 * MIB, 2_048 * MIB));
        assert!(is_worth_merging(&settings, 256 * MIB, 2_048 * MIB));
        assert!(!is_worth_merging(&settings, 63 * MIB, 0));
        assert!(is_worth_merging(&settings, 64 * MIB, 0));
        assert!(!is_worth_merging(&Settings { merge_min_bytes: 0, ..settings }, 0, 0), "nothing is closed");
    }
}
