//! Directories in which this process can make cgroups, of version 1 or 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The period within which a quota of CPU time is given, microseconds.
pub const PERIOD_US: u64 = 100_000;
/// The smallest quota that the kernel takes, microseconds.
pub const LEAST_QUOTA_US: u64 = 1_000;

/// The CPU time of each period for a number of cores, microseconds.
#[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a number of cores is small and above 0")]
pub fn quota_us(cores: f64) -> u64 {
    ((cores.max(0.0) * PERIOD_US as f64).round() as u64).max(LEAST_QUOTA_US)
}

/// The parts of `/proc` that say where cgroups are.
#[derive(Clone, Debug)]
pub struct Mounts {
    /// `/proc/self/mounts`
    pub mounts: String,
    /// `/proc/self/cgroup`
    pub own: String,
}

impl Mounts {
    /// Reads them for this process.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn of_this_process() -> io::Result<Self> {
        Ok(Self { mounts: fs::read_to_string("/proc/self/mounts")?, own: fs::read_to_string("/proc/self/cgroup")? })
    }

    /// The cgroup of this process for a controller of version 1.
    pub fn v1(&self, controller: &str) -> Option<PathBuf> {
        let mounted = self.mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let (path, kind, options) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
            (*kind == "cgroup" && options.split(',').any(|option| option == controller)).then_some(*path)
        })?;
        let own = self.own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            parts.next()?.split(',').any(|name| name == controller).then(|| parts.next())?
        })?;
        Some(Path::new(mounted).join(own.trim_start_matches('/')))
    }

    /// The nearest cgroup of version 2 at or above this process whose children get all these controllers. A cgroup that
    /// holds processes may not hand controllers to children, except the root.
    pub fn v2(&self, controllers: &[&str]) -> Option<PathBuf> {
        let root = self.mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            (*fields.get(2)? == "cgroup2").then_some(PathBuf::from(fields.get(1)?))
        })?;
        let own = self.own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let own = root.join(own.trim_start_matches('/'));
        let wanted = controllers.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(" ");
        own.ancestors().take_while(|folder| folder.starts_with(&root)).find_map(|folder| {
            let has = |file: &str| {
                let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
                controllers.iter().all(|wanted| text.split_ascii_whitespace().any(|name| name == *wanted))
            };
            let hand_down = || fs::write(folder.join("cgroup.subtree_control"), &wanted).is_ok();
            (has("cgroup.controllers") && (has("cgroup.subtree_control") || hand_down())).then(|| folder.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_found_where_controllers_are_mounted() {
        let mounts = Mounts {
            mounts: "cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /c/memory cgroup rw,memory 0 0\n"
                .to_owned(),
            own: "3:cpu,cpuacct:/\n4:memory:/a/b\n0::/\n".to_owned(),
        };
        assert_eq!(mounts.v1("cpu"), Some(PathBuf::from("/c/cpu,cpuacct/")));
        assert_eq!(mounts.v1("memory"), Some(PathBuf::from("/c/memory/a/b")));
        assert_eq!((mounts.v1("pids"), mounts.v2(&["cpu"])), (None, None));
    }

    #[test]
    fn version_2_is_found_where_its_controllers_are_handed_down() {
        let root = std::env::temp_dir().join(format!("tidegate-cgroups-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.join("a/cgroup.controllers"), "cpu memory pids\n").unwrap();
        fs::write(root.join("a/cgroup.subtree_control"), "cpu\n").unwrap();
        let mounts =
            Mounts { mounts: format!("cgroup2 {} cgroup2 rw 0 0\n", root.display()), own: "0::/a/b\n".to_owned() };
        assert_eq!(mounts.v2(&["cpu"]), Some(root.join("a")), "they are handed down already");
        assert_eq!(mounts.v2(&["io"]), None);
        assert_eq!(mounts.v2(&["cpu", "memory"]), Some(root.join("a")), "this user may hand them down");
        assert_eq!(fs::read_to_string(root.join("a/cgroup.subtree_control")).unwrap(), "+cpu +memory");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_quota_is_a_share_of_the_period() {
        assert_eq!((quota_us(0.7), quota_us(2.0), quota_us(0.0)), (70_000, 200_000, LEAST_QUOTA_US));
    }
}
