//! The connection to a broker of a fleet: CONNECT, frames, probes.

use crate::connection::input::Flow;
use crate::connection::{Connection, Phase};
use crate::engine::facets::FleetCalls;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::acknowledging;
use crate::flows::contexts::dealing;
use crate::flows::contexts::parking;
use crate::flows::contexts::uplinking;
use crate::flows::uplink::suspects::BrokerRefusals;
use crate::ids::UPLINK_LISTENER;
use crate::ids::UplinkKey;
use crate::ids::{ConnectionKey, TenantId};
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::connection::ORCHESTRATOR;
use crate::orchestrator::uplink::copies::RECEIVE_MAXIMUM;
use crate::orchestrator::uplink::filters::SUB_ACK_PROBES;
use crate::orchestrator::uplink::{DialAttempt, Probe, Stage};
use std::num::{NonZeroU16, NonZeroU32};
use tidegate_mqtt::{
    Connect, ConnectProperties, Disconnect, Frame, PacketType, PingReq, ReasonCode, UserProperties, Version,
};

/// Seconds of silence after which a broker may give the orchestrator up; probes come more often.
const KEEP_ALIVE_SECONDS: u16 = 60;

impl FleetCalls<'_> {
    /// A transport to the broker of this name is connected: CONNECT is sent. `None` when the transport is not awaited,
    /// for example if it belongs to an earlier attempt.
    pub fn open_uplink(&mut self, now: Now, name: &str, attempt: DialAttempt) -> Option<ConnectionKey> {
        self.engine.state.journal.now = now;
        let key = self.engine.uplinks.brokers.find(name).filter(|_| !self.engine.uplinks.brokers.stopping)?;
        let settings = self.engine.uplinks.brokers.config.settings()?.clone();
        let uplink = self.engine.uplinks.brokers.all.get_mut(&key)?;
        if uplink.stage != Stage::Dialing(attempt) {
            return None;
        }
        let mut connection = Connection::new(UPLINK_LISTENER, TenantId::UPLINK, now.monotonic);
        connection.phase = Phase::AwaitConnAck;
        connection.version = uplink.version;
        let connection = self.engine.state.connections.insert(connection);
        self.engine.state.counters.sockets_opened += 1;
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
        self.engine.uplinks.brokers.by_connection.insert(connection, key);
        // Changes of the last connection may be on their way to the store. Packets on this one follow a CONNECT that
        // waits for the commit, as packets to a client follow its CONNACK.
        let stored = self.engine.state.sessions.get(session.0).is_some_and(|session| session.stored.is_some());
        self.engine.state.send_promise(connection, PacketType::Connect, stored, |out| connect.encode(out).is_ok());
        self.engine.uplinks.brokers.set_uplink_timer(&mut self.engine.state, key);
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
        let Some(connection) = self.engine.state.connections.get(key) else { return Ok(Flow::Hold) };
        let (version, phase, parked) = (connection.version, connection.phase, connection.is_parked());
        let packet_type = frame.packet_type();
        if packet_type == PacketType::Publish && parked {
            return Ok(parking!(self.engine).park_frame(key, whole));
        }
        self.engine.state.counters.packets_in[packet_type as usize] += 1;
        if phase == Phase::AwaitConnAck {
            return match packet_type {
                PacketType::ConnAck => {
                    uplinking!(self.engine).handle_conn_ack(now, key, version, frame).map(|()| Flow::Next)
                }
                PacketType::Disconnect => self.handle_broker_disconnect(now, key, version, frame).map(|()| Flow::Next),
                _ => Err(Refused::new(Reason::ProtocolError, format!("the broker sent {packet_type} before CONNACK"))),
            };
        }
        match packet_type {
            PacketType::Publish => uplinking!(self.engine).receive_from_broker(now, key, version, frame)?,
            PacketType::PubAck => acknowledging!(self.engine).handle_pub_ack(now, key, version, frame)?,
            PacketType::PubRec => acknowledging!(self.engine).handle_pub_rec(now, key, version, frame)?,
            PacketType::PubRel => acknowledging!(self.engine).handle_pub_rel(key, version, frame)?,
            PacketType::PubComp => acknowledging!(self.engine).handle_pub_comp(now, key, version, frame)?,
            PacketType::SubAck => uplinking!(self.engine).handle_sub_ack(now, key, frame)?,
            PacketType::UnsubAck => uplinking!(self.engine).handle_unsub_ack(now, key, frame)?,
            PacketType::PingResp => self.engine.uplinks.brokers.note_probe_answered(now, &mut self.engine.state, key),
            PacketType::Disconnect => self.handle_broker_disconnect(now, key, version, frame)?,
            _ => {
                let what = format!("a broker does not send {packet_type} here");
                return Err(Refused::new(Reason::ProtocolError, what));
            }
        }
        BrokerRefusals(dealing!(self.engine)).settle(now);
        uplinking!(self.engine).settle_acknowledged(now);
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
            let own =
                self.engine.uplinks.brokers.config.settings().map_or("", |settings| settings.orchestrator.as_str());
            error = format!(
                "another orchestrator named `{own}` has taken over the session at the broker: give each a --name of its own"
            );
        }
        self.engine.uplinks.brokers.note_uplink_error(key, error);
        let uplink = self.engine.uplinks.brokers.of_connection(key);
        if let Some(uplink) = uplink.and_then(|uplink| self.engine.uplinks.brokers.all.get_mut(&uplink)) {
            uplink.suspicion.said = Some(disconnect.reason_code);
        }
        let about_packets = crate::orchestrator::uplink::suspects::is_about_packets(disconnect.reason_code);
        self.engine.end_connection(
            now,
            key,
            if about_packets { Reason::ConnectionLost } else { Reason::UplinkLost },
            None,
        );
        Ok(())
    }

    /// Asks a broker whether it lives, or gives it up when it has not answered. Returns whether it was given up.
    pub(super) fn probe_uplink(&mut self, now: Now, key: UplinkKey) -> bool {
        let Some(settings) = self.engine.uplinks.brokers.config.settings() else { return false };
        let (interval, timeout) = (settings.probe_interval_ms, settings.probe_timeout_ms);
        let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) else { return false };
        let Some(connection) = uplink.connection else { return false };
        if self.engine.state.connections.get(connection).is_some_and(|it| it.paused && it.is_parked())
            && let Some(asked) = uplink.probe.asked.as_mut()
        {
            // It is not read as long as a subscriber's full queue holds it back: its silence is our doing.
            *asked = now.monotonic;
        }
        let seen = self.engine.state.connections.get(connection).map_or(Millis(0), |connection| connection.last_seen);
        if uplink.probe.due(seen, timeout).is_some_and(|due| due <= now.monotonic) {
            let what = if uplink.stage == Stage::Open { "a probe" } else { "CONNECT" };
            uplink.last_error = format!("the broker has not answered {what} for {timeout} ms");
            uplink.silent = false;
            self.engine.end_connection(now, connection, Reason::UplinkLost, None);
            return true;
        }
        if uplink.stage == Stage::Open && uplink.probe.asked.is_none() && uplink.probe.next <= now.monotonic {
            uplink.probe.asked = Some(now.monotonic);
            uplink.probe.next = now.monotonic.plus(interval);
            if let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) {
                uplink.note_probe_sent(&self.engine.state);
            }
            self.engine.state.send(connection, PacketType::PingReq, |out| {
                PingReq.encode(out);
                true
            });
        }
        false
    }

    /// Gives a broker up that has not answered for filters in time, and says whether it did.
    pub(super) fn is_silent_about_filters(&mut self, now: Now, key: UplinkKey) -> bool {
        let Some(timeout) = self.engine.uplinks.brokers.config.settings().map(|settings| settings.probe_timeout_ms)
        else {
            return false;
        };
        let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) else { return false };
        let Some(connection) = uplink.connection.filter(|_| uplink.stage == Stage::Open) else { return false };
        let filters = &mut uplink.filters;
        if filters.asked_since == Millis::NEVER {
            return false;
        }
        if self.engine.state.connections.get(connection).is_some_and(|it| it.paused && it.is_parked()) {
            // It is not read as long as a subscriber's full queue holds it back: its silence is our doing.
            filters.asked_since = now.monotonic;
        }
        if filters.answer_due(timeout) > now.monotonic {
            return false;
        }
        let waited = timeout.saturating_mul(SUB_ACK_PROBES);
        uplink.last_error = format!("the broker has not answered SUBSCRIBE or UNSUBSCRIBE for {waited} ms");
        self.engine.end_connection(now, connection, Reason::UplinkLost, None);
        true
    }
}
