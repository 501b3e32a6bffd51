//! The records of machines for a later manager: a file in the state directory, written before a command is called.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::call::level_of;
use super::settings::MACHINE;
use crate::provider::process::replace;
use crate::provider::{Allocation, ProviderError, ResourceName};

/// The file in the state directory.
pub(super) const FILE: &str = "machines.json";
/// Largest file, bytes: twice that of [`MAX_RELEASED`](super::inventory::MAX_RELEASED) records.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// A machine that was asked for. All times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MachineRecord {
    pub(super) wanted: Allocation,
    /// The identifier of the machine, once `list` has shown it.
    pub(super) id: Option<String>,
    /// When `allocate` was begun last; 0 if it was not.
    pub(super) asked_ms: u64,
    /// When its release was asked for. The record is kept for a while: a machine that appears late is removed.
    pub(super) released_ms: Option<u64>,
    /// Whether it was reported as removed.
    pub(super) gone: bool,
}

impl MachineRecord {
    /// Of a machine that was not asked for yet.
    pub(super) fn of(wanted: Allocation) -> Self {
        Self { wanted, id: None, asked_ms: 0, released_ms: None, gone: false }
    }

    /// Of a machine that `list` shows and no record has; `None` if its name is no manager's.
    pub(super) fn listed(name: &ResourceName) -> Option<Self> {
        let level = level_of(name.as_str())?;
        Some(Self::of(Allocation { name: name.clone(), level, template: MACHINE.to_owned(), cores: 1.0 }))
    }
}

/// The records of a state directory.
///
/// # Errors
/// When the file cannot be read: its machines must not count as unknown.
pub(super) fn load(directory: &Path) -> Result<Vec<MachineRecord>, ProviderError> {
    let path = directory.join(FILE);
    let mut text = String::new();
    match File::open(&path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(ProviderError::Io { attempt: "read", path, source }),
    }
    serde_json::from_str(&text).map_err(|error| ProviderError::Machines { path, problem: error.to_string() })
}

/// Writes all records as a whole or not at all.
///
/// # Errors
/// When the disk refuses.
pub(super) fn save(directory: &Path, records: &[MachineRecord]) -> Result<(), ProviderError> {
    let path = directory.join(FILE);
    let text = serde_json::to_string(records)
        .map_err(|error| ProviderError::Machines { path: path.clone(), problem: error.to_string() })?;
    replace(&path, text.as_bytes()).map_err(|source| ProviderError::Io { attempt: "write", path, source })
}
