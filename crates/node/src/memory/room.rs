//! The limits of the process on its memory, while the store is loaded.
//!
//! An allocation beyond such a limit fails, and the process aborts without a word. A start compares its memory with
//! the limits, and ends with an error before.

use rlimit::Resource;

/// The part of a limit that a start leaves to the service of clients at most: as much as `limits.memory_ceiling` is by
/// default under such a limit.
const LEFT_PART: u64 = 4;

/// The store does not fit into the memory that the process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store needs more memory than `{command}` allows: {used} of {limit} bytes are in use before all of it is loaded, \
     and {left} are for clients; raise the limit, or lower `limits.memory_ceiling`. `tidegate store stats` prints how much a start takes"
)]
pub struct TooLittleMemory {
    /// Bytes that the process has.
    pub used: u64,
    /// Bytes that it may have.
    pub limit: u64,
    /// Bytes of it that a start leaves to the service of clients.
    pub left: u64,
    /// The command of a shell that sets this limit.
    pub command: &'static str,
}

/// A limit of the process, and the line of `/proc/self/status` that it bounds.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: u64,
    line: &'static str,
    command: &'static str,
}

/// The memory that the process may have; without limits it never lacks any.
#[derive(Debug, Default)]
pub(crate) struct Room {
    limits: Vec<Limit>,
    /// Bytes that clients may take; 0: as many as there are.
    ceiling: u64,
}

impl Room {
    /// With the present limits of this process, and the bytes that clients may take; 0 is no limit.
    pub(crate) fn of_process(ceiling: u64) -> Self {
        let all = [(Resource::AS, "VmSize:", "ulimit -v"), (Resource::DATA, "VmData:", "ulimit -d")];
        let limits = all.into_iter().filter_map(|(resource, line, command)| {
            let (bytes, _) = rlimit::getrlimit(resource).ok()?;
            (bytes != rlimit::INFINITY).then_some(Limit { bytes, line, command })
        });
        Self { limits: limits.collect(), ceiling }
    }

    /// That of a process which has more than it may have.
    #[cfg(test)]
    pub(crate) fn exceeded() -> Self {
        Self { limits: vec![Limit { bytes: 0, line: "VmSize:", command: "ulimit -v" }], ceiling: 0 }
    }

    /// Checks that each limit leaves the memory of clients free, a quarter of the limit at most.
    ///
    /// # Errors
    /// When less is left.
    pub(crate) fn check(&self) -> Result<(), TooLittleMemory> {
        if self.limits.is_empty() {
            return Ok(());
        }
        let status = std::fs::read_to_string("/proc/self/status");
        status.map_or(Ok(()), |status| self.check_status(&status))
    }

    fn check_status(&self, status: &str) -> Result<(), TooLittleMemory> {
        self.limits.iter().try_for_each(|limit| {
            let used = tidegate_proc::bytes_after(status, limit.line).unwrap_or(0);
            let most = limit.bytes / LEFT_PART;
            let left = if self.ceiling == 0 { most } else { most.min(self.ceiling) };
            if used <= limit.bytes - left {
                return Ok(());
            }
            Err(TooLittleMemory { used, limit: limit.bytes, left, command: limit.command })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(ceiling: u64) -> Room {
        let limits = vec![
            Limit { bytes: 400 * 1024, line: "VmSize:", command: "ulimit -v" },
            Limit { bytes: 200 * 1024, line: "VmData:", command: "ulimit -d" },
        ];
        Room { limits, ceiling }
    }

    #[test]
    fn a_start_leaves_no_more_than_the_ceiling_of_clients() {
        let room = room(20 * 1024);
        assert_eq!(room.check_status("VmSize:\t     380 kB\nVmData:\t  180 kB\n"), Ok(()));
        let too_little = TooLittleMemory { used: 381 * 1024, limit: 400 * 1024, left: 20 * 1024, command: "ulimit -v" };
        assert_eq!(room.check_status("VmSize:\t     381 kB\nVmData:\t  180 kB\n"), Err(too_little));
    }

    #[test]
    fn a_start_leaves_a_quarter_of_each_limit() {
        let room = room(0);
        assert_eq!(room.check_status("VmSize:\t     300 kB\nVmData:\t  150 kB\n"), Ok(()));
        let too_little = |used, limit, command| Err(TooLittleMemory { used, limit, left: limit / 4, command });
        let expected = too_little(301 * 1024, 400 * 1024, "ulimit -v");
        assert_eq!(room.check_status("VmSize:\t     301 kB\nVmData:\t  151 kB\n"), expected);
        let expected = too_little(151 * 1024, 200 * 1024, "ulimit -d");
        assert_eq!(room.check_status("VmSize:\t     300 kB\nVmData:\t  151 kB\n"), expected);
        assert_eq!(Room::default().check(), Ok(()));
    }
}
