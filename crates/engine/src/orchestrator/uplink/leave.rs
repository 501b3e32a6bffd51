//! Brokers leave the fleet: they are drained, removed, or not configured any more (BRK-32).

use super::{Stage, UplinkKey};
use crate::desk::Desk;
use crate::groups::dealing::dealing;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::orchestrator::uplink::Brokers;
use crate::orchestrator::uplink::uplinking::Uplinking;
use tidegate_mqtt::{Disconnect, PacketType};

impl Uplinking<'_> {
    /// A broker that was being drained is to be given messages after all.
    pub(crate) fn end_drain(&mut self, now: Now, key: UplinkKey) {
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
    pub(crate) fn has_another(&self, key: UplinkKey) -> bool {
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
