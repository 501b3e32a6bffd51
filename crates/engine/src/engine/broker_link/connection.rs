//! The connection to a broker of a fleet: CONNECT, frames, probes.

use crate::connection::input::Flow;
use crate::connection::{Connection, Phase};
use crate::engine::facets::FleetCalls;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::broker_link::suspects::BrokerRefusals;
use crate::flows::contexts::acknowledging;
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::dealing;
use crate::flows::contexts::ending;
use crate::flows::contexts::parking;
use crate::ids::BROKER_LINK_LISTENER;
use crate::ids::BrokerLinkKey;
use crate::ids::{ConnectionKey, TenantId};
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::connection::ORCHESTRATOR;
use crate::orchestrator::broker_link::copies::RECEIVE_MAXIMUM;
use crate::orchestrator::broker_link::filters::SUB_ACK_PROBES;
use crate::orchestrator::broker_link::{DialAttempt, Probe, Stage};
use crate::state::pub_acks::ACK_LEN;
use std::num::{NonZeroU16, NonZeroU32};
use tidegate_mqtt::{
    Connect, ConnectProperties, Disconnect, Frame, PacketType, PingReq, ReasonCode, UserProperties, Version,
};

/// Seconds of silence after which a broker may give the orchestrator up; probes come more often.
const KEEP_ALIVE_SECONDS: u16 = 60;

