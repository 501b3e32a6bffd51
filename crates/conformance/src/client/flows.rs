//! Whole exchanges: subscribing, publishing with its handshake, taking a message with its handshake.

use super::Client;
use crate::outcome::{Outcome, ensure};
use crate::wire::{Acknowledgement, PacketType, Publish, Subscribe, Unsubscribe};

impl Client {
    /// PINGREQ and its PINGRESP. Every packet that the broker sent before is read and kept.
    pub(crate) fn ping(&mut self) -> Outcome {
        self.send_ping()?;
        self.expect(PacketType::Pingresp)?;
        Ok(())
    }

    /// Subscribes with this options byte; the broker must grant the QoS in it.
    pub(crate) fn subscribe(&mut self, filter: &str, options: u8) -> Outcome {
        let suback = self.subscribe_packet(&Subscribe::new(filter, options))?;
        ensure!(
            suback.codes == [options & 0x03],
            "{}: the subscription to `{filter}` with QoS {} is answered with {:02x?}",
            self.name,
            options & 0x03,
            suback.codes
        );
        Ok(())
    }

    /// Sends SUBSCRIBE and returns its SUBACK, which has one code for each filter [MQTT-3.8.4-6].
    pub(crate) fn subscribe_packet(&mut self, subscribe: &Subscribe) -> Outcome<Acknowledgement> {
        let packet_id = self.send_subscribe(subscribe)?;
        let suback = self.expect_acknowledgement(PacketType::Suback, packet_id)?;
        ensure!(
            suback.codes.len() == subscribe.filters.len(),
            "MQTT-3.8.4-6 (3.1.1: MQTT-3.8.4-5): {}: SUBACK has {} codes for {} filters",
            self.name,
            suback.codes.len(),
            subscribe.filters.len()
        );
        Ok(suback)
    }

    pub(crate) fn unsubscribe(&mut self, filter: &str) -> Outcome {
        let packet_id = self.send_unsubscribe(&Unsubscribe::new(filter))?;
        self.expect_success(PacketType::Unsuback, packet_id)?;
        Ok(())
    }

    /// Publishes with the whole handshake of the QoS; returns the sent packet.
    pub(crate) fn publish(&mut self, publish: &Publish) -> Outcome<Publish> {
        let sent = self.send_publish(publish)?;
        match sent.qos {
            0 => {}
            1 => {
                self.expect_success(PacketType::Puback, sent.packet_id)?;
            }
            _ => {
                self.expect_success(PacketType::Pubrec, sent.packet_id)?;
                self.release(sent.packet_id)?;
            }
        }
        Ok(sent)
    }

    /// PUBREL for a message sent at QoS 2, and its PUBCOMP.
    pub(crate) fn release(&mut self, packet_id: u16) -> Outcome {
        self.send_acknowledgement(PacketType::Pubrel, packet_id)?;
        self.expect_success(PacketType::Pubcomp, packet_id)?;
        Ok(())
    }

    /// The next message, acknowledged with the whole handshake of its QoS.
    pub(crate) fn take(&mut self) -> Outcome<Publish> {
        let publish = self.message()?;
        self.acknowledge(&publish)?;
        Ok(publish)
    }

    /// The next message with this payload, acknowledged.
    pub(crate) fn take_with(&mut self, payload: impl AsRef<[u8]>) -> Outcome<Publish> {
        let publish = self.message_with(payload)?;
        self.acknowledge(&publish)?;
        Ok(publish)
    }

    /// Acknowledges a received message with the whole handshake of its QoS.
    pub(crate) fn acknowledge(&mut self, publish: &Publish) -> Outcome {
        match publish.qos {
            0 => Ok(()),
            1 => self.send_acknowledgement(PacketType::Puback, publish.packet_id),
            _ => {
                self.receive_release(publish.packet_id)?;
                self.send_acknowledgement(PacketType::Pubcomp, publish.packet_id)
            }
        }
    }

    /// PUBREC for a received message, and its PUBREL.
    pub(crate) fn receive_release(&mut self, packet_id: u16) -> Outcome {
        self.send_acknowledgement(PacketType::Pubrec, packet_id)?;
        self.expect_success(PacketType::Pubrel, packet_id)?;
        Ok(())
    }
}
