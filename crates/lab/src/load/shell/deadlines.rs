//! When time alone makes something due on links of QUIC: lost packets are sent again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::clock::Clock;
use super::quic::Quic;

/// Times of links, the next one first. A time that a link has no use for any more is found out when it comes.
pub(super) struct Deadlines {
    /// The same moment on both clocks.
    epoch: (Instant, u64),
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Deadlines {
    pub(super) fn new(clock: Clock) -> Self {
        Self { epoch: (Instant::now(), clock.now_ns()), due: BinaryHeap::new() }
    }

    /// Notes the next deadline of a link.
    pub(super) fn arm(&mut self, number: u32, quic: &mut Quic) {
        let Some(deadline) = quic.deadline() else { return };
        let behind = deadline.saturating_duration_since(self.epoch.0).as_nanos();
        let at_ns = self.epoch.1 + u64::try_from(behind).unwrap_or(u64::MAX / 2);
        if at_ns < quic.armed_ns {
            quic.armed_ns = at_ns;
            self.due.push(Reverse((at_ns, number)));
        }
    }

    /// The next link that is due.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<u32> {
        let Reverse((at_ns, number)) = *self.due.peek()?;
        (at_ns <= now_ns).then(|| self.due.pop().map_or(number, |_| number))
    }

    /// Time of the next work.
    pub(super) fn next_ns(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns)
    }
}
