//! A CONNECT is refused.

use crate::engine::facets::EntryCalls;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::ids::ConnectionKey;
use crate::now::Now;
use tidegate_mqtt::{ConnAck, ConnAckProperties, ConnectReturnCode, DecodeError, PacketType, Version};

impl EntryCalls<'_> {
    /// Refuses a CONNECT that could not be read. Only an unknown level is answered, since its sender speaks MQTT.
    pub(super) fn refuse_bad_connect(&mut self, now: Now, key: ConnectionKey, error: &DecodeError) {
        let reason = Reason::of_code(error.reason_code());
        if let DecodeError::UnsupportedVersion { level } = error {
            let version = if *level > 5 { Version::V5 } else { Version::V311 };
            if let Some(connection) = self.engine.state.connections.get_mut(key) {
                connection.version = version;
            }
            self.refuse_connect(now, key, reason, error.to_string());
        } else {
            self.engine.refuse(now, key, Refused { reason, detail: error.to_string() });
        }
    }

    /// Answers a CONNECT with the reason why not, and closes.
    pub(crate) fn refuse_connect(&mut self, now: Now, key: ConnectionKey, reason: Reason, detail: String) {
        let Some(connection) = self.engine.state.connections.get(key) else { return };
        let reference = self.engine.questions().reference_for(connection.listener);
        self.refuse_with_reference(now, key, reason, detail, reference.as_deref());
    }

    /// The same with another server for an MQTT 5 client to use.
    pub(crate) fn refuse_with_reference(
        &mut self,
        now: Now,
        key: ConnectionKey,
        reason: Reason,
        detail: String,
        reference: Option<&str>,
    ) {
        let Some(connection) = self.engine.state.connections.get(key) else { return };
        let (version, max_packet) = (connection.version, connection.max_packet_out);
        let properties = ConnAckProperties {
            reason_string: (!detail.is_empty()).then_some(&detail[..]).or(Some(reason.text())),
            server_reference: reference.filter(|_| reason == Reason::UseAnotherServer),
            ..ConnAckProperties::default()
        };
        let packet = ConnAck { session_present: false, reason_code: reason.code(), properties };
        // MQTT 3 has no words for some reasons; then the connection is just closed.
        if version.is_v5() || ConnectReturnCode::from_reason(reason.code()).is_some() {
            self.engine
                .state
                .send(key, PacketType::ConnAck, |out| packet.encode_within(version, max_packet, out).is_ok());
        }
        self.engine.end_connection(now, key, reason, Some(detail));
    }
}
