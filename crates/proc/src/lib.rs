//! The one reader of `/proc`: processes, cgroups, and the names of the machine; and where programs are. Where there is no
//! `/proc`, nothing of it is found.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

mod cgroups;
mod process;
pub mod program;

pub use cgroups::{LEAST_QUOTA_US, Mounts, PERIOD_US, quota_us};
pub use process::{Stat, marked, processes};

/// Reads a text file of `/proc`; `None` if it cannot be read. Such a file has no length, so it is read in large pieces.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match file.read(&mut piece).ok()? {
            0 => return String::from_utf8(bytes).ok(),
            count => bytes.extend_from_slice(piece.get(..count)?),
        }
    }
}

/// The first number after a name that begins a line, such as `Threads:` in `/proc/PID/status`.
pub fn number_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// The same for a number in KiB, such as `VmRSS:`, in bytes.
pub fn bytes_after(text: &str, name: &str) -> Option<u64> {
    number_after(text, name)?.checked_mul(1024)
}

/// The name of the machine; `None` if it has no name.
pub fn host_name() -> Option<String> {
    named("/proc/sys/kernel/hostname")
}

/// The boot of the machine: the kernel gives each a new random name.
pub fn boot() -> Option<String> {
    named("/proc/sys/kernel/random/boot_id")
}

fn named(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_the_names_of_their_lines() {
        let text = "Name:\ttidegate\nVmSize:\t  100 kB\nVmRSS:\t   12 kB\nThreads:\t3\nState:\tS\n";
        assert_eq!(bytes_after(text, "VmRSS:"), Some(12 * 1024));
        assert_eq!(number_after(text, "Threads:"), Some(3));
        assert_eq!((number_after(text, "VmPeak:"), number_after(text, "State:")), (None, None));
        assert_eq!(number_after("oom_kill_disable 1\noom_kill 2\n", "oom_kill"), Some(2));
        let limits = "Limit          Soft Limit   Hard Limit\nMax open files            1024      524288    files\n";
        assert_eq!(number_after(limits, "Max open files"), Some(1024));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_longer_than_a_piece_is_read_whole() {
        let symbols = read("/proc/self/smaps").unwrap();
        assert!(symbols.len() > 4096 && symbols.ends_with('\n'));
        assert_eq!(read("/proc/self/nothing"), None);
        assert_eq!((boot(), host_name().is_some()), (boot(), true));
    }
}
