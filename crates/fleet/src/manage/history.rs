//! Decisions and actions, as lines of JSON: the newest in `history.jsonl`, earlier ones in `history.1.jsonl`, each at
//! most 8 MiB.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Bytes from which on the history begins a new file.
const MAX_HISTORY: u64 = 8 * 1024 * 1024;
const NEWEST: &str = "history.jsonl";
const BEFORE: &str = "history.1.jsonl";

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt} {}: {source}", .path.display())]
pub struct HistoryError {
    attempt: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The history of one fleet.
#[derive(Debug)]
pub struct History {
    directory: PathBuf,
    file: File,
    length: u64,
}

impl History {
    /// Opens the history in a directory.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn open(directory: &Path) -> Result<Self, HistoryError> {
        let path = directory.join(NEWEST);
        let failed = |source| HistoryError { attempt: "open", path: path.clone(), source };
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Ok(Self { directory: directory.to_owned(), file, length })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// When the disk fails; the fleet continues without it.
    pub fn add(&mut self, entry: &Value) -> Result<(), HistoryError> {
        let failed = |source| HistoryError { attempt: "write", path: self.directory.join(NEWEST), source };
        if self.length > MAX_HISTORY {
            let path = self.directory.join(NEWEST);
            fs::rename(&path, self.directory.join(BEFORE)).map_err(failed)?;
            self.file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
            self.length = 0;
        }
        let line = format!("{entry}\n");
        self.file.write_all(line.as_bytes()).map_err(failed)?;
        self.length += line.len() as u64;
        Ok(())
    }

    /// The newest entries that a filter lets through, the oldest of them first. Lines that are torn are passed over.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn newest(
        directory: &Path,
        count: usize,
        mut filter: impl FnMut(&Value) -> bool,
    ) -> Result<Vec<Value>, HistoryError> {
        let mut entries = VecDeque::new();
        for name in [BEFORE, NEWEST] {
            let path = directory.join(name);
            let failed = |source| HistoryError { attempt: "read", path: path.clone(), source };
            let file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            for line in BufReader::new(file.take(2 * MAX_HISTORY)).lines() {
                let entry = serde_json::from_str(&line.map_err(failed)?).ok().filter(|entry| filter(entry));
                entries.extend(entry);
                if entries.len() > count {
                    entries.pop_front();
                }
            }
        }
        Ok(entries.into())
    }

    /// The number of the newest observation; 0 before the first.
    ///
    /// # Errors
    /// As of [`newest`](Self::newest).
    pub fn last_observation(directory: &Path) -> Result<u64, HistoryError> {
        let newest = Self::newest(directory, 1, |entry| entry.get("kind").is_some_and(|kind| kind == "observation"))?;
        Ok(newest.first().and_then(|entry| entry.get("observation")?.as_u64()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_entries_are_found_across_files() {
        let folder = std::env::temp_dir().join(format!("tidegate-history-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let mut history = History::open(&folder).unwrap();
        for number in 1..=4 {
            if number == 3 {
                history.length = MAX_HISTORY + 1;
            }
            history.add(&json!({"kind": "observation", "observation": number})).unwrap();
        }
        assert!(folder.join(BEFORE).exists());
        let newest = History::newest(&folder, 3, |_| true).unwrap();
        let numbers: Vec<_> = newest.iter().map(|entry| entry["observation"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [2, 3, 4]);
        fs::OpenOptions::new().append(true).open(folder.join(NEWEST)).unwrap().write_all(b"{\"ki").unwrap();
        assert_eq!(History::last_observation(&folder).unwrap(), 4);
        fs::remove_dir_all(folder).unwrap();
    }
}
