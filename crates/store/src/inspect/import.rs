//! Makes a store out of an export.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

use super::ending::Ending;
use crate::disk::Disk;
use crate::operation::{self, OperationError};
use crate::{MergeError, OpenError, Opened, ReadError, Settings, State, Stepped, SubmitError, keep_all, open};

/// Longest line that is read, bytes: the largest value in base64, and a key.
const MAX_LINE: u64 = 512 * 1024 * 1024;
const BATCH_BYTES: usize = 1024 * 1024;

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Entries read.
    pub entries: u64,
}

/// Whether an export has to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// The last line agrees with the lines read.
    Whole,
    /// The last line may be missing, as in exports of earlier versions.
    AsItIs,
}

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The directory has a store already.
    #[error("there is a store in this directory; import into an empty one")]
    NotEmpty,
    /// The directory has files of another program.
    #[error("the directory has other files, such as {file}; import into an empty one")]
    Foreign {
        /// The name of one of them.
        file: String,
    },
    /// The store cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The input cannot be read.
    #[error("cannot read line {line}: {source}")]
    Input {
        /// Counted from 1.
        line: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The directory cannot be made or written.
    #[error("cannot import into {}: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The last line is missing.
    #[error(
        "the export ends after {entries} entries without the line that says how many there are: a part is missing, or an earlier \
         version wrote it; export it again, or import the present entries with --incomplete"
    )]
    Incomplete {
        /// Entries read.
        entries: u64,
    },
    /// The last line does not agree with the lines before it.
    #[error(
        "the export has been changed or lost lines: {entries} entries were read, and its last line says {said}; export it again"
    )]
    Changed {
        /// Entries read.
        entries: u64,
        /// Entries that the last line names, and their checksum.
        said: String,
    },
    /// A line is not a line of an export.
    #[error("line {line} is not {{\"key\":\"hexadecimal\",\"value\":\"base64\"}}: {problem}; export it again")]
    Line {
        /// Counted from 1.
        line: u64,
        /// The fault of the line.
        problem: String,
    },
    /// A line holds an operation that no store accepts.
    #[error("line {line}: {source}")]
    Operation {
        /// Counted from 1.
        line: u64,
        /// Why.
        source: OperationError,
    },
    /// The disk refused.
    #[error("the disk refuses: {0}; empty the directory and import again")]
    Write(String),
    /// The table could not be written.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A batch was refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// Reads lines as [`export`](super::export) writes them into an empty directory.
///
/// # Errors
/// When a store exists already, when a line is invalid or lines are missing, and when the disk fails. An incomplete
/// store is then left behind, unless [`import_into`](super::import_into) is used.
pub fn import(
    disk: Arc<dyn Disk>,
    input: &mut dyn BufRead,
    completeness: Completeness,
) -> Result<ImportReport, ImportError> {
    let names = disk.list().map_err(|error| OpenError::Read(ReadError::reading("the directory", error)))?;
    if names.iter().any(|name| super::is_ours(name)) {
        return Err(ImportError::NotEmpty);
    }
    let Opened { store, report: found } = open(disk, Settings::default(), keep_all())?;
    if !found.created {
        return Err(ImportError::NotEmpty);
    }
    let mut store = store.stepped(Box::new(|_: u16, _: u64| {}));
    let (mut line, mut number, mut batch, mut sequence) = (Vec::new(), 0, Vec::new(), 0);
    let (mut found, mut said) = (Ending::default(), None);
    loop {
        line.clear();
        number += 1;
        let read = Read::take(&mut *input, MAX_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(|source| ImportError::Input { line: number, source })?;
        if read > 0 && !line.trim_ascii().is_empty() {
            match decode(&line).map_err(|error| ImportError::Line { line: number, problem: error.to_string() })? {
                Decoded::Entry(..) if said.is_some() => {
                    let problem = "it is behind the last line".to_owned();
                    return Err(ImportError::Line { line: number, problem });
                }
                Decoded::Entry(key, value) => {
                    found.add(&key, &value);
                    operation::put(&mut batch, &key, &value)
                        .map_err(|source| ImportError::Operation { line: number, source })?;
                }
                Decoded::Ending(ending) => said = Some(ending),
            }
        }
        if batch.len() >= BATCH_BYTES || (read == 0 && !batch.is_empty()) {
            sequence += 1;
            write(&mut store, sequence, std::mem::take(&mut batch))?;
        }
        if read == 0 {
            break;
        }
    }
    store.end();
    match said {
        Some(said) if said != found => Err(ImportError::Changed { entries: found.entries, said: said.line() }),
        None if completeness == Completeness::Whole => Err(ImportError::Incomplete { entries: found.entries }),
        _ => Ok(ImportReport { entries: found.entries }),
    }
}

fn write(store: &mut Stepped, sequence: u64, batch: Vec<u8>) -> Result<(), ImportError> {
    store.submit(0, sequence, batch)?;
    while !store.step() {
        let status = store.status();
        if status.state() != State::Ok {
            return Err(ImportError::Write(status.last_error().unwrap_or_default()));
        }
    }
    // As in a running store, the journal does not grow much beyond the size that a merge sorts in memory.
    let status = store.status();
    if status.journal_bytes() > Settings::default().merge_min_bytes.max(status.table_bytes() / 2) {
        while store.merge(usize::MAX)? {}
    }
    Ok(())
}

/// A decoded line.
enum Decoded {
    Entry(Vec<u8>, Vec<u8>),
    Ending(Ending),
}

/// Why a line is no entry.
#[derive(Debug, thiserror::Error)]
enum LineError {
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has no text with this name.
    #[error("no {0}")]
    Missing(&'static str),
    /// Its key is not hexadecimal digits.
    #[error("its key: {0}")]
    Key(data_encoding::DecodeError),
    /// Its value is not base64.
    #[error("its value: {0}")]
    Value(data_encoding::DecodeError),
}

fn decode(line: &[u8]) -> Result<Decoded, LineError> {
    let object: serde_json::Value = serde_json::from_slice(line)?;
    if let Some(ending) = Ending::read(&object) {
        return Ok(Decoded::Ending(ending));
    }
    let field = |name: &'static str| object.get(name).and_then(|field| field.as_str()).ok_or(LineError::Missing(name));
    let key = HEXLOWER_PERMISSIVE.decode(field("key")?.as_bytes()).map_err(LineError::Key)?;
    let value = BASE64.decode(field("value")?.as_bytes()).map_err(LineError::Value)?;
    Ok(Decoded::Entry(key, value))
}
