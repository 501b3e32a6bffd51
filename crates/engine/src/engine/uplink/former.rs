//! Messages of brokers that have left.

use crate::engine::facets::FleetCalls;
use crate::flows::cluster::ending::ending;
use crate::ids::SessionKey;
use crate::now::Now;
use crate::orchestrator::uplink::former::Former;
use crate::telling::reason::Reason;
use crate::timers::Timer;

impl FleetCalls<'_> {
    /// Their time is over.
    pub(crate) fn handle_former_timer(&mut self, now: Now) {
        self.engine.uplinks.brokers.former = Former::Unknown;
        self.forget_other_uplinks(now);
    }

    /// All brokers have been named: others get what those owe that an earlier process knew and that are not among them.
    /// Where there is none at all it waits in the store until there is.
    pub fn forget_other_uplinks(&mut self, now: Now) {
        self.engine.state.journal.now = now;
        if let Former::Awaited(until) = std::mem::take(&mut self.engine.uplinks.brokers.former) {
            self.engine.state.timers.cancel(until, Timer::FormerUplinks);
        }
        if self.engine.uplinks.brokers.all.is_empty() {
            return;
        }
        self.engine.uplinks.brokers.former = Former::Settled;
        let known = &self.engine.uplinks.brokers.by_session;
        let others =
            self.engine.state.sessions.iter().filter(|(key, session)| session.is_uplink() && !known.contains_key(key));
        let others: Vec<SessionKey> = others.map(|(key, _)| SessionKey(key)).collect();
        for session in others {
            ending!(self.engine).end_session(now, session, Reason::SessionDiscarded);
        }
        self.engine.after_frame(now);
    }
}
