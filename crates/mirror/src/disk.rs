//! The disk that the store sees.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_store::{Disk, DiskFile, LockError, LockGuard, inspect};

use crate::carrier::{Carrier, Order};
use crate::extents::Extents;
use crate::files::FileId;
use crate::local::{holds, is_own};
use crate::record::Body;
use crate::{Lost, MirrorError};

/// Zeros at the end of a write that are worth leaving out where the file ends, bytes.
const MIN_ZEROS: usize = 512;

/// Behind the name of a file that replaces another one, until all of it is there.
const ASIDE: &str = ".new";

/// Files in a directory that are also on the bus. After a sync, the bus has confirmed them.
///
/// Writes go to both at once and a sync waits for both, so that the bus costs no more than the slower of the two. While
/// the bus is unreachable syncs wait, and reads continue. Dropping it ends it without waiting.
pub struct MirrorDisk {
    carrier: Arc<Carrier>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The last record with a change of a name.
    names: AtomicU64,
    is_locked: Arc<AtomicBool>,
    /// Other processes are kept away from the directory as long as the mirror is open.
    _lock: LockGuard,
}

impl std::fmt::Debug for MirrorDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MirrorDisk").finish_non_exhaustive()
    }
}

/// How a mirror is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorStatus {
    /// Bytes that the log takes on the bus, by our own count.
    pub log_bytes: u64,
    /// Bytes of it that the files hold.
    pub live_bytes: u64,
    /// Records that wait for their confirmation.
    pub waiting: u64,
    /// Whether a failure of the bus is being repaired: commits wait.
    pub is_interrupted: bool,
    /// For how long the bus has confirmed no record although some are pending.
    pub stalled: Duration,
}

impl MirrorDisk {
    pub(crate) fn start(carrier: Carrier, lock: LockGuard) -> io::Result<Self> {
        let carrier = Arc::new(carrier);
        let runs = Arc::clone(&carrier);
        let thread = thread::Builder::new().name("mirror".to_owned()).spawn(move || runs.run())?;
        let (names, is_locked) = (AtomicU64::new(0), Arc::default());
        Ok(Self { carrier, thread: Mutex::new(Some(thread)), names, is_locked, _lock: lock })
    }

    /// How it is doing.
    pub fn status(&self) -> MirrorStatus {
        let state = self.carrier.send_queue.state();
        MirrorStatus {
            log_bytes: state.used(),
            live_bytes: self.carrier.send_queue.files().bytes(),
            waiting: state.queue.len() as u64,
            is_interrupted: state.trouble.is_some() || state.is_refilling,
            stalled: state.stalled(),
        }
    }

    /// Whether the bus has not confirmed all records, or a failure of it is being repaired. Never waits for the disk.
    pub fn waits_for_bus(&self) -> bool {
        let state = self.carrier.send_queue.state();
        !state.queue.is_empty() || state.trouble.is_some() || state.is_refilling
    }

    /// Why writes fail for good; `None` while they do not.
    pub fn lost(&self) -> Option<Lost> {
        self.carrier.send_queue.state().lost.clone()
    }

    /// Notes that this process serves as a member of its cluster, from the table of this epoch on. Only the first call
    /// counts.
    ///
    /// # Errors
    /// When the log is lost, or was fenced for members of this epoch: then it is lost now.
    pub fn serve_since(&self, epoch: u64) -> Result<(), Lost> {
        self.carrier.serve_since(epoch)
    }

    /// Waits for the pending records, at most for `patience`, then fails them. For a node that is to stop while the bus
    /// is unreachable. Afterwards all writes fail.
    pub fn close(&self, patience: Duration) {
        let index = self.carrier.check().and_then(|()| self.carrier.index(&mut self.carrier.order()));
        if let Ok(index) = index {
            self.carrier.wait_in_time(patience, |state| state.noted >= index);
        }
        self.end();
    }

    /// Fails the pending records, and ends.
    fn end(&self) {
        self.carrier.lose(&Lost::Closed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of a mirror panicked");
        }
    }

