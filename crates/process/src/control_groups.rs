//! The limits of a container or a unit: of the control groups (version 2) of this process.
//!
//! A group has no more than those around it. In a container the outermost one that is seen is the container's own.

use std::path::{Path, PathBuf};

use tidegate_proc::number_after;

/// The directory in which the system shows them.
const ROOT: &str = "/sys/fs/cgroup";
/// In which one this process is.
const OWN: &str = "/proc/self/cgroup";
/// The limit of memory where groups are of version 1, bytes.
const MEMORY_OF_VERSION_1: &str = "/sys/fs/cgroup/memory/memory.limit_in_bytes";

/// Reads a file of the system; `None` when it does not exist.
pub type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the files of this system.
pub fn system(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The groups that this process is in.
pub struct ControlGroups<'a> {
    read: Read<'a>,
    /// Their folders, the innermost first.
    folders: Vec<PathBuf>,
}

/// A limit of processors, and the time used of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorLimit {
    /// The group that has it.
    pub folder: PathBuf,
    /// How many processors its members may keep busy together.
    pub processors: f64,
    /// How long they have kept one busy, microseconds.
    pub used_us: u64,
}

/// A limit of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes that the members of the group may have together.
    pub bytes: u64,
    /// Bytes in use that cannot be reclaimed: all but the pages of files that were not used lately. `None` where the
    /// system does not say.
    pub used: Option<u64>,
}

impl<'a> ControlGroups<'a> {
    /// Finds them.
    pub fn find(read: Read<'a>) -> Self {
        let own = read(OWN).unwrap_or_default();
        let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        // A process whose group is outside of its view of the groups knows only the outermost one.
        let path = if path.split('/').any(|level| level == "..") { "" } else { path };
        let mut innermost = PathBuf::from(ROOT);
        innermost.extend(path.split('/').filter(|level| !level.is_empty()));
        let folders = innermost.ancestors().take_while(|folder| folder.starts_with(ROOT)).map(PathBuf::from).collect();
        Self { read, folders }
    }

    fn file(&self, folder: &Path, name: &str) -> Option<String> {
        (self.read)(folder.join(name).to_str()?)
    }

    /// The tightest limit of processors; `None` without a limit.
    pub fn processors(&self) -> Option<ProcessorLimit> {
        let limit = |folder: &PathBuf| {
            let processors = quota(&self.file(folder, "cpu.max")?)?;
            let used_us = number_after(&self.file(folder, "cpu.stat")?, "usage_usec")?;
            Some(ProcessorLimit { folder: folder.clone(), processors, used_us })
        };
        let limits = self.folders.iter().filter_map(limit);
        limits.min_by(|one, other| one.processors.total_cmp(&other.processors))
    }

    /// All limits of memory.
    pub fn memory(&self) -> Vec<MemoryLimit> {
        let limit = |folder: &PathBuf| {
            let bytes = self.file(folder, "memory.max")?.trim().parse().ok()?;
            let used = || {
                let all: u64 = self.file(folder, "memory.current")?.trim().parse().ok()?;
                let idle = number_after(&self.file(folder, "memory.stat")?, "inactive_file")?;
                Some(all.saturating_sub(idle))
            };
            Some(MemoryLimit { bytes, used: used() })
        };
        let limits: Vec<MemoryLimit> = self.folders.iter().filter_map(limit).collect();
        if !limits.is_empty() {
            return limits;
        }
        let of_version_1 = (self.read)(MEMORY_OF_VERSION_1).and_then(|text| text.trim().parse().ok());
        of_version_1.map(|bytes| MemoryLimit { bytes, used: None }).into_iter().collect()
    }
}

/// Processors, as `cpu.max` says it: quota and period in microseconds; `max` is no limit.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (u32, u32) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0 && period > 0).then(|| f64::from(quota) / f64::from(period))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a system.
    fn files(files: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn a_container_has_its_limits() {
        let read = files(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/cpu.stat", "usage_usec 7000000\nuser_usec 6000000\nsystem_usec 1000000\nnr_throttled 4\n"),
            ("/sys/fs/cgroup/memory.max", "268435456\n"),
            ("/sys/fs/cgroup/memory.current", "100000000\n"),
            ("/sys/fs/cgroup/memory.stat", "anon 70000000\ninactive_file 20000000\nactive_file 10000000\n"),
        ]);
        let groups = ControlGroups::find(&read);
        let limit = groups.processors().unwrap();
        assert_eq!((limit.folder.to_str(), limit.used_us), (Some("/sys/fs/cgroup"), 7_000_000));
        assert!((limit.processors - 1.5).abs() < 1e-9);
        assert_eq!(groups.memory(), [MemoryLimit { bytes: 268_435_456, used: Some(80_000_000) }]);
    }

    #[test]
    fn a_unit_has_its_own_limits_and_its_slice_s() {
        let read = files(&[
            ("/proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/tidegate.service\n"),
            ("/sys/fs/cgroup/system.slice/tidegate.service/cpu.max", "400000 100000\n"),
            ("/sys/fs/cgroup/system.slice/tidegate.service/cpu.stat", "usage_usec 1\n"),
            ("/sys/fs/cgroup/system.slice/tidegate.service/memory.max", "1000\n"),
            ("/sys/fs/cgroup/system.slice/cpu.max", "200000 100000\n"),
            ("/sys/fs/cgroup/system.slice/cpu.stat", "usage_usec 2\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "max\n"),
            ("/sys/fs/cgroup/cpu.stat", "usage_usec 3\n"),
        ]);
        let groups = ControlGroups::find(&read);
        assert_eq!(groups.folders.len(), 3);
        let limit = groups.processors().unwrap();
        assert_eq!((limit.folder.to_str(), limit.used_us), (Some("/sys/fs/cgroup/system.slice"), 2));
        assert_eq!(groups.memory(), [MemoryLimit { bytes: 1_000, used: None }]);
    }

    #[test]
    fn a_machine_without_limits_has_none() {
        let read = files(&[
            ("/proc/self/cgroup", "0::/user.slice\n"),
            ("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 1\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ]);
        let groups = ControlGroups::find(&read);
        assert_eq!((groups.processors(), groups.memory()), (None, Vec::new()));
        let nothing = files(&[]);
        assert_eq!(ControlGroups::find(&nothing).processors(), None);
        assert_eq!(["x", "0 100000", "1 0", "max", ""].map(quota), [None; 5]);
    }

    #[test]
    fn groups_that_are_not_seen_are_not_looked_for() {
        let read = files(&[
            ("/proc/self/cgroup", "0::/../../etc\n"),
            ("/sys/fs/cgroup/cpu.max", "100000 100000\n"),
            ("/sys/fs/cgroup/cpu.stat", "usage_usec 5\n"),
        ]);
        let groups = ControlGroups::find(&read);
        assert_eq!((groups.folders.len(), groups.processors().unwrap().used_us), (1, 5));
        let of_version_1 = files(&[
            ("/proc/self/cgroup", "4:memory:/docker/x\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"),
        ]);
        assert_eq!(ControlGroups::find(&of_version_1).memory(), [MemoryLimit { bytes: 4_096, used: None }]);
    }
}
