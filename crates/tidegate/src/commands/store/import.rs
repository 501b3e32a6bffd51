//! `tidegate store import`.

use std::io::{BufReader, stdin};
use std::path::Path;

use tidegate_store::inspect::{Completeness, import_into};

use tidegate_terminal::{Exit, complain, report};

/// Bytes read from standard input at once.
const BUFFER: usize = 256 * 1024;

pub(super) fn run(directory: &Path, incomplete: bool) -> Exit {
    let completeness = if incomplete { Completeness::AsItIs } else { Completeness::Whole };
    match import_into(directory, &mut BufReader::with_capacity(BUFFER, stdin().lock()), completeness) {
        Ok(done) => {
            complain(format_args!("{} entries\n", done.entries));
            Exit::Ok
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}
