//! How much memory there is for the broker: the machine's, or less where a container or a limit of the process allows
//! less.

use rustix::process::{Resource, getrlimit};

use crate::control_groups::{ControlGroups, system};

/// Bytes of memory that this process can have at most; `None` where the system does not tell.
pub fn available() -> Option<u64> {
    let machine = total_in(&system("/proc/meminfo")?)?;
    let limits = ControlGroups::find(&system).memory();
    let least = limits.into_iter().fold(machine, |least, limit| least.min(limit.bytes));
    let of_process = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    Some(within(least, &of_process))
}

/// Whether the address space of this process is limited (`ulimit -v`).
pub fn is_address_space_limited() -> bool {
    getrlimit(Resource::As).current.is_some()
}

/// No more than limits of the process (`ulimit -v`, `ulimit -d`) allow. Half of those is for the program, the stacks of its
/// threads and what the allocator keeps.
fn within(least: u64, limits: &[Option<u64>]) -> u64 {
    limits.iter().flatten().fold(least, |least, limit| least.min(limit / 2))
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
    fn a_limit_of_the_process_counts_by_half() {
        assert_eq!(within(1_000, &[None, None]), 1_000);
        assert_eq!(within(1_000, &[Some(800), None]), 400);
        assert_eq!(within(1_000, &[Some(8_000), Some(600)]), 300);
    }

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(total_in("MemTotal:       16318480 kB\nMemFree:  1 kB\n"), Some(16_318_480 * 1024));
        assert_eq!(total_in("MemFree: 1 kB\n"), None);
        assert_eq!(total_in("MemTotal: lots\n"), None);
    }
}
