//! Claims of ports: which fleet has which port of this machine, also while no process listens on it.
//!
//! A claim is a file named after host and port. It contains the path of the directory of the resource that has the
//! port. It is valid as long as the record there names the port, so that no abnormal end leaves a port claimed for
//! ever. The fleets of all users of a machine choose ports one after another, under one lock.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::io;
use super::record::Record;
use crate::provider::ProviderError;

const LOCK: &str = "lock";
/// All users may add claims, and none can remove another user's.
const SHARED: u32 = 0o1777;
/// How long others may take to choose.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before the lock is tried again.
const PAUSE: Duration = Duration::from_millis(10);
/// Longest claim, bytes.
const MAX_CLAIM: u64 = 4096;

/// The directory of this machine's claims.
pub fn of_this_machine() -> PathBuf {
    std::env::temp_dir().join("tidegate-ports")
}

/// All claims, with the right to change them, which ends with this value.
pub(super) struct Claims {
    directory: PathBuf,
    /// The hosts that claim a port.
    claimed: BTreeMap<u16, Vec<String>>,
    _lock: File,
}

impl Claims {
    /// Reads all claims, under the lock.
    ///
    /// # Errors
    /// When the directory cannot be used, or the lock is held for too long.
    pub(super) fn hold(directory: &Path) -> Result<Self, ProviderError> {
        ensure(directory).map_err(|source| io("use for claims of ports", directory, source))?;
        let path = directory.join(LOCK);
        let lock = open_lock(&path).map_err(|source| io("open", &path, source))?;
        let deadline = Instant::now() + PATIENCE;
        let (_never, nothing) = channel::<()>();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    let _ = nothing.recv_timeout(PAUSE);
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(io("lock", &path, ErrorKind::TimedOut.into()));
                }
                Err(fs::TryLockError::Error(source)) => return Err(io("lock", &path, source)),
            }
        }
        let claimed = read_all(directory).map_err(|source| io("read", directory, source))?;
        Ok(Self { directory: directory.to_owned(), claimed, _lock: lock })
    }

    /// Whether no other fleet has a port; removes invalid claims.
    pub(super) fn is_free(&self, host: &str, port: u16, own: &Path) -> bool {
        let hosts = self.claimed.get(&port).into_iter().flatten();
        hosts.filter(|other| meet(host, other)).all(|other| {
            let claim = self.path(other, port);
            match holder(&claim) {
                Some(holder) if holder == own => true,
                Some(holder) if has(&holder, port) => false,
                // Another user's claim may not be readable or removable: then it counts.
                Some(_) => remove(&claim).is_ok(),
                None => !claim.exists(),
            }
        })
    }

    /// Claims a port that is free.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn claim(&mut self, host: &str, port: u16, own: &Path) -> Result<(), ProviderError> {
        let path = self.path(host, port);
        let write = || {
            remove(&path)?;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
            file.write_all(own.as_os_str().as_bytes())
        };
        write().map_err(|source| io("write", &path, source))?;
        self.claimed.entry(port).or_default().push(host.to_owned());
        Ok(())
    }

    /// The addresses at which a resource has claimed a port.
    pub(super) fn hosts_of(&self, port: u16, own: &Path) -> Vec<&str> {
        let hosts = self.claimed.get(&port).into_iter().flatten();
        hosts.filter(|host| holder(&self.path(host, port)).is_some_and(|it| it == own)).map(String::as_str).collect()
    }

    /// Releases ports on one host.
    pub(super) fn give_back_at(&self, host: &str, ports: impl IntoIterator<Item = u16>, own: &Path) {
        for path in ports.into_iter().map(|port| self.path(host, port)) {
            if holder(&path).is_some_and(|holder| holder == own) {
                let _ = remove(&path);
            }
        }
    }

    /// Releases ports, on all hosts.
    pub(super) fn give_back(&self, ports: impl IntoIterator<Item = u16>, own: &Path) {
        let hosts = |port: u16| self.claimed.get(&port).into_iter().flatten().map(move |host| self.path(host, port));
        for path in ports.into_iter().flat_map(hosts) {
            // A remaining claim is invalid anyway: no record names the port.
            if holder(&path).is_some_and(|holder| holder == own) {
                let _ = remove(&path);
            }
        }
    }

    fn path(&self, host: &str, port: u16) -> PathBuf {
        self.directory.join(format!("{}@{port}", host.replace('/', "_")))
    }
}

/// Creates the directory if needed; a symbolic link is refused.
fn ensure(directory: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(directory) {
        Ok(there) if there.is_dir() => return Ok(()),
        Ok(_) => return Err(ErrorKind::NotADirectory.into()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    match DirBuilder::new().mode(SHARED).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        // The bits that the umask has removed.
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(SHARED)),
    }
}

/// Opened for reading, which is enough for the lock: another user's file in a shared directory may not be opened for
/// more.
fn open_lock(path: &Path) -> std::io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened,
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o644).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => File::open(path),
        Err(error) => Err(error),
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(0o644))?;
            Ok(file)
        }
    }
}

fn read_all(directory: &Path) -> std::io::Result<BTreeMap<u16, Vec<String>>> {
    let mut claimed: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let claim = name.to_str().and_then(|name| name.rsplit_once('@'));
        if let Some((host, port)) = claim.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
            claimed.entry(port).or_default().push(host.to_owned());
        }
    }
    Ok(claimed)
}

/// Whether two listeners on these hosts are in each other's way.
pub(super) fn meet(one: &str, other: &str) -> bool {
    let all = |host: &str| matches!(host, "0.0.0.0" | "::" | "[::]");
    one == other || all(one) || all(other)
}

/// Whose claim it is; `None` when it cannot be read.
fn holder(claim: &Path) -> Option<PathBuf> {
    let mut path = Vec::new();
    File::open(claim).ok()?.take(MAX_CLAIM).read_to_end(&mut path).ok()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

/// Whether the record of a resource names a port. An unreadable one may.
fn has(resource: &Path, port: u16) -> bool {
    if !resource.is_absolute() {
        return false;
    }
    match Record::of(resource) {
        Ok(record) => record.is_some_and(|record| record.ports.values().any(|own| *own == port)),
        Err(_) => true,
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
