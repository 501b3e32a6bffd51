//! Messages of QoS 1 and 2 that the server has sent and that are not settled.

use std::collections::{BTreeMap, VecDeque};

use tidegate_mqtt::{PacketId, QoS, ReasonCode};

use crate::message::{ConnectionNumber, Delivery};
use crate::released::{Digest, Place, Released};

/// A message of QoS 1 or 2 as it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    pub(crate) packet_id: PacketId,
    pub(crate) qos: QoS,
    pub(crate) dup: bool,
    /// The size of its payload.
    pub(crate) bytes: usize,
    /// Its content, where a server may send it again after its PUBREL.
    pub(crate) digest: Option<Digest>,
}

/// A message of QoS 2 whose PUBREC was sent.
#[derive(Clone, Copy, Debug)]
struct Received {
    /// Whether it counts against the Receive Maximum of the present connection.
    counts: bool,
    pub_rec: Place,
    digest: Option<Digest>,
}

/// A message that has been given to the owner and is not acknowledged to the server.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    packet_id: PacketId,
    qos: QoS,
    /// The size of its payload.
    bytes: usize,
    digest: Option<Digest>,
    /// The connection on which the owner got it.
    given_on: ConnectionNumber,
    /// The owner's decision, once it is made.
    reason: Option<ReasonCode>,
}

/// The action for a message of QoS 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Give it to the owner, with this position.
    Deliver { position: u64 },
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

/// Packet Identifiers: a bit for each up to the highest so far, 8 KiB at most.
#[derive(Debug, Default)]
struct PacketIdSet(Vec<u64>);

impl PacketIdSet {
    /// The word of an identifier, and its bit there.
    fn place(packet_id: PacketId) -> (usize, u64) {
        let number = packet_id.get();
        (usize::from(number / 64), 1 << (number % 64))
    }

