//! How busy the machine is.

use std::fs;

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

/// Bytes of memory: all, and what is free for use; 0 where the system does not tell.
pub(super) fn memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    (field(&text, "MemTotal:"), field(&text, "MemAvailable:"))
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
    fn the_kernels_words_are_read() {
        assert_eq!(ticks("cpu  10 1 4 80 5 0 0 0 7 7\ncpu0 1\n"), Some((15, 100)));
        assert_eq!((ticks("cpu  10 1\n"), ticks("intr 1\n")), (None, None));
        assert_eq!(field("MemTotal: 10 kB\nMemAvailable:   4 kB\n", "MemAvailable:"), 4_096);
        assert!((ratio(1, 4) - 0.25).abs() < 1e-9 && ratio(1, 0) == 0.0);
    }
}
