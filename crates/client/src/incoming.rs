//! Messages of QoS 1 and 2 that the server has sent and that are not settled.

use std::collections::{BTreeMap, VecDeque};

use tidegate_mqtt::{PacketId, QoS, ReasonCode};

use crate::message::{ConnectionNumber, Delivery};

/// A message that has been given to the owner and is not acknowledged to the server.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    packet_id: PacketId,
    qos: QoS,
    /// The size of its payload.
    bytes: usize,
    /// The connection on which the owner got it.
    given_on: ConnectionNumber,
    /// The owner's decision, once it is made.
    verdict: Option<ReasonCode>,
}

/// The action for a message of QoS 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Give it to the owner.
    Deliver,
    /// The owner has it and has not acknowledged it yet: no action.
    Known,
    /// The owner had it long ago: acknowledge it by a PUBREC.
    Received,
    /// It exceeds the Receive Maximum and the tolerance.
    TooMany,
}

/// How much a server may send before the first of it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The Receive Maximum, messages.
    pub(crate) receive_maximum: usize,
    /// Messages beyond the Receive Maximum that are tolerated.
    pub(crate) messages_beyond: usize,
    /// Bytes of unacknowledged payloads up to which messages beyond the Receive Maximum are tolerated.
    pub(crate) bytes_beyond: usize,
}

/// An acknowledgement to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledge {
    /// PUBACK.
    AtLeastOnce(PacketId, ReasonCode),
    /// PUBREC.
    ExactlyOnce(PacketId, ReasonCode),
}

/// The state of all incoming messages. Its size is bounded by the number of Packet Identifiers.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// In the order of arrival on the present connection, which is the order of acknowledgements
    /// ([MQTT-4.6.0-2], [MQTT-4.6.0-3]).
    unacknowledged: VecDeque<Unacknowledged>,
    /// Where each entry of `unacknowledged` is: its index plus `taken`.
    positions: BTreeMap<(PacketId, QoS), u64>,
    /// How many entries have been taken from the front of `unacknowledged` on this connection.
    taken: u64,
    /// Messages of QoS 2 that the owner has from an earlier connection and that the server will send again, since
    /// they were not acknowledged there.
    held: BTreeMap<PacketId, Unacknowledged>,
    /// Messages of QoS 2 whose PUBREC was sent and whose PUBREL has not arrived, and whether each counts against the
    /// Receive Maximum of the present connection. They outlive the connection, so that no message is delivered twice.
    received: BTreeMap<PacketId, bool>,
    /// How many messages count against the Receive Maximum.
    counted: usize,
    /// Bytes of the payloads in `unacknowledged`.
    bytes: usize,
    /// Messages that came beyond the Receive Maximum and were tolerated.
    beyond: u64,
}

impl Incoming {
    /// A new connection resumes the session.
    pub(crate) fn resume(&mut self) {
        // The server sends unacknowledged messages again. At QoS 1 the owner gets them again.
        for entry in std::mem::take(&mut self.unacknowledged) {
            if entry.qos == QoS::ExactlyOnce {
                self.held.insert(entry.packet_id, entry);
            }
        }
        self.positions.clear();
        self.bytes = 0;
        for counts in self.received.values_mut() {
            *counts = false;
        }
        self.counted = 0;
    }

    /// The session was lost.
    pub(crate) fn clear(&mut self) {
        *self = Self { beyond: self.beyond, ..Self::default() };
    }

    /// Messages that came beyond the Receive Maximum and were tolerated, on all connections.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// A message of QoS 1 or 2 with a payload of `bytes` has arrived on connection `now_on`.
    pub(crate) fn arrive(
        &mut self,
        packet_id: PacketId,
        qos: QoS,
        bytes: usize,
        now_on: ConnectionNumber,
        window: Window,
    ) -> Arrival {
        if self.positions.contains_key(&(packet_id, qos)) {
            return Arrival::Known;
        }
        if let Some(beyond) = self.counted.checked_sub(window.receive_maximum) {
            if beyond >= window.messages_beyond || self.bytes.saturating_add(bytes) > window.bytes_beyond {
                return Arrival::TooMany;
            }
            self.beyond += 1;
        }
        if qos == QoS::ExactlyOnce {
            if let Some(counts) = self.received.get_mut(&packet_id) {
                self.counted += usize::from(!*counts);
                *counts = true;
                return Arrival::Received;
            }
            if let Some(held) = self.held.remove(&packet_id) {
                self.push(held);
                return Arrival::Known;
            }
        }
        self.push(Unacknowledged { packet_id, qos, bytes, given_on: now_on, verdict: None });
        Arrival::Deliver
    }

    fn push(&mut self, entry: Unacknowledged) {
        let position = self.taken + self.unacknowledged.len() as u64;
        self.positions.insert((entry.packet_id, entry.qos), position);
        self.unacknowledged.push_back(entry);
        self.counted += 1;
        self.bytes += entry.bytes;
    }

    /// The owner is done with a message.
    pub(crate) fn judge(&mut self, delivery: Delivery, verdict: ReasonCode) {
        let Delivery { packet_id, qos, connection } = delivery;
        let position = self.positions.get(&(packet_id, qos));
        let index = position.and_then(|position| usize::try_from(position - self.taken).ok());
        let entry = match index {
            Some(index) => self.unacknowledged.get_mut(index),
            None if qos == QoS::ExactlyOnce => self.held.get_mut(&packet_id),
            None => None,
        };
        if let Some(entry) = entry.filter(|entry| entry.given_on == connection) {
            entry.verdict.get_or_insert(verdict);
        }
    }

    /// The next acknowledgement to send. Those of later messages wait.
    pub(crate) fn next_acknowledgement(&mut self) -> Option<Acknowledge> {
        let entry = *self.unacknowledged.front()?;
        let verdict = entry.verdict?;
        self.unacknowledged.pop_front();
        self.positions.remove(&(entry.packet_id, entry.qos));
        self.taken += 1;
        self.bytes -= entry.bytes;
        if entry.qos == QoS::ExactlyOnce {
            if verdict.is_error() {
                self.counted -= 1;
            } else {
                self.received.insert(entry.packet_id, true);
            }
            return Some(Acknowledge::ExactlyOnce(entry.packet_id, verdict));
        }
        self.counted -= 1;
        Some(Acknowledge::AtLeastOnce(entry.packet_id, verdict))
    }

    /// The server releases a Packet Identifier. Returns whether it was waiting for that.
    pub(crate) fn release(&mut self, packet_id: PacketId) -> bool {
        let counts = self.received.remove(&packet_id);
        self.counted -= usize::from(counts == Some(true));
        counts.is_some()
    }
}
