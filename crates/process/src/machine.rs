//! How busy the machine is, or the part of it that this process may use.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_proc::bytes_after;

use crate::control_groups::{ControlGroups, Read, system};

/// Reads the share of the processors that is busy between two looks.
#[derive(Debug, Default)]
pub struct Processors {
    busy: u64,
    total: u64,
    /// The limit at the last look: its group, the used time, and the time of the look.
    of_limit: Option<(PathBuf, u64, Instant)>,
}

impl Processors {
    /// The share since the last look, 0 to 1; 0 where the system does not tell.
    pub fn share(&mut self) -> f64 {
        self.look(Instant::now(), &system)
    }

    /// With a limit, the busy share of it; or of the machine's processors where that is more: busy processors are not
    /// available.
    fn look(&mut self, now: Instant, read: Read<'_>) -> f64 {
        self.of_machine(read).max(self.of_limit(now, read))
    }

    fn of_machine(&mut self, read: Read<'_>) -> f64 {
        let Some((busy, total)) = read("/proc/stat").and_then(|text| ticks(&text)) else { return 0.0 };
        let (new_busy, new_total) = (busy.saturating_sub(self.busy), total.saturating_sub(self.total));
        (self.busy, self.total) = (busy, total);
        ratio(new_busy, new_total)
    }

    fn of_limit(&mut self, now: Instant, read: Read<'_>) -> f64 {
        let limit = ControlGroups::find(read).processors();
        let Some(limit) = limit else {
            self.of_limit = None;
            return 0.0;
        };
        let before = self.of_limit.replace((limit.folder.clone(), limit.used_us, now));
        let Some((_, used_us, at)) = before.filter(|(folder, ..)| *folder == limit.folder) else { return 0.0 };
        let passed_us = u64::try_from(now.saturating_duration_since(at).as_micros()).unwrap_or(u64::MAX);
        (ratio_of(limit.used_us.saturating_sub(used_us), passed_us) / limit.processors).clamp(0.0, 1.0)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    ratio_of(part, whole).clamp(0.0, 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "ticks and microseconds between two looks are far below 2^52")]
fn ratio_of(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Busy and all ticks in the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks: Vec<u64> = std::iter::from_fn(&mut next).take(8).collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    let total: u64 = ticks.iter().sum();
    Some((total - idle, total))
}

/// Reads how busy the threads of this process are between two looks.
#[derive(Debug, Default)]
pub struct OwnThreads {
    /// Processor time of the process at the last look, and the time of the look.
    last: Option<(Duration, Instant)>,
}

impl OwnThreads {
    /// The processor time since the last look as a share of the time of this number of threads, 0 to 1; 0 at the first
    /// look.
    pub fn share(&mut self, threads: u16) -> f64 {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used = Duration::try_from(used).unwrap_or_default();
        self.look(used, Instant::now(), threads)
    }

