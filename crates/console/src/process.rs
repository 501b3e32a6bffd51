//! Figures of the system about this process, read from `/proc`. Without `/proc` the metrics are missing.

use std::fs;

use tidegate_proc::{Stat, bytes_after, number_after};

/// The values of `/proc/self`; `None` for missing ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) max_files: Option<u64>,
}

impl Process {
    /// Reads it now.
    pub(crate) fn read() -> Self {
        let text = |name: &str| tidegate_proc::read(format!("/proc/self/{name}")).unwrap_or_default();
        let (status, limits) = (text("status"), text("limits"));
        Self {
            resident_bytes: bytes_after(&status, "VmRSS:"),
            virtual_bytes: bytes_after(&status, "VmSize:"),
            threads: number_after(&status, "Threads:"),
            cpu_seconds: Stat::of(std::process::id()).map(|stat| stat.cpu.as_secs_f64()),
            open_files: fs::read_dir("/proc/self/fd").ok().and_then(|files| u64::try_from(files.count()).ok()),
            max_files: number_after(&limits, "Max open files"),
        }
    }
}
