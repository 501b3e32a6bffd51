//! Enhanced authentication (MQTT 5.0, section 4.12). The client's owner implements the method.

use std::time::Instant;

use tidegate_mqtt::{Auth, PacketType, ReasonCode, UserProperties};

use super::Client;
use super::wire::Wire;
use crate::{Authentication, Event, ProtocolError, RequestError};

impl Client {
    /// Sends the next step of the exchange that [`Event::Authentication`] has asked for.
    ///
    /// # Errors
    ///
    /// When there is no connection, or no authentication method in the [`Options`](crate::Options).
    pub fn authenticate(&mut self, now: Instant, data: &[u8]) -> Result<(), RequestError> {
        if !self.wire.reads() {
            return Err(RequestError::NotConnected);
        }
        send_auth(now, &mut self.wire, ReasonCode::ContinueAuthentication, data)
    }

    /// Begins a new exchange on the connection that has been accepted.
    ///
    /// # Errors
    ///
    /// As [`Client::authenticate`].
    pub fn authenticate_again(&mut self, now: Instant, data: &[u8]) -> Result<(), RequestError> {
        if !self.wire.is_connected() {
            return Err(RequestError::NotConnected);
        }
        send_auth(now, &mut self.wire, ReasonCode::ReAuthenticate, data)
    }

    pub(super) fn handle_auth(&mut self, packet: &Auth<'_>) -> Result<(), ProtocolError> {
        let method = self.wire.options.properties.authentication_method.as_deref();
        // [MQTT-4.12.0-5], [MQTT-4.12.0-6]: the method must be the client's, and the client must have asked for one.
        if method.is_none() || packet.authentication_method != method {
            return Err(ProtocolError::UnexpectedPacket { packet: PacketType::Auth });
        }
        self.wire.push(Event::Authentication(Box::new(Authentication {
            reason_code: packet.reason_code,
            data: packet.authentication_data.map(<[u8]>::to_vec),
            reason_string: packet.reason_string.map(str::to_owned),
        })));
        Ok(())
    }
}

fn send_auth(now: Instant, wire: &mut Wire, reason_code: ReasonCode, data: &[u8]) -> Result<(), RequestError> {
    let method = wire.options.properties.authentication_method.clone();
    let (version, max) = wire.encoding();
    let packet = Auth {
        reason_code,
        authentication_method: method.as_deref(),
        authentication_data: Some(data),
        reason_string: None,
        user_properties: UserProperties::EMPTY,
    };
    Ok(wire.send(now, |out| packet.encode_within(version, max, out))?)
}
