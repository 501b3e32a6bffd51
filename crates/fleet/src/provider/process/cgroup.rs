//! CPU limits and CPU accounts by cgroups, version 1 or 2, where this user may make them.
//!
//! A process joins its cgroup before its program starts, so all its child processes are inside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The period within which a quota of CPU time is given.
const PERIOD: Duration = Duration::from_millis(100);
/// Smallest quota that the kernel takes.
const LEAST_QUOTA: Duration = Duration::from_millis(1);

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

/// The parts of `/proc` that say where cgroups are.
pub(super) struct Mounts {
    /// `/proc/self/mounts`
    pub(super) mounts: String,
    /// `/proc/self/cgroup`
    pub(super) own: String,
}

impl Mounts {
    fn of_this_process() -> io::Result<Self> {
        Ok(Self { mounts: fs::read_to_string("/proc/self/mounts")?, own: fs::read_to_string("/proc/self/cgroup")? })
    }

    /// Where a controller of version 1 is mounted.
    fn v1(&self, controller: &str) -> Option<PathBuf> {
        let mounted = self.mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let (place, kind, options) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
            (*kind == "cgroup" && options.split(',').any(|option| option == controller)).then_some(*place)
        })?;
        let own = self.own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            parts.next()?.split(',').any(|name| name == controller).then(|| parts.next())?
        })?;
        Some(Path::new(mounted).join(own.trim_start_matches('/')))
    }

    /// Where this process is in the tree of version 2.
    fn v2(&self) -> Option<(PathBuf, PathBuf)> {
        let mounted = self.mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            (*fields.get(2)? == "cgroup2").then_some(*fields.get(1)?)
        })?;
        let own = self.own.lines().find_map(|line| line.strip_prefix("0::"))?;
        Some((PathBuf::from(mounted), Path::new(mounted).join(own.trim_start_matches('/'))))
    }
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
        if let Some(place) = mounts.v2().and_then(|(root, own)| delegated(&root, &own)) {
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
        let period = PERIOD.as_micros();
        let quota = PERIOD.mul_f64(cores.max(0.0)).max(LEAST_QUOTA).as_micros();
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
            Self::V2(_) => vec![("cpu.max", format!("{quota} {period}"))],
            _ => vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())],
        };
        for (file, text) in settings {
            let path = directories[0].join(file);
            fs::write(&path, text).map_err(|source| CgroupError::Io { path, source })?;
        }
        Ok(directories)
    }
}

/// The nearest place at or above this process's own cgroup whose children get the `cpu` controller. A cgroup that holds
/// processes itself may not hand controllers to children, except the root.
fn delegated(root: &Path, own: &Path) -> Option<PathBuf> {
    own.ancestors().take_while(|place| place.starts_with(root)).find_map(|place| {
        let has = |file: &str| {
            let text = fs::read_to_string(place.join(file)).unwrap_or_default();
            text.split_ascii_whitespace().any(|name| name == "cpu")
        };
        let given = has("cgroup.controllers")
            && (has("cgroup.subtree_control") || fs::write(place.join("cgroup.subtree_control"), "+cpu").is_ok());
        given.then(|| place.to_owned())
    })
}

/// CPU time of the processes of a cgroup, ended ones included.
pub(super) fn used(directories: &[PathBuf]) -> Option<Duration> {
    let v1 = |at: &PathBuf| Some(Duration::from_nanos(read(&at.join("cpuacct.usage"))?.trim().parse().ok()?));
    let v2 = |at: &PathBuf| {
        let text = read(&at.join("cpu.stat"))?;
        let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(Duration::from_micros(micros.trim().parse().ok()?))
    };
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
