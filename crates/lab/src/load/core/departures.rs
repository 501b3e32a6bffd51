//! The departure of clients at the end of a run.

use super::run::RunState;
use super::{MILLI, Phase};
use crate::load::timers::Timer;

/// The clients of one process that have left.
#[derive(Default)]
pub(super) struct Departures {
    next: usize,
}

impl Departures {
    /// Disconnects the clients of one step, at the rate of the plan; without a rate, all.
    pub(super) fn leave_next(&mut self, run: &mut RunState, now_ns: u64) {
        let count = run.clients.count();
        let step = run.plan.teardown_per_second.map(|rate| (rate / run.plan.workers()).max(1));
        // Ten steps in a second are even enough.
        let end = step.map_or(count, |rate| self.next + (rate as usize).div_ceil(10)).min(count);
        for client in self.next..end {
            run.clients.disconnect(client as u32);
        }
        self.next = end;
        if end == count {
            run.phase = Phase::Over;
        } else {
            run.timers.set(now_ns + 100 * MILLI, Timer::Leave);
        }
    }
}
