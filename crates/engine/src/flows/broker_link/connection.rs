//! Packets of a broker.

use crate::connection::{Peer, Phase};
use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::broker_link::suspects::BrokerRefusals;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::dealing;
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::versions::Acceptance;
use crate::orchestrator::broker_link::{Probe, Stage, session_name};
use std::num::NonZeroU32;
use tidegate_mqtt::{ConnAck, ConnectReturnCode, DecodeError, Frame, QoS, ReasonCode, Version};

/// Why a connection in 3.1.1 is ended at once.
const IN_DOUBT: &str =
    "the broker took MQTT 3.1.1 after it had closed MQTT 5.0 without an answer; MQTT 5.0 is tried once more";

impl BrokerLinking<'_> {
    pub(crate) fn handle_conn_ack(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let Some(broker_link_key) = self.broker_links.brokers.of_connection(key) else { return Ok(()) };
        let ack = read_conn_ack(version, frame)?;
        if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&broker_link_key) {
            broker_link.silent = false;
        }
        if ack.reason_code.is_error() {
            if ack.reason_code == ReasonCode::UnsupportedProtocolVersion
                && let Some(broker_link) = self.broker_links.brokers.all.get_mut(&broker_link_key)
            {
                broker_link.try_other_version();
            }
            let why = ack.properties.reason_string.map_or_else(|| format!("{:?}", ack.reason_code), str::to_owned);
            return Err(Refused::new(Reason::BrokerLinkRefused, format!("the broker refuses the connection: {why}")));
        }
        let announced = ack.properties.receive_maximum;
        let settings = self.broker_links.brokers.config.settings();
        let window = settings.map_or(1, |settings| settings.window_of(announced));
        let unannounced = settings.map_or(u32::MAX, |settings| settings.unannounced_packet_limit);
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&broker_link_key) else { return Ok(()) };
        match broker_link.note_accepted() {
            Acceptance::InDoubt => return Err(Refused::new(Reason::BrokerLinkLost, IN_DOUBT.to_owned())),
            Acceptance::KeptOlder => {
                let broker = broker_link.name.to_string();
                self.state.events.push_back(Event::Log(LogEvent::BrokerIsOlder { broker }));
            }
            Acceptance::Kept => {}
        }
        broker_link.filters.identifies = ack.properties.subscription_identifier_available != Some(false);
        broker_link.window = window;
        broker_link.max_qos = ack.properties.maximum_qos.unwrap_or(QoS::ExactlyOnce);
        let max_packet = ack.properties.maximum_packet_size.map_or(unannounced, NonZeroU32::get);
        broker_link.limit.announced = max_packet;
        broker_link.stage = Stage::Open;
        broker_link.since = now.unix;
        broker_link.reassign_at = Millis::NEVER;
        broker_link.probe = Probe { asked: None, next: now.monotonic, answered: 0 };
        let session = broker_link.session;
        self.broker_links.brokers.note_limits(now.monotonic);
        let Some(connection) = self.state.connections.get_mut(key) else { return Ok(()) };
        connection.phase = Phase::Open;
        connection.session = Some(session);
        connection.max_qos_out = ack.properties.maximum_qos.unwrap_or(QoS::ExactlyOnce);
        if ack.properties.retain_available == Some(false) {
            connection.peer = Peer::BrokerWithoutRetain;
        }
        connection.max_packet_out = max_packet;
        self.state.sessions_connected += 1;
        // It may have returned with a smaller limit.
        BrokerRefusals(dealing!(self)).move_too_large(now, broker_link_key);
        self.resume_broker_link(now, broker_link_key, key, ack.session_present);
        Ok(())
    }

    /// The name of a broker link's session.
    pub(super) fn broker_link_session_name(broker: &str) -> String {
        session_name(broker)
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
