//! The directory of a bus: who may use it, its lock, and its socket.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::BusError;

/// The file that the process which serves the bus has locked.
const LOCK: &str = "lock";
/// The socket at which it serves.
const SOCKET: &str = "bus.sock";
/// Longest path of a socket on Linux, bytes.
const MAX_SOCKET_PATH: usize = 107;
/// Rights of other users.
const OTHERS: u32 = 0o077;
/// File systems of other machines: a lock or a socket on them does not connect processes of one machine alone.
const NETWORK: [&str; 11] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs"];

/// A directory that can be used.
#[derive(Clone, Debug)]
pub(in crate::embedded) struct BusDirectory {
    path: PathBuf,
}

impl BusDirectory {
    /// Makes the directory where it is missing, and checks that it can be used.
    ///
    /// # Errors
    /// [`BusError::Directory`] with the directory and the remedy.
    pub(in crate::embedded) fn prepare(path: &Path) -> Result<Self, BusError> {
        let shown = path.display();
        let failed = |error: io::Error| BusError::Directory(format!("{shown}: {error}"));
        let socket = path.join(SOCKET);
        let length = socket.as_os_str().len();
        if length > MAX_SOCKET_PATH {
            return Err(BusError::Directory(format!(
                "{shown}: the path of its socket, {}, has {length} bytes, and a socket takes {MAX_SOCKET_PATH}; choose a directory with a shorter path",
                socket.display()
            )));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(BusError::Directory(format!(
                "{shown} has mode {mode:o}, and other users could use the bus; do `chmod 700 {shown}`"
            )));
        }
        let real = fs::canonicalize(path).map_err(failed)?;
        // If the mounts cannot be read, nothing is known of them.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(kind) = network_kind(&mounts, &real) {
            return Err(BusError::Directory(format!(
                "{shown} is on a network file system ({kind}), which does not connect the processes of one machine; choose a directory on a local disk, or a bus of NATS"
            )));
        }
        Ok(Self { path: path.to_owned() })
    }

    pub(in crate::embedded) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::embedded) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// The process that serves the bus, as it has written itself.
    pub(in crate::embedded) fn server(&self) -> String {
        let number = fs::read_to_string(self.path.join(LOCK)).unwrap_or_default();
        format!("process {}", number.trim())
    }

    /// Takes the lock, unless another process has it. The file then has the number of this process.
    pub(in crate::embedded) fn try_lock(&self) -> io::Result<Option<File>> {
        let mut lock = OpenOptions::new().write(true).create(true).truncate(false).open(self.path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {
                lock.set_len(0)?;
                writeln!(lock, "{}", std::process::id())?;
                Ok(Some(lock))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The kind of network file system that a path is on, from the table of mounts of the kernel (proc(5)).
fn network_kind(mounts: &str, path: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        let kind = system.split(' ').next()?.to_owned();
        path.starts_with(&point).then_some((point.len(), kind))
    };
    // Of several mounts at one place the last one counts.
    let (_, kind) = mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length)?;
    NETWORK.contains(&kind.as_str()).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_on_a_network_file_system_is_known() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/vda rw\n40 22 0:44 / /mnt/a\\040b rw shared:1 - nfs4 host:/x rw\n\
                      41 40 8:2 / /mnt/a\\040b/local rw - xfs /dev/vdb rw\n";
        let kind = |path: &str| network_kind(mounts, Path::new(path));
        assert_eq!((kind("/var/bus"), kind("/mnt/a b/local/bus"), kind("/mnt/a")), (None, None, None));
        assert_eq!(kind("/mnt/a b/bus").as_deref(), Some("nfs4"));
    }

    #[test]
    fn errors_of_a_directory_name_it_and_the_remedy() {
        let path = std::env::temp_dir().join(format!("tidegate-bus-rights-{}", std::process::id()));
        let said = |path: &Path| BusDirectory::prepare(path).unwrap_err().to_string();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(said(&path).contains(&format!("do `chmod 700 {}`", path.display())), "{}", said(&path));
        fs::remove_dir(&path).unwrap();
        let prepared = BusDirectory::prepare(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let (first, second) = (prepared.try_lock().unwrap(), prepared.try_lock().unwrap());
        assert!(first.is_some() && second.is_none());
        let long = path.join("x".repeat(100));
        assert!(said(&long).contains("choose a directory with a shorter path"), "{}", said(&long));
        fs::remove_dir_all(&path).unwrap();
    }
}
