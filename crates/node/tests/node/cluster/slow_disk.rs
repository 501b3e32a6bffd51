//! A disk on which nothing is safe until a test says so.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use tidegate_store::{Disk, DiskFile, LockError, LockGuard, SimulatedDisk};

/// Whether the disk makes anything safe at the moment.
#[derive(Default)]
pub(super) struct Gate {
    shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn set_shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        drop(self.changed.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

/// A disk in memory whose syncs wait at a gate.
pub(super) struct SlowDisk {
    pub(super) disk: SimulatedDisk,
    pub(super) gate: Arc<Gate>,
}

struct SlowFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl SlowDisk {
    fn slow(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(SlowFile { file, gate: Arc::clone(&self.gate) })
    }
}

impl Disk for SlowDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slow(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slow(self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }

    fn lock(&self) -> Result<LockGuard, LockError> {
        self.disk.lock()
    }

    fn lock_for_reading(&self) -> Result<LockGuard, LockError> {
        self.disk.lock_for_reading()
    }

    fn random(&self) -> u64 {
        self.disk.random()
    }
}

impl DiskFile for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }
}
