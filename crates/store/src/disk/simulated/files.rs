//! The simulated disk as the store uses it.

use std::io;
use std::sync::{Arc, MutexGuard};

use super::{Change, Content, Edit, Failure, SimulatedDisk, State, overwrite};
use crate::disk::{Disk, DiskFile, LockError, LockGuard};

impl Disk for SimulatedDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.change()?;
        if state.fails(Failure::Create) {
            return Err(io::Error::other("simulated EMFILE of a create"));
        }
        let known = state.names.get(name).copied();
        let number = known.unwrap_or(state.next_file);
        if known.is_some() {
            if let Some(content) = state.files.get_mut(&number) {
                content.current.clear();
                content.allocated = 0;
                content.unsynced.push(Edit::Length(0));
            }
        } else {
            state.next_file += 1;
            state.files.insert(number, Content::default());
            state.names.insert(name.to_owned(), number);
            state.changes.push(Change::Link { name: name.to_owned(), file: number });
        }
        let life = state.life;
        drop(state);
        Ok(Arc::new(SimulatedFile { disk: self.clone(), number, life }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.power()?;
        if state.fails(Failure::Open) {
            return Err(io::Error::other("simulated EMFILE of an open"));
        }
        let number = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let life = state.life;
        drop(state);
        Ok(Arc::new(SimulatedFile { disk: self.clone(), number, life }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let under_way = state.names.get(from).copied().filter(|_| state.power_ends_now());
        if let Some(file) = under_way {
            state.changes.push(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
        }
        state.change()?;
        if state.fails(Failure::Rename) {
            return Err(io::Error::other("simulated EIO of a rename"));
        }
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        state.changes.push(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        if state.fails(Failure::Remove) {
            return Err(io::Error::other("simulated EIO of a removal"));
        }
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.changes.push(Change::Unlink { name: name.to_owned() });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.power()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        if state.fails(Failure::SyncDirectory) {
            return Err(io::Error::other("simulated EIO of a directory's sync"));
        }
        state.changes.clear();
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        let state = self.state();
        state.power()?;
        Ok(state.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used())))
    }

    fn lock(&self) -> Result<LockGuard, LockError> {
        let mut state = self.state();
        state.power()?;
        if state.read_only {
            return Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem).into());
        }
        if state.locked {
            return Err(LockError::Held { holder: Some(4_711) });
        }
        state.locked = true;
        let life = state.life;
        drop(state);
        Ok(Box::new(SimulatedLock { disk: self.clone(), life }))
    }

    fn lock_for_reading(&self) -> Result<LockGuard, LockError> {
        if self.state().read_only {
            return Ok(Box::new(()));
        }
        self.lock()
    }

    fn random(&self) -> u64 {
        self.state().random()
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    life: u64,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.life == self.life {
            state.locked = false;
        }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    number: u64,
    life: u64,
}

impl SimulatedFile {
    /// The disk, unless the process that had this file open has ended.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        state.power()?;
        if state.life == self.life { Ok(state) } else { Err(io::Error::other("the process has ended")) }
    }
}

fn gone() -> io::Error {
    io::Error::other("the file was lost")
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.alive()?;
        let offset = offset as usize;
        if state.power_ends_now() {
            // Some sectors of the write under way may reach the disk.
            let content = state.files.get_mut(&self.number).ok_or_else(gone)?;
            content.unsynced.push(Edit::Write { offset, bytes: bytes.to_vec() });
        }
        state.change()?;
        let mut written = bytes.len();
        let mut outcome = Ok(());
        if state.fails(Failure::Write) {
            written = state.below(bytes.len() as u64) as usize;
            outcome = Err(io::Error::other("simulated EIO of a write"));
        } else if state.fails(Failure::ShortWrite) {
            written = state.below(bytes.len() as u64) as usize;
            outcome = Err(io::ErrorKind::StorageFull.into());
        }
        let (used, capacity) = (state.used(), state.capacity);
        let content = state.files.get_mut(&self.number).ok_or_else(gone)?;
        let growth = (offset + written).saturating_sub(content.allocated) as u64;
        let room = capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(used));
        if growth > room {
            written = written.saturating_sub((growth - room) as usize);
            outcome = Err(io::ErrorKind::StorageFull.into());
        }
        if written > 0 {
            overwrite(&mut content.current, offset, &bytes[..written]);
            content.allocated = content.allocated.max(offset + written);
            content.unsynced.push(Edit::Write { offset, bytes: bytes[..written].to_vec() });
        }
        outcome
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.alive()?;
        if state.fails(Failure::Read) {
            return Err(io::Error::other("simulated EIO of a read"));
        }
        let content = state.files.get(&self.number).ok_or_else(gone)?;
        let begin = offset as usize;
        let from = content.current.get(begin..begin.saturating_add(bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.alive()?;
        state.change()?;
        let is_fenced = state.fails(Failure::Fence);
        let fails = is_fenced || state.fails(Failure::Sync);
        let mut content = state.files.remove(&self.number).ok_or_else(gone)?;
        let outcome = if fails {
            // The pages count as clean from now on, whether they were written or not.
            let current = content.current.clone();
            state.forget(&mut content);
            content.current = current;
            if is_fenced {
                Err(crate::Fenced::error("simulated fence"))
            } else {
                Err(io::Error::other("simulated EIO of a sync"))
            }
        } else {
            // A failed sync marks its pages clean, so this sync does not write them again.
            for edit in std::mem::take(&mut content.unsynced) {
                match edit {
                    Edit::Length(length) => content.durable.resize(length, 0),
                    Edit::Write { offset, bytes } => overwrite(&mut content.durable, offset, &bytes),
                }
            }
            Ok(())
        };
        state.files.insert(self.number, content);
        outcome
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.alive()?;
        Ok(state.files.get(&self.number).ok_or_else(gone)?.current.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.alive()?;
        state.change()?;
        let content = state.files.get_mut(&self.number).ok_or_else(gone)?;
        content.current.resize(length as usize, 0);
        content.allocated = content.allocated.min(length as usize);
        content.unsynced.push(Edit::Length(length as usize));
        Ok(())
    }
}
