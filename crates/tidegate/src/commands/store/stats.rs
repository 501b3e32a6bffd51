//! `tidegate store stats`.

use std::fmt::Write;
use std::sync::Arc;

use tidegate_store::Disk;
use tidegate_store::inspect::{StatsReport, stats};

use crate::exit::{Exit, print_and_exit, report};

#[expect(clippy::needless_pass_by_value, reason = "each of these commands takes the disk that was opened for it")]
pub(super) fn run(disk: Arc<dyn Disk>) -> Exit {
    match stats(&disk) {
        Ok(found) => print_and_exit(&text(&found), Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn text(found: &StatsReport) -> String {
    let mut text = String::new();
    for (name, bytes) in &found.files {
        let _ = writeln!(text, "{bytes:>14} bytes  {name}");
    }
    let _ = writeln!(text, "\nkeys begin with    entries      key bytes    value bytes");
    for (byte, kind) in &found.kinds {
        let shown = if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' };
        let (entries, keys, values) = (kind.entries, kind.key_bytes, kind.value_bytes);
        let _ = writeln!(text, "0x{byte:02x} {shown} {entries:>19} {keys:>14} {values:>14}");
    }
    let (live, dead, table) = (found.live(), found.dead(), found.table_entries);
    let (batches, operations) = (found.journal_batches, found.journal_operations);
    let _ = writeln!(text, "\n{live} live entries, {dead} that a merge drops");
    let _ = writeln!(text, "{table} entries in the table, {operations} operations of {batches} batches in the journal");
    text
}
