//! CPU limits and CPU accounts by cgroups, version 1 or 2, where this user may make them.
//!
//! A process joins its cgroup before its program starts, so all its child processes are inside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_proc::{Mounts, PERIOD_US, number_after, quota_us};

/// How this machine limits CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cgroups {
    /// Version 1: where `cpu` and, if it is mounted, `cpuacct` are.
    V1 { cpu: PathBuf, account: Option<PathBuf> },
    /// Version 2: the directory below which cgroups are made.
    V2(PathBuf),
    /// Not at all, and why.
    Unavailable(String),
}

/// Why a cgroup is not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum CgroupError {
    /// This machine has no cgroups for this user.
    #[error("{0}")]
    Unavailable(String),
    /// A directory or a file of the cgroup.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The directory or the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Cgroups {
    /// Finds out which cgroups this machine allows, by trying.
    pub(super) fn detect() -> Self {
        let mounts = match Mounts::of_this_process() {
            Ok(mounts) => mounts,
            Err(error) => return Self::Unavailable(format!("/proc does not say where cgroups are: {error}")),
        };
        let found = Self::find(&mounts);
        match found.try_out() {
            Ok(()) => found,
            Err(error) => Self::Unavailable(format!("this user may not make cgroups: {error}")),
        }
    }

    fn find(mounts: &Mounts) -> Self {
        if let Some(place) = mounts.v2(&["cpu"]) {
            return Self::V2(place);
        }
        match mounts.v1("cpu") {
            Some(cpu) => {
                let account = mounts.v1("cpuacct").filter(|account| *account != cpu);
                Self::V1 { cpu, account }
            }
            None => Self::Unavailable("no cgroup with the `cpu` controller is mounted or delegated".to_owned()),
        }
    }

    fn try_out(&self) -> Result<(), CgroupError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-try-{}-{number}", std::process::id());
        let made = self.make(&name, 0.5)?;
        remove(&made);
        Ok(())
    }

    /// Why there are no limits; `None` when there are.
    pub(super) fn block_reason(&self) -> Option<&str> {
        match self {
            Self::Unavailable(why) => Some(why),
            _ => None,
        }
    }

    /// Makes a cgroup with this quota of cores, and gives its directories; it may be there already.
    pub(super) fn make(&self, name: &str, cores: f64) -> Result<Vec<PathBuf>, CgroupError> {
        let quota = quota_us(cores);
        let directories: Vec<PathBuf> = match self {
            Self::V1 { cpu, account } => {
                [Some(cpu), account.as_ref()].into_iter().flatten().map(|at| at.join(name)).collect()
            }
            Self::V2(place) => vec![place.join(name)],
            Self::Unavailable(why) => return Err(CgroupError::Unavailable(why.clone())),
        };
        for directory in &directories {
            if let Err(source) = fs::create_dir(directory)
                && source.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(CgroupError::Io { path: directory.clone(), source });
            }
        }
        let settings = match self {
            Self::V2(_) => vec![("cpu.max", format!("{quota} {PERIOD_US}"))],
            _ => vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())],
        };
        for (file, text) in settings {
            let path = directories[0].join(file);
            fs::write(&path, text).map_err(|source| CgroupError::Io { path, source })?;
        }
        Ok(directories)
    }
}

/// CPU time of the processes of a cgroup, ended ones included.
pub(super) fn used(directories: &[PathBuf]) -> Option<Duration> {
    let v1 = |at: &PathBuf| Some(Duration::from_nanos(read(&at.join("cpuacct.usage"))?.trim().parse().ok()?));
    let v2 = |at: &PathBuf| Some(Duration::from_micros(number_after(&read(&at.join("cpu.stat"))?, "usage_usec")?));
    directories.iter().find_map(|at| v1(at).or_else(|| v2(at)))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Removes a cgroup whose processes have ended. Returns false for one that is not empty yet, which stays.
pub(super) fn remove(directories: &[PathBuf]) -> bool {
    let mut gone = true;
    for directory in directories {
        if let Err(error) = fs::remove_dir(directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            gone = false;
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_found_where_controllers_are_mounted() {
        let mounts = Mounts {
            mounts: "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                     cgroup /sys/fs/cgroup/cpuacct cgroup rw,cpuacct 0 0\n"
                .to_owned(),
            own: "3:cpu:/\n2:cpuacct:/a\n0::/\n".to_owned(),
        };
        let expected = Cgroups::V1 {
            cpu: PathBuf::from("/sys/fs/cgroup/cpu/"),
            account: Some(PathBuf::from("/sys/fs/cgroup/cpuacct/a")),
        };
        assert_eq!(Cgroups::find(&mounts), expected);
        let joined = Mounts {
            mounts: "cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n".to_owned(),
            own: "4:cpu,cpuacct:/user\n".to_owned(),
        };
        let expected = Cgroups::V1 { cpu: PathBuf::from("/c/cpu,cpuacct/user"), account: None };
        assert_eq!(Cgroups::find(&joined), expected);
    }

    #[test]
    fn without_cgroups_there_is_a_reason() {
        let mounts = Mounts { mounts: "proc /proc proc rw 0 0\n".to_owned(), own: String::new() };
        assert!(Cgroups::find(&mounts).block_reason().is_some());
    }

    #[test]
    fn cgroups_are_made_and_removed_where_allowed() {
        let cgroups = Cgroups::detect();
        if let Some(why) = cgroups.block_reason() {
            assert!(!why.is_empty());
            return;
        }
        let made = cgroups.make(&format!("tidegate-test-{}", std::process::id()), 0.25).unwrap();
        assert!(used(&made).is_some(), "{made:?}");
        assert!(remove(&made) && made.iter().all(|at| !at.exists()));
    }
}
