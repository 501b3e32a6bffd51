//! A directory of the real file system, through std and so through libc.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FsWord, PROC_SUPER_MAGIC};

use super::{Disk, DiskFile, LockError, LockGuard, is_full, write_zeros};

/// The file that says who has the store open.
const LOCK: &str = "LOCK";

/// The owner alone may look into the directory.
const DIRECTORY_MODE: u32 = 0o700;
/// The owner alone may read and write.
const FILE_MODE: u32 = 0o600;

/// File systems that show the state of the kernel and keep no files, by their numbers in statfs(2): proc, sysfs, cgroup
/// and cgroup2, debugfs, tracefs, securityfs.
const KERNEL_FILE_SYSTEMS: [FsWord; 7] =
    [PROC_SUPER_MAGIC, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163, 0x7363_6673];

/// A directory of the real file system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
}

impl RealDisk {
    /// A directory, which is made when it is not there, for its owner alone.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        if let Ok(there) = fs::metadata(path)
            && !there.is_dir()
        {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "there is a file of this name"));
        }
        if !path.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path);
            made.map_err(|error| {
                let text = format!(
                    "the directory is not there and cannot be made: {error}; make it, for the user of the broker"
                );
                io::Error::new(error.kind(), text)
            })?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Whether [`RealDisk::create`] would succeed, as far as can be checked without changes.
    ///
    /// # Errors
    /// When the directory cannot be made or written.
    pub fn check(path: &Path) -> io::Result<()> {
        let there = path.ancestors().find(|it| it.as_os_str().is_empty() || it.exists()).unwrap_or(path);
        let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
        if !there.is_dir() {
            let text = format!("{} is a file", there.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, text));
        }
        if KERNEL_FILE_SYSTEMS.contains(&rustix::fs::statfs(there)?.f_type) {
            let text =
                format!("{} belongs to the kernel and keeps no files; choose another directory", there.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(rustix::fs::access(there, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?)
    }

    /// The size of the file system that a directory is on, or will be on once it is made, bytes.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn file_system_size(path: &Path) -> io::Result<u64> {
        let there = path.ancestors().find(|it| !it.as_os_str().is_empty() && it.exists()).unwrap_or(Path::new("."));
        let answer = rustix::fs::statvfs(there)?;
        Ok(answer.f_blocks.saturating_mul(answer.f_frsize))
    }

    /// A directory that is there.
    ///
    /// # Errors
    /// When the directory does not exist.
    pub fn existing(path: &Path) -> io::Result<Self> {
        if !fs::metadata(path)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        Ok(Arc::new(RealFile(options.open(self.path.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path.join(name);
        let both = OpenOptions::new().read(true).write(true).open(&path);
        let file = match both {
            Err(error) if may_still_read(&error) => File::open(&path)?,
            other => other?,
        };
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not Unicode is not a file of the store.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn free_space(&self) -> io::Result<u64> {
        let answer = rustix::fs::statvfs(&self.path)?;
        Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
    }

    fn lock(&self) -> Result<LockGuard, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let path = self.path.join(LOCK);
        let is_new = !path.exists();
        let file = take(options.open(&path)?)?;
        // Always as long, so that it needs no room where it is there already.
        let said = file.write_all_at(format!("{:<15}\n", std::process::id()).as_bytes(), 0);
        match said {
            Err(error) if is_new || !is_full(&error) => {
                if is_new {
                    // On a full disk, remove the file that could not be written.
                    let _ = fs::remove_file(&path);
                }
                Err(error.into())
            }
            // The lock decides, not the content of the file.
            _ => Ok(Box::new(HeldLock(file))),
        }
    }

    fn lock_for_reading(&self) -> Result<LockGuard, LockError> {
        match File::open(self.path.join(LOCK)) {
            Ok(file) => Ok(Box::new(HeldLock(take(file)?))),
            // A writer creates this file first, so there is no writer.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(())),
            Err(error) => Err(error.into()),
        }
    }

    fn random(&self) -> u64 {
        // The keys of std's hasher come from the system's random numbers.
        RandomState::new().hash_one(&self.path)
    }
}

/// The file with the lock of this process.
struct HeldLock(File);

/// Another thread may just start a program. Until that program runs, its process has a copy of the open file. A closed file
/// then keeps its lock; an unlocked one does not.
impl Drop for HeldLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Takes the lock of an open file.
fn take(mut file: File) -> Result<File, LockError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = Read::take(&mut file, 32).read_to_string(&mut text);
            let holder = read.ok().and_then(|_| text.trim().parse().ok());
            Err(LockError::Held { holder })
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn may_still_read(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn allocate(&self, from: u64, length: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&self.0, flags, from, length.saturating_sub(from)) {
            Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(self, from, length),
            other => Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_open_file_does_not_keep_the_lock() {
        let folder = std::env::temp_dir().join(format!("tidegate-held-lock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(LOCK);
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let held = HeldLock(take(open()).unwrap());
        // A child process of another thread holds such a copy.
        let copy = held.0.try_clone().unwrap();
        assert!(matches!(take(open()), Err(LockError::Held { .. })));
        drop(held);
        assert!(take(open()).is_ok());
        drop(copy);
        fs::remove_dir_all(folder).unwrap();
    }
}
