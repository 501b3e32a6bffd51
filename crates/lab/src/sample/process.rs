//! One process, as `/proc` describes it.

use std::fs;
use std::io::Read as _;
use std::path::Path;

/// Clock ticks per second in `/proc/PID/stat`; Linux gives this number to every program, whatever the kernel was built
/// with.
const TICKS_PER_SECOND: f64 = 100.0;
/// The size of the pages in which `/proc/PID/stat` counts memory.
fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The content of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stat {
    pub(super) parent: u32,
    /// User and system time, seconds.
    pub(super) cpu: f64,
    pub(super) threads: u64,
    /// Resident memory, bytes.
    pub(super) rss: u64,
}

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

pub(super) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&text(&format!("/proc/{pid}/stat"))?)
}

/// A file of `/proc`. Such a file does not say how long it is, so it is read in large pieces.
fn text(path: &str) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return String::from_utf8(bytes).ok(),
            Ok(count) => bytes.extend_from_slice(piece.get(..count)?),
            Err(_) => return None,
        }
    }
}

/// The processes that the threads of this one have begun; `None` when the kernel does not say it.
pub(super) fn children(pid: u32) -> Option<Vec<u32>> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Some(Vec::new()) };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        let path = thread.path().join("children");
        match text(&path.to_string_lossy()) {
            Some(pids) => children.extend(pids.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            // The thread has ended meanwhile, or this kernel was built without such files.
            None if thread.path().exists() => return None,
            None => {}
        }
    }
    Some(children)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may contain anything, spaces and parentheses too.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    #[expect(clippy::cast_precision_loss, reason = "ticks of a process that runs for years are counted exactly")]
    let ticks = (number(11)? + number(12)?) as f64;
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        cpu: ticks / TICKS_PER_SECOND,
        threads: number(17)?,
        rss: number(21)? * page_size(),
    })
}

pub(super) fn status(pid: u32) -> Status {
    parse_status(&text(&format!("/proc/{pid}/status")).unwrap_or_default())
}

fn parse_status(text: &str) -> Status {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    Status {
        anonymous: number("RssAnon") * 1024,
        voluntary: number("voluntary_ctxt_switches"),
        involuntary: number("nonvoluntary_ctxt_switches"),
    }
}

/// The switches of all threads: `/proc/PID/status` has only the main thread's.
pub(super) fn switches(pid: u32) -> (u64, u64) {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return (0, 0) };
    let statuses =
        threads.filter_map(|thread| Some(parse_status(&text(&thread.ok()?.path().join("status").to_string_lossy())?)));
    statuses.fold((0, 0), |sum, status| (sum.0 + status.voluntary, sum.1 + status.involuntary))
}

/// Memory with shared pages divided by their number of processes, bytes. The kernel walks all pages for it, so it is
/// read rarely.
pub(super) fn pss(pid: u32) -> u64 {
    let text = text(&format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// CPU time of a process, seconds.
pub fn cpu_of(pid: u32) -> Option<f64> {
    stat(pid).map(|stat| stat.cpu)
}

/// The most resident memory of a process, bytes.
pub fn peak_of(pid: u32) -> Option<u64> {
    let text = text(&format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
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
    fn a_name_with_spaces_and_parentheses_shifts_no_field() {
        let line =
            "42 (a) b (c) S 7 42 42 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 3 0 100 8192 25 18446744073709551615 1 1";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.parent, stat.threads, stat.rss), (7, 3, 25 * page_size()));
        assert!((stat.cpu - 2.0).abs() < 1e-9);
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn status_gives_memory_and_switches() {
        let text =
            "VmRSS:\t  100 kB\nRssAnon:\t   40 kB\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        assert_eq!(parse_status(text), Status { anonymous: 40 * 1024, voluntary: 5, involuntary: 6 });
    }

    #[test]
    fn this_process_is_seen() {
        let own = std::process::id();
        assert!(stat(own).unwrap().rss > 0 && descriptors(own) > 0 && status(own).anonymous > 0);
    }
}
