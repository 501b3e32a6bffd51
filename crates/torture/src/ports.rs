//! The ports of a run: whole blocks that were free when the run began, and that no other run takes meanwhile.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use crate::failure::Failure;

/// Ports of a block. The first is the lock of the block: its run listens on it to its end.
const BLOCK: u16 = 41;
/// The range of blocks, unless the system takes ports for outgoing connections there.
const USUAL: Range<u16> = 20_000..29_000;
/// Ports below this belong to services.
const LOWEST: u16 = 2_000;

/// The ports that a run may use.
#[derive(Debug)]
pub(crate) struct Ports {
    left: VecDeque<u16>,
    /// Held to the end of the run.
    _locks: Vec<TcpListener>,
}

impl Ports {
    /// Takes blocks with at least `count` free ports. Runs with seeds beside each other begin
    /// to look at blocks beside each other.
    pub(crate) fn take(seed: u64, count: u16) -> Result<Self, Failure> {
        let area = area(ephemeral());
        let needed = count.div_ceil(BLOCK - 1).max(1);
        let blocks = (area.end - area.start) / BLOCK;
        let starts = (0..blocks).map(|step| (seed % u64::from(blocks)) as u16 + step);
        let whole = |first: &u16| first % blocks + needed <= blocks;
        for first in starts.filter(whole).map(|first| area.start + first % blocks * BLOCK) {
            let run = first..first + needed * BLOCK;
            if let Some(ports) = Self::lock(run) {
                return Ok(ports);
            }
        }
        Err(Failure::Ports { count, first: area.start, last: area.end })
    }

    /// Takes a range of ports if all of them are free.
    fn lock(range: Range<u16>) -> Option<Self> {
        let (mut left, mut locks) = (VecDeque::new(), Vec::new());
        for port in range.clone() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
            if (port - range.start).is_multiple_of(BLOCK) {
                locks.push(listener);
            } else {
                left.push_back(port);
            }
        }
        Some(Self { left, _locks: locks })
    }

    /// The next port.
    pub(crate) fn next(&mut self) -> Result<u16, Failure> {
        let none = || Failure::Broker("the run needs more ports than it has taken".to_owned());
        self.left.pop_front().ok_or_else(none)
    }
}

/// The ports that the system gives to outgoing connections.
fn ephemeral() -> Option<Range<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some(numbers.next()?..numbers.next()?)
}

/// The range of blocks. A connection of any process could take the port of a broker that is away, so blocks stay clear of
/// the ports of connections where there is room for that.
fn area(ephemeral: Option<Range<u16>>) -> Range<u16> {
    let length = USUAL.end - USUAL.start;
    match ephemeral {
        Some(taken) if taken.start < USUAL.end && USUAL.start <= taken.end => {
            if taken.start >= LOWEST + length {
                taken.start - length..taken.start
            } else if u16::MAX - taken.end > length {
                taken.end + 1..taken.end + 1 + length
            } else {
                USUAL
            }
        }
        _ => USUAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_a_taken_port_is_passed_over() {
        let mut held = Vec::new();
        let (base, taken) = loop {
            let mut first = Ports::take(7, 5).unwrap();
            let base = first.next().unwrap();
            held.push(first);
            // The test has a port in the middle of the block that comes next, unless another run has that block.
            if let Ok(taken) = TcpListener::bind((Ipv4Addr::LOCALHOST, base + BLOCK + 9)) {
                break (base, taken);
            }
        };
        let mut second = Ports::take(7, 5).unwrap();
        let port = second.next().unwrap();
        let block = base - 1 + BLOCK..base - 1 + 2 * BLOCK;
        assert!(!block.contains(&port), "{block:?} {port}");
        drop(taken);
    }

    #[test]
    fn two_runs_never_share_a_block() {
        let mut runs: Vec<Ports> = (0..4).map(|_| Ports::take(50, 60).unwrap()).collect();
        let mut all: Vec<u16> = runs.iter_mut().flat_map(|run| (0..60).map(|_| run.next().unwrap())).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4 * 60);
    }

    #[test]
    fn blocks_stay_clear_of_outgoing_connections() {
        assert_eq!(area(None), USUAL);
        assert_eq!(area(Some(32_768..60_999)), USUAL);
        assert_eq!(area(Some(16_000..65_535)), 7_000..16_000);
        assert_eq!(area(Some(1_024..50_000)), 50_001..59_001);
        assert_eq!(area(Some(1_024..65_535)), USUAL);
    }
}
