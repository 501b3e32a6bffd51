//! Messages of brokers that have left.

use crate::engine::facets::FleetCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::ending;
use crate::flows::contexts::subscribing;
use crate::ids::{SessionKey, UPLINK_PREFIX};
use crate::now::Now;
use crate::orchestrator::uplink::former::{Continued, Former, is_of_dead};
use crate::orchestrator::uplink::{UPLINK_FILTER, UPLINK_SHARE};
use crate::timers::Timer;

impl FleetCalls<'_> {
    /// Their time is over.
    pub(crate) fn handle_former_timer(&mut self, now: Now) {
        self.engine.uplinks.brokers.former = Former::Unknown;
        self.forget_other_uplinks(now);
    }

    /// Names the connections of dead orchestrators that this process continues. The sessions of others are ended when all
    /// brokers have been named.
    pub fn continue_adopted(&mut self, now: Now, continued: Continued) {
        self.engine.state.journal.now = now;
        self.engine.uplinks.brokers.continued = continued;
        self.deal_none_to_kept(now);
        if self.engine.uplinks.brokers.former == Former::Settled {
            self.forget_other_uplinks(now);
        }
    }

    /// The sessions that wait for a connection of a dead orchestrator get no messages of clients, and other brokers get
    /// their queues. The sent messages stay.
    pub(crate) fn deal_none_to_kept(&mut self, now: Now) {
        let known = &self.engine.uplinks.brokers.by_session;
        let uplinks = self.engine.state.sessions.iter().filter(|(_, session)| session.is_uplink());
        let (of_dead, own): (Vec<_>, Vec<_>) =
            uplinks.partition(|(_, session)| session.client_id.strip_prefix(UPLINK_PREFIX).is_some_and(is_of_dead));
        if own.is_empty() {
            // No other broker would take their queues.
            return;
        }
        let kept = of_dead.into_iter().map(|(key, _)| key).filter(|key| !known.contains_key(key));
        for session in kept.map(SessionKey).collect::<Vec<_>>() {
            subscribing!(self.engine).leave_group(now, session, UPLINK_SHARE, UPLINK_FILTER);
        }
    }

    /// All brokers have been named: others get the messages of brokers that an earlier process knew and that are not
    /// named. Without any broker, these messages wait in the store.
    pub fn forget_other_uplinks(&mut self, now: Now) {
        self.engine.state.journal.now = now;
        if let Former::Awaited(until) = std::mem::take(&mut self.engine.uplinks.brokers.former) {
            self.engine.state.timers.cancel(until, Timer::FormerUplinks);
        }
        if self.engine.uplinks.brokers.all.is_empty() {
            return;
        }
        self.engine.uplinks.brokers.former = Former::Settled;
        let (known, continued) = (&self.engine.uplinks.brokers.by_session, &self.engine.uplinks.brokers.continued);
        let others = self.engine.state.sessions.iter().filter(|(key, session)| {
            let is_continued = session.client_id.strip_prefix(UPLINK_PREFIX).is_some_and(|name| continued.has(name));
            session.is_uplink() && !known.contains_key(key) && !is_continued
        });
        let others: Vec<SessionKey> = others.map(|(key, _)| SessionKey(key)).collect();
        for session in others {
            ending!(self.engine).end_session(now, session, Reason::SessionDiscarded);
        }
        self.engine.after_frame(now);
    }
}
