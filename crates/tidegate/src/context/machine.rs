//! How busy the machine is.

use std::fs;

use crate::physical_memory::container_limit;

/// Reads the share of the processors that is busy between two looks.
#[derive(Debug, Default)]
pub(super) struct Processors {
    busy: u64,
    total: u64,
}

impl Processors {
    /// The share since the last look, 0 to 1; 0 where the system does not tell.
    pub(super) fn share(&mut self) -> f64 {
        let Some((busy, total)) = fs::read_to_string("/proc/stat").ok().and_then(|text| ticks(&text)) else {
            return 0.0;
        };
        let (new_busy, new_total) = (busy.saturating_sub(self.busy), total.saturating_sub(self.total));
        (self.busy, self.total) = (busy, total);
        ratio(new_busy, new_total)
    }
}

#[expect(clippy::cast_precision_loss, reason = "ticks between two looks are far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) }
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

/// Bytes of memory: all, and what is free for use; 0 where the system does not tell. Of a container with a limit, what it may have.
pub(super) fn memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = (field(&text, "MemTotal:"), field(&text, "MemAvailable:"));
    match container_limit() {
        Some(limit) if limit < machine.0 => within(machine, limit, used()),
        _ => machine,
    }
}

/// What the container uses and cannot be taken from it: all but the pages of files that were not used lately. `None` where the
/// system does not tell.
fn used() -> Option<u64> {
    let read = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    let all: u64 = read("memory.current")?.trim().parse().ok()?;
    Some(all.saturating_sub(plain_field(&read("memory.stat")?, "inactive_file ")))
}

/// Memory where no more than a limit of it may be had.
fn within((_, available): (u64, u64), limit: u64, used: Option<u64>) -> (u64, u64) {
    let left = used.map_or(limit, |used| limit.saturating_sub(used));
    (limit, left.min(available))
}

fn plain_field(text: &str, name: &str) -> u64 {
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    number.unwrap_or_default()
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default().saturating_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_what_it_may_have() {
        assert_eq!(within((1_000, 600), 400, Some(100)), (400, 300));
        assert_eq!(within((1_000, 200), 400, Some(100)), (400, 200), "the machine has no more");
        assert_eq!(within((1_000, 600), 400, Some(500)), (400, 0));
        assert_eq!(within((1_000, 600), 400, None), (400, 400));
        assert_eq!(plain_field("anon 5\ninactive_file 70\nactive_file 8\n", "inactive_file "), 70);
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(ticks("cpu  10 1 4 80 5 0 0 0 7 7\ncpu0 1\n"), Some((15, 100)));
        assert_eq!((ticks("cpu  10 1\n"), ticks("intr 1\n")), (None, None));
        assert_eq!(field("MemTotal: 10 kB\nMemAvailable:   4 kB\n", "MemAvailable:"), 4_096);
        assert!((ratio(1, 4) - 0.25).abs() < 1e-9 && ratio(1, 0) == 0.0);
    }
}
