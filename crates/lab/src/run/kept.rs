//! Finished runs in a directory: each has its own file, written whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::results::{Environment, PeerInfo, Run, SCHEMA, Settings};
use crate::scenario::Scenario;

/// Why runs cannot be kept or found again.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The system refused.
    #[error("cannot {attempt} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        attempt: &'static str,
        /// Its file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file that was not written by this version of the lab.
    #[error("{} cannot be read: {source}; name another directory by --out, or delete this one", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The directory has runs of another scenario.
    #[error("{} has runs of {there}, not of {asked}; name another directory by --out, or delete this one", directory.display())]
    Other {
        /// The directory.
        directory: PathBuf,
        /// The present content.
        there: String,
        /// The requested one.
        asked: String,
    },
}

/// The settings that all runs in a directory share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) schema: String,
    pub(super) scenario: Scenario,
    pub(super) settings: Settings,
    pub(super) environment: Environment,
}

/// A directory of runs.
#[derive(Debug)]
pub(super) struct Kept {
    directory: PathBuf,
}

impl Kept {
    /// Opens a directory for a series. A series that it contains already continues: its seed and its
    /// environment stay.
    pub(super) fn open(directory: &Path, wanted: Series) -> Result<(Self, Series), KeptError> {
        let kept = Self { directory: directory.to_owned() };
        fs::create_dir_all(kept.runs()).map_err(failed("make", directory))?;
        let path = directory.join("series.json");
        if !path.exists() {
            Self::write(&path, &wanted)?;
            return Ok((kept, wanted));
        }
        let there: Series = read(&path)?;
        let name = |series: &Series| {
            let on = series.settings.board.as_ref().map_or_else(String::new, |board| format!(" on the board {board}"));
            format!("`{}` at a time scale of {}{on}", series.scenario.name, series.settings.time_scale)
        };
        let same = there.schema == SCHEMA
            && there.scenario.load == wanted.scenario.load
            && there.scenario.matrix == wanted.scenario.matrix
            && there.scenario.variants == wanted.scenario.variants
            && name(&there) == name(&wanted);
        if !same {
            return Err(KeptError::Other {
                directory: directory.to_owned(),
                there: name(&there),
                asked: name(&wanted),
            });
        }
        Ok((kept, there))
    }

    /// The run of an id with its broker, when it is there.
    pub(super) fn find(&self, id: &str) -> Result<Option<(Run, PeerInfo)>, KeptError> {
        let path = self.file(id);
        if path.exists() { read(&path).map(Some) } else { Ok(None) }
    }

    pub(super) fn keep(&self, id: &str, run: &Run, info: &PeerInfo) -> Result<(), KeptError> {
        Self::write(&self.file(id), &(run, info))
    }

    fn runs(&self) -> PathBuf {
        self.directory.join("runs")
    }

    fn file(&self, id: &str) -> PathBuf {
        self.runs().join(format!("{id}.json"))
    }

    /// Under another name first: an interruption leaves no half of a file.
    fn write(path: &Path, value: &impl Serialize) -> Result<(), KeptError> {
        let half = path.with_extension("part");
        let text = serde_json::to_vec(value).map_err(|source| KeptError::Format { path: path.to_owned(), source })?;
        fs::write(&half, text).map_err(failed("write", &half))?;
        fs::rename(&half, path).map_err(failed("rename", &half))
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, KeptError> {
    let text = fs::read(path).map_err(failed("read", path))?;
    serde_json::from_slice(&text).map_err(|source| KeptError::Format { path: path.to_owned(), source })
}

fn failed(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeptError {
    let path = path.to_owned();
    move |source| KeptError::Io { attempt, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Library;

    fn series(time_scale: f64, seed: u64) -> Series {
        Series {
            schema: SCHEMA.to_owned(),
            scenario: Library::shipped().unwrap().get("smoke").unwrap(),
            settings: Settings { time_scale, repeat: 1, seed, base: None, board: None },
            environment: Environment::default(),
        }
    }

    #[test]
    fn a_series_continues_with_its_seed_only() {
        let directory = std::env::temp_dir().join(format!("tidegate-lab-kept-{}", std::process::id()));
        let (kept, first) = Kept::open(&directory, series(0.5, 7)).unwrap();
        assert_eq!(first.settings.seed, 7);
        assert!(kept.find("nothing").unwrap().is_none());
        let (_, again) = Kept::open(&directory, series(0.5, 8)).unwrap();
        assert_eq!(again.settings.seed, 7, "the order of a series is decided once");
        assert!(matches!(Kept::open(&directory, series(0.25, 7)), Err(KeptError::Other { .. })));
        fs::remove_dir_all(&directory).unwrap();
    }
}
