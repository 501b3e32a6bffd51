//! Limits of CPU and memory by cgroups, version 1 or 2, where this user may make them. Where not, the reason is said,
//! and nothing is limited in silence: a run with limits that cannot be kept is refused.

use std::fs;
use std::io;
use std::path::PathBuf;

use tidegate_proc::{Mounts, PERIOD_US, number_after, quota_us};

use crate::limits::Limits;

/// How this machine limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cgroups {
    /// Version 1: where the controllers are mounted.
    V1 {
        /// The directory of the controller `cpu`.
        cpu: PathBuf,
        /// The directory of the controller `memory`.
        memory: PathBuf,
    },
    /// Version 2: the directory below which cgroups are made.
    V2(PathBuf),
    /// Not at all, and why.
    Unavailable(String),
}

/// A cgroup with limits, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Limited {
    directories: Vec<PathBuf>,
    /// The mechanism of the limit, in words for the report.
    pub by: &'static str,
}

/// Why limits cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// This machine has no cgroup for it; why, and what to do.
    #[error("{0}")]
    Unavailable(String),
    /// A cgroup cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    Make {
        /// Its directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A limit cannot be set.
    #[error("cannot write {text} to {}: {source}", path.display())]
    Write {
        /// The limit.
        text: String,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Cgroups {
    /// Detects the abilities of this machine.
    pub fn detect() -> Self {
        Mounts::of_this_process()
            .map_or_else(|error| Self::Unavailable(error.to_string()), |mounts| Self::find(&mounts))
    }

    fn find(mounts: &Mounts) -> Self {
        if let Some(place) = mounts.v2(&["cpu", "memory"]) {
            return Self::V2(place);
        }
        match (mounts.v1("cpu"), mounts.v1("memory")) {
            (Some(cpu), Some(memory)) => Self::V1 { cpu, memory },
            _ => Self::Unavailable(
                "no cgroup with the controllers `cpu` and `memory` is mounted or delegated to this user; run as root, or within \
                 `systemd-run --user --scope -p Delegate=yes`"
                    .to_owned(),
            ),
        }
    }

    /// Makes a cgroup with these limits.
    ///
    /// # Errors
    /// When this machine cannot.
    pub fn limit(&self, name: &str, limits: &Limits) -> Result<Limited, LimitError> {
        let quota = limits.cpus.map(quota_us);
        let memory = limits.memory.map(|bytes| bytes.0.to_string());
        let (directories, settings, by) = match self {
            Self::Unavailable(why) => return Err(LimitError::Unavailable(why.clone())),
            Self::V1 { cpu, memory: at } => {
                let (cpu, at) = (cpu.join(name), at.join(name));
                let mut settings = Vec::new();
                if let Some(quota) = quota {
                    settings.push((cpu.join("cpu.cfs_period_us"), PERIOD_US.to_string()));
                    settings.push((cpu.join("cpu.cfs_quota_us"), quota.to_string()));
                }
                settings.extend(memory.map(|bytes| (at.join("memory.limit_in_bytes"), bytes)));
                (vec![cpu, at], settings, "cgroups of version 1")
            }
            Self::V2(place) => {
                let place = place.join(name);
                let mut settings = Vec::new();
                settings.extend(quota.map(|quota| (place.join("cpu.max"), format!("{quota} {PERIOD_US}"))));
                settings.extend(memory.map(|bytes| (place.join("memory.max"), bytes)));
                (vec![place], settings, "a cgroup of version 2")
            }
        };
        let limited = Limited { directories, by };
        for directory in &limited.directories {
            fs::create_dir(directory).map_err(|source| LimitError::Make { path: directory.clone(), source })?;
        }
        for (path, text) in settings {
            if let Err(source) = fs::write(&path, &text) {
                return Err(LimitError::Write { text, path, source });
            }
        }
        Ok(limited)
    }
}

impl Limited {
    /// The files by which a process joins: it writes `0` to each.
    pub fn joins(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// How often its processes were made to wait because their CPU time was used up, and how often the kernel killed
    /// one for memory.
    pub fn pressure(&self) -> (u64, u64) {
        let number = |file: &str, name: &str| {
            self.directories
                .iter()
                .find_map(|directory| number_after(&fs::read_to_string(directory.join(file)).ok()?, name))
        };
        let killed = number("memory.events", "oom_kill").or_else(|| number("memory.oom_control", "oom_kill"));
        (number("cpu.stat", "nr_throttled").unwrap_or(0), killed.unwrap_or(0))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for directory in &self.directories {
            // Its processes have ended; an empty cgroup that stays behind costs nothing.
            let _: io::Result<()> = fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Bytes;

    #[test]
    fn version_1_is_found_where_its_controllers_are_mounted() {
        let find = |mounts: &str, own: &str| Cgroups::find(&Mounts { mounts: mounts.to_owned(), own: own.to_owned() });
        let mounts = "cgroup /c/cpu cgroup rw,cpu 0 0\ncgroup /c/memory cgroup rw,memory 0 0\n";
        let expected = Cgroups::V1 { cpu: PathBuf::from("/c/cpu/"), memory: PathBuf::from("/c/memory/a/b") };
        assert_eq!(find(mounts, "3:cpu:/\n4:memory:/a/b\n0::/\n"), expected);
        assert!(matches!(find("cgroup /c/cpu cgroup rw,cpu 0 0\n", "3:cpu:/\n"), Cgroups::Unavailable(_)));
    }

    #[test]
    fn cgroups_are_made_and_removed_where_allowed() {
        let limits = Limits { cpus: Some(0.5), memory: Some(Bytes(64 << 20)), descriptors: None };
        // Without the right to it, there is nothing to see but the reason.
        let Ok(limited) = Cgroups::detect().limit(&format!("tidegate-lab-test-{}", std::process::id()), &limits) else {
            return;
        };
        let joins = limited.joins();
        assert!(joins.iter().all(|path| path.exists()));
        assert_eq!(limited.pressure(), (0, 0));
        drop(limited);
        assert!(joins.iter().all(|path| !path.exists()));
    }
}
