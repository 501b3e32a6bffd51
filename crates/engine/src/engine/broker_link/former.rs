//! Messages of brokers that have left.

use crate::engine::facets::FleetCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::ending;
use crate::flows::contexts::subscribing;
use crate::ids::{BROKER_LINK_PREFIX, SessionKey};
use crate::now::Now;
use crate::orchestrator::broker_link::former::{Continued, Former, is_of_dead};
use crate::orchestrator::broker_link::{BROKER_LINK_FILTER, BROKER_LINK_SHARE};
use crate::timers::Timer;

impl FleetCalls<'_> {
    /// Their time is over.
    pub(crate) fn handle_former_timer(&mut self, now: Now) {
        self.engine.broker_links.brokers.former = Former::Unknown;
        self.forget_other_broker_links(now);
    }

    /// Names the connections of dead orchestrators that this process continues. The sessions of others are ended when all
    /// brokers have been named.
    pub fn continue_adopted(&mut self, now: Now, continued: Continued) {
        self.engine.state.journal.now = now;
        self.engine.broker_links.brokers.continued = continued;
        self.deal_none_to_kept(now);
        if self.engine.broker_links.brokers.former == Former::Settled {
            self.forget_other_broker_links(now);
        }
    }

    /// The sessions that wait for a connection of a dead orchestrator get no messages of clients, and other brokers get
    /// their queues. The sent messages stay.
    pub(crate) fn deal_none_to_kept(&mut self, now: Now) {
        let known = &self.engine.broker_links.brokers.by_session;
        let broker_links = self.engine.state.sessions.iter().filter(|(_, session)| session.is_broker_link());
        let (of_dead, own): (Vec<_>, Vec<_>) = broker_links
            .partition(|(_, session)| session.client_id.strip_prefix(BROKER_LINK_PREFIX).is_some_and(is_of_dead));
        if own.is_empty() {
            // No other broker would take their queues.
            return;
        }
        let kept = of_dead.into_iter().map(|(key, _)| key).filter(|key| !known.contains_key(key));
        for session in kept.map(SessionKey).collect::<Vec<_>>() {
            subscribing!(self.engine).leave_group(now, session, BROKER_LINK_SHARE, BROKER_LINK_FILTER);
        }
    }

    /// All brokers have been named: others get the messages of brokers that an earlier process knew and that are not
    /// named. Without any broker, these messages wait in the store.
    pub fn forget_other_broker_links(&mut self, now: Now) {
        self.engine.state.journal.now = now;
        if let Former::Awaited(until) = std::mem::take(&mut self.engine.broker_links.brokers.former) {
            self.engine.state.timers.cancel(until, Timer::FormerBrokerLinks);
        }
        if self.engine.broker_links.brokers.all.is_empty() {
            return;
        }
        self.engine.broker_links.brokers.former = Former::Settled;
        let (known, continued) =
            (&self.engine.broker_links.brokers.by_session, &self.engine.broker_links.brokers.continued);
        let others = self.engine.state.sessions.iter().filter(|(key, session)| {
            let is_continued =
                session.client_id.strip_prefix(BROKER_LINK_PREFIX).is_some_and(|name| continued.has(name));
            session.is_broker_link() && !known.contains_key(key) && !is_continued
        });
        let others: Vec<SessionKey> = others.map(|(key, _)| SessionKey(key)).collect();
        for session in others {
            ending!(self.engine).end_session(now, session, Reason::SessionDiscarded);
        }
        self.engine.after_frame(now);
    }
}
