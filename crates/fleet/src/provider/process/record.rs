//! The record of a process, from which a later manager finds it: a file in its directory, written before the process is
//! spawned, and again when its process id is known.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::proc_files::Identity;
use crate::provider::{Allocation, ProviderError, ResourceName};

/// The record's file in a resource's directory.
pub(super) const FILE: &str = "resource.json";
/// Largest record, bytes.
const MAX_RECORD: u64 = 64 * 1024;

/// The stored record of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) wanted: Allocation,
    /// The address that it listens on. Earlier versions wrote none.
    #[serde(default)]
    pub(super) host: Option<String>,
    pub(super) ports: BTreeMap<String, u16>,
    /// `None` from before it is spawned until its process id is known.
    pub(super) process: Option<Identity>,
    /// The directories of its cgroup; empty without a limit.
    pub(super) cgroup: Vec<PathBuf>,
    /// Since when it is asked to stop, milliseconds since 1970.
    pub(super) stopping_since_ms: Option<u64>,
    /// A note for people.
    pub(super) note: String,
}

/// Every record below a directory, in the order of their names.
///
/// # Errors
/// When one cannot be read: its resource must not count as absent.
pub(super) fn read_all(directory: &Path) -> Result<BTreeMap<ResourceName, Record>, ProviderError> {
    let io = |source| ProviderError::Io { attempt: "read", path: directory.to_owned(), source };
    let mut records = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path().join(FILE);
        // The manager died before the first record: no process was spawned.
        if path.exists() {
            let record = read(&path)?;
            records.insert(record.wanted.name.clone(), record);
        }
    }
    Ok(records)
}

fn read(path: &Path) -> Result<Record, ProviderError> {
    use std::io::Read;
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_RECORD).read_to_string(&mut text))
        .map_err(|source| ProviderError::Io { attempt: "read", path: path.to_owned(), source })?;
    let damaged =
        |error: serde_json::Error| ProviderError::Record { path: path.to_owned(), problem: error.to_string() };
    serde_json::from_str(&text).map_err(damaged)
}

impl Record {
    /// The record of the resource in a directory; `None` if there is no file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(directory: &Path) -> Result<Option<Self>, ProviderError> {
        match read(&directory.join(FILE)) {
            Ok(record) => Ok(Some(record)),
            Err(ProviderError::Io { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the record as a whole or not at all.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn write(&self, directory: &Path) -> Result<(), ProviderError> {
        let path = directory.join(FILE);
        let text = serde_json::to_string(self)
            .map_err(|error| ProviderError::Record { path: path.clone(), problem: error.to_string() })?;
        replace(&path, text.as_bytes()).map_err(|source| ProviderError::Io { attempt: "write", path, source })
    }
}

/// Replaces a file so that a crash leaves the old one or the new one.
pub(in crate::provider) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
