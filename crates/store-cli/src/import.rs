//! `tidegate store import`.

use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use tidegate_store::inspect::{Completeness, import_into};

use tidegate_config::hub::ARCHIVES;
use tidegate_terminal::{Exit, complain, report};

use crate::backup::COMPANIONS;

/// Bytes read from standard input at once.
const BUFFER: usize = 256 * 1024;

/// Takes in an export of ours from standard input.
pub(crate) fn run(directory: &Path, incomplete: bool) -> Exit {
    let completeness = if incomplete { Completeness::AsItIs } else { Completeness::Whole };
    import(directory, &mut BufReader::with_capacity(BUFFER, stdin().lock()), completeness)
}

/// Files of a broker beside its store.
fn companions() -> Vec<&'static str> {
    COMPANIONS.into_iter().chain([ARCHIVES]).collect()
}

/// Makes a data directory of an export.
pub(crate) fn import(directory: &Path, input: &mut dyn BufRead, completeness: Completeness) -> Exit {
    match import_into(directory, input, completeness, &companions()) {
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
