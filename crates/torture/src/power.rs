//! Power loss: the library of `preload/` writes down what the broker does to its files; after the kill the folder is
//! put back to something that a disk could have held when the power failed.

mod disk;
mod folder;
mod log;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::rng::Rng;
use disk::Disk;
pub(crate) use folder::{Item, Snapshot};

/// The library's source; it is built where it is used, for the C library that is there.
const SOURCE: &str = include_str!("../preload/volatile.c");
/// Files that may differ from the log: one call may have been cut off before its record, and a rename changes two.
const TOLERATED: usize = 2;

/// The library, its log, and the folder as it was when the broker was started.
#[derive(Debug)]
pub(crate) struct Power {
    library: PathBuf,
    log: PathBuf,
    data: PathBuf,
    snapshot: Snapshot,
}

/// The effect of a power loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// The treatment of unsynced writes by the disk.
    pub(crate) style: &'static str,
    /// Operations that were not safe, and how many of them were undone in whole or in part.
    pub(crate) unsafe_operations: usize,
    pub(crate) undone: usize,
}

/// Builds a preload library into a folder, which is absolute.
pub(crate) fn build(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let source = folder.join(format!("{name}.c"));
    let library = folder.join(format!("{name}.so"));
    std::fs::write(&source, text).map_err(Failure::file("writing", &source))?;
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .args([&library, &source])
        .args(["-ldl", "-lpthread"])
        .output()
        .map_err(|error| Failure::Preload(error.to_string()))?;
    if !built.status.success() {
        return Err(Failure::Preload(String::from_utf8_lossy(&built.stderr).trim().to_owned()));
    }
    Ok(library)
}

impl Power {
    /// Builds the library into the folder.
    pub(crate) fn new(folder: &Path, data: &Path) -> Result<Self, Failure> {
        let data = data.canonicalize().map_err(Failure::file("finding", data))?;
        let folder = folder.canonicalize().map_err(Failure::file("finding", folder))?;
        let library = build(&folder, "volatile", SOURCE)?;
        Ok(Self { library, log: folder.join("volatile.log"), data, snapshot: Snapshot::default() })
    }

    /// The variables for the broker's environment; faults are written as the library reads them.
    pub(crate) fn environment(&self, faults: Option<&str>) -> Vec<(String, String)> {
        let mut environment = vec![
            ("LD_PRELOAD".to_owned(), self.library.display().to_string()),
            ("TIDEGATE_TORTURE_DIR".to_owned(), self.data.display().to_string()),
            ("TIDEGATE_TORTURE_LOG".to_owned(), self.log.display().to_string()),
        ];
        environment.extend(faults.map(|faults| ("TIDEGATE_TORTURE_FAULTS".to_owned(), faults.to_owned())));
        environment
    }

    /// The present content of the disk is safe; the log starts again.
    pub(crate) fn prepare(&mut self) -> Result<(), Failure> {
        self.snapshot = Snapshot::take(&self.data)?;
        std::fs::write(&self.log, []).map_err(Failure::file("emptying", &self.log))
    }

    /// The power has failed while this process was running: the folder becomes what the disk may have held.
    pub(crate) fn fail(&mut self, pid: u32, rng: &mut Rng) -> Result<Outage, Failure> {
        let bytes = std::fs::read(&self.log).map_err(Failure::file("reading", &self.log))?;
        let records = log::read(&bytes, &self.data)?;
        // A process that was killed before it became the broker has done nothing yet.
        if records.len() > 1 && !records.iter().any(|record| record.event == log::Event::Hello { pid }) {
            return Err(Failure::Blind("it was not loaded (a static program?)".to_owned()));
        }
        let snapshot = std::mem::take(&mut self.snapshot);
        let mut disk = Disk::new(snapshot);
        for record in &records {
            disk.replay(record)?;
        }
        let different = disk.everything().differences(&Snapshot::take(&self.data)?);
        if different.len() > TOLERATED {
            return Err(Failure::Blind(format!("these files were written in other ways: {}", different.join(", "))));
        }
        let (snapshot, outage) = disk.after_outage(rng);
        snapshot.restore(&self.data)?;
        Ok(outage)
    }
}

#[cfg(test)]
mod tests;
