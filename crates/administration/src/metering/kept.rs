//! Books, and the usage that is in them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Instant;

use tidegate_console::api::ControlError;
use tidegate_meter::{Books, Counted, Payers, Present, Reading, USERS_FILE};
use tidegate_node::{LeftRuns, LeftUsage};

use super::{MeteringError, add_usage, unix_seconds};

/// Books, and the readings that are in them.
pub(super) struct Kept {
    pub(super) books: Books,
    booked: Reading,
    booked_at: Instant,
    /// Usage of earlier processes that may be missing in the books.
    left: Vec<LeftRun>,
    /// The number under which the store has the usage of this process, until its run has begun in the books.
    begins: Option<u64>,
}

/// The usage of an earlier process in the store, by payer.
#[derive(Default)]
struct LeftRun {
    run: u64,
    /// When it was stored last, Unix seconds.
    at_s: u64,
    counted: BTreeMap<String, (Counted, Present)>,
}

impl Kept {
    pub(super) fn open(
        directory: Option<&String>,
        payers: Payers,
        runs: &LeftRuns,
        name: impl Fn(&LeftUsage) -> String,
    ) -> Result<Self, MeteringError> {
        let books = match directory {
            None => Books::in_memory(payers),
            Some(directory) => Books::open(Path::new(directory), payers)
                .map_err(|source| MeteringError::Books { directory: directory.clone(), source })?,
        };
        let mut left: BTreeMap<u64, LeftRun> = BTreeMap::new();
        for usage in &runs.left {
            let of = left.entry(usage.run).or_default();
            (of.run, of.at_s) = (usage.run, of.at_s.max(usage.at_s));
            add_usage(of.counted.entry(name(usage)).or_default(), &usage.usage);
        }
        let left = left.into_values().collect();
        Ok(Self { books, booked: Reading::default(), booked_at: Instant::now(), left, begins: Some(runs.this_run) })
    }

    /// Adds the usage of earlier processes that only the store has. No usage of this one comes before it.
    fn settle(&mut self) -> io::Result<()> {
        for LeftRun { run, at_s, counted } in &self.left {
            let counted = counted.iter().map(|(payer, (counted, _))| (payer.clone(), *counted)).collect();
            self.books.settle(*run, *at_s, &counted)?;
        }
        self.left.clear();
        if let Some(run) = self.begins {
            self.books.begin_run(run)?;
            self.begins = None;
        }
        Ok(())
    }

    /// Adds the usage of earlier processes; that of this one does not go into the books.
    fn pause(&mut self) -> io::Result<()> {
        self.begins = None;
        self.settle()?;
        self.books.pause()
    }

    /// Adds the usage since the last entry.
    pub(super) fn book(&mut self, now: &BTreeMap<String, (Counted, Present)>) -> Result<(), ControlError> {
        self.settle().map_err(|error| unwritten(&error))?;
        let at = Instant::now();
        let elapsed = at.saturating_duration_since(self.booked_at);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let (booked, used) = self.booked.since(now, elapsed_ms);
        self.books.add(unix_seconds(), &used).map_err(|error| unwritten(&error))?;
        (self.booked, self.booked_at) = (booked, at);
        Ok(())
    }
}

/// The books of users.
pub(super) enum Users {
    /// No book of users exists.
    Absent,
    /// The usage of each user goes into them.
    Counted(Kept),
    /// Earlier runs have counted users, and this one does not. It is not in the books yet.
    Unpaused(Kept),
}

impl Users {
    /// The books of a data directory, or in memory. Where users are not counted, a book that cannot be written does not
    /// prevent the start: [`Self::book`] tries it again.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn open(
        directory: Option<&String>,
        payers: Payers,
        is_counted: bool,
        runs: &LeftRuns,
        name: impl Fn(&LeftUsage) -> String,
    ) -> Result<Self, MeteringError> {
        if is_counted {
            return Ok(Self::Counted(Kept::open(directory, payers, runs, name)?));
        }
        let are_there = |directory: &&String| Path::new(directory).join(USERS_FILE).exists();
        let Some(directory) = directory.filter(are_there) else { return Ok(Self::Absent) };
        // Nothing else adds the usage that earlier processes have left in the store for them.
        let mut users = Self::Unpaused(Kept::open(Some(directory), payers, runs, name)?);
        if let Err(error) = users.pause() {
            tracing::warn!(%error, directory, "the books of users cannot be written yet");
        }
        Ok(users)
    }

    /// The books where users are counted.
    pub(super) fn counted(&self) -> Option<&Kept> {
        match self {
            Self::Counted(kept) => Some(kept),
            Self::Absent | Self::Unpaused(_) => None,
        }
    }

    /// Adds the usage since the last entry, where users are counted.
    pub(super) fn book(
        &mut self,
        now: impl FnOnce() -> BTreeMap<String, (Counted, Present)>,
    ) -> Result<(), ControlError> {
        match self {
            Self::Absent => Ok(()),
            Self::Counted(kept) => kept.book(&now()),
            Self::Unpaused(_) => self.pause().map_err(|error| unwritten(&error)),
        }
    }

    fn pause(&mut self) -> io::Result<()> {
        if let Self::Unpaused(kept) = self {
            kept.pause()?;
            *self = Self::Absent;
        }
        Ok(())
    }
}

fn unwritten(error: &io::Error) -> ControlError {
    ControlError::Refused(format!("the books of usage cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::symlink;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use super::*;

    #[test]
    fn a_full_disk_refuses_no_start_that_counts_no_users() {
        let folder = std::env::temp_dir().join(format!("tidegate-users-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let directory = folder.to_str().unwrap().to_owned();
        let payers = Payers::Users { unnamed: |_| None };
        let runs = |this_run| LeftRuns { this_run, left: Vec::new() };
        let open = |is_counted, this_run| {
            Users::open(Some(&directory), payers, is_counted, &runs(this_run), |left| left.user.clone())
        };
        // An earlier run has counted users.
        open(true, 1).unwrap().book(BTreeMap::new).unwrap();
        let path = folder.join(USERS_FILE);
        let written = fs::read(&path).unwrap();
        assert!(!written.is_empty());
        // A file that can be opened and takes no bytes more, as on a full disk.
        let mut full = fs::File::from(memfd_create("books", MemfdFlags::ALLOW_SEALING).unwrap());
        full.write_all(&written).unwrap();
        fcntl_add_seals(&full, SealFlags::GROW).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(format!("/proc/self/fd/{}", full.as_raw_fd()), &path).unwrap();
        let mut users = open(false, 2).unwrap();
        assert!(users.counted().is_none());
        users.book(BTreeMap::new).unwrap_err();
        // The books have the pause once they can be written.
        fs::remove_file(&path).unwrap();
        fs::write(&path, &written).unwrap();
        open(false, 3).unwrap();
        let paused = fs::read(&path).unwrap();
        assert!(paused.len() > written.len());
        open(false, 4).unwrap().book(BTreeMap::new).unwrap();
        assert_eq!(fs::read(&path).unwrap(), paused, "once");
        fs::remove_dir_all(&folder).unwrap();
    }
}
