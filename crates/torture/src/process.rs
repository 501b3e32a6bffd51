//! The costs of a process, from /proc.

use std::path::Path;

use tidegate_proc::Stat;

use crate::failure::Failure;

/// Processor time that a process has taken so far, in seconds; 0 when it is gone.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    Stat::of(pid).map_or(0.0, |stat| stat.cpu.as_secs_f64())
}

/// Resident memory of a process in kB; 0 when it is gone.
pub(crate) fn resident_kb(pid: u32) -> u64 {
    let status = tidegate_proc::read(format!("/proc/{pid}/status")).unwrap_or_default();
    tidegate_proc::number_after(&status, "VmRSS:").unwrap_or(0)
}

/// Bytes of all files below a folder.
pub(crate) fn folder_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder).map_err(Failure::file("reading", folder))? {
        let entry = entry.map_err(Failure::file("reading", folder))?;
        let status = entry.metadata().map_err(Failure::file("reading", entry.path()))?;
        total += if status.is_dir() { folder_bytes(&entry.path())? } else { status.len() };
    }
    Ok(total)
}
