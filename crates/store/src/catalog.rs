//! State shared by the store's threads: the files in use, the status, and the requests for a merge.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::Disk;
use crate::journal::segment::Segment;
use crate::manifest::Manifest;
use crate::pace::{self, Pace};
use crate::reserve::Reserve;
use crate::table::Table;
use crate::{OpenError, Settings, State, Status, SweepFactory};

/// State that all threads of one store share.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) settings: Settings,
    pub(crate) sweep: SweepFactory,
    pub(crate) status: Arc<Status>,
    catalog: Mutex<Catalog>,
    reserve: Reserve,
    pub(crate) work: Work,
}

/// The files in use.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) table: Option<Arc<Table>>,
    /// The number of the first frame that is not in the table.
    pub(crate) merged: u64,
    /// Oldest first; the last one is being written.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// For the name of the next file.
    pub(crate) next: u64,
    /// Files of a segment's size, written once, for segments to come.
    pub(crate) spares: Vec<String>,
    /// Files that a manifest may name whose save is uncertain. They are removed after the next save that certainly
    /// succeeded.
    pub(crate) orphans: Vec<String>,
    /// How often frames that could be read already were given up and written again elsewhere.
    pub(crate) abandoned: u64,
}

impl Catalog {
    fn manifest(&self) -> Manifest {
        Manifest {
            table: self.table.as_ref().map(|table| table.generation),
            merged: self.merged,
            next: self.next,
            segments: self.segments.iter().map(|segment| (segment.id, segment.first)).collect(),
        }
    }

    /// Takes a number for the name of a file.
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Makes this the state that a restart finds.
    pub(crate) fn save(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        self.manifest().save(disk)?;
        for name in self.orphans.drain(..) {
            // Files that cannot be removed now are removed when the store is opened.
            let _ = disk.remove(&name);
        }
        Ok(())
    }

    /// Bytes of the journal's files but the last.
    pub(crate) fn closed_bytes(&self) -> u64 {
        let closed = self.segments.len().saturating_sub(1);
        self.segments.iter().take(closed).map(|segment| segment.end()).sum()
    }

