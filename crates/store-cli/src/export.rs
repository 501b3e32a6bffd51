//! `tidegate store export`.

use std::io::{BufWriter, stdout};
use std::path::Path;
use std::sync::Arc;

use tidegate_store::Disk;
use tidegate_store::inspect::export;

use crate::describe;
use tidegate_terminal::{Exit, complain};

/// Bytes handed to standard output at once.
const BUFFER: usize = 256 * 1024;

pub(crate) fn run(disk: &Arc<dyn Disk>, directory: &Path, salvage: bool) -> Exit {
    let mut output = BufWriter::with_capacity(BUFFER, stdout().lock());
    match export(disk, &mut output, salvage, &describe) {
        Ok(done) => {
            for skipped in &done.skipped {
                complain(format_args!("skipped: {}: {}\n", skipped.file, skipped.problem));
            }
            complain(format_args!("{} entries\n", done.entries));
            if done.skipped.is_empty() { Exit::Ok } else { Exit::Failure }
        }
        Err(error) => {
            crate::report_of(directory, &error);
            Exit::Failure
        }
    }
}
