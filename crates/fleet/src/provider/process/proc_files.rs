//! The identity of processes, and the processes of a resource.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tidegate_proc::Stat;

/// Identifies a process: process ids are reused, but not within one clock tick of one boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// Start after boot, clock ticks.
    pub(super) started: u64,
    /// The boot, as the kernel names it.
    pub(super) boot: String,
}

impl Identity {
    /// The identity of a process that lives now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: Stat::of(pid)?.started, boot: boot() })
    }

    /// Whether it exists and has not ended: a zombie, which only waits for its parent, has ended.
    pub(super) fn lives(&self) -> bool {
        let same = Stat::of(self.pid).filter(|stat| stat.started == self.started && !stat.has_ended());
        same.is_some() && self.boot == boot()
    }

    /// Sends a signal, when it still lives.
    pub(super) fn signal(&self, signal: Signal) {
        if self.lives() {
            send(self.pid, signal);
        }
    }

    /// CPU time of its process group, without ended processes.
    pub(super) fn group_cpu(&self) -> Duration {
        self.group().map(|stat| stat.cpu).sum()
    }

    /// Memory of its process group, bytes; `None` when all its processes have ended. Shared memory counts for each
    /// process.
    pub(super) fn group_memory(&self) -> Option<u64> {
        let bytes: u64 = self.group().map(|stat| stat.resident).sum();
        (bytes > 0).then_some(bytes)
    }

    fn group(&self) -> impl Iterator<Item = Stat> {
        tidegate_proc::processes().filter_map(Stat::of).filter(|stat| stat.group == self.pid)
    }
}

/// Sends a signal to a process. A failure for an ended one is ignored.
fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, signal)
        && error != rustix::io::Errno::SRCH
    {
        tracing::warn!(pid = pid.as_raw_nonzero().get(), %error, "cannot signal a process of the fleet");
    }
}

fn marked(mark: &str) -> impl Iterator<Item = u32> {
    tidegate_proc::marked(move |entry| entry == mark.as_bytes())
}

/// Kills all processes with the mark; true when none is alive.
pub(super) fn kill_marked(mark: &str) -> bool {
    let alive = |pid: &u32| Stat::of(*pid).is_some_and(|stat| !stat.has_ended());
    let left: Vec<u32> = marked(mark).filter(alive).collect();
    for pid in &left {
        send(*pid, Signal::KILL);
    }
    left.is_empty()
}

/// The first among the processes with the mark: the one whose group it is.
pub(super) fn leader(mark: &str) -> Option<u32> {
    marked(mark).find(|pid| Stat::of(*pid).is_some_and(|stat| stat.group == *pid && stat.state != 'Z'))
}

fn boot() -> String {
    tidegate_proc::boot().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_process_id_is_another_process() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.lives());
        assert!(!Identity { started: own.started + 1, ..own.clone() }.lives());
        assert!(!Identity { boot: "another".to_owned(), ..own }.lives());
    }
}
