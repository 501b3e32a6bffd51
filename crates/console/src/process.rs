//! Figures of the system about this process, read from `/proc`. Without `/proc` the metrics are missing.

use std::fs;

/// Clock ticks per second in `/proc`: fixed at 100 in Linux's interface to programs.
const TICKS_PER_SECOND: f64 = 100.0;

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
        let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let (status, limits) = (text("status"), text("limits"));
        Self {
            resident_bytes: kib_of(&status, "VmRSS:"),
            virtual_bytes: kib_of(&status, "VmSize:"),
            threads: number_of(&status, "Threads:"),
            cpu_seconds: cpu_seconds(&text("stat")),
            open_files: fs::read_dir("/proc/self/fd").ok().and_then(|files| u64::try_from(files.count()).ok()),
            max_files: number_of(&limits, "Max open files"),
        }
    }
}

fn number_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn kib_of(text: &str, name: &str) -> Option<u64> {
    number_of(text, name)?.checked_mul(1024)
}

/// User and system time: the 14th and 15th field, counted behind the name, which may hold anything but a `)`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let user: u32 = times.next()?.parse().ok()?;
    let system: u32 = times.next()?.parse().ok()?;
    Some((f64::from(user) + f64::from(system)) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found() {
        let status = "Name:\ttidegate\nVmSize:\t  100 kB\nVmRSS:\t   12 kB\nThreads:\t3\n";
        assert_eq!(kib_of(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(number_of(status, "Threads:"), Some(3));
        assert_eq!(number_of(status, "VmPeak:"), None);
        let limits = "Limit                     Soft Limit           Hard Limit\nMax open files            1024                 524288               files\n";
        assert_eq!(number_of(limits, "Max open files"), Some(1024));
    }

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "1 (a) b) S 0 1 1 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds(""), None);
    }
}
