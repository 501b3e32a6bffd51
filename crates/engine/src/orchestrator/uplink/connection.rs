//! The connection of an uplink: CONNECT, CONNACK, probes, and which packets a broker may send.

use super::Uplink;
use super::filters::SUB_ACK_PROBES;
use crate::connection::parking::parking;
use crate::desk::Desk;
use crate::groups::dealing::dealing;
use crate::orchestrator::uplink::uplinking::{Uplinking, uplinking};
use crate::orchestrator::uplink::{Brokers, FleetConfig};
use crate::session::acknowledge::acknowledging;
use std::num::{NonZeroU16, NonZeroU32};

use tidegate_mqtt::{
    ConnAck, Connect, ConnectProperties, ConnectReturnCode, DecodeError, Disconnect, Frame, PacketType, PingReq, QoS,
    ReasonCode, UserProperties, Version,
};

use super::copies::RECEIVE_MAXIMUM;
use super::suspects::BrokerRefusals;
use super::{DialAttempt, Probe, Stage, UPLINK_LISTENER, UplinkKey, session_name};
use crate::connection::input::{Flow, Refused};
use crate::connection::{Connection, Phase};
use crate::engine::Engine;
use crate::ids::{ConnectionKey, TenantId};
use crate::now::{Millis, Now};
use crate::telling::reason::Reason;

/// Seconds of silence after which a broker may give the orchestrator up; probes come more often.
const KEEP_ALIVE_SECONDS: u16 = 60;

/// The user property of a CONNECT that names the orchestrator.
const ORCHESTRATOR: &str = "tidegate-orchestrator";

impl Engine {
    /// A transport to the broker of this name is connected: CONNECT goes out. `None` when nobody waits for it, as when
    /// it is the outcome of another attempt than the present one.
    pub fn open_uplink(&mut self, now: Now, name: &str, attempt: DialAttempt) -> Option<ConnectionKey> {
        self.desk.journal.now = now;
        let key = self.uplinks.brokers.find(name).filter(|_| !self.uplinks.brokers.stopping)?;
        let settings = self.uplinks.brokers.config.settings()?.clone();
        let uplink = self.uplinks.brokers.all.get_mut(&key)?;
        if uplink.stage != Stage::Dialing(attempt) {
            return None;
        }
        let mut connection = Connection::new(UPLINK_LISTENER, TenantId::UPLINK, now.monotonic);
        connection.phase = Phase::AwaitConnAck;
        connection.version = uplink.version;
        let connection = self.desk.connections.insert(connection);
        self.desk.counters.sockets_opened += 1;
        uplink.connection = Some(connection);
        uplink.stage = Stage::Connecting;
        uplink.silent = true;
        uplink.probe = Probe { asked: Some(now.monotonic), next: Millis::NEVER, answered: 0 };
        let (version, session) = (uplink.version, uplink.session);
        let own = || format!("{}-{name}", settings.shown_name());
        let client_id = uplink.adopted.as_ref().map_or_else(own, |adopted| adopted.client_id.clone());
        let lasting = uplink.options.lasting;
        let (user_name, password) = (uplink.options.user_name.clone(), uplink.options.password.clone());
        let told = [(ORCHESTRATOR, settings.orchestrator.as_str())];
        let connect = Connect {
            version,
            bridge: false,
            clean_start: !lasting,
            keep_alive: KEEP_ALIVE_SECONDS,
            client_id: &client_id,
            will: None,
            username: user_name.as_deref(),
            password: password.as_deref().map(Vec::as_slice),
            properties: ConnectProperties {
                session_expiry_interval: lasting.then_some(settings.session_expiry_seconds),
                receive_maximum: NonZeroU16::new(RECEIVE_MAXIMUM),
                maximum_packet_size: NonZeroU32::new(settings.max_packet_size),
                topic_alias_maximum: None,
                request_response_information: None,
                request_problem_information: None,
                user_properties: UserProperties::new(&told),
                authentication_method: None,
                authentication_data: None,
            },
        };
        self.uplinks.brokers.by_connection.insert(connection, key);
        // What was done on the last connection may be under way to the store. Whatever this one says of it follows a
        // CONNECT that waits for that, as what is said to a client follows its CONNACK.
        let stored = self.desk.sessions.get(session.0).is_some_and(|session| session.stored.is_some());
        self.desk.send_promise(connection, PacketType::Connect, stored, |out| connect.encode(out).is_ok());
        self.uplinks.brokers.set_uplink_timer(&mut self.desk, key);
        Some(connection)
    }

