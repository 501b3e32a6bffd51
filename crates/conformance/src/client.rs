//! The raw test client: blocking, one packet at a time, nothing behind the case's back except the checks of
//! [`crate::monitor`].

use crate::journal::Journal;
use crate::outcome::Outcome;
use crate::transport::Transport;
use crate::version::Version;
use crate::wire::{Acknowledgement, Bytes, Connect, Packet, PacketType, Property, Publish, Subscribe, Unsubscribe};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

mod expectations;
mod flows;
mod link;

use link::Link;

/// The result of the next read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Packet(Packet),
    /// The broker closed the connection.
    Closed,
    /// Nothing came within the time given.
    Silence,
}

/// A CONNACK that accepted.
#[derive(Clone, Debug)]
pub(crate) struct Connack {
    pub(crate) session_present: bool,
    pub(crate) properties: Vec<Property>,
}

/// The packet identifiers of a client, in turn.
#[derive(Debug, Default)]
pub(crate) struct PacketIds {
    last: u16,
}

impl PacketIds {
    /// The next packet identifier, never 0.
    pub(crate) fn next(&mut self) -> u16 {
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.last
    }
}

/// One connection of a case. Its name is for the journal only.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) link: Link,
    /// Packets that came while the case waited for another type, in their order.
    stash: VecDeque<Packet>,
    patience: Duration,
    /// Whether a server must announce why it closes, as this project's broker does.
    strict: bool,
    pub(crate) packet_ids: PacketIds,
}

impl Client {
    pub(crate) fn new(
        name: &str,
        version: Version,
        transport: Transport,
        journal: Rc<Journal>,
        patience: Duration,
        strict: bool,
    ) -> Self {
        Self {
            name: name.to_owned(),
            version,
            link: Link::new(name, version, transport, journal),
            stash: VecDeque::new(),
            patience,
            strict,
            packet_ids: PacketIds::default(),
        }
    }

    /// Waits longer for each answer; for cases whose event takes its time.
    pub(crate) fn more_patient(&mut self, by: Duration) {
        self.patience += by;
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Outcome {
        self.link.send(bytes, self.patience)
    }

    /// Sends bytes that the broker may have stopped reading; its answer is checked afterwards.
    pub(crate) fn send_anyway(&mut self, bytes: &[u8]) {
        let _ = self.send(bytes);
    }

    pub(crate) fn send_connect(&mut self, connect: &Connect) -> Outcome {
        self.link.note_connect(connect);
        self.send(&connect.encode())
    }

    /// Sends PUBLISH, giving it a packet identifier if it needs one, and returns the sent packet.
    pub(crate) fn send_publish(&mut self, publish: &Publish) -> Outcome<Publish> {
        let mut publish = publish.clone();
        if publish.qos > 0 && publish.packet_id == 0 {
            publish.packet_id = self.packet_ids.next();
        }
        if publish.retain && !publish.payload.is_empty() {
            self.link.note_retained(&publish.topic);
        }
        self.send(&publish.encode(self.version))?;
        Ok(publish)
    }

    /// Sends SUBSCRIBE and returns its packet identifier.
    pub(crate) fn send_subscribe(&mut self, subscribe: &Subscribe) -> Outcome<u16> {
        let mut subscribe = subscribe.clone();
        if subscribe.packet_id == 0 {
            subscribe.packet_id = self.packet_ids.next();
        }
        self.send(&subscribe.encode(self.version))?;
        Ok(subscribe.packet_id)
    }

    /// Sends UNSUBSCRIBE and returns its packet identifier.
    pub(crate) fn send_unsubscribe(&mut self, unsubscribe: &Unsubscribe) -> Outcome<u16> {
        let mut unsubscribe = unsubscribe.clone();
        if unsubscribe.packet_id == 0 {
            unsubscribe.packet_id = self.packet_ids.next();
        }
        self.send(&unsubscribe.encode(self.version))?;
        Ok(unsubscribe.packet_id)
    }

    /// Sends PUBACK, PUBREC, PUBREL or PUBCOMP with success.
    pub(crate) fn send_acknowledgement(&mut self, kind: PacketType, packet_id: u16) -> Outcome {
        self.send_acknowledgement_with(kind, packet_id, 0)
    }

    /// The same with a reason code, which only MQTT 5 has.
    pub(crate) fn send_acknowledgement_with(&mut self, kind: PacketType, packet_id: u16, code: u8) -> Outcome {
        let mut bytes = Bytes::new().two(packet_id);
        if code != 0 {
            bytes = bytes.byte(code);
        }
        if matches!(kind, PacketType::Puback | PacketType::Pubcomp) || code >= 0x80 {
            self.link.note_acknowledged(packet_id);
        }
        let flags = if kind == PacketType::Pubrel { 0x02 } else { 0x00 };
        self.send(&bytes.packet(((kind as u8) << 4) | flags))
    }

    pub(crate) fn send_ping(&mut self) -> Outcome {
        self.send(&[0xc0, 0])
    }

    /// The next thing that happens on the connection, stash aside, within the client's patience.
    pub(crate) fn arrival(&mut self) -> Outcome<Arrival> {
        self.arrival_within(self.patience)
    }

    /// A packet kept from an earlier wait, or else the next one within this time.
    pub(crate) fn kept_or_arrival_within(&mut self, patience: Duration) -> Outcome<Arrival> {
        match self.stash.pop_front() {
            Some(packet) => Ok(Arrival::Packet(packet)),
            None => self.arrival_within(patience),
        }
    }

    pub(crate) fn arrival_within(&mut self, patience: Duration) -> Outcome<Arrival> {
        self.link.arrival_until(Instant::now() + patience)
    }

    /// Sends DISCONNECT, and returns when the broker has closed the connection.
    pub(crate) fn disconnect(mut self) -> Outcome {
        self.send(&[0xe0, 0])?;
        self.link.finish(self.patience)
    }

    /// The same with a reason code and properties, which only MQTT 5 has.
    pub(crate) fn disconnect_with(mut self, code: u8, properties: &[Property]) -> Outcome {
        let properties = crate::wire::properties::encode(properties);
        self.send(&Bytes::new().byte(code).raw(&properties).packet(0xe0))?;
        self.link.finish(self.patience)
    }

    /// Closes the connection without DISCONNECT, and returns when the broker has noticed.
    pub(crate) fn drop_connection(self) -> Outcome {
        self.link.note_drop();
        self.link.finish(self.patience)
    }
}

/// The name of a packet by its first byte, for the journal.
fn name_of(first_byte: u8) -> String {
    PacketType::of(first_byte).map_or_else(|| "reserved packet type".to_owned(), |kind| kind.to_string())
}

/// A few words on a packet, for the message of a failure.
pub(crate) fn describe(packet: &Packet) -> String {
    match packet {
        Packet::Connack { code, .. } => format!("CONNACK 0x{code:02x}"),
        Packet::Publish(publish) => format!(
            "PUBLISH on `{}` (QoS {}, retain {}, dup {}, {} bytes: {:.40})",
            publish.topic,
            publish.qos,
            u8::from(publish.retain),
            u8::from(publish.dup),
            publish.payload.len(),
            publish.text()
        ),
        Packet::Acknowledgement(kind, Acknowledgement { packet_id, codes, .. }) => {
            format!("{kind} of packet {packet_id} with {codes:02x?}")
        }
        Packet::Disconnect { code, .. } => format!("DISCONNECT 0x{code:02x}"),
        Packet::Auth { code, .. } => format!("AUTH 0x{code:02x}"),
        Packet::Pingresp => "PINGRESP".to_owned(),
    }
}
