//! Messages to the server: queued ones, and unacknowledged ones.

use std::collections::{BTreeMap, VecDeque};

use tidegate_mqtt::PacketId;

use crate::{Publish, PublishToken};

/// The position of a message among all sent ones; packets are sent again in this order ([MQTT-4.6.0-1]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u64);

/// The packet that a sent message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A PUBACK at QoS 1, a PUBREC at QoS 2.
    Publish,
    /// A PUBREC has arrived and a PUBREL was sent; the PUBCOMP has not arrived.
    Release,
}

/// A message of QoS 1 or 2 that has been sent and not settled. It outlives the connection.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) packet_id: PacketId,
    pub(crate) token: PublishToken,
    pub(crate) publish: Publish,
    pub(crate) stage: Stage,
    /// The PUBLISH was sent on the present connection, so it counts against the server's Receive Maximum.
    counts: bool,
}

/// A packet to be sent again after a session was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// The PUBLISH packet, with DUP.
    Publish(PacketId),
    /// The PUBREL packet.
    Release(PacketId),
}

/// The state of all outgoing messages.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    in_flight: BTreeMap<Order, InFlight>,
    orders: BTreeMap<PacketId, Order>,
    next: Order,
    /// How many of `in_flight` count against the server's Receive Maximum.
    counted: usize,
    /// From where on `in_flight` has still to be sent again on this connection; `None` when all has been.
    resume_from: Option<Order>,
    queue: VecDeque<(PublishToken, Publish)>,
    queued_bytes: usize,
}

impl Outgoing {
    /// How many messages have been sent and not settled.
    pub(crate) fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }

    /// How many messages wait to be sent for the first time.
    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// How many bytes of messages wait to be sent for the first time.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether no message is queued or unacknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// A new connection resumes the session: all messages in flight are sent again.
    pub(crate) fn resume(&mut self) {
        for entry in self.in_flight.values_mut() {
            entry.counts = false;
        }
        self.counted = 0;
        self.resume_from = (!self.in_flight.is_empty()).then_some(Order::default());
    }

    /// The next packet to send again, unless `window` messages are in flight.
    pub(crate) fn next_resume(&mut self, window: usize) -> Option<Resume> {
        let from = self.resume_from?;
        let Some((&order, entry)) = self.in_flight.range_mut(from..).next() else {
            self.resume_from = None;
            return None;
        };
        let resume = match entry.stage {
            Stage::Release => Resume::Release(entry.packet_id),
            Stage::Publish if self.counted >= window => return None,
            Stage::Publish => {
                entry.counts = true;
                self.counted += 1;
                Resume::Publish(entry.packet_id)
            }
        };
        self.resume_from = Some(Order(order.0 + 1));
        Some(resume)
    }

    /// Whether packets must be sent again before new ones.
    pub(crate) fn is_resuming(&self) -> bool {
        self.resume_from.is_some()
    }

    /// Whether fewer than `window` messages are under way.
    pub(crate) fn window_open(&self, window: usize) -> bool {
        self.counted < window
    }

    /// Puts a message at the end of the queue.
    pub(crate) fn enqueue(&mut self, token: PublishToken, publish: Publish) {
        self.queued_bytes += publish.cost();
        self.queue.push_back((token, publish));
    }

    /// The message at the front of the queue.
    pub(crate) fn front(&self) -> Option<&Publish> {
        self.queue.front().map(|(_, publish)| publish)
    }

    /// Takes the message from the front of the queue.
    pub(crate) fn dequeue(&mut self) -> Option<(PublishToken, Publish)> {
        let (token, publish) = self.queue.pop_front()?;
        self.queued_bytes = self.queued_bytes.saturating_sub(publish.cost());
        Some((token, publish))
    }

    /// Removes messages from any place of the queue.
    pub(crate) fn withdraw(&mut self, mut wanted: impl FnMut(PublishToken) -> bool) {
        let queued_bytes = &mut self.queued_bytes;
        self.queue.retain(|(token, publish)| {
            let stays = !wanted(*token);
            *queued_bytes = queued_bytes.saturating_sub(if stays { 0 } else { publish.cost() });
            stays
        });
    }

    /// A message of QoS 1 or 2 has been sent for the first time.
    pub(crate) fn sent(&mut self, packet_id: PacketId, token: PublishToken, publish: Publish) {
        let order = self.next;
        self.next = Order(order.0 + 1);
        self.counted += 1;
        self.orders.insert(packet_id, order);
        let entry = InFlight { packet_id, token, publish, stage: Stage::Publish, counts: true };
        self.in_flight.insert(order, entry);
    }

    /// The message that has this Packet Identifier.
    pub(crate) fn get(&self, packet_id: PacketId) -> Option<&InFlight> {
        self.in_flight.get(self.orders.get(&packet_id)?)
    }

    /// The server has taken a message of QoS 2 over.
    pub(crate) fn release(&mut self, packet_id: PacketId) {
        let order = self.orders.get(&packet_id);
        if let Some(entry) = order.and_then(|order| self.in_flight.get_mut(order)) {
            entry.stage = Stage::Release;
            // All that is left of it is the Packet Identifier, and that may be for long.
            entry.publish.payload = Vec::new();
        }
    }

    /// The message is settled, or given up.
    pub(crate) fn settle(&mut self, packet_id: PacketId) -> Option<InFlight> {
        let order = self.orders.remove(&packet_id)?;
        let entry = self.in_flight.remove(&order)?;
        self.counted -= usize::from(entry.counts);
        Some(entry)
    }

    /// Gives up everything in flight, in order: the server has no session any more.
    pub(crate) fn take_in_flight(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.orders.clear();
        self.counted = 0;
        self.resume_from = None;
        std::mem::take(&mut self.in_flight).into_values()
    }
}