    /// Takes a packet from a broker.
    pub(crate) fn take_uplink_frame(
        &mut self,
        now: Now,
        key: ConnectionKey,
        frame: &Frame<'_>,
        whole: &[u8],
    ) -> Result<Flow, Refused> {
        let Some(connection) = self.desk.connections.get(key) else { return Ok(Flow::Hold) };
        let (version, phase, parked) = (connection.version, connection.phase, connection.is_parked());
        let packet_type = frame.packet_type();
        if packet_type == PacketType::Publish && parked {
            return Ok(parking!(self).park_frame(key, whole));
        }
        self.desk.counters.packets_in[packet_type as usize] += 1;
        if phase == Phase::AwaitConnAck {
            return match packet_type {
                PacketType::ConnAck => uplinking!(self).handle_conn_ack(now, key, version, frame).map(|()| Flow::Next),
                PacketType::Disconnect => self.handle_broker_disconnect(now, key, version, frame).map(|()| Flow::Next),
                _ => Err(Refused::new(Reason::ProtocolError, format!("the broker sent {packet_type} before CONNACK"))),
            };
        }
        match packet_type {
            PacketType::Publish => uplinking!(self).receive_from_broker(now, key, version, frame)?,
            PacketType::PubAck => acknowledging!(self).handle_pub_ack(now, key, version, frame)?,
            PacketType::PubRec => acknowledging!(self).handle_pub_rec(now, key, version, frame)?,
            PacketType::PubRel => acknowledging!(self).handle_pub_rel(key, version, frame)?,
            PacketType::PubComp => acknowledging!(self).handle_pub_comp(now, key, version, frame)?,
            PacketType::SubAck => uplinking!(self).handle_sub_ack(now, key, frame)?,
            PacketType::UnsubAck => uplinking!(self).handle_unsub_ack(now, key, frame)?,
            PacketType::PingResp => self.uplinks.brokers.note_probe_answered(now, &mut self.desk, key),
            PacketType::Disconnect => self.handle_broker_disconnect(now, key, version, frame)?,
            _ => {
                let what = format!("a broker does not send {packet_type} here");
                return Err(Refused::new(Reason::ProtocolError, what));
            }
        }
        BrokerRefusals(dealing!(self)).settle(now);
        uplinking!(self).settle_acknowledged(now);
        Ok(Flow::Next)
    }

    fn handle_broker_disconnect(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let disconnect = Disconnect::decode(version, frame.first_byte, frame.body)?;
        let why = disconnect.reason_string.map_or_else(|| format!("{:?}", disconnect.reason_code), str::to_owned);
        let mut error = format!("the broker has ended the connection: {why}");
        if disconnect.reason_code == ReasonCode::SessionTakenOver {
            let own = self.uplinks.brokers.config.settings().map_or("", |settings| settings.orchestrator.as_str());
            error = format!(
                "another orchestrator named `{own}` has taken over the session at the broker: give each a --name of its own"
            );
        }
        self.uplinks.brokers.note_uplink_error(key, error);
        let uplink = self.uplinks.brokers.of_connection(key);
        if let Some(uplink) = uplink.and_then(|uplink| self.uplinks.brokers.all.get_mut(&uplink)) {
            uplink.suspicion.said = Some(disconnect.reason_code);
        }
        let about_packets = super::suspects::is_about_packets(disconnect.reason_code);
        self.end_connection(now, key, if about_packets { Reason::ConnectionLost } else { Reason::UplinkLost }, None);
        Ok(())
    }

    /// Asks a broker whether it lives, or gives it up when it has not answered. Says whether it was given up.
    pub(super) fn probe_uplink(&mut self, now: Now, key: UplinkKey) -> bool {
        let Some(settings) = self.uplinks.brokers.config.settings() else { return false };
        let (interval, timeout) = (settings.probe_interval_ms, settings.probe_timeout_ms);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return false };
        let Some(connection) = uplink.connection else { return false };
        if self.desk.connections.get(connection).is_some_and(|it| it.paused && it.is_parked())
            && let Some(asked) = uplink.probe.asked.as_mut()
        {
            // It is not read as long as a subscriber's full queue holds it back: its silence is our doing.
            *asked = now.monotonic;
        }
        let seen = self.desk.connections.get(connection).map_or(Millis(0), |connection| connection.last_seen);
        if uplink.probe.due(seen, timeout).is_some_and(|due| due <= now.monotonic) {
            let what = if uplink.stage == Stage::Open { "a probe" } else { "CONNECT" };
            uplink.last_error = format!("the broker has not answered {what} for {timeout} ms");
            uplink.silent = false;
            self.end_connection(now, connection, Reason::UplinkLost, None);
            return true;
        }
        if uplink.stage == Stage::Open && uplink.probe.asked.is_none() && uplink.probe.next <= now.monotonic {
            uplink.probe.asked = Some(now.monotonic);
            uplink.probe.next = now.monotonic.plus(interval);
            if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
                uplink.note_probe_sent(&self.desk);
            }
            self.desk.send(connection, PacketType::PingReq, |out| {
                PingReq.encode(out);
                true
            });
        }
        false
    }
}

impl Uplinking<'_> {
    fn handle_conn_ack(
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

    pub(super) fn note_uplink_error(&mut self, key: ConnectionKey, error: String) {
        let uplink = self.of_connection(key);
        if let Some(uplink) = uplink.and_then(|uplink| self.all.get_mut(&uplink)) {
            uplink.last_error = error;
        }
    }

    fn note_probe_answered(&mut self, now: Now, desk: &mut Desk, key: ConnectionKey) {
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

impl Engine {
    /// Gives a broker up that has not answered for filters in time, and says whether it did.
    pub(super) fn is_silent_about_filters(&mut self, now: Now, key: UplinkKey) -> bool {
        let Some(timeout) = self.uplinks.brokers.config.settings().map(|settings| settings.probe_timeout_ms) else {
            return false;
        };
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return false };
        let Some(connection) = uplink.connection.filter(|_| uplink.stage == Stage::Open) else { return false };
        let filters = &mut uplink.filters;
        if filters.asked_since == Millis::NEVER {
            return false;
        }
        if self.desk.connections.get(connection).is_some_and(|it| it.paused && it.is_parked()) {
            // It is not read as long as a subscriber's full queue holds it back: its silence is our doing.
            filters.asked_since = now.monotonic;
        }
        if filters.answer_due(timeout) > now.monotonic {
            return false;
        }
        let waited = timeout.saturating_mul(SUB_ACK_PROBES);
        uplink.last_error = format!("the broker has not answered SUBSCRIBE or UNSUBSCRIBE for {waited} ms");
        self.end_connection(now, connection, Reason::UplinkLost, None);
        true
    }
}
