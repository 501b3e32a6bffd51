//! Timers, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The next clients dial.
    Ramp,
    /// A publisher publishes.
    Publish(u32),
    /// A client sends a sign of life.
    Ping { client: u32, epoch: u32 },
    /// A client has waited for its connection for long enough.
    Timeout { client: u32, epoch: u32 },
    /// A disturbance of its group reaches a client.
    Disturb { client: u32, disturbance: u8 },
    /// A client returns.
    Return { client: u32, epoch: u32 },
    /// A slow client reads.
    Read { client: u32, epoch: u32 },
    /// A relay has done its work for a message.
    Worked { client: u32 },
    /// Nothing more is scheduled.
    TimeIsOver,
    /// The next clients leave.
    Leave,
}

/// Timers by their time.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Timer)>>,
}

impl Timers {
    /// Something is to happen at this time.
    pub(crate) fn set(&mut self, at_ns: u64, timer: Timer) {
        self.heap.push(Reverse((at_ns, timer)));
    }

    /// The time of the next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// The next timer that is due by now, and its time.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<(u64, Timer)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_the_order_of_time() {
        let mut timers = Timers::default();
        timers.set(20, Timer::Publish(2));
        timers.set(10, Timer::Publish(1));
        timers.set(30, Timer::Ramp);
        assert_eq!(timers.due(9), None);
        assert_eq!(timers.due(25), Some((10, Timer::Publish(1))));
        assert_eq!(timers.due(25), Some((20, Timer::Publish(2))));
        assert_eq!(timers.due(25), None);
        assert_eq!(timers.next_ns(), Some(30));
    }
}
