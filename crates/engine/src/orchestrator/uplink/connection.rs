//! The connection of an uplink: CONNECT, CONNACK, probes, and which packets a broker may send.

use super::Uplink;
use super::suspects::BrokerRefusals;
use super::{Probe, Stage, UplinkKey, session_name};
use crate::connection::Phase;
use crate::connection::input::Refused;
use crate::desk::Desk;
use crate::groups::dealing::dealing;
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::uplinking::Uplinking;
use crate::orchestrator::uplink::{Brokers, FleetConfig};
use crate::telling::reason::Reason;
use std::num::{NonZeroU16, NonZeroU32};
use tidegate_mqtt::{ConnAck, Connect, ConnectReturnCode, DecodeError, Frame, QoS, ReasonCode, Version};

/// The user property of a CONNECT that names the orchestrator.
pub(crate) const ORCHESTRATOR: &str = "tidegate-orchestrator";

impl Uplinking<'_> {
    pub(crate) fn handle_conn_ack(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let Some(uplink_key) = self.uplinks.brokers.of_connection(key) else { return Ok(()) };
        let ack = read_conn_ack(version, frame)?;
        if let Some(uplink) = self.uplinks.brokers.all.get_mut(&uplink_key) {
            uplink.silent = false;
        }
        if ack.reason_code.is_error() {
            if ack.reason_code == ReasonCode::UnsupportedProtocolVersion {
                if let Some(uplink) = self.uplinks.brokers.all.get_mut(&uplink_key) {
                    uplink.try_other_version();
                }
                if let Some(uplink) = self.uplinks.brokers.all.get_mut(&uplink_key) {
                    uplink.refuses_v5 = version.is_v5();
                }
            }
            let why = ack.properties.reason_string.map_or_else(|| format!("{:?}", ack.reason_code), str::to_owned);
            return Err(Refused::new(Reason::UplinkRefused, format!("the broker refuses the connection: {why}")));
        }
        let window = self.uplinks.brokers.config.settings().map_or(1, |settings| settings.window);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&uplink_key) else { return Ok(()) };
        uplink.filters.identifies = ack.properties.subscription_identifier_available != Some(false);
        uplink.window = ack.properties.receive_maximum.map_or(window, NonZeroU16::get).min(window).max(1);
        uplink.max_qos = ack.properties.maximum_qos.unwrap_or(QoS::ExactlyOnce);
        let max_packet = ack.properties.maximum_packet_size.map_or(u32::MAX, NonZeroU32::get);
        uplink.limit.announced = max_packet;
        uplink.stage = Stage::Open;
        uplink.accepted = Some(uplink.version);
        uplink.since = now.unix;
        uplink.reassign_at = Millis::NEVER;
        uplink.probe = Probe { asked: None, next: now.monotonic, answered: 0 };
        let session = uplink.session;
        self.uplinks.brokers.note_limits(now.monotonic);
        let Some(connection) = self.desk.connections.get_mut(key) else { return Ok(()) };
        connection.phase = Phase::Open;
        connection.session = Some(session);
        connection.max_qos_out = ack.properties.maximum_qos.unwrap_or(QoS::ExactlyOnce);
        connection.max_packet_out = max_packet;
        self.desk.sessions_connected += 1;
        // It may have come back with a smaller limit.
        BrokerRefusals(dealing!(self)).move_too_large(now, uplink_key);
        self.resume_uplink(now, uplink_key, key, ack.session_present);
        Ok(())
    }

    /// The session of a broker's uplink, made anew if the store has brought none.
    pub(super) fn uplink_session_name(broker: &str) -> String {
        session_name(broker)
    }
}

impl Brokers {
    /// The uplink of a connection and the version that it speaks.
    pub(super) fn uplink_of(&self, key: ConnectionKey) -> Option<(UplinkKey, Version)> {
        let uplink = self.of_connection(key)?;
        Some((uplink, self.all.get(&uplink)?.version))
    }

    pub(crate) fn note_uplink_error(&mut self, key: ConnectionKey, error: String) {
        let uplink = self.of_connection(key);
        if let Some(uplink) = uplink.and_then(|uplink| self.all.get_mut(&uplink)) {
            uplink.last_error = error;
        }
    }

    pub(crate) fn note_probe_answered(&mut self, now: Now, desk: &mut Desk, key: ConnectionKey) {
        let Some(uplink_key) = self.of_connection(key) else { return };
        let Some(uplink) = self.all.get_mut(&uplink_key) else { return };
        uplink.probe.asked = None;
        uplink.probe.answered += 1;
        uplink.probe.next = uplink.probe.next.max(now.monotonic);
        self.set_uplink_timer(desk, uplink_key);
    }
}

impl FleetConfig {
    /// Whether the uplinks live on this shard.
    #[inline]
    pub(crate) fn has_uplinks_here(&self) -> bool {
        self.here && self.is_on()
    }

    /// Whether a client is an uplink of this orchestrator: then a broker's address leads back here, and every message
    /// would go round without end.
    pub(crate) fn is_own_uplink(&self, connect: &Connect<'_>) -> bool {
        let Some(settings) = self.settings() else { return false };
        connect.properties.user_properties.iter().any(|pair| pair == (ORCHESTRATOR, &*settings.orchestrator))
    }
}

impl Uplink {
    /// The broker does not know the version: the next attempt is with the other one, if nobody has fixed it.
    pub(super) fn try_other_version(&mut self) {
        if self.options.version.is_none() {
            self.version = if self.version.is_v5() { Version::V311 } else { Version::V5 };
        }
    }
}

/// Reads a CONNACK. A broker that does not know MQTT 5.0 may answer in the form of the version that it knows.
fn read_conn_ack<'a>(version: Version, frame: &Frame<'a>) -> Result<ConnAck<'a>, DecodeError> {
    if version.is_v5()
        && let [_, code] = frame.body
        && *code != 0
    {
        let code = ConnectReturnCode::from_byte(*code);
        let refused = code.map_or(ReasonCode::UnspecifiedError, ConnectReturnCode::reason);
        return Ok(ConnAck::refused(refused));
    }
    ConnAck::decode(version, frame.first_byte, frame.body)
}
