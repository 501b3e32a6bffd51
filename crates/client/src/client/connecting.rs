//! Opening a connection, and the server's answer.

use std::time::Instant;

use tidegate_mqtt::{ConnAck, ReasonCode, Version};

use super::{Client, Phase, owned_pairs};
use crate::aliases::{InboundAliases, OutboundAliases};
use crate::inherited::Inherited;
use crate::keep_alive::KeepAlive;
use crate::message::ConnectionNumber;
use crate::outgoing::Stage;
use crate::{
    Connected, Disconnected, Dismissal, Event, OpenError, ProtocolError, ServerLimits, Undelivered, UndeliveredCause,
};

impl Client {
    /// Sets the version, and before MQTT 5.0 the bridge flag, of later connections. Queued messages stay; before MQTT
    /// 5.0 their properties are not sent.
    ///
    /// # Errors
    ///
    /// When the last connection has not ended.
    pub fn introduce(&mut self, version: Version, bridge: bool) -> Result<(), OpenError> {
        if self.wire.phase != Phase::Closed {
            return Err(OpenError::AlreadyOpen);
        }
        self.wire.options.version = version;
        self.wire.options.bridge = bridge;
        Ok(())
    }

    /// A transport has been established: sends the CONNECT packet.
    ///
    /// With `clean_start` in the [`Options`](crate::Options) each connection begins its own session: messages
    /// that an earlier one has left unacknowledged return as [`Event::Undelivered`]. Without it they are sent
    /// again if the server still has the session. Messages that have not been sent yet stay in any case.
    ///
    /// # Errors
    ///
    /// When the last connection has not ended, or the CONNECT packet is invalid.
    pub fn open(&mut self, now: Instant) -> Result<(), OpenError> {
        if self.wire.phase != Phase::Closed {
            return Err(OpenError::AlreadyOpen);
        }
        let mut packet = Vec::new();
        self.wire.options.encode_connect(&self.id, &mut packet)?;
        let properties = &self.wire.options.properties;
        self.wire.phase = Phase::Connecting { deadline: now + self.wire.options.connect_timeout };
        self.receiving.connection = ConnectionNumber(self.receiving.connection.0 + 1);
        self.wire.server = ServerLimits::NONE;
        self.wire.keep_alive = KeepAlive::new(self.wire.options.keep_alive, now);
        self.receiving.aliases = InboundAliases::new(properties.topic_alias_maximum.unwrap_or(0));
        self.sending.aliases = OutboundAliases::default();
        self.wire.send(now, |out| {
            out.append(&mut packet);
            Ok(())
        })
    }

    pub(super) fn handle_connack(&mut self, now: Instant, packet: &ConnAck<'_>) -> Result<(), ProtocolError> {
        let properties = &packet.properties;
        if packet.reason_code != ReasonCode::Success {
            self.end(Disconnected::Refused(Box::new(Dismissal {
                reason_code: packet.reason_code,
                reason_string: properties.reason_string.map(str::to_owned),
                server_reference: properties.server_reference.map(str::to_owned),
                user_properties: owned_pairs(&properties.user_properties),
            })));
            return Ok(());
        }
        if packet.session_present && self.wire.options.clean_start {
            return Err(ProtocolError::SessionNotAskedFor);
        }
        if let Some(assigned) = properties.assigned_client_identifier {
            assigned.clone_into(&mut self.id);
        }
        self.wire.server = ServerLimits::from_connack(properties);
        let keep_alive = properties.server_keep_alive;
        let keep_alive = keep_alive.unwrap_or(self.wire.options.keep_alive);
        self.wire.keep_alive = KeepAlive::new(keep_alive, now);
        self.wire.phase = Phase::Connected;
        self.wire.push(Event::Connected(Box::new(Connected {
            session_present: packet.session_present,
            client_id: self.id.clone(),
            keep_alive,
            session_expiry_interval: properties.session_expiry_interval,
            limits: self.wire.server,
            response_information: properties.response_information.map(str::to_owned),
            server_reference: properties.server_reference.map(str::to_owned),
            reason_string: properties.reason_string.map(str::to_owned),
            user_properties: owned_pairs(&properties.user_properties),
            authentication_data: properties.authentication_data.map(<[u8]>::to_vec),
        })));
        if packet.session_present || self.keeps_session_without_flag() {
            self.sending.outgoing.resume();
            self.receiving.incoming.resume();
            // On the first connection it is the session of an earlier client.
            self.sending.inherited = Inherited::resumed(self.sending.inherited.take(), self.has_session);
        } else {
            self.sending.inherited = None;
            self.give_up_session();
        }
        self.has_session = true;
        self.send_waiting(now);
        Ok(())
    }

    /// MQTT 3.1 has no flag for a kept session, so the client's own Clean Session decides.
    fn keeps_session_without_flag(&self) -> bool {
        self.wire.options.version == tidegate_mqtt::Version::V31 && !self.wire.options.clean_start
    }

    /// The server has no session of the client: neither has the client then ([MQTT-3.2.2-5]).
    fn give_up_session(&mut self) {
        self.receiving.incoming.clear();
        for entry in self.sending.outgoing.take_in_flight() {
            self.packet_ids.release(entry.packet_id);
            self.wire.push(match entry.stage {
                // The server had taken the message over, so it has been delivered.
                Stage::Release => Event::Published(crate::Published {
                    token: entry.token,
                    packet_id: Some(entry.packet_id),
                    reason_code: ReasonCode::Success,
                    reason_string: None,
                    refused: None,
                }),
                Stage::Publish => Event::Undelivered(Box::new(Undelivered {
                    token: entry.token,
                    publish: Some(entry.publish),
                    cause: UndeliveredCause::SessionLost,
                })),
            });
        }
    }
}
