//! A broker is drained or removed.

use crate::engine::facets::FleetCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::dealing;
use crate::flows::contexts::ending;
use crate::flows::contexts::subscribing;
use crate::flows::contexts::uplinking;
use crate::now::Now;
use crate::orchestrator::uplink::{Drain, UPLINK_FILTER, UPLINK_SHARE, UplinkError, UplinkReport};
use crate::timers::Timer;

impl FleetCalls<'_> {
    /// Stops giving a broker messages (BRK-32 step 1). It settles its own messages, and messages from it are taken.
    ///
    /// # Errors
    /// When there is no such broker, or no other that could take its messages.
    pub fn drain_uplink(&mut self, now: Now, name: &str) -> Result<(), UplinkError> {
        self.engine.state.journal.now = now;
        let key = self.engine.uplinks.brokers.find(name).ok_or_else(|| UplinkError::Unknown(name.to_owned()))?;
        if !self.engine.uplinks.brokers.has_another(key) {
            return Err(UplinkError::Last(name.to_owned()));
        }
        let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) else { return Ok(()) };
        if uplink.draining.is_some() {
            return Ok(());
        }
        // One answer may be under way to a PINGREQ that was sent before.
        let under_way = u64::from(uplink.probe.asked.is_some());
        uplink.draining = Some(Drain { answers_wanted: uplink.probe.answered + under_way + 1 });
        uplink.since = now.unix;
        uplink.probe.next = now.monotonic;
        let session = uplink.session;
        self.engine.uplinks.brokers.note_flaws(key);
        dealing!(self.engine).keep_order(now);
        subscribing!(self.engine).leave_group(now, session, UPLINK_SHARE, UPLINK_FILTER);
        self.engine.uplinks.brokers.set_uplink_timer(&mut self.engine.state, key);
        self.engine.after_frame(now);
        Ok(())
    }

    /// Removes a broker (BRK-32 steps 3 and 4). With `force` other brokers get its unsettled messages.
    ///
    /// # Errors
    /// When there is no such broker, it owes messages and is not forced, or is the last one.
    pub fn remove_uplink(&mut self, now: Now, name: &str, force: bool) -> Result<(), UplinkError> {
        self.engine.state.journal.now = now;
        let key = self.engine.uplinks.brokers.find(name).ok_or_else(|| UplinkError::Unknown(name.to_owned()))?;
        let report = self.engine.uplinks.brokers.all.get(&key).map(|uplink| uplink.report(&self.engine.state));
        let owed = report.as_ref().map_or(0, UplinkReport::owed);
        if owed > 0 && !force {
            return Err(UplinkError::Owes { name: name.to_owned(), owed });
        }
        // Another shard may have sent a message here already, and draining brokers may have to give theirs away.
        if !self.engine.uplinks.brokers.has_another(key) {
            return Err(UplinkError::Last(name.to_owned()));
        }
        let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) else { return Ok(()) };
        uplink.ends = true;
        let (session, connection) = (uplink.session, uplink.connection);
        self.engine.uplinks.brokers.note_flaws(key);
        // Before it leaves: otherwise its queue would go to other brokers before its sent messages.
        uplinking!(self.engine).reassign(now, key);
        subscribing!(self.engine).leave_group(now, session, UPLINK_SHARE, UPLINK_FILTER);
        if let Some(connection) = connection {
            self.engine.uplinks.brokers.say_goodbye(&mut self.engine.state, connection, true);
            self.engine.end_connection(now, connection, Reason::UplinkRemoved, None);
        }
        if let Some(uplink) = self.engine.uplinks.brokers.all.remove(&key) {
            self.engine.state.timers.cancel(uplink.timer, Timer::Uplink(key));
            self.engine.uplinks.brokers.by_session.remove(&session.0);
            self.engine.uplinks.brokers.flawed.remove(&session.0);
            self.engine.uplinks.brokers.held.remove(&key);
            self.engine.uplinks.settlement.confirming.forget_session(session);
        }
        ending!(self.engine).end_session(now, session, Reason::SessionDiscarded);
        uplinking!(self.engine).check_gate(now);
        self.engine.after_frame(now);
        Ok(())
    }
}
