//! Sessions of brokers that an earlier process knew and nobody names any more: others get what they owe.

use crate::cluster::ending::ending;
use crate::desk::{Desk, Timer};
use crate::engine::Engine;
use crate::ids::SessionKey;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::Brokers;
use crate::telling::reason::Reason;

/// How long after the first broker serves the others of an earlier process may still be named, milliseconds. Who
/// manages a fleet names them one after the other.
const NAMED_WITHIN_MS: u64 = 10_000;

/// What is known of the brokers of an earlier process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Former {
    /// Nobody has looked for their sessions.
    #[default]
    Unknown,
    /// They may still be named until then.
    Awaited(Millis),
    /// There are none, or they were given up.
    Settled,
}

impl Engine {
    /// Their time is over.
    pub(crate) fn handle_former_timer(&mut self, now: Now) {
        self.uplinks.brokers.former = Former::Unknown;
        self.forget_other_uplinks(now);
    }

    /// All brokers have been named: others get what those owe that an earlier process knew and that are not among them.
    /// Where there is none at all it waits in the store until there is.
    pub fn forget_other_uplinks(&mut self, now: Now) {
        self.desk.journal.now = now;
        if let Former::Awaited(until) = std::mem::take(&mut self.uplinks.brokers.former) {
            self.desk.timers.cancel(until, Timer::FormerUplinks);
        }
        if self.uplinks.brokers.all.is_empty() {
            return;
        }
        self.uplinks.brokers.former = Former::Settled;
        let known = &self.uplinks.brokers.by_session;
        let others = self.desk.sessions.iter().filter(|(key, session)| session.is_uplink() && !known.contains_key(key));
        let others: Vec<SessionKey> = others.map(|(key, _)| SessionKey(key)).collect();
        for session in others {
            ending!(self).end_session(now, session, Reason::SessionDiscarded);
        }
        self.after_frame(now);
    }
}

impl Brokers {
    /// A broker serves: those of an earlier process that nobody names in time are given up from now on.
    pub(super) fn await_former_uplinks(&mut self, now: Now, desk: &mut Desk) {
        if self.former == Former::Unknown {
            let until = now.monotonic.plus(NAMED_WITHIN_MS);
            self.former = Former::Awaited(until);
            desk.timers.set(until, Timer::FormerUplinks);
        }
    }
}
