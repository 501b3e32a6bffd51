//! Reads `/proc`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Clock ticks per second in `/proc/PID/stat`; Linux gives this number to every program, whatever the kernel was built
/// with.
const TICKS_PER_SECOND: u64 = 100;

/// Identifies a process: process ids are reused, but not within one clock tick of one boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// Start after boot, clock ticks.
    pub(super) started: u64,
    /// The boot, as the kernel names it.
    pub(super) boot: String,
}

/// One line of `/proc/PID/stat`, as far as it is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    group: u32,
    cpu: Duration,
    started: u64,
    /// Memory that it holds, pages.
    resident: u64,
}

impl Identity {
    /// The identity of a process that lives now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: stat(pid)?.started, boot: boot() })
    }

    /// Whether it exists and has not ended: a zombie, which only waits for its parent, has ended.
    pub(super) fn lives(&self) -> bool {
        let same = stat(self.pid).filter(|stat| stat.started == self.started && !matches!(stat.state, 'Z' | 'X'));
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
        let pages: u64 = self.group().map(|stat| stat.resident).sum();
        (pages > 0).then(|| pages.saturating_mul(rustix::param::page_size() as u64))
    }

    fn group(&self) -> impl Iterator<Item = Stat> {
        processes().filter_map(stat).filter(|stat| stat.group == self.pid)
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

/// Processes of this user whose environment holds the given `NAME=VALUE`, which children inherit.
pub(super) fn marked(mark: &str) -> Vec<u32> {
    let has_mark = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    let own = std::process::id();
    processes().filter(|pid| *pid != own).filter(has_mark).collect()
}

/// Kills all processes with the mark; true when none is alive.
pub(super) fn kill_marked(mark: &str) -> bool {
    let alive = |pid: &u32| stat(*pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'));
    let left: Vec<u32> = marked(mark).into_iter().filter(alive).collect();
    for pid in &left {
        send(*pid, Signal::KILL);
    }
    left.is_empty()
}

/// The first among the processes with the mark: the one whose group it is.
pub(super) fn leader(mark: &str) -> Option<u32> {
    marked(mark).into_iter().find(|pid| stat(*pid).is_some_and(|stat| stat.group == *pid && stat.state != 'Z'))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn stat(pid: u32) -> Option<Stat> {
    read_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of the program, in parentheses, may contain any character; the fields follow the last parenthesis.
fn read_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = number(11)?.checked_add(number(12)?)?;
    Some(Stat {
        state: fields.first()?.chars().next()?,
        group: number(2)?.try_into().ok()?,
        cpu: Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)),
        started: number(19)?,
        resident: number(21)?,
    })
}

fn boot() -> String {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_name_looks_like_fields_is_read_right() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 777 1 9 1";
        let expected = Stat { state: 'S', group: 42, cpu: Duration::from_secs(2), started: 777, resident: 9 };
        assert_eq!(read_stat(text), Some(expected));
        for text in ["", "1 (x)", "1 (x) S 1", "1 x S 1 1 1"] {
            assert_eq!(read_stat(text), None, "{text}");
        }
    }

    #[test]
    fn a_reused_process_id_is_another_process() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.lives());
        assert!(!Identity { started: own.started + 1, ..own.clone() }.lives());
        assert!(!Identity { boot: "another".to_owned(), ..own }.lives());
    }
}
