//! `tidegate store stats`.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tidegate_store::Disk;
use tidegate_store::inspect::{StatsReport, stats};

use tidegate_terminal::{Exit, print_and_exit};

#[expect(clippy::needless_pass_by_value, reason = "each of these commands takes the disk that was opened for it")]
pub(super) fn run(disk: Arc<dyn Disk>, directory: &Path) -> Exit {
    match stats(&disk, &kind_of) {
        Ok(found) => print_and_exit(&text(&found), Exit::Ok),
        Err(error) => {
            super::report_of(directory, &error);
            Exit::Failure
        }
    }
}

fn kind_of(key: &[u8]) -> &'static str {
    let bans = || tidegate_node::is_stored_ban(key).then_some("bans");
    tidegate_engine::name_of_kind(key).or_else(bans).unwrap_or("others, which this version does not know")
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
    text
}
