//! The machine, as far as results depend on it.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine that runs were made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The version of the lab.
    pub lab_version: String,
    /// The commit that the lab was built from, when it says so.
    pub commit: Option<String>,
    /// The kernel.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The processor.
    pub processor: String,
    /// Processors that this process may use.
    pub cores: u32,
    /// Memory, bytes.
    pub memory: u64,
    /// Open files that a process may have.
    pub open_files: u64,
    /// Processes that were running or waiting for a processor on average in the minute before: above 1 per broker and
    /// generator, others were at work as well.
    pub load_average: f64,
    /// When the first run began, seconds since 1970.
    pub begun_unix_s: f64,
    /// How limits are kept on this machine, or why not.
    pub limits: String,
}

impl Environment {
    /// This machine, now.
    pub fn of_this_machine(commit: Option<String>, limits: String) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        Self {
            lab_version: env!("CARGO_PKG_VERSION").to_owned(),
            commit,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: field(&read("/etc/os-release"), "PRETTY_NAME=").trim_matches('"').to_owned(),
            processor: field(&read("/proc/cpuinfo"), "model name").trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            memory: field(&read("/proc/meminfo"), "MemTotal:").split_whitespace().next().map_or(0, kibibytes),
            open_files: files.maximum.unwrap_or(u64::MAX),
            load_average: read("/proc/loadavg").split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
            begun_unix_s: now.as_secs_f64(),
            limits,
        }
    }
}

fn field(text: &str, name: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

fn kibibytes(text: &str) -> u64 {
    text.parse::<u64>().unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_cores_and_memory() {
        let here = Environment::of_this_machine(None, String::new());
        assert!(!here.kernel.is_empty() && here.cores > 0 && here.memory > 0 && here.open_files > 0, "{here:?}");
    }
}
