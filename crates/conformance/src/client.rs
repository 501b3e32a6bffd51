//! The raw test client: blocking, one packet at a time, nothing behind the case's back except the checks of
//! [`crate::monitor`].

use crate::journal::Journal;
use crate::monitor::Monitor;
use crate::outcome::{Outcome, Stop, ensure, failed};
use crate::transport::{Reading, Transport};
use crate::version::Version;
use crate::wire::packet::{Frame, frame};
use crate::wire::{Acknowledgement, Bytes, Connect, Packet, PacketType, Property, Publish, Subscribe, Unsubscribe};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

mod expectations;
mod flows;

/// What the next read brought.
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

/// One connection of a case. Its name is for the journal only.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) version: Version,
    transport: Transport,
    inbound: Vec<u8>,
    /// Packets that came while the case waited for another type, in their order.
    stash: VecDeque<Packet>,
    monitor: Monitor,
    journal: Rc<Journal>,
    patience: Duration,
    /// Whether a server must announce why it closes, as this project's broker does.
    strict: bool,
    last_packet_id: u16,
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
            transport,
            inbound: Vec::new(),
            stash: VecDeque::new(),
            monitor: Monitor::new(version),
            journal,
            patience,
            strict,
            last_packet_id: 0,
        }
    }

    /// Waits longer for each answer; for cases whose event takes its time.
    pub(crate) fn more_patient(&mut self, by: Duration) {
        self.patience += by;
    }

    /// The next packet identifier of this client, never 0.
    pub(crate) fn next_packet_id(&mut self) -> u16 {
        self.last_packet_id = self.last_packet_id.checked_add(1).unwrap_or(1);
        self.last_packet_id
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Outcome {
        let name = bytes.first().map_or_else(String::new, |first| name_of(*first));
        self.journal.bytes(&self.name, "->", &name, bytes);
        let open = self.transport.write(bytes, self.patience)?;
        ensure!(open, "{}: the broker has closed the connection before {name} was sent", self.name);
        Ok(())
    }

    /// Sends bytes that the broker may have stopped reading; its answer is checked afterwards.
    pub(crate) fn send_anyway(&mut self, bytes: &[u8]) {
        let _ = self.send(bytes);
    }

    pub(crate) fn send_connect(&mut self, connect: &Connect) -> Outcome {
        self.note_connect(connect);
        self.send(&connect.encode())
    }

    /// Takes the limits and the session of a CONNECT into account that the case sends by other means.
    pub(crate) fn note_connect(&mut self, connect: &Connect) {
        self.monitor.announce(connect);
        if connect.is_persistent() && !connect.client_id.is_empty() {
            self.journal.leaves_session(&connect.client_id, connect.version);
        }
    }

    /// Sends PUBLISH, giving it a packet identifier if it needs one, and returns the sent packet.
    pub(crate) fn send_publish(&mut self, publish: &Publish) -> Outcome<Publish> {
        let mut publish = publish.clone();
        if publish.qos > 0 && publish.packet_id == 0 {
            publish.packet_id = self.next_packet_id();
        }
        if publish.retain && !publish.payload.is_empty() {
            self.journal.leaves_retained(&publish.topic);
        }
        self.send(&publish.encode(self.version))?;
        Ok(publish)
    }

    /// Sends SUBSCRIBE and returns its packet identifier.
    pub(crate) fn send_subscribe(&mut self, subscribe: &Subscribe) -> Outcome<u16> {
        let mut subscribe = subscribe.clone();
        if subscribe.packet_id == 0 {
            subscribe.packet_id = self.next_packet_id();
        }
        self.send(&subscribe.encode(self.version))?;
        Ok(subscribe.packet_id)
    }

    /// Sends UNSUBSCRIBE and returns its packet identifier.
    pub(crate) fn send_unsubscribe(&mut self, unsubscribe: &Unsubscribe) -> Outcome<u16> {
        let mut unsubscribe = unsubscribe.clone();
        if unsubscribe.packet_id == 0 {
            unsubscribe.packet_id = self.next_packet_id();
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
            self.monitor.acknowledged(packet_id);
        }
        let flags = if kind == PacketType::Pubrel { 0x02 } else { 0x00 };
        self.send(&bytes.packet(((kind as u8) << 4) | flags))
    }

    /// Notes that the case acknowledged a message for good in bytes of its own.
    pub(crate) fn forget_in_flight(&mut self, packet_id: u16) {
        self.monitor.acknowledged(packet_id);
    }

    pub(crate) fn send_ping(&mut self) -> Outcome {
        self.send(&[0xc0, 0])
    }

    /// The next thing that happens on the connection, stash aside, within the client's patience.
    pub(crate) fn arrival(&mut self) -> Outcome<Arrival> {
        self.arrival_within(self.patience)
    }

    /// A packet kept from an earlier wait, or else what arrives within this time.
    pub(crate) fn kept_or_arrival_within(&mut self, patience: Duration) -> Outcome<Arrival> {
        match self.stash.pop_front() {
            Some(packet) => Ok(Arrival::Packet(packet)),
            None => self.arrival_within(patience),
        }
    }

    pub(crate) fn arrival_within(&mut self, patience: Duration) -> Outcome<Arrival> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(packet) = self.split_packet()? {
                return Ok(Arrival::Packet(packet));
            }
            match self.transport.read(&mut self.inbound, deadline)? {
                Reading::Bytes => {}
                Reading::Closed => {
                    self.journal.note(&self.name, "<- closed by the broker");
                    return Ok(Arrival::Closed);
                }
                Reading::TimedOut => {
                    self.journal.note(&self.name, "<- nothing");
                    return Ok(Arrival::Silence);
                }
            }
        }
    }

    fn split_packet(&mut self) -> Outcome<Option<Packet>> {
        let fault = |fault: String, name: &str| Stop::Failed(format!("{name}: {fault}"));
        let found = frame(&self.inbound).map_err(|text| fault(text, &self.name))?;
        let Some(Frame { first_byte, body, length }) = found else {
            return Ok(None);
        };
        let decoded = Packet::decode(first_byte, body, self.version);
        let bytes: Vec<u8> = self.inbound.drain(..length).collect();
        self.journal.bytes(&self.name, "<-", &name_of(first_byte), &bytes);
        let packet = decoded.map_err(|text| fault(text, &self.name))?;
        self.monitor.check(&packet, length).map_err(|stop| prefix(stop, &self.name))?;
        Ok(Some(packet))
    }

    /// Sends DISCONNECT, and returns when the broker has closed the connection.
    pub(crate) fn disconnect(mut self) -> Outcome {
        self.send(&[0xe0, 0])?;
        self.finish()
    }

    /// The same with a reason code and properties, which only MQTT 5 has.
    pub(crate) fn disconnect_with(mut self, code: u8, properties: &[Property]) -> Outcome {
        let properties = crate::wire::properties::encode(properties);
        self.send(&Bytes::new().byte(code).raw(&properties).packet(0xe0))?;
        self.finish()
    }

    /// Closes the connection without DISCONNECT, and returns when the broker has noticed.
    pub(crate) fn drop_connection(self) -> Outcome {
        self.journal.note(&self.name, "-> end of the stream, no DISCONNECT");
        self.finish()
    }

    fn finish(mut self) -> Outcome {
        self.transport.finish_sending();
        let deadline = Instant::now() + self.patience;
        // Earlier packets may still arrive; only the end of the stream matters here.
        loop {
            self.inbound.clear();
            match self.transport.read(&mut self.inbound, deadline)? {
                Reading::Bytes => {}
                Reading::Closed => return Ok(()),
                Reading::TimedOut => return failed(format!("{}: the broker does not close its side", self.name)),
            }
        }
    }
}

/// The name of a packet by its first byte, for the journal.
fn name_of(first_byte: u8) -> String {
    PacketType::of(first_byte).map_or_else(|| "reserved packet type".to_owned(), |kind| kind.to_string())
}

fn prefix(stop: Stop, name: &str) -> Stop {
    match stop {
        Stop::Failed(what) => Stop::Failed(format!("{name}: {what}")),
        Stop::Skipped(why) => Stop::Skipped(why),
    }
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
