//! How much memory there is for the broker: the machine's, or less where a container or a limit of the process allows
//! less.

use rustix::process::{Resource, getrlimit};
use tidegate_proc::bytes_after;

use crate::control_groups::{ControlGroups, Read, system};

/// The bound of the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The machine has no more.
    Machine,
    /// The limit of the container or the unit: beyond it the system kills the process.
    Container,
    /// A limit of the process (`ulimit -v`, `ulimit -d`): beyond it the process gets no memory.
    Process,
}

/// The memory that this process can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes at most.
    pub bytes: u64,
    /// The bound that applies.
    pub bound: Bound,
}

/// Bytes of memory that this process can have at most; `None` where the system does not tell.
pub fn available() -> Option<u64> {
    find().map(|available| available.bytes)
}

/// The memory that this process can have, and what bounds it; `None` where the system does not tell.
pub fn find() -> Option<Available> {
    let of_process = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    find_in(&system, &of_process)
}

fn find_in(read: Read<'_>, of_process: &[Option<u64>]) -> Option<Available> {
    let machine = Available { bytes: bytes_after(&read("/proc/meminfo")?, "MemTotal:")?, bound: Bound::Machine };
    let of_groups = ControlGroups::find(read).memory().into_iter().map(|limit| limit.bytes).min();
    let of_groups = of_groups.map(|bytes| Available { bytes, bound: Bound::Container });
    let of_process = within(u64::MAX, of_process);
    let of_process = Some(Available { bytes: of_process, bound: Bound::Process }).filter(|it| it.bytes < u64::MAX);
    let all = [Some(machine), of_groups, of_process];
    all.into_iter().flatten().min_by_key(|available| available.bytes)
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
    fn the_smallest_bound_counts_and_is_named() {
        let system = |limit: &'static str| {
            move |path: &str| match path {
                "/proc/meminfo" => Some("MemTotal: 1000 kB\n".to_owned()),
                "/proc/self/cgroup" => Some("0::/\n".to_owned()),
                "/sys/fs/cgroup/memory.max" => Some(limit.to_owned()),
                _ => None,
            }
        };
        let found = |limit, process: Option<u64>| {
            let available = find_in(&system(limit), &[process, None]).unwrap();
            (available.bytes, available.bound)
        };
        assert_eq!(found("max\n", None), (1_024_000, Bound::Machine));
        assert_eq!(found("500000\n", None), (500_000, Bound::Container));
        assert_eq!(found("2000000\n", None), (1_024_000, Bound::Machine), "a limit above the machine's memory");
        assert_eq!(found("500000\n", Some(600_000)), (300_000, Bound::Process));
        assert_eq!(find_in(&|_| None, &[Some(1)]), None);
    }
}
