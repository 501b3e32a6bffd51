//! Brokers leave the fleet: they are drained, removed, or not configured any more (BRK-32).

use crate::cluster::ending::ending;
use crate::desk::{Desk, Timer};
use crate::groups::dealing::dealing;
use crate::orchestrator::uplink::Brokers;
use crate::orchestrator::uplink::uplinking::{Uplinking, uplinking};
use crate::subscribe::subscribing::subscribing;
use tidegate_mqtt::{Disconnect, PacketType};

use super::{Drain, Stage, UPLINK_FILTER, UPLINK_SHARE, UplinkError, UplinkKey, UplinkReport};
use crate::engine::Engine;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::telling::reason::Reason;

impl Engine {
    /// Stops giving a broker messages (BRK-32 step 1). What it has it settles, and what comes from it is taken.
    ///
    /// # Errors
    /// When there is no such broker, or no other that could take its messages.
    pub fn drain_uplink(&mut self, now: Now, name: &str) -> Result<(), UplinkError> {
        self.desk.journal.now = now;
        let key = self.uplinks.brokers.find(name).ok_or_else(|| UplinkError::Unknown(name.to_owned()))?;
        if !self.uplinks.brokers.has_another(key) {
            return Err(UplinkError::Last(name.to_owned()));
        }
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return Ok(()) };
        if uplink.draining.is_some() {
            return Ok(());
        }
        // One answer may be under way to a PINGREQ that was sent before.
        let under_way = u64::from(uplink.probe.asked.is_some());
        uplink.draining = Some(Drain { answers_wanted: uplink.probe.answered + under_way + 1 });
        uplink.since = now.unix;
        uplink.probe.next = now.monotonic;
        let session = uplink.session;
        self.uplinks.brokers.note_flaws(key);
        dealing!(self).keep_order(now);
        subscribing!(self).leave_group(now, session, UPLINK_SHARE, UPLINK_FILTER);
        self.uplinks.brokers.set_uplink_timer(&mut self.desk, key);
        self.after_frame(now);
        Ok(())
    }

    /// Removes a broker (BRK-32 steps 3 and 4). With `force` others get what it owes.
    ///
    /// # Errors
    /// When there is no such broker, it owes messages and is not forced, or is the last one.
    pub fn remove_uplink(&mut self, now: Now, name: &str, force: bool) -> Result<(), UplinkError> {
        self.desk.journal.now = now;
        let key = self.uplinks.brokers.find(name).ok_or_else(|| UplinkError::Unknown(name.to_owned()))?;
        let report = self.uplinks.brokers.all.get(&key).map(|uplink| uplink.report(&self.desk));
        let owed = report.as_ref().map_or(0, UplinkReport::owed);
        if owed > 0 && !force {
            return Err(UplinkError::Owes { name: name.to_owned(), owed });
        }
        // Another shard may have sent a message here already, and those that are being drained may have to give theirs
        // away.
        if !self.uplinks.brokers.has_another(key) {
            return Err(UplinkError::Last(name.to_owned()));
        }
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return Ok(()) };
        uplink.ends = true;
        let (session, connection) = (uplink.session, uplink.connection);
        self.uplinks.brokers.note_flaws(key);
        // Before it leaves, since then what waits would go to others before what was sent.
        uplinking!(self).reassign(now, key);
        subscribing!(self).leave_group(now, session, UPLINK_SHARE, UPLINK_FILTER);
        if let Some(connection) = connection {
            self.uplinks.brokers.say_goodbye(&mut self.desk, connection, true);
            self.end_connection(now, connection, Reason::UplinkRemoved, None);
        }
        if let Some(uplink) = self.uplinks.brokers.all.remove(&key) {
            self.desk.timers.cancel(uplink.timer, Timer::Uplink(key));
            self.uplinks.brokers.by_session.remove(&session.0);
            self.uplinks.brokers.flawed.remove(&session.0);
            self.uplinks.brokers.held.remove(&key);
            self.uplinks.settlement.confirming.forget_session(session);
        }
        ending!(self).end_session(now, session, Reason::SessionDiscarded);
        uplinking!(self).check_gate(now);
        self.after_frame(now);
        Ok(())
    }
}

impl Uplinking<'_> {
    /// A broker that was being drained is to be given messages after all.
    pub(super) fn end_drain(&mut self, now: Now, key: UplinkKey) {
        let reassign_at = self.uplinks.brokers.config.reassign_time(now);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.draining.take().is_some() {
            uplink.since = now.unix;
            if uplink.stage != Stage::Open {
                // It is dealt messages from now on, and keeps them from others only as long as any that is away.
                uplink.reassign_at = reassign_at;
            }
            let (session, max_qos) = (uplink.session, uplink.max_qos);
            self.uplinks.brokers.note_flaws(key);
            self.take_uplink_seat(now, session, max_qos);
            dealing!(self).keep_order(now);
            self.uplinks.brokers.set_uplink_timer(self.desk, key);
            self.check_gate(now);
        }
    }
}

impl Brokers {
    fn has_another(&self, key: UplinkKey) -> bool {
        self.all.iter().any(|(other, uplink)| *other != key && uplink.draining.is_none())
    }

    /// A DISCONNECT to a broker; for good, it need not keep the session.
    pub(crate) fn say_goodbye(&mut self, desk: &mut Desk, key: ConnectionKey, for_good: bool) {
        let Some(connection) = desk.connections.get(key) else { return };
        if connection.phase != crate::connection::Phase::Open {
            return;
        }
        let (version, max) = (connection.version, connection.max_packet_out);
        let lasting = self.of_connection(key).and_then(|key| self.all.get(&key));
        let ends = for_good && lasting.is_some_and(|uplink| uplink.options.lasting);
        let packet = Disconnect {
            session_expiry_interval: ends.then_some(0),
            ..Disconnect::new(tidegate_mqtt::ReasonCode::Success)
        };
        desk.send(key, PacketType::Disconnect, |out| packet.encode_within(version, max, out).is_ok());
    }
}
