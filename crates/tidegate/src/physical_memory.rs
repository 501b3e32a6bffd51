//! How much memory there is for the broker: the machine's, or less where a container may use less.

use std::fs;

/// Bytes of memory that this process can have at most; `None` where the system does not tell.
pub(crate) fn available() -> Option<u64> {
    let machine = total_in(&fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(container_limit().map_or(machine, |limit| limit.min(machine)))
}

/// Bytes that the container may have, where it has a limit.
pub(crate) fn container_limit() -> Option<u64> {
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| limit_in(&fs::read_to_string(path).ok()?))
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A limit as control groups write it; `max` is none.
fn limit_in(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(total_in("MemTotal:       16318480 kB\nMemFree:  1 kB\n"), Some(16_318_480 * 1024));
        assert_eq!(total_in("MemFree: 1 kB\n"), None);
        assert_eq!(total_in("MemTotal: lots\n"), None);
        assert_eq!(limit_in("536870912\n"), Some(512 * 1024 * 1024));
        assert_eq!(limit_in("max\n"), None);
    }
}
