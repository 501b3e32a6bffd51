//! Decodes the broker's bytes into packets, and dispatches them.

use tidegate_mqtt::{
    ConnAck, DecodeError, Disconnect, Frame, MAX_PACKET_SIZE, PacketType, PubAck, PubComp, PubRec, PubRel, RawPublish,
    ReasonCode, SubAck, split_frame,
};

use super::Core;
use super::refusals::Refused;

impl Core {
    /// Processes the received bytes of a connection; returns how many of them were complete packets. `None` for bytes
    /// that are not MQTT: the connection is then useless.
    pub(crate) fn received(&mut self, connection: u32, bytes: &[u8], now_ns: u64) -> Option<usize> {
        let client = connection / 2;
        let current = self.run.clients[client].connection(client) == connection;
        let mut taken = 0;
        while let Some(frame) = split_frame(&bytes[taken..], MAX_PACKET_SIZE).ok()? {
            let handled = match frame.packet_type() {
                PacketType::Publish => RawPublish::decode(self.run.version, frame.first_byte, frame.body)
                    .map(|publish| self.on_publish(client, current, &publish, now_ns)),
                _ if current => self.on_other(client, &frame, now_ns),
                _ => Ok(()),
            };
            handled.ok()?;
            taken += frame.total_len;
        }
        Some(taken)
    }

    fn on_publish(&mut self, client: u32, current: bool, publish: &RawPublish<'_>, now_ns: u64) {
        if let Some(settled) = self.receivers.on_publish(&mut self.run, client, current, publish, now_ns) {
            self.publishers.settle(settled);
        }
    }

    fn on_other(&mut self, client: u32, frame: &Frame<'_>, now_ns: u64) -> Result<(), DecodeError> {
        let (version, first, body) = (self.run.version, frame.first_byte, frame.body);
        match frame.packet_type() {
            PacketType::PubAck => {
                let packet = PubAck::decode_of_server(version, first, body)?;
                self.refusals.note(Refused::Message, packet.reason_code, packet.reason_string);
                self.publishers.on_acknowledged(&mut self.run, client, packet.packet_id, packet.reason_code, now_ns);
            }
            PacketType::PubRec => {
                let packet = PubRec::decode_of_server(version, first, body)?;
                self.refusals.note(Refused::Message, packet.reason_code, packet.reason_string);
                if packet.reason_code.is_error() {
                    self.publishers.on_acknowledged(
                        &mut self.run,
                        client,
                        packet.packet_id,
                        packet.reason_code,
                        now_ns,
                    );
                } else {
                    self.publishers.on_pubrec(&mut self.run, client, packet.packet_id);
                }
            }
            PacketType::PubComp => {
                let packet = PubComp::decode_of_server(version, first, body)?;
                self.publishers.on_acknowledged(&mut self.run, client, packet.packet_id, ReasonCode::Success, now_ns);
            }
            PacketType::PubRel => {
                let packet = PubRel::decode(version, first, body)?;
                self.receivers.on_pubrel(&mut self.run, client, packet.packet_id);
            }
            PacketType::ConnAck => {
                let packet = ConnAck::decode(version, first, body)?;
                self.refusals.note(Refused::Client, packet.reason_code, packet.properties.reason_string);
                self.on_connack(client, &packet, now_ns);
            }
            PacketType::SubAck => {
                let packet = SubAck::decode(version, first, body)?;
                for code in &packet.reason_codes {
                    self.refusals.note(Refused::Subscription, code, packet.reason_string);
                }
                self.on_suback(client, &packet, now_ns);
            }
            // The end of the connection, which follows, is counted elsewhere. A redirected client connects to the other
            // server.
            PacketType::Disconnect => {
                let packet = Disconnect::decode(version, first, body)?;
                match packet.reason_code {
                    // Takeovers and redirections are requested by the load itself.
                    ReasonCode::UseAnotherServer | ReasonCode::ServerMoved | ReasonCode::SessionTakenOver => {}
                    code => self.refusals.note(Refused::Connection, code, packet.reason_string),
                }
                if let Some(reference) = packet.server_reference {
                    self.on_sent_elsewhere(client, reference, now_ns);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
