//! `tidegate store import --mosquitto`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_engine::{Millis, Now};
use tidegate_mosquitto_db::{Entries, entries, read};
use tidegate_store::inspect::Completeness;
use tidegate_terminal::{Exit, complain, report};

use crate::import::import;

/// Longest `mosquitto.db` that is read: it is held in memory.
const MAX_DATABASE: u64 = 4 * 1024 * 1024 * 1024;

/// Takes in the state of a Mosquitto.
pub(crate) fn run(directory: &Path, file: &Path) -> Exit {
    let bytes = match read_database(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            report(&format_args!("cannot read {}: {error}", file.display()));
            return Exit::Failure;
        }
    };
    let database = match read(&bytes) {
        Ok(database) => database,
        Err(error) => {
            report(&format_args!("{}: {error}", file.display()));
            return Exit::Usage;
        }
    };
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let made = entries(&database, Now { monotonic: Millis(0), unix });
    let done = import(directory, &mut lines(&made).as_bytes(), Completeness::AsItIs);
    if done != Exit::Ok {
        return done;
    }
    let Entries { sessions, subscriptions, retained, .. } = made;
    complain(format_args!("{sessions} sessions, {subscriptions} subscriptions, {retained} retained messages\n"));
    for left_out in &made.left_out {
        complain(format_args!("left out: {left_out}\n"));
    }
    if made.left_out.is_empty() { Exit::Ok } else { Exit::LeftOut }
}

fn read_database(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(MAX_DATABASE + 1);
    file.read_to_end(&mut bytes)?;
    if file.limit() == 0 {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {MAX_DATABASE} bytes")));
    }
    Ok(bytes)
}

/// Entries as an export has them.
fn lines(made: &Entries) -> String {
    let mut lines = String::new();
    for (key, value) in &made.entries {
        lines.push_str("{\"key\":\"");
        for byte in key {
            let _ = write!(lines, "{byte:02x}");
        }
        let _ = writeln!(lines, "\",\"value\":\"{}\"}}", STANDARD.encode(value));
    }
    lines
}
