//! Checks of every packet of every connection in every case: the limits that the client announced, and
//! the order in which a server may send things at all.

use crate::outcome::{Outcome, ensure, failed};
use crate::version::Version;
use crate::wire::{Connect, Packet, PacketType, Property};
use std::collections::BTreeSet;

/// The rules of one connection and its observed packets.
#[derive(Debug)]
pub(crate) struct Monitor {
    version: Version,
    maximum_packet_size: usize,
    topic_alias_maximum: u16,
    receive_maximum: usize,
    problem_information: bool,
    connected: bool,
    finished: bool,
    in_flight: BTreeSet<u16>,
}

impl Monitor {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            maximum_packet_size: usize::MAX,
            topic_alias_maximum: 0,
            receive_maximum: 65_535,
            problem_information: true,
            connected: false,
            finished: false,
            in_flight: BTreeSet::new(),
        }
    }

    /// Takes the limits from the CONNECT that is being sent.
    pub(crate) fn announce(&mut self, connect: &Connect) {
        for property in &connect.properties {
            match property {
                Property::MaximumPacketSize(size) => self.maximum_packet_size = *size as usize,
                Property::TopicAliasMaximum(maximum) => self.topic_alias_maximum = *maximum,
                Property::ReceiveMaximum(maximum) => self.receive_maximum = usize::from(*maximum),
                Property::RequestProblemInformation(wanted) => self.problem_information = *wanted != 0,
                _ => {}
            }
        }
    }

    /// Notes that the client has acknowledged this message for good.
    pub(crate) fn acknowledged(&mut self, packet_id: u16) {
        self.in_flight.remove(&packet_id);
    }

    /// Checks a packet of this length on the wire.
    pub(crate) fn check(&mut self, packet: &Packet, length: usize) -> Outcome {
        let kind = packet.packet_type();
        ensure!(!self.finished, "MQTT-3.14.4-1: {kind} after DISCONNECT");
        ensure!(
            length <= self.maximum_packet_size,
            "MQTT-3.1.2-24: {kind} of {length} bytes, the client's Maximum Packet Size is {}",
            self.maximum_packet_size
        );
        self.check_order(packet)?;
        self.check_problem_information(packet)?;
        match packet {
            Packet::Publish(publish) => {
                self.check_alias(publish.topic_alias(), publish.topic.is_empty())?;
                if publish.qos > 0 {
                    self.check_in_flight(publish.packet_id, publish.dup)?;
                }
            }
            Packet::Disconnect { .. } => self.finished = true,
            _ => {}
        }
        Ok(())
    }

    fn check_order(&mut self, packet: &Packet) -> Outcome {
        match packet {
            Packet::Connack { .. } => {
                ensure!(!self.connected, "MQTT-3.2.0-2: a second CONNACK");
                self.connected = true;
            }
            Packet::Auth { .. } => return failed("MQTT-4.12.0-6: AUTH without an Authentication Method in CONNECT"),
            Packet::Disconnect { .. } => ensure!(self.connected, "MQTT-3.14.0-1: DISCONNECT before CONNACK"),
            other => {
                let kind = other.packet_type();
                ensure!(self.connected, "MQTT-3.2.0-1: {kind} before CONNACK");
            }
        }
        Ok(())
    }

    fn check_problem_information(&self, packet: &Packet) -> Outcome {
        let kind = packet.packet_type();
        if self.problem_information
            || matches!(kind, PacketType::Publish | PacketType::Connack | PacketType::Disconnect)
        {
            return Ok(());
        }
        let tells = |property: &Property| matches!(property, Property::ReasonString(_) | Property::UserProperty(..));
        ensure!(
            !packet.properties().iter().any(tells),
            "MQTT-3.1.2-29: {kind} explains itself although Request Problem Information is 0"
        );
        Ok(())
    }

    fn check_alias(&self, alias: Option<u16>, topic_is_empty: bool) -> Outcome {
        match alias {
            None => ensure!(!topic_is_empty, "MQTT-4.7.3-1: PUBLISH with an empty topic name and no alias"),
            Some(0) => return failed("MQTT-3.3.2-8: PUBLISH with topic alias 0"),
            Some(alias) => ensure!(
                alias <= self.topic_alias_maximum,
                "MQTT-3.1.2-26: topic alias {alias}, the client's Topic Alias Maximum is {}",
                self.topic_alias_maximum
            ),
        }
        Ok(())
    }

    fn check_in_flight(&mut self, packet_id: u16, dup: bool) -> Outcome {
        let is_new = self.in_flight.insert(packet_id);
        // Before MQTT 5 a server may also send a message again on the same connection.
        ensure!(
            is_new || (dup && self.version != Version::V5),
            "MQTT-2.2.1-4 (3.1.1: MQTT-2.3.1-4): packet identifier {packet_id} is used while it is in flight"
        );
        ensure!(
            self.in_flight.len() <= self.receive_maximum || self.version != Version::V5,
            "MQTT-3.3.4-9: {} messages in flight, the client's Receive Maximum is {}",
            self.in_flight.len(),
            self.receive_maximum
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Publish;

    fn connected(connect: &Connect) -> Monitor {
        let mut monitor = Monitor::new(connect.version);
        monitor.announce(connect);
        let connack = Packet::Connack { session_present: false, code: 0, properties: Vec::new() };
        assert_eq!(monitor.check(&connack, 5), Ok(()));
        monitor
    }

    #[test]
    fn limits_of_the_client_hold() {
        let connect =
            Connect::new(Version::V5, "id").with(Property::MaximumPacketSize(20)).with(Property::ReceiveMaximum(1));
        let message = |id| Packet::Publish(Publish::new("a", "b").qos(1).id(id));
        let mut monitor = connected(&connect);
        assert!(monitor.check(&message(1), 21).is_err());
        assert!(monitor.check(&message(1), 20).is_ok());
        assert!(monitor.check(&message(2), 20).is_err());
        let alias = Publish::new("a", "b").with(Property::TopicAlias(1));
        assert!(monitor.check(&Packet::Publish(alias), 9).is_err());
    }

    #[test]
    fn packets_come_in_their_order() {
        let mut fresh = Monitor::new(Version::V5);
        assert!(fresh.check(&Packet::Pingresp, 2).is_err());
        let mut monitor = connected(&Connect::new(Version::V5, "id"));
        let disconnect = Packet::Disconnect { code: 0x8b, properties: Vec::new() };
        assert_eq!(monitor.check(&disconnect, 4), Ok(()));
        assert!(monitor.check(&Packet::Pingresp, 2).is_err());
    }
}
