//! `tidegate store import`.

use std::io::{BufReader, stdin};
use std::path::Path;
use std::sync::Arc;

use tidegate_store::RealDisk;
use tidegate_store::inspect::import;

use crate::exit::{Exit, complain, report};

/// Bytes read from standard input at once.
const BUFFER: usize = 256 * 1024;

pub(super) fn run(directory: &Path) -> Exit {
    let disk = match RealDisk::create(directory) {
        Ok(disk) => disk,
        Err(error) => {
            report(&format_args!("cannot make {}: {error}", directory.display()));
            return Exit::Failure;
        }
    };
    match import(Arc::new(disk), &mut BufReader::with_capacity(BUFFER, stdin().lock())) {
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
