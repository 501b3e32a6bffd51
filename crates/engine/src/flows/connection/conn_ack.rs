//! CONNACK: the answer to a CONNECT.

use crate::connection::connect::grant::Granted;
use crate::event::Accepted;
use crate::flows::contexts::Connecting;
use crate::ids::ConnectionKey;
use tidegate_mqtt::{ConnAck, ConnAckProperties, Connect, PacketType, QoS, ReasonCode};

impl Connecting<'_> {
    /// Accepts a connection; returns whether the client takes packets of that size.
    pub(crate) fn send_conn_ack(
        &mut self,
        key: ConnectionKey,
        connect: &Connect<'_>,
        granted: &Granted<'_>,
        present: bool,
        promises: bool,
        accepted: &Accepted,
    ) -> bool {
        let Some(connection) = self.state.connections.get(key) else { return false };
        let (version, max_packet) = (connection.version, connection.max_packet_out);
        let settings = std::sync::Arc::clone(&self.state.settings);
        let Some(listener) = settings.listeners.get(usize::from(connection.listener.0)) else { return false };
        let enhanced = connection.extra.as_ref().and_then(|extra| extra.enhanced.as_ref());
        let method = enhanced.map(|enhanced| enhanced.method.clone());
        let asked = connect.properties.session_expiry_interval.unwrap_or(0);
        let wants_information = connect.properties.request_response_information.unwrap_or(false);
        let properties = ConnAckProperties {
            session_expiry_interval: (asked != granted.expiry_seconds).then_some(granted.expiry_seconds),
            receive_maximum: std::num::NonZeroU16::new(listener.receive_maximum).filter(|max| max.get() != u16::MAX),
            maximum_qos: (listener.maximum_qos < QoS::ExactlyOnce).then_some(listener.maximum_qos),
            retain_available: (!settings.retained.available).then_some(false),
            maximum_packet_size: std::num::NonZeroU32::new(listener.max_packet_size.min(PACKET_SIZE_TOLD_MAX)),
            assigned_client_identifier: granted.assigned.then_some(granted.client_id),
            topic_alias_maximum: (listener.topic_alias_maximum > 0).then_some(listener.topic_alias_maximum),
            shared_subscription_available: (!settings.shared.available).then_some(false),
            server_keep_alive: (granted.keep_alive != connect.keep_alive).then_some(granted.keep_alive),
            response_information: listener.response_information.as_deref().filter(|_| wants_information),
            authentication_method: method.as_deref(),
            authentication_data: accepted.data.as_deref().filter(|_| method.is_some()),
            ..ConnAckProperties::default()
        };
        let packet = ConnAck { session_present: present, reason_code: ReasonCode::Success, properties };
        let mut fits = false;
        self.state.send_promise(key, PacketType::ConnAck, promises, |out| {
            fits = packet.encode_within(version, max_packet, out).is_ok();
            fits
        });
        fits
    }
}

/// The largest Maximum Packet Size in CONNACK: some clients refuse a greater one, though packets can be a bit larger.
const PACKET_SIZE_TOLD_MAX: u32 = tidegate_mqtt::varint::MAX_VARINT;
