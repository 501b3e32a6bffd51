//! Further figures of one process, as `/proc` describes it.

use std::fs;
use std::path::Path;

use tidegate_proc::{Stat, bytes_after, number_after, read};

/// The further content of `/proc/PID/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Anonymous memory, bytes: allocated by the process itself.
    pub(super) anonymous: u64,
    /// Context switches because it waited, of the main thread.
    pub(super) voluntary: u64,
    /// Context switches because its time was over, of the main thread.
    pub(super) involuntary: u64,
}

/// The processes that the threads of this one have begun; `None` when the kernel does not say it.
pub(super) fn children(pid: u32) -> Option<Vec<u32>> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Some(Vec::new()) };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        let path = thread.path().join("children");
        match read(&path) {
            Some(pids) => children.extend(pids.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            // The thread has ended meanwhile, or this kernel was built without such files.
            None if thread.path().exists() => return None,
            None => {}
        }
    }
    Some(children)
}

pub(super) fn status(pid: u32) -> Status {
    parse_status(&read(format!("/proc/{pid}/status")).unwrap_or_default())
}

fn parse_status(text: &str) -> Status {
    Status {
        anonymous: bytes_after(text, "RssAnon:").unwrap_or(0),
        voluntary: number_after(text, "voluntary_ctxt_switches:").unwrap_or(0),
        involuntary: number_after(text, "nonvoluntary_ctxt_switches:").unwrap_or(0),
    }
}

/// The switches of all threads: `/proc/PID/status` has only the main thread's.
pub(super) fn switches(pid: u32) -> (u64, u64) {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return (0, 0) };
    let statuses = threads.filter_map(|thread| Some(parse_status(&read(thread.ok()?.path().join("status"))?)));
    statuses.fold((0, 0), |sum, status| (sum.0 + status.voluntary, sum.1 + status.involuntary))
}

/// Memory with shared pages divided by their number of processes, bytes. The kernel walks all pages for it, so it is
/// read rarely.
pub(super) fn pss(pid: u32) -> u64 {
    read(format!("/proc/{pid}/smaps_rollup")).and_then(|text| bytes_after(&text, "Pss:")).unwrap_or(0)
}

/// CPU time of a process, seconds.
pub fn cpu_of(pid: u32) -> Option<f64> {
    Stat::of(pid).map(|stat| stat.cpu.as_secs_f64())
}

/// The most resident memory of a process, bytes.
pub fn peak_of(pid: u32) -> Option<u64> {
    bytes_after(&read(format!("/proc/{pid}/status"))?, "VmHWM:")
}

/// Open files. Since Linux 6.2 the size of the directory is their number; before, they are counted.
pub(super) fn descriptors(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/fd");
    let size = fs::metadata(Path::new(&path)).map_or(0, |metadata| metadata.len());
    if size > 0 { size } else { fs::read_dir(path).map_or(0, |entries| entries.count() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_gives_memory_and_switches() {
        let text =
            "VmRSS:\t  100 kB\nRssAnon:\t   40 kB\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        assert_eq!(parse_status(text), Status { anonymous: 40 * 1024, voluntary: 5, involuntary: 6 });
    }

    #[test]
    fn this_process_is_seen() {
        let own = std::process::id();
        assert!(descriptors(own) > 0 && status(own).anonymous > 0);
    }
}
