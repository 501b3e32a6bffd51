//! The end of a connection, started by either side.

use std::time::Instant;

use tidegate_mqtt::{Disconnect, ReasonCode, UserProperties};

use super::{Client, Phase, owned_pairs};
use crate::publish::borrowed_pairs;
use crate::{
    DisconnectRequest, Disconnected, Dismissal, Event, ProtocolError, RequestError, Undelivered, UndeliveredCause,
};

impl Client {
    /// Ends the connection with a DISCONNECT packet, after the pending output. Unsettled messages stay for the next
    /// connection.
    ///
    /// # Errors
    ///
    /// When there is no connection, or the packet cannot be encoded.
    pub fn disconnect(&mut self, now: Instant, request: &DisconnectRequest) -> Result<(), RequestError> {
        if !self.wire.reads() {
            return Err(RequestError::NotConnected);
        }
        let version = self.wire.options.version;
        let empty = DisconnectRequest::default();
        if !version.is_v5() && *request != empty {
            return Err(RequestError::NeedsV5 { feature: "reasons and properties of DISCONNECT" });
        }
        let user_properties = borrowed_pairs(&request.user_properties);
        let packet = Disconnect {
            reason_code: if request.with_will {
                ReasonCode::DisconnectWithWillMessage
            } else {
                ReasonCode::NORMAL_DISCONNECTION
            },
            session_expiry_interval: request.session_expiry_interval,
            reason_string: request.reason_string.as_deref(),
            user_properties: UserProperties::new(&user_properties),
            server_reference: None,
        };
        let max_packet_size = self.wire.server.maximum_packet_size;
        self.wire.send(now, |out| packet.encode_within(version, max_packet_size, out))?;
        self.end(Disconnected::Requested);
        Ok(())
    }

    /// The transport has ended: the server closed it, it failed, or the owner closed it because of
    /// [`Client::wants_close`].
    pub fn handle_closed(&mut self) {
        if self.wire.reads() {
            self.end(Disconnected::TransportClosed);
        }
        self.wire.phase = Phase::Closed;
        for token in self.wire.output.clear() {
            self.wire.push(Event::Undelivered(Box::new(Undelivered {
                token,
                publish: None,
                cause: UndeliveredCause::ConnectionLost,
            })));
        }
    }

    /// The server has broken the protocol: reports it where the version allows that, and ends the connection.
    pub(super) fn fail(&mut self, now: Instant, error: ProtocolError) {
        let version = self.wire.options.version;
        if version.is_v5() {
            let packet = Disconnect::new(error.reason_code());
            // A server with a smaller limit gets no Reason String.
            let max_packet_size = self.wire.server.maximum_packet_size;
            let _ = self.wire.send(now, |out| packet.encode_within(version, max_packet_size, out));
        }
        self.end(Disconnected::Protocol(error));
    }

    /// The server closes the connection.
    pub(super) fn handle_disconnect(&mut self, packet: &Disconnect<'_>) -> Result<(), ProtocolError> {
        if !self.wire.options.version.is_v5() {
            return Err(ProtocolError::UnexpectedPacket { packet: tidegate_mqtt::PacketType::Disconnect });
        }
        if packet.session_expiry_interval.is_some() {
            return Err(ProtocolError::SessionExpiryFromServer);
        }
        self.end(Disconnected::ByServer(Box::new(Dismissal {
            reason_code: packet.reason_code,
            reason_string: packet.reason_string.map(str::to_owned),
            server_reference: packet.server_reference.map(str::to_owned),
            user_properties: owned_pairs(&packet.user_properties),
        })));
        Ok(())
    }

    /// Ignores further input of the connection.
    pub(super) fn end(&mut self, why: Disconnected) {
        self.wire.phase = Phase::Ending;
        self.input = Vec::new();
        self.sending.releases.clear();
        self.requests.lose(&mut self.packet_ids, &mut self.wire);
        self.wire.push(Event::Disconnected(why));
    }
}
