//! Enhanced authentication (MQTT 5.0, section 4.12). The client's owner implements the method.

use std::time::Instant;

use tidegate_mqtt::{Auth, PacketType, ReasonCode, UserProperties};

use super::{Client, Phase};
use crate::{Authentication, Event, ProtocolError, RequestError};

impl Client {
    /// Sends the next step of the exchange that [`Event::Authentication`] has asked for.
    ///
    /// # Errors
    ///
    /// When there is no connection, or no authentication method in the [`Options`](crate::Options).
    pub fn authenticate(&mut self, now: Instant, data: &[u8]) -> Result<(), RequestError> {
        if !self.reads() {
            return Err(RequestError::NotConnected);
        }
        self.send_auth(now, ReasonCode::ContinueAuthentication, data)
    }

    /// Begins a new exchange on the connection that has been accepted.
    ///
    /// # Errors
    ///
    /// As [`Client::authenticate`].
    pub fn authenticate_again(&mut self, now: Instant, data: &[u8]) -> Result<(), RequestError> {
        if self.phase != Phase::Connected {
            return Err(RequestError::NotConnected);
        }
        self.send_auth(now, ReasonCode::ReAuthenticate, data)
    }

    fn send_auth(&mut self, now: Instant, reason_code: ReasonCode, data: &[u8]) -> Result<(), RequestError> {
        let method = self.options.properties.authentication_method.clone();
        let (version, max) = (self.options.version, self.server.maximum_packet_size);
        let packet = Auth {
            reason_code,
            authentication_method: method.as_deref(),
            authentication_data: Some(data),
            reason_string: None,
            user_properties: UserProperties::EMPTY,
        };
        Ok(self.send(now, |out| packet.encode_within(version, max, out))?)
    }

    pub(super) fn handle_auth(&mut self, packet: &Auth<'_>) -> Result<(), ProtocolError> {
        let method = self.options.properties.authentication_method.as_deref();
        // [MQTT-4.12.0-5], [MQTT-4.12.0-6]: the method must be the client's, and the client must have asked for one.
        if method.is_none() || packet.authentication_method != method {
            return Err(ProtocolError::UnexpectedPacket { packet: PacketType::Auth });
        }
        self.events.push_back(Event::Authentication(Box::new(Authentication {
            reason_code: packet.reason_code,
            data: packet.authentication_data.map(<[u8]>::to_vec),
            reason_string: packet.reason_string.map(str::to_owned),
        })));
        Ok(())
    }
}
