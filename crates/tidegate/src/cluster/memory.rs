//! What a node remembers of its cluster over a restart, in a file of its data directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The file in the data directory.
const FILE: &str = "cluster.json";
/// Version of its layout; others are refused.
const VERSION: u64 = 1;

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// The last life. Whoever has the data directory knows that it has ended.
    pub(super) life: Option<u64>,
    /// The partitions that are in the store as they were served last, and since which epoch.
    pub(super) holdings: BTreeMap<u16, u64>,
}

impl Memory {
    fn to_json(&self) -> Value {
        let holdings: Vec<[u64; 2]> =
            self.holdings.iter().map(|(partition, since)| [u64::from(*partition), *since]).collect();
        json!({ "version": VERSION, "life": self.life, "holdings": holdings })
    }

    fn from_json(value: &Value) -> Option<Self> {
        if value.get("version")?.as_u64()? != VERSION {
            return None;
        }
        let pair = |pair: &Value| Some((u16::try_from(pair.get(0)?.as_u64()?).ok()?, pair.get(1)?.as_u64()?));
        let holdings = value.get("holdings")?.as_array()?.iter().map(pair).collect::<Option<_>>()?;
        Some(Self { life: value.get("life").and_then(Value::as_u64), holdings })
    }
}

/// Where it is kept, if it is.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryFile(Option<PathBuf>);

impl MemoryFile {
    /// The file of a data directory.
    pub(super) fn of(directory: Option<&str>) -> Self {
        Self(directory.map(|directory| Path::new(directory).join(FILE)))
    }

    /// What was saved last.
    ///
    /// # Errors
    /// When there is a file that cannot be read: what a node may serve is not to be guessed.
    pub(super) fn load(&self) -> Result<Memory, String> {
        let Some(path) = &self.0 else { return Ok(Memory::default()) };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let value: Option<Value> = serde_json::from_str(&text).ok();
        let damaged =
            || format!("{} is damaged, or of another version; without it the node begins anew", path.display());
        value.as_ref().and_then(Memory::from_json).ok_or_else(damaged)
    }

    /// Saves; when this returns, it is on the disk as a whole.
    ///
    /// # Errors
    /// When the disk refuses; the old one is there then.
    pub(super) fn save(&self, memory: &Memory) -> io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let new = path.with_extension("json.new");
        let mut file = File::create(&new)?;
        file.write_all(memory.to_json().to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        match path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let memory = Memory { life: Some(u64::MAX), holdings: BTreeMap::from([(0, 7), (63, 1)]) };
        assert_eq!(Memory::from_json(&memory.to_json()), Some(memory));
        assert_eq!(Memory::from_json(&json!({ "version": 2, "holdings": [] })), None);
        assert_eq!(MemoryFile::of(None).load(), Ok(Memory::default()));
    }
}