    pub(crate) fn journal_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end()).sum()
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.bytes)
    }
}

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, settings: Settings, sweep: SweepFactory, catalog: Catalog) -> Self {
        use std::sync::atomic::Ordering::Relaxed;
        let status = Status::default();
        status.max_bytes.store(settings.max_bytes, Relaxed);
        status.min_free_bytes.store(settings.min_free_bytes, Relaxed);
        status.max_pending_bytes.store(settings.max_pending_bytes, Relaxed);
        let reserve = Reserve::find(&*disk, settings.reserve_bytes);
        if reserve.bytes() > 0 {
            // An earlier process has used a part of it.
            status.reserve_missing.store(reserve.missing(), Relaxed);
        }
        let shared = Self {
            disk,
            settings,
            sweep,
            status: Arc::new(status),
            catalog: Mutex::new(catalog),
            reserve,
            work: Work::default(),
        };
        shared.measure(&shared.catalog());
        shared.measure_free_space();
        shared
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the sizes in the status up to date.
    pub(crate) fn measure(&self, catalog: &Catalog) {
        use std::sync::atomic::Ordering::Relaxed;
        self.status.journal_bytes.store(catalog.journal_bytes(), Relaxed);
        self.status.table_bytes.store(catalog.table_bytes(), Relaxed);
        self.status.segments.store(catalog.segments.len() as u64, Relaxed);
        self.status.table_entries.store(catalog.table.as_ref().map_or(0, |table| table.entries), Relaxed);
    }

    /// How fast groups may be written at the moment.
    pub(crate) fn pace(&self) -> Pace {
        use std::sync::atomic::Ordering::Relaxed;
        let status = &self.status;
        let fails = status.merges_fail.load(Relaxed);
        let pace = pace::pace(&self.settings, status.journal_bytes(), status.table_bytes(), fails);
        // Only closed files can be merged, and only writing closes one.
        let waits_in_vain = matches!(pace, Pace::Wait(_)) && self.catalog().closed_bytes() == 0;
        if waits_in_vain { Pace::Go } else { pace }
    }

    /// Asks the disk how much room there is. A disk that does not answer is not full for that.
    pub(crate) fn measure_free_space(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        let free = self.disk.free_space().unwrap_or(u64::MAX);
        self.status.free_bytes.store(free, Relaxed);
        if self.status.reserve_missing() > 0 && self.may_fill_reserve() {
            self.work.ask(|wanted| wanted.reserve = true);
        }
    }

    /// Releases bytes of the reserve for a write that failed with a full disk. Returns whether any were released.
    pub(crate) fn use_reserve(&self, bytes: u64) -> bool {
        self.release(bytes, 0)
    }

    /// Releases bytes of the reserve for a merge. Half of the reserve stays for the journal, without which deletes
    /// would fail.
    pub(crate) fn use_reserve_for_merge(&self) -> bool {
        let half = self.settings.reserve_bytes / 2;
        self.release(half, half)
    }

    fn release(&self, bytes: u64, stays: u64) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        if !self.reserve.release(&*self.disk, bytes, stays) {
            return false;
        }
        let missing = self.reserve.missing();
        if self.status.reserve_missing.swap(missing, Relaxed) == 0 {
            tracing::error!(
                reserve = self.settings.reserve_bytes,
                "the disk is full: the store uses its reserve and rejects new data until there is space"
            );
        }
        // Nothing asks for the reserve here: the write that needs this space has not been repeated.
        self.status.free_bytes.store(self.disk.free_space().unwrap_or(u64::MAX), Relaxed);
        true
    }

    fn has_room_for_reserve(&self) -> bool {
        let needed = self.settings.min_free_bytes.saturating_add(self.reserve.missing());
        self.status.free_bytes() >= needed
    }

    /// Whether the reserve may be made whole. Not while writes fail: a disk may name room that it does not give, as under a
    /// quota, and the writer would take the reserve again and again.
    fn may_fill_reserve(&self) -> bool {
        self.status.state() == State::Ok && self.has_room_for_reserve()
    }

    /// Makes the reserve whole, if there is room for it.
    pub(crate) fn fill_reserve(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        let missing = self.reserve.missing();
        let free = self.disk.free_space().unwrap_or(u64::MAX);
        self.status.free_bytes.store(free, Relaxed);
        if self.status.state() != State::Ok {
            return;
        }
        if missing > 0 && !self.has_room_for_reserve() {
            tracing::warn!(free, missing, "the disk has no space for the store's reserve");
            return;
        }
        match self.reserve.fill(&*self.disk) {
            Ok(()) => {
                if self.status.reserve_missing.swap(0, Relaxed) > 0 {
                    tracing::info!("the store's reserve is complete again");
                }
            }
            Err(error) => tracing::warn!(%error, "cannot create the store's reserve"),
        }
    }
}

/// Requests to the merging thread.
#[derive(Default)]
pub(crate) struct Work {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent requests")]
pub(crate) struct Wanted {
    pub(crate) merge: bool,
    pub(crate) spare: bool,
    /// The reserve is to be made whole.
    pub(crate) reserve: bool,
    pub(crate) stop: bool,
}

impl Work {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ask(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.wanted());
        self.changed.notify_one();
    }

    pub(crate) fn stops(&self) -> bool {
        self.wanted().stop
    }

    /// Takes the requests, except for the request to stop, which stays. Waits for one, at most for `longest`.
    pub(crate) fn take(&self, longest: Option<Duration>) -> Wanted {
        let idle = |wanted: &mut Wanted| *wanted == Wanted::default();
        let wanted = self.wanted();
        let mut wanted = match longest {
            None => self.changed.wait_while(wanted, idle).unwrap_or_else(PoisonError::into_inner),
            Some(longest) => {
                let outcome = self.changed.wait_timeout_while(wanted, longest, idle);
                outcome.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        let taken = *wanted;
        *wanted = Wanted { stop: taken.stop, ..Wanted::default() };
        taken
    }
}
