//! `tidegate store stats`.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tidegate_engine::SHARES_WHILE_READ;
use tidegate_store::Disk;
use tidegate_store::inspect::{EntryKind, KindStats, StatsReport, stats};
use tidegate_terminal::{Exit, print_and_exit};

use tidegate_config::Config;
use tidegate_config::sections::Store;
use tidegate_process::physical_memory;

#[expect(clippy::needless_pass_by_value, reason = "each of these commands takes the disk that was opened for it")]
pub(crate) fn run(disk: Arc<dyn Disk>, directory: &Path) -> Exit {
    match stats(&disk, &kind_of) {
        Ok(found) => print_and_exit(&text(&found), Exit::Ok),
        Err(error) => {
            crate::report_of(directory, &error);
            Exit::Failure
        }
    }
}

fn kind_of(key: &[u8], value: &[u8]) -> EntryKind {
    let bans = || tidegate_node::is_stored_ban(key).then_some("bans");
    let name = tidegate_engine::name_of_kind(key).or_else(bans).unwrap_or("others, which this version does not know");
    EntryKind { name, stays_in_memory: tidegate_engine::stays_in_memory(key, value) }
}

fn text(found: &StatsReport) -> String {
    let mut text = String::new();
    for (name, bytes) in &found.files {
        let _ = writeln!(text, "{bytes:>14} bytes  {name}");
    }
    let _ = writeln!(text, "\n{:>14} {:>14} {:>14}", "entries", "key bytes", "value bytes");
    for (name, kind) in &found.kinds {
        let (entries, keys, values) = (kind.entries, kind.key_bytes, kind.value_bytes);
        let _ = writeln!(text, "{entries:>14} {keys:>14} {values:>14}  {name}");
    }
    let (live, dead, table) = (found.live(), found.dead(), found.table_entries);
    let (batches, operations) = (found.journal_batches, found.journal_operations);
    let _ = writeln!(text, "\n{live} live entries, {dead} that a merge drops");
    let _ = writeln!(text, "{table} entries in the table, {operations} operations of {batches} batches in the journal");
    let merge_memory = Store::default().memory(physical_memory::available()).0;
    let (reading, passing, kept) = (found.reading_bytes(merge_memory), passing_bytes(found), kept_bytes(found));
    let _ = writeln!(
        text,
        "a start takes about {} bytes of memory: {reading} to read the files, {passing} for the longest queue and for \
         messages that several sessions share while they are read, {kept} for the part in memory",
        reading + passing + kept
    );
    text
}

/// Bytes that an entry takes in memory beside its key and value, about.
const BYTES_PER_ENTRY: u64 = 200;
/// The kinds that stay in memory only with the beginning of each queue, or up to the last message that has to stay.
const OWED: &str = "messages owed";
const SHARED: &str = "messages that several sessions share";

fn bytes_of(kind: KindStats) -> u64 {
    kind.key_bytes + kind.value_bytes + kind.entries * BYTES_PER_ENTRY
}

fn kind_named(found: &StatsReport, name: &str) -> KindStats {
    found.kinds.iter().find(|(other, _)| *other == name).map_or_else(KindStats::default, |(_, kind)| *kind)
}

/// About how much memory is needed only while the store is read: the beginning of a session's queue, and the messages that
/// several sessions share, which are kept until all have come.
fn passing_bytes(found: &StatsReport) -> u64 {
    let queue = kind_named(found, OWED).longest_row;
    let most = Config::default().queue.memory_size.0.saturating_mul(SHARES_WHILE_READ);
    (queue.bytes + queue.entries * BYTES_PER_ENTRY).min(most) + bytes_of(kind_named(found, SHARED))
}

/// About how much of the store stays in memory with the default settings. Of a session's messages these are the
/// beginning, and messages that have to stay, such as messages of shared groups.
fn kept_bytes(found: &StatsReport) -> u64 {
    let owed = kind_named(found, OWED);
    let staying = owed.in_memory.bytes + owed.in_memory.entries * BYTES_PER_ENTRY;
    let free = (bytes_of(owed) + bytes_of(kind_named(found, SHARED))).saturating_sub(staying);
    let is_other = |(name, _): &&(&str, KindStats)| ![OWED, SHARED].contains(name);
    let others: u64 = found.kinds.iter().filter(is_other).map(|(_, kind)| bytes_of(*kind)).sum();
    let sessions = kind_named(found, "sessions").entries;
    others + staying + free.min(sessions.saturating_mul(Config::default().queue.memory_size.0))
}

#[cfg(test)]
mod tests {
    use tidegate_store::inspect::Row;

    use super::*;

    fn kind(entries: u64, value_bytes: u64) -> KindStats {
        KindStats { entries, value_bytes, ..KindStats::default() }
    }

    #[test]
    fn stats_say_how_much_memory_a_start_takes() {
        let mib = 1 << 20;
        let owed = KindStats { longest_row: Row { entries: 10, bytes: 700 * mib }, ..kind(0, 900 * mib) };
        let kinds = vec![
            ("sessions", kind(2, 0)),
            (OWED, owed),
            (SHARED, kind(0, 5 * mib)),
            ("retained messages", kind(0, mib)),
        ];
        let found = StatsReport { kinds, ..StatsReport::default() };
        // Of the messages, 256 KiB for each of two sessions.
        assert_eq!(kept_bytes(&found), 2 * BYTES_PER_ENTRY + mib / 2 + mib);
        // Messages of shared groups stay.
        let dealt = KindStats { in_memory: Row { entries: 3, bytes: 300 * mib }, ..owed };
        let with_groups =
            StatsReport { kinds: vec![("sessions", kind(2, 0)), (OWED, dealt)], ..StatsReport::default() };
        assert_eq!(kept_bytes(&with_groups), 5 * BYTES_PER_ENTRY + 300 * mib + mib / 2);
        // Of the longest queue, 16 times 256 KiB.
        assert_eq!(passing_bytes(&found), 4 * mib + 5 * mib);
        let sum = 9 * mib + kept_bytes(&found);
        let expected = format!("a start takes about {sum} bytes of memory: 0 to read the files");
        assert!(text(&found).contains(&expected), "{}", text(&found));
        let found =
            StatsReport { journal_bytes: 100 * mib, longest_file: 32 * mib, index_bytes: 7, ..StatsReport::default() };
        assert_eq!((found.reading_bytes(mib), found.reading_bytes(mib << 10)), (32 * mib + 7, 100 * mib + 7));
        // Small operations: their places take as much as they do.
        let found = StatsReport { journal_operations: 100 * mib / 64, longest_file: 8 * mib, index_bytes: 0, ..found };
        assert_eq!((found.reading_bytes(16 * mib), found.reading_bytes(mib << 10)), (24 * mib, 200 * mib));
    }
}
