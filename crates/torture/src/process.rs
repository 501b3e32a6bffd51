//! The costs of a process, from /proc.

use std::path::Path;

use crate::failure::Failure;

/// Processor time that a process has taken so far, in seconds; 0 when it is gone.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold spaces; the third field comes after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
    f64::from(ticks(11) + ticks(12)) / clock_ticks()
}

fn clock_ticks() -> f64 {
    u32::try_from(rustix::param::clock_ticks_per_second()).map_or(100.0, f64::from)
}

/// Resident memory of a process in kB; 0 when it is gone.
pub(crate) fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
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