    fn look(&mut self, used: Duration, now: Instant, threads: u16) -> f64 {
        let Some((before, at)) = self.last.replace((used, now)) else { return 0.0 };
        let could = now.saturating_duration_since(at).as_secs_f64() * f64::from(threads.max(1));
        if could > 0.0 { (used.saturating_sub(before).as_secs_f64() / could).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Bytes of memory: all, and the free ones; 0 where the system does not say. With limits, the part within them.
pub fn memory() -> (u64, u64) {
    memory_in(&system)
}

fn memory_in(read: Read<'_>) -> (u64, u64) {
    let text = read("/proc/meminfo").unwrap_or_default();
    let bytes = |name| bytes_after(&text, name).unwrap_or_default();
    let machine = (bytes("MemTotal:"), bytes("MemAvailable:"));
    let limits = ControlGroups::find(read).memory().into_iter().filter(|limit| limit.bytes < machine.0);
    limits.fold(machine, |(total, available), limit| {
        let left = limit.bytes.saturating_sub(limit.used.unwrap_or_default());
        (total.min(limit.bytes), available.min(left))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The files of a system, which change.
    #[derive(Default)]
    struct Files(BTreeMap<&'static str, String>);

    impl Files {
        fn put(&mut self, name: &'static str, text: &str) {
            self.0.insert(name, text.to_owned());
        }

        fn read(&self) -> impl Fn(&str) -> Option<String> {
            |path| self.0.get(path).cloned()
        }
    }

    #[test]
    fn the_load_of_a_container_is_relative_to_its_limit() {
        let (mut files, mut processors, start) = (Files::default(), Processors::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        files.put("/proc/self/cgroup", "0::/\n");
        files.put("/proc/stat", "cpu  100 0 0 900 0 0 0 0\n");
        files.put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
        files.put("/sys/fs/cgroup/cpu.stat", "usage_usec 1000000\n");
        let share = |processors: &mut Processors, files: &Files, seconds| {
            (processors.look(at(seconds), &files.read()) * 1_000.0).round()
        };
        assert!((share(&mut processors, &files, 0) - 100.0).abs() < 1e-9, "of the machine, until there are two looks");
        // In two seconds it has kept 0.4 processors busy, of the half that it may use; of the machine that is a tenth.
        files.put("/proc/stat", "cpu  180 0 0 1620 0 0 0 0\n");
        files.put("/sys/fs/cgroup/cpu.stat", "usage_usec 1800000\n");
        assert!((share(&mut processors, &files, 2) - 800.0).abs() < 1e-9);
        // Others take nearly all of the machine.
        files.put("/proc/stat", "cpu  270 0 0 1630 0 0 0 0\n");
        files.put("/sys/fs/cgroup/cpu.stat", "usage_usec 1900000\n");
        assert!((share(&mut processors, &files, 4) - 900.0).abs() < 1e-9);
        // More than all of it is all of it, and without a limit it is the machine's.
        files.put("/sys/fs/cgroup/cpu.stat", "usage_usec 9900000\n");
        assert!((share(&mut processors, &files, 6) - 1_000.0).abs() < 1e-9);
        files.put("/sys/fs/cgroup/cpu.max", "max 100000\n");
        files.put("/proc/stat", "cpu  280 0 0 1720 0 0 0 0\n");
        assert!((share(&mut processors, &files, 8) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_memory_of_a_container_is_its_limit() {
        let mut files = Files::default();
        files.put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
        assert_eq!(memory_in(&files.read()), (1_024_000, 614_400));
        files.put("/sys/fs/cgroup/memory.max", "400000\n");
        assert_eq!(memory_in(&files.read()), (400_000, 400_000), "the usage is unknown");
        files.put("/sys/fs/cgroup/memory.current", "150000\n");
        files.put("/sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 50000\nactive_file 8\n");
        assert_eq!(memory_in(&files.read()), (400_000, 300_000));
        files.put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 200 kB\n");
        assert_eq!(memory_in(&files.read()), (400_000, 204_800), "the machine has no more");
        files.put("/sys/fs/cgroup/memory.current", "550000\n");
        assert_eq!(memory_in(&files.read()), (400_000, 0));
        files.put("/sys/fs/cgroup/memory.max", "9000000\n");
        assert_eq!(memory_in(&files.read()), (1_024_000, 204_800), "an unlimited group");
    }

    #[test]
    fn the_load_of_a_process_is_relative_to_its_threads() {
        let (mut threads, start) = (OwnThreads::default(), Instant::now());
        let s = Duration::from_secs;
        let share = |threads: &mut OwnThreads, used, at| (threads.look(s(used), start + s(at), 2) * 1_000.0).round();
        let shares = [(7, 0), (10, 4), (10, 6), (30, 8), (30, 8)].map(|(used, at)| share(&mut threads, used, at));
        assert!(shares.iter().zip([0.0, 375.0, 0.0, 1_000.0, 0.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{shares:?}");
        assert!((0.0..=1.0).contains(&OwnThreads::default().share(0)));
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(ticks("cpu  10 1 4 80 5 0 0 0 7 7\ncpu0 1\n"), Some((15, 100)));
        assert_eq!((ticks("cpu  10 1\n"), ticks("intr 1\n")), (None, None));
        assert!((ratio(1, 4) - 0.25).abs() < 1e-9 && ratio(1, 0) == 0.0);
    }
}
