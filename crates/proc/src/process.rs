//! Processes: the first line of facts about each, and the processes with a mark.

use std::fs;
use std::time::Duration;

/// A clock tick of `/proc/PID/stat`. Linux gives this length to every program, for each build of the kernel.
const TICK: Duration = Duration::from_millis(10);

/// The content of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The state as a letter, such as `S` for sleeping.
    pub state: char,
    /// The process that started it.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// User and system time of all its threads.
    pub cpu: Duration,
    /// Its threads.
    pub threads: u64,
    /// Its start after boot, clock ticks. With the process id and the boot it identifies the process.
    pub started: u64,
    /// Resident memory, bytes.
    pub resident: u64,
}

impl Stat {
    /// Reads it; `None` if the process does not exist.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&crate::read(format!("/proc/{pid}/stat"))?)
    }

    /// Reads the text of the file. The name of the program is in parentheses and may contain any character; the fields
    /// follow the last parenthesis.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let ticks = u32::try_from(number(11)?.checked_add(number(12)?)?).ok()?;
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            cpu: TICK.checked_mul(ticks)?,
            threads: number(17)?,
            started: number(19)?,
            resident: number(21)?.checked_mul(rustix::param::page_size() as u64)?,
        })
    }

    /// True for a zombie, which only waits for its parent.
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The ids of all processes that this user can see.
pub fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Processes of this user, except this one, with such an entry `NAME=VALUE` in their environment, which children
/// inherit.
pub fn marked(is_mark: impl Fn(&[u8]) -> bool) -> impl Iterator<Item = u32> {
    let own = std::process::id();
    processes().filter(move |pid| {
        let environment = || fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        *pid != own && environment().split(|byte| *byte == 0).any(&is_mark)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_shifts_no_field() {
        let text = "42 (a) b (c) S 7 41 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 777 8192 25 1844674407370955 1 1\n";
        let expected = Stat {
            state: 'S',
            parent: 7,
            group: 41,
            cpu: Duration::from_secs(2),
            threads: 3,
            started: 777,
            resident: 25 * rustix::param::page_size() as u64,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        for text in ["", "1 (x)", "1 (x) S 1", "1 x S 1 1 1", "1 (x) S -1 1 1"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_seen() {
        let own = std::process::id();
        let stat = Stat::of(own).unwrap();
        assert!(stat.resident > 0 && stat.threads > 0 && !stat.has_ended());
        assert!(processes().any(|pid| pid == own) && marked(|_| true).all(|pid| pid != own));
        assert_eq!(Stat::of(u32::MAX), None);
    }
}
