//! Makes a store out of an export.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

use crate::disk::Disk;
use crate::operation::{self, OperationError};
use crate::{MergeError, OpenError, Opened, ReadError, Settings, State, Stepped, SubmitError, keep_all, open};

/// Longest line that is read, bytes: the largest value in base64, and a key.
const MAX_LINE: u64 = 512 * 1024 * 1024;
/// Bytes of a batch.
const BATCH_BYTES: usize = 1024 * 1024;

/// What was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Entries read.
    pub entries: u64,
}

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The directory has a store already.
    #[error("there is a store in this directory; import into an empty one")]
    NotEmpty,
    /// The store cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The input cannot be read.
    #[error("cannot read line {line}: {source}")]
    Input {
        /// Counted from 1.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A line is none of an export.
    #[error("line {line} is not {{\"key\":\"hexadecimal\",\"value\":\"base64\"}}: {what}; export it again")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A line holds what no store can.
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
/// When there is a store already, when a line is none of an export, and when the disk refuses.
pub fn import(disk: Arc<dyn Disk>, input: &mut dyn BufRead) -> Result<ImportReport, ImportError> {
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
    let mut report = ImportReport::default();
    loop {
        line.clear();
        number += 1;
        let read = Read::take(&mut *input, MAX_LINE).read_until(b'\n', &mut line);
        let read = read.map_err(|source| ImportError::Input { line: number, source })?;
        if read > 0 && !line.trim_ascii().is_empty() {
            let (key, value) = decode(&line).map_err(|what| ImportError::Line { line: number, what })?;
            report.entries += 1;
            operation::put(&mut batch, &key, &value)
                .map_err(|source| ImportError::Operation { line: number, source })?;
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
    Ok(report)
}

fn write(store: &mut Stepped, sequence: u64, batch: Vec<u8>) -> Result<(), ImportError> {
    store.submit(0, sequence, batch)?;
    while !store.step() {
        let status = store.status();
        if status.state() != State::Ok {
            return Err(ImportError::Write(status.last_error().unwrap_or_default()));
        }
    }
    // As in a running store, the journal does not grow much beyond what a merge sorts in memory.
    let status = store.status();
    if status.journal_bytes() > Settings::default().merge_min_bytes.max(status.table_bytes() / 2) {
        while store.merge(usize::MAX)? {}
    }
    Ok(())
}

fn decode(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let object: serde_json::Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let field = |name: &str| object.get(name).and_then(|field| field.as_str()).ok_or_else(|| format!("no {name}"));
    let key = HEXLOWER_PERMISSIVE.decode(field("key")?.as_bytes()).map_err(|error| format!("its key: {error}"))?;
    let value = BASE64.decode(field("value")?.as_bytes()).map_err(|error| format!("its value: {error}"))?;
    Ok((key, value))
}
