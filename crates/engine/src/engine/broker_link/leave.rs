//! A broker is drained or removed.

use crate::engine::facets::FleetCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::dealing;
use crate::flows::contexts::ending;
use crate::flows::contexts::subscribing;
use crate::now::Now;
use crate::orchestrator::broker_link::{
    BROKER_LINK_FILTER, BROKER_LINK_SHARE, BrokerLinkError, BrokerLinkReport, Drain,
};
use crate::timers::Timer;

impl FleetCalls<'_> {
    /// Stops giving a broker messages (BRK-32 step 1). It settles its own messages, and messages from it are taken.
    ///
    /// # Errors
    /// When there is no such broker, or no other that could take its messages.
    pub fn drain_broker_link(&mut self, now: Now, name: &str) -> Result<(), BrokerLinkError> {
        self.engine.state.journal.now = now;
        let key =
            self.engine.broker_links.brokers.find(name).ok_or_else(|| BrokerLinkError::Unknown(name.to_owned()))?;
        if !self.engine.broker_links.brokers.has_another(key) {
            return Err(BrokerLinkError::Last(name.to_owned()));
        }
        let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) else { return Ok(()) };
        if broker_link.draining.is_some() {
            return Ok(());
        }
        // One answer may be under way to a PINGREQ that was sent before.
        let under_way = u64::from(broker_link.probe.asked.is_some());
        broker_link.draining = Some(Drain { answers_wanted: broker_link.probe.answered + under_way + 1 });
        broker_link.since = now.unix;
        broker_link.probe.next = now.monotonic;
        let session = broker_link.session;
        self.engine.broker_links.brokers.note_flaws(key);
        dealing!(self.engine).keep_order(now);
        subscribing!(self.engine).leave_group(now, session, BROKER_LINK_SHARE, BROKER_LINK_FILTER);
        self.engine.broker_links.brokers.set_broker_link_timer(&mut self.engine.state, key);
        // The limits of the others may be smaller.
        broker_linking!(self.engine).check_gate(now);
        self.engine.after_frame(now);
        Ok(())
    }

    /// Removes a broker (BRK-32 steps 3 and 4). With `force` other brokers get its unsettled messages.
    ///
    /// # Errors
    /// When there is no such broker, it owes messages or messages from it are not forwarded and it is not forced, or is the
    /// last one.
    pub fn remove_broker_link(&mut self, now: Now, name: &str, force: bool) -> Result<(), BrokerLinkError> {
        self.engine.state.journal.now = now;
        let key =
            self.engine.broker_links.brokers.find(name).ok_or_else(|| BrokerLinkError::Unknown(name.to_owned()))?;
        let broker_link = self.engine.broker_links.brokers.all.get(&key);
        let report = broker_link.map(|broker_link| broker_link.report(&self.engine.state));
        // A copy that came by another connection is acknowledged: this broker alone brings these after a restart.
        let forwarding = &self.engine.handover.forwarding;
        let unforwarded = broker_link.and_then(|it| it.connection).map_or(0, |it| forwarding.unanswered_of(it));
        let owed = report.as_ref().map_or(0, BrokerLinkReport::owed) + unforwarded;
        if owed > 0 && !force {
            return Err(BrokerLinkError::Owes { name: name.to_owned(), owed });
        }
        // Another shard may have sent a message here already, and draining brokers may have to give theirs away.
        if !self.engine.broker_links.brokers.has_another(key) {
            return Err(BrokerLinkError::Last(name.to_owned()));
        }
        let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) else { return Ok(()) };
        broker_link.ends = true;
        let for_good = broker_link.adopted.as_ref().is_none_or(|adopted| !adopted.is_handed_back);
        let (session, connection) = (broker_link.session, broker_link.connection);
        self.engine.broker_links.brokers.note_flaws(key);
        // Before it leaves: otherwise its queue would go to other brokers before its sent messages.
        broker_linking!(self.engine).reassign(now, key);
        subscribing!(self.engine).leave_group(now, session, BROKER_LINK_SHARE, BROKER_LINK_FILTER);
        if let Some(connection) = connection {
            self.engine.broker_links.brokers.say_goodbye(&mut self.engine.state, connection, for_good);
            self.engine.end_connection(now, connection, Reason::BrokerLinkRemoved, None);
        }
        if let Some(broker_link) = self.engine.broker_links.brokers.all.remove(&key) {
            self.engine.state.timers.cancel(broker_link.timer, Timer::BrokerLink(key));
            self.engine.broker_links.brokers.by_session.remove(&session.0);
            self.engine.broker_links.brokers.flawed.remove(&session.0);
            self.engine.broker_links.brokers.held.remove(&key);
            self.engine.broker_links.settlement.confirming.forget_session(session);
        }
        ending!(self.engine).end_session(now, session, Reason::SessionDiscarded);
        broker_linking!(self.engine).check_gate(now);
        self.engine.after_frame(now);
        Ok(())
    }
}
