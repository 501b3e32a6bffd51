//! `tidegate store ...`: commands on a data directory. `backup` works while a broker uses it, the others do not.

mod backup;
mod check;
mod export;
mod import;
#[cfg(feature = "convert")]
mod import_mosquitto;
mod stats;

use std::path::Path;
use std::sync::Arc;

use clap::Subcommand;
use tidegate_store::{Disk, RealDisk, with_directory};

use tidegate_terminal::{Exit, report};

const EXPORT: &str = "\
Examples:
  tidegate store export data > backup.jsonl
  tidegate store export data --salvage > saved.jsonl && tidegate store import new < saved.jsonl
Each line is {\"key\":\"hexadecimal\",\"value\":\"base64\",\"text\":\"its meaning\"}, in ascending order of
the keys; an import does not look at the text. The last line, {\"entries\":N,\"crc32c\":\"hexadecimal\"},
shows an import whether it is complete. An export holds the data of clients:
keep it as private as the store.
Exit codes: 0 done, 1 something could not be read or written; with --salvage, 1 when something was skipped.";

const BACKUP: &str = "\
Examples:
  tidegate store backup /var/lib/tidegate /mnt/backup/tidegate
  cp -a /mnt/backup/tidegate restored && tidegate --data restored
A backup is a data directory. A second run into the same directory writes only the new content.
A broker may use the data directory meanwhile. The backup has everything that was acknowledged before the command
began, and is one state that the broker had. An earlier backup in the directory stays whole until the new one is
complete. Restore a copy of the backup: a backup that a broker has used cannot be continued.
It holds what clients have sent: keep it as private as the store.
Exit codes: 0 the backup is complete and on its disk, 1 something could not be read or written.";

const IMPORT: &str = "\
Examples:
  tidegate store import data < backup.jsonl
  tidegate store import data --mosquitto /var/lib/mosquitto/mosquitto.db
Of Mosquitto, sessions, subscriptions and retained messages are taken. Messages that wait for clients are not:
let the clients fetch them from Mosquitto first. Stop Mosquitto before, so that the file is complete.
Exit codes: 0 done, 1 something could not be read or written, 2 the file is no mosquitto.db, 3 something was left out.";

/// Commands on a data directory.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy it into another directory, also while a broker uses it; a second run brings the copy up to date
    #[command(after_help = BACKUP)]
    Backup {
        /// The data directory
        directory: std::path::PathBuf,
        /// The directory of the backup: empty, not there yet, or with an earlier backup of this data directory
        target: std::path::PathBuf,
    },
    /// Read everything and say of each file whether it is whole: exit code 0 when all are, 1 when not
    Check {
        /// The data directory
        directory: std::path::PathBuf,
    },
    /// Report how much of each kind of entry it holds
    Stats {
        /// The data directory
        directory: std::path::PathBuf,
    },
    /// Write all entries as lines of JSON
    #[command(after_help = EXPORT)]
    Export {
        /// The data directory
        directory: std::path::PathBuf,
        /// Skip damaged files, and name them
        #[arg(long)]
        salvage: bool,
    },
    /// Make a data directory of lines of JSON from standard input, as `export` writes them, or of a mosquitto.db
    #[command(after_help = IMPORT)]
    Import {
        /// The data directory: empty, or not there yet
        directory: std::path::PathBuf,
        /// Take an export that has no last line, as earlier versions wrote it: it may be incomplete
        #[arg(long)]
        incomplete: bool,
        /// Take the sessions, subscriptions and retained messages of a stopped Mosquitto from this file
        #[arg(long, value_name = "FILE", conflicts_with = "incomplete")]
        mosquitto: Option<std::path::PathBuf>,
    },
}

/// Carries out a command on a data directory.
pub fn run(command: &StoreCommand) -> Exit {
    match command {
        StoreCommand::Backup { directory, target } => backup::run(directory, target),
        StoreCommand::Check { directory } => with_disk(directory, |disk| check::run(disk, directory)),
        StoreCommand::Stats { directory } => with_disk(directory, |disk| stats::run(disk, directory)),
        StoreCommand::Export { directory, salvage } => {
            with_disk(directory, |disk| export::run(&disk, directory, *salvage))
        }
        StoreCommand::Import { directory, mosquitto: Some(file), .. } => run_mosquitto(directory, file),
        StoreCommand::Import { directory, incomplete, .. } => import::run(directory, *incomplete),
    }
}

#[cfg(feature = "convert")]
fn run_mosquitto(directory: &Path, file: &Path) -> Exit {
    import_mosquitto::run(directory, file)
}

#[cfg(not(feature = "convert"))]
fn run_mosquitto(_: &Path, _: &Path) -> Exit {
    tidegate_terminal::refuse_left_out("tidegate store import --mosquitto", "convert")
}

fn with_disk(directory: &Path, work: impl FnOnce(Arc<dyn Disk>) -> Exit) -> Exit {
    match RealDisk::existing(directory) {
        Ok(disk) => work(Arc::new(disk)),
        Err(error) => {
            report(&format_args!("cannot open {}: {error}", directory.display()));
            Exit::Failure
        }
    }
}

fn report_of(directory: &Path, error: &dyn std::fmt::Display) {
    report(&with_directory(&error.to_string(), &directory.display().to_string()));
}

/// The description of an entry, for people. The store itself does not know it.
fn describe(key: &[u8], value: &[u8]) -> Option<String> {
    tidegate_engine::describe(key, value).or_else(|| tidegate_node::describe_stored(key, value))
}
