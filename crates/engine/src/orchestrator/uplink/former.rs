//! Sessions of brokers that an earlier process knew and nobody names any more: others get what they owe.

use crate::now::{Millis, Now};
use crate::orchestrator::uplink::Brokers;
use crate::state::ShardState;
use crate::timers::Timer;

/// How long after the first broker serves the others of an earlier process may still be named, milliseconds. Who
/// manages a fleet names them one after the other.
const NAMED_WITHIN_MS: u64 = 10_000;

/// What is known of the brokers of an earlier process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Former {
    /// Nobody has looked for their sessions.
    #[default]
    Unknown,
    /// They may still be named until then.
    Awaited(Millis),
    /// There are none, or they were given up.
    Settled,
}

impl Brokers {
    /// A broker serves: those of an earlier process that nobody names in time are given up from now on.
    pub(super) fn await_former_uplinks(&mut self, now: Now, state: &mut ShardState) {
        if self.former == Former::Unknown {
            let until = now.monotonic.plus(NAMED_WITHIN_MS);
            self.former = Former::Awaited(until);
            state.timers.set(until, Timer::FormerUplinks);
        }
    }
}