    /// Puts a whole file into the directory and on the bus, in the place of the file that has this name. Readers of
    /// either find the old content or the new one. When this returns, the bus has confirmed it. A file with the same
    /// content is left as it is.
    ///
    /// # Errors
    /// When the directory or the bus cannot be written any more.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        if self.has(name, content) {
            return Ok(());
        }
        let aside = format!("{name}{ASIDE}");
        let file = self.create(&aside)?;
        file.write_at(content, 0)?;
        file.sync_data()?;
        self.rename(&aside, name)?;
        // A list that has it spares a restart to fetch all, since the file here is not the one of the last list.
        self.carrier.index(&mut self.carrier.order()).map_err(|lost| lost.to_io())?;
        self.sync_directory()
    }

    /// Whether a file has this content, here and in the records sent to the bus.
    fn has(&self, name: &str, content: &[u8]) -> bool {
        let mut extents = Extents::default();
        for (bytes, index) in content.chunks(self.carrier.settings.chunk_bytes).zip(0_u64..) {
            extents.write(index * self.carrier.settings.chunk_bytes as u64, bytes);
        }
        let files = self.carrier.send_queue.files();
        let known = files.id(name).and_then(|id| files.get(id));
        known.is_some_and(|known| known.length == content.len() as u64 && known.extents.agrees(&extents))
            && holds(&self.carrier.local, name, &extents)
    }

    /// Reads a file in portions.
    fn portions(
        &self,
        file: &dyn DiskFile,
        length: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = vec![0; self.carrier.settings.chunk_bytes];
        let mut at = 0;
        while at < length {
            let portion =
                &mut bytes[..usize::try_from(length - at).unwrap_or(usize::MAX).min(self.carrier.settings.chunk_bytes)];
            file.read_at(portion, at)?;
            each(at, portion)?;
            at += portion.len() as u64;
        }
        Ok(())
    }

    /// Carries a store that the directory has to an empty log.
    pub(crate) fn fill(&self) -> Result<(), MirrorError> {
        for name in self.carrier.local.list()?.into_iter().filter(|name| inspect::is_content(name)) {
            self.send_whole(&name)?;
        }
        Ok(())
    }

    /// Sends a file of the directory that the bus does not have. A reader of the log does not take it for whole before
    /// there is a list of all files.
    fn send_whole(&self, name: &str) -> io::Result<()> {
        let local = self.carrier.local.open(name)?;
        let id = self.link(&mut self.carrier.order(), name)?;
        let file = MirrorFile::new(&self.carrier, Some(id), Arc::clone(&local));
        self.portions(&*local, local.length()?, &mut |at, bytes| file.send_portions(id, bytes, at, Local::HasIt))?;
        file.wait()
    }

    /// Writes a list of all files, and waits until it is there and the working copy knows.
    pub(crate) fn note(&self) -> Result<(), MirrorError> {
        let index = self.carrier.index(&mut self.carrier.order())?;
        Ok(self.carrier.wait_until(|state| state.noted >= index)?)
    }

    fn link(&self, order: &mut Order, name: &str) -> io::Result<FileId> {
        let id = {
            let mut files = self.carrier.send_queue.files();
            let id = files.next();
            files.link(id, name);
            id
        };
        self.tell(order, &Body::Link { file: id, name })?;
        Ok(id)
    }

    /// Sends a change of names.
    fn tell(&self, order: &mut Order, body: &Body<'_>) -> io::Result<()> {
        let sequence = self.carrier.send(order, body, None, None).map_err(|lost| lost.to_io())?;
        self.names.fetch_max(sequence, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        self.carrier.check().map_err(|lost| lost.to_io())
    }

    fn file(&self, id: Option<FileId>, local: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(MirrorFile::new(&self.carrier, id, local))
    }
}

impl Drop for MirrorDisk {
    fn drop(&mut self) {
        self.end();
    }
}