impl FleetCalls<'_> {
    /// A transport to the broker of this name is connected: CONNECT is sent. `None` when the transport is not awaited,
    /// for example if it belongs to an earlier attempt.
    pub fn open_broker_link(&mut self, now: Now, name: &str, attempt: DialAttempt) -> Option<ConnectionKey> {
        self.engine.state.journal.now = now;
        let key = self.engine.broker_links.brokers.find(name).filter(|_| !self.engine.broker_links.brokers.stopping)?;
        let settings = self.engine.broker_links.brokers.config.settings()?.clone();
        let broker_link = self.engine.broker_links.brokers.all.get_mut(&key)?;
        if broker_link.stage != Stage::Dialing(attempt) {
            return None;
        }
        let mut connection = Connection::new(BROKER_LINK_LISTENER, TenantId::BROKER_LINK, now.monotonic);
        connection.phase = Phase::AwaitConnAck;
        connection.version = broker_link.version;
        let connection = self.engine.state.connections.insert(connection);
        self.engine.state.counters.sockets_opened += 1;
        broker_link.connection = Some(connection);
        broker_link.stage = Stage::Connecting;
        broker_link.silent = true;
        broker_link.probe = Probe { asked: Some(now.monotonic), next: Millis::NEVER, answered: 0 };
        let (version, session) = (broker_link.version, broker_link.session);
        let own = || format!("{}-{name}", settings.shown_name());
        let client_id = broker_link.adopted.as_ref().map_or_else(own, |adopted| adopted.client_id.clone());
        let lasting = broker_link.options.lasting;
        let (user_name, password) = (broker_link.options.user_name.clone(), broker_link.options.password.clone());
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
        self.engine.broker_links.brokers.by_connection.insert(connection, key);
        // Changes of the last connection may be on their way to the store. Packets on this one follow a CONNECT that
        // waits for the commit, as packets to a client follow its CONNACK.
        let stored = self.engine.state.sessions.get(session.0).is_some_and(|session| session.stored.is_some());
        self.engine.state.send_promise(connection, PacketType::Connect, stored, |out| connect.encode(out).is_ok());
        self.engine.broker_links.brokers.set_broker_link_timer(&mut self.engine.state, key);
        Some(connection)
    }

    /// Takes a packet from a broker, the first one of `rest`.
    pub(crate) fn take_broker_link_frame(
        &mut self,
        now: Now,
        key: ConnectionKey,
        frame: &Frame<'_>,
        rest: &[u8],
    ) -> Result<Flow, Refused> {
        let Some(connection) = self.engine.state.connections.get(key) else { return Ok(Flow::Hold) };
        let (version, phase, parked) = (connection.version, connection.phase, connection.is_parked());
        let packet_type = frame.packet_type();
        if packet_type == PacketType::Publish && parked {
            return Ok(parking!(self.engine).park_frame(key, &rest[..frame.total_len]));
        }
        self.engine.state.counters.packets_in[packet_type as usize] += 1;
        if phase == Phase::AwaitConnAck {
            return match packet_type {
                PacketType::ConnAck => {
                    broker_linking!(self.engine).handle_conn_ack(now, key, version, frame)?;
                    // In a cluster, wills wait for the first limit of a broker.
                    ending!(self.engine).publish_held(now);
                    Ok(Flow::Next)
                }
                PacketType::Disconnect => self.handle_broker_disconnect(now, key, version, frame).map(|()| Flow::Next),
                _ => Err(Refused::new(Reason::ProtocolError, format!("the broker sent {packet_type} before CONNACK"))),
            };
        }
        let behind = &rest[frame.total_len..];
        // Packets directly behind this one that were taken with it, and their bytes.
        let (mut further, mut len) = (0, 0);
        match packet_type {
            PacketType::Publish => (further, len) = self.receive_from_broker(now, key, version, frame, behind)?,
            PacketType::PubAck => {
                let acks = acknowledging!(self.engine).handle_pub_acks(now, key, version, frame, behind)?;
                (further, len) = (acks as u32, acks * ACK_LEN);
            }
            PacketType::PubRec => acknowledging!(self.engine).handle_pub_rec(now, key, version, frame)?,
            PacketType::PubRel => acknowledging!(self.engine).handle_pub_rel(key, version, frame)?,
            PacketType::PubComp => acknowledging!(self.engine).handle_pub_comp(now, key, version, frame)?,
            PacketType::SubAck => broker_linking!(self.engine).handle_sub_ack(now, key, frame)?,
            PacketType::UnsubAck => broker_linking!(self.engine).handle_unsub_ack(now, key, frame)?,
            PacketType::PingResp => {
                self.engine.broker_links.brokers.note_probe_answered(now, &mut self.engine.state, key);
                broker_linking!(self.engine).answer_members(now, key);
            }
            PacketType::Disconnect => self.handle_broker_disconnect(now, key, version, frame)?,
            _ => {
                let problem = format!("a broker does not send {packet_type} here");
                return Err(Refused::new(Reason::ProtocolError, problem));
            }
        }
        if self.engine.broker_links.settlement.has_undecided() {
            BrokerRefusals(dealing!(self.engine)).settle(now);
            broker_linking!(self.engine).settle_acknowledged(now);
        }
        if self.engine.broker_links.count_messages(1 + further) {
            broker_linking!(self.engine).work_after_message(now);
        }
        Ok(Flow::next_behind(len))
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
            let own = self
                .engine
                .broker_links
                .brokers
                .config
                .settings()
                .map_or("", |settings| settings.orchestrator.as_str());
            error = format!(
                "another orchestrator named `{own}` has taken over the session at the broker: give each a --name of its own"
            );
        }
        self.engine.broker_links.brokers.note_broker_link_error(key, error);
        let broker_link = self.engine.broker_links.brokers.of_connection(key);
        if let Some(broker_link) =
            broker_link.and_then(|broker_link| self.engine.broker_links.brokers.all.get_mut(&broker_link))
        {
            broker_link.suspicion.said = Some(disconnect.reason_code);
        }
        let about_packets = crate::orchestrator::broker_link::suspects::is_about_packets(disconnect.reason_code);
        self.engine.end_connection(
            now,
            key,
            if about_packets { Reason::ConnectionLost } else { Reason::BrokerLinkLost },
            None,
        );
        Ok(())
    }

    /// Asks a broker whether it lives, or gives it up when it has not answered. Returns whether it was given up.
    pub(super) fn probe_broker_link(&mut self, now: Now, key: BrokerLinkKey) -> bool {
        let Some(settings) = self.engine.broker_links.brokers.config.settings() else { return false };
        let (interval, timeout) = (settings.probe_interval_ms, settings.probe_timeout_ms);
        let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) else { return false };
        let Some(connection) = broker_link.connection else { return false };
        if self.engine.state.connections.get(connection).is_some_and(|it| it.paused && it.is_parked())
            && let Some(asked) = broker_link.probe.asked.as_mut()
        {
            // It is not read as long as a subscriber's full queue holds it back: its silence is our doing.
            *asked = now.monotonic;
        }
        let seen = self.engine.state.connections.get(connection).map_or(Millis(0), |connection| connection.last_seen);
        if broker_link.probe.due(seen, timeout).is_some_and(|due| due <= now.monotonic) {
            let request = if broker_link.stage == Stage::Open { "a probe" } else { "CONNECT" };
            broker_link.last_error = format!("the broker has not answered {request} for {timeout} ms");
            broker_link.silent = false;
            self.engine.end_connection(now, connection, Reason::BrokerLinkLost, None);
            return true;
        }
        if broker_link.stage == Stage::Open
            && broker_link.probe.asked.is_none()
            && broker_link.probe.next <= now.monotonic
        {
            broker_link.probe.asked = Some(now.monotonic);
            broker_link.probe.next = now.monotonic.plus(interval);
            if let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) {
                broker_link.note_probe_sent(&self.engine.state);
            }
            self.engine.state.send(connection, PacketType::PingReq, |out| {
                PingReq.encode(out);
                true
            });
        }
        false
    }

    /// Gives a broker up that has not answered for filters in time, and says whether it did.
    pub(super) fn is_silent_about_filters(&mut self, now: Now, key: BrokerLinkKey) -> bool {
        let Some(timeout) =
            self.engine.broker_links.brokers.config.settings().map(|settings| settings.probe_timeout_ms)
        else {
            return false;
        };
        let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) else { return false };
        let Some(connection) = broker_link.connection.filter(|_| broker_link.stage == Stage::Open) else {
            return false;
        };
        let filters = &mut broker_link.filters;
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
        broker_link.last_error = format!("the broker has not answered SUBSCRIBE or UNSUBSCRIBE for {waited} ms");
        self.engine.end_connection(now, connection, Reason::BrokerLinkLost, None);
        true
    }
}