    fn contains(&self, packet_id: PacketId) -> bool {
        let (word, bit) = Self::place(packet_id);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn insert(&mut self, packet_id: PacketId) {
        let (word, bit) = Self::place(packet_id);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    fn remove(&mut self, packet_id: PacketId) {
        let (word, bit) = Self::place(packet_id);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }
}

/// The state of all incoming messages. Its size is bounded by the number of Packet Identifiers.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// In the order of arrival on the present connection, which is the order of acknowledgements
    /// ([MQTT-4.6.0-2], [MQTT-4.6.0-3]).
    unacknowledged: VecDeque<Unacknowledged>,
    /// The Packet Identifiers in `unacknowledged`: of QoS 1, and of QoS 2.
    known: [PacketIdSet; 2],
    /// The positions of the entries in `unacknowledged` that were given to the owner on an earlier connection.
    carried: BTreeMap<PacketId, u64>,
    /// How many entries have been taken from the front of `unacknowledged`. The position of an entry is its index plus
    /// this.
    taken: u64,
    /// Messages of QoS 2 that the owner has from an earlier connection and that the server will send again, since
    /// they were not acknowledged there.
    held: BTreeMap<PacketId, Unacknowledged>,
    /// Messages of QoS 2 whose PUBREC was sent and whose PUBREL has not arrived. They outlive the connection, so that no
    /// message is delivered twice.
    received: BTreeMap<PacketId, Received>,
    /// Messages of QoS 2 whose PUBREL has arrived.
    released: Released,
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
        self.known = Default::default();
        self.carried.clear();
        self.bytes = 0;
        for received in self.received.values_mut() {
            received.counts = false;
        }
        self.released.resume();
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

    /// A message of QoS 1 or 2 has arrived on connection `now_on`.
    pub(crate) fn arrive(&mut self, message: Arriving, now_on: ConnectionNumber, window: Window) -> Arrival {
        let Arriving { packet_id, qos, dup, bytes, digest } = message;
        if self.known_of(qos).contains(packet_id) {
            return Arrival::Known;
        }
        if let Some(beyond) = self.counted.checked_sub(window.receive_maximum) {
            if beyond >= window.messages_beyond || self.bytes.saturating_add(bytes) > window.bytes_beyond {
                return Arrival::TooMany;
            }
            self.beyond += 1;
        }
        if qos == QoS::ExactlyOnce {
            if let Some(received) = self.received.get_mut(&packet_id) {
                self.counted += usize::from(!received.counts);
                (received.counts, received.pub_rec) = (true, self.released.next_place());
                return Arrival::Received;
            }
            if let Some(held) = self.held.remove(&packet_id) {
                let position = self.push(held);
                self.carried.insert(packet_id, position);
                return Arrival::Known;
            }
            if digest.is_some_and(|digest| self.released.is_repeated(packet_id, dup, digest)) {
                self.counted += 1;
                self.receive(packet_id, digest);
                return Arrival::Received;
            }
        }
        let position = self.push(Unacknowledged { packet_id, qos, bytes, digest, given_on: now_on, reason: None });
        Arrival::Deliver { position }
    }

    /// The PUBREC of a message is sent.
    fn receive(&mut self, packet_id: PacketId, digest: Option<Digest>) {
        let pub_rec = self.released.next_place();
        self.received.insert(packet_id, Received { counts: true, pub_rec, digest });
    }

    fn known_of(&mut self, qos: QoS) -> &mut PacketIdSet {
        let [of_qos_1, of_qos_2] = &mut self.known;
        if qos == QoS::ExactlyOnce { of_qos_2 } else { of_qos_1 }
    }

    /// Adds an entry, and returns its position.
    fn push(&mut self, entry: Unacknowledged) -> u64 {
        let position = self.taken + self.unacknowledged.len() as u64;
        self.known_of(entry.qos).insert(entry.packet_id);
        self.unacknowledged.push_back(entry);
        self.counted += 1;
        self.bytes += entry.bytes;
        position
    }

    /// The owner is done with a message.
    pub(crate) fn judge(&mut self, delivery: Delivery, reason: ReasonCode) {
        let Delivery { packet_id, qos, connection, position } = delivery;
        let is_it =
            |entry: &Unacknowledged| entry.packet_id == packet_id && entry.qos == qos && entry.given_on == connection;
        let carried = self.carried.get(&packet_id).filter(|_| qos == QoS::ExactlyOnce);
        let at = |position: u64| usize::try_from(position.checked_sub(self.taken)?).ok();
        let (direct, carried) = (at(position), carried.copied().and_then(at));
        let waiting = &mut self.unacknowledged;
        let index = [direct, carried].into_iter().flatten().find(|index| waiting.get(*index).is_some_and(is_it));
        let entry = match index {
            Some(index) => waiting.get_mut(index),
            None if qos == QoS::ExactlyOnce => self.held.get_mut(&packet_id).filter(|entry| is_it(entry)),
            None => None,
        };
        if let Some(entry) = entry {
            entry.reason.get_or_insert(reason);
        }
    }

    /// The next acknowledgement to send. Acknowledgements of later messages wait.
    pub(crate) fn next_acknowledgement(&mut self) -> Option<Acknowledge> {
        let entry = *self.unacknowledged.front()?;
        let reason = entry.reason?;
        self.unacknowledged.pop_front();
        self.known_of(entry.qos).remove(entry.packet_id);
        self.taken += 1;
        self.bytes -= entry.bytes;
        if entry.qos == QoS::ExactlyOnce {
            self.carried.remove(&entry.packet_id);
            if reason.is_error() {
                self.counted -= 1;
            } else {
                self.receive(entry.packet_id, entry.digest);
            }
            return Some(Acknowledge::ExactlyOnce(entry.packet_id, reason));
        }
        self.counted -= 1;
        Some(Acknowledge::AtLeastOnce(entry.packet_id, reason))
    }

    /// The server releases a Packet Identifier. Returns whether it was waiting for that.
    pub(crate) fn release(&mut self, packet_id: PacketId) -> bool {
        let Some(Received { counts, pub_rec, digest }) = self.received.remove(&packet_id) else { return false };
        self.counted -= usize::from(counts);
        self.released.answered(pub_rec);
        if let Some(digest) = digest {
            self.released.complete(packet_id, digest);
        }
        true
    }
}