impl Disk for MirrorDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.check()?;
        let mut order = self.carrier.order();
        // A new file: open handles of the old file must not see this one.
        match self.carrier.local.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let local = self.carrier.local.create(name)?;
        let id = self.link(&mut order, name)?;
        Ok(self.file(Some(id), local))
    }

    fn create_scratch(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(None, self.carrier.local.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let id = self.carrier.send_queue.files().id(name);
        Ok(self.file(id, self.carrier.local.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check()?;
        let mut order = self.carrier.order();
        self.carrier.local.rename(from, to)?;
        let is_carried = {
            let mut files = self.carrier.send_queue.files();
            let is_carried = files.id(from).is_some();
            files.rename(from, to);
            is_carried
        };
        if is_carried { self.tell(&mut order, &Body::Rename { from, to }) } else { Ok(()) }
    }

    fn recycle(&self, from: &str, to: &str) -> io::Result<()> {
        self.check()?;
        let mut order = self.carrier.order();
        self.carrier.local.rename(from, to)?;
        // The old content is not carried: on the bus the file is a new one of zeros, and the old one is removed.
        let length = self.carrier.local.open(to)?.length()?;
        let was_carried = self.carrier.send_queue.files().unlink(from).is_some();
        if was_carried {
            self.tell(&mut order, &Body::Unlink { name: from })?;
        }
        let id = self.link(&mut order, to)?;
        self.carrier.send_queue.files().reach(id).length = length;
        self.tell(&mut order, &Body::Length { file: id, length })?;
        self.carrier.index_in_time(&mut order).map_err(|lost| lost.to_io())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check()?;
        let mut order = self.carrier.order();
        self.carrier.local.remove(name)?;
        let was_carried = self.carrier.send_queue.files().unlink(name).is_some();
        if was_carried {
            self.tell(&mut order, &Body::Unlink { name })?;
            self.carrier.index_in_time(&mut order).map_err(|lost| lost.to_io())?;
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.carrier.local.list()?;
        names.retain(|name| !is_own(name));
        Ok(names)
    }

    fn sync_directory(&self) -> io::Result<()> {
        if self.carrier.settings.local_sync {
            self.carrier.local.sync_directory()?;
        }
        self.carrier.wait_for(self.names.load(Ordering::Relaxed)).map_err(|lost| lost.to_io())
    }

    fn free_space(&self) -> io::Result<u64> {
        let on_bus = self.carrier.settings.max_bytes.saturating_sub(self.carrier.send_queue.state().used());
        Ok(self.carrier.local.free_space()?.min(on_bus))
    }

    fn lock(&self) -> Result<LockGuard, LockError> {
        if self.is_locked.swap(true, Ordering::AcqRel) {
            return Err(LockError::Held { holder: Some(std::process::id()) });
        }
        Ok(Box::new(Locked(Arc::clone(&self.is_locked))))
    }

    fn lock_for_reading(&self) -> Result<LockGuard, LockError> {
        self.lock()
    }

    fn random(&self) -> u64 {
        self.carrier.local.random()
    }
}

/// The lock of one store within this process.
struct Locked(Arc<AtomicBool>);

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Whether the working copy has bytes that are to be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Local {
    HasIt,
    LacksIt,
}

struct MirrorFile {
    carrier: Arc<Carrier>,
    /// `None` for a file that is not needed after a restart.
    id: Option<FileId>,
    local: Arc<dyn DiskFile>,
    /// The last record about it.
    last: AtomicU64,
}

impl MirrorFile {
    fn new(carrier: &Arc<Carrier>, id: Option<FileId>, local: Arc<dyn DiskFile>) -> Self {
        Self { carrier: Arc::clone(carrier), id, local, last: AtomicU64::new(0) }
    }

    /// Writes bytes to the working copy and sends them, in portions.
    fn send_portions(&self, id: FileId, bytes: &[u8], at: u64, local: Local) -> io::Result<()> {
        let (chunk, max) = (self.carrier.settings.chunk_bytes, self.carrier.settings.max_unconfirmed_bytes);
        for (bytes, index) in bytes.chunks(chunk).zip(0_u64..) {
            let room = self.carrier.wait_until(|state| {
                let waits = state.unconfirmed(id);
                waits == 0 || waits + bytes.len() <= max
            });
            room.map_err(|lost| lost.to_io())?;
            self.send(id, bytes, at + index * chunk as u64, local)?;
        }
        Ok(())
    }

    /// Writes a portion and sends it. Both happen under the right to send: the thread that has that right finds in
    /// the working copy the content of all records, and can send them again.
    fn send(&self, id: FileId, bytes: &[u8], at: u64, local: Local) -> io::Result<()> {
        let mut order = self.carrier.order();
        if local == Local::LacksIt {
            self.local.write_at(bytes, at)?;
        }
        let (data, length) = {
            let mut files = self.carrier.send_queue.files();
            // A removed file that is still open is no longer mirrored.
            let Some(file) = files.get_mut(id) else { return Ok(()) };
            let end = at + bytes.len() as u64;
            let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
            let is_new = !file.extents.touches(end - zeros as u64, end);
            let data = if zeros >= MIN_ZEROS && is_new { &bytes[..bytes.len() - zeros] } else { bytes };
            let grows = end > file.length;
            file.length = file.length.max(end);
            file.extents.write(at, data);
            if data.is_empty() && !grows {
                return Ok(());
            }
            (data, file.length)
        };
        let (body, of) = if data.is_empty() {
            (Body::Length { file: id, length }, None)
        } else {
            (Body::Data { file: id, at, length, bytes: data }, Some(id))
        };
        let sequence = self.carrier.send(&mut order, &body, of, None).map_err(|lost| lost.to_io())?;
        self.last.fetch_max(sequence, Ordering::Relaxed);
        // Before a log has all files of the working copy, a list would say that there are no others.
        let is_whole = local == Local::LacksIt;
        if is_whole { self.carrier.index_in_time(&mut order).map_err(|lost| lost.to_io()) } else { Ok(()) }
    }

    fn wait(&self) -> io::Result<()> {
        self.carrier.wait_for(self.last.load(Ordering::Relaxed)).map_err(|lost| lost.to_io())
    }

    /// Refuses a write that exceeds the limit of the log, like a full disk.
    fn check_room(&self, bytes: usize) -> io::Result<()> {
        let state = self.carrier.send_queue.state();
        match &state.lost {
            Some(lost) => Err(lost.to_io()),
            None if state.used() + bytes as u64 > self.carrier.settings.max_bytes => {
                Err(io::ErrorKind::StorageFull.into())
            }
            None => Ok(()),
        }
    }
}

impl DiskFile for MirrorFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let Some(id) = self.id else { return self.local.write_at(bytes, offset) };
        self.check_room(bytes.len())?;
        self.send_portions(id, bytes, offset, Local::LacksIt)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.local.read_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.id.is_none() {
            return Ok(());
        }
        self.carrier.check().map_err(|lost| lost.to_io())?;
        if self.carrier.settings.local_sync {
            self.local.sync_data()?;
        }
        self.wait()
    }

    fn length(&self) -> io::Result<u64> {
        self.local.length()
    }

    fn allocate(&self, from: u64, length: u64) -> io::Result<()> {
        if self.id.is_none() {
            return self.local.allocate(from, length);
        }
        // Allocated bytes are zero: the bus needs only the length.
        self.local.allocate(from, length)?;
        self.set_length(length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let Some(id) = self.id else { return self.local.set_length(length) };
        self.carrier.check().map_err(|lost| lost.to_io())?;
        let mut order = self.carrier.order();
        self.local.set_length(length)?;
        {
            let mut files = self.carrier.send_queue.files();
            let Some(file) = files.get_mut(id) else { return Ok(()) };
            file.length = length;
            file.extents.cut(length);
        }
        let sent = self.carrier.send(&mut order, &Body::Length { file: id, length }, None, None);
        self.last.fetch_max(sent.map_err(|lost| lost.to_io())?, Ordering::Relaxed);
        Ok(())
    }
}
