//! How much memory there is for the broker: the machine's, or less where a container may use less.

use crate::control_groups::{ControlGroups, system};

/// Bytes of memory that this process can have at most; `None` where the system does not tell.
pub(crate) fn available() -> Option<u64> {
    let machine = total_in(&system("/proc/meminfo")?)?;
    let limits = ControlGroups::find(&system).memory();
    Some(limits.into_iter().fold(machine, |least, limit| least.min(limit.bytes)))
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(total_in("MemTotal:       16318480 kB\nMemFree:  1 kB\n"), Some(16_318_480 * 1024));
        assert_eq!(total_in("MemFree: 1 kB\n"), None);
        assert_eq!(total_in("MemTotal: lots\n"), None);
    }
}
