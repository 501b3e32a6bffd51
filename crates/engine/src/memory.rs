//! The memory of a shard, and its ceiling.

use crate::message::MessageRef;
use crate::message::spare::SpareMessages;

/// The share of a queue while the shard holds more than half of its ceiling.
const SCARCE_SHARE_BYTES: u64 = 16 * 1024;
/// The part of the ceiling that unfinished CONNECTs take before a further long one ends its connection.
const CONNECT_PART: u64 = 8;
/// Bytes in flight to a client whose queue is read from the store, while the shard holds more than its ceiling. An eighth
/// above it, one message is sent.
const SCARCE_WINDOW_BYTES: u64 = 64 * 1024;
/// The part of the ceiling that memory of forgotten messages takes at most.
const SPARE_PART: u64 = 64;
/// Bytes that a blocked socket is taken to hold in the kernel, towards the memory ceiling.
pub(crate) const KERNEL_BUFFER_BYTES: u64 = 256 * 1024;

/// Bytes and messages that a shard holds, as running sums.
#[derive(Debug)]
pub(crate) struct MemoryUse {
    /// Bytes of tails, parked packets, topics with aliases, wills, queues, messages in flight and filters whose retained
    /// messages wait, and the kernel's share of blocked sockets.
    pub held: u64,
    /// Memory of forgotten messages, for the next ones. It counts towards the ceiling.
    pub spare: SpareMessages,
    pub queued_messages: u64,
    pub queued_bytes: u64,
    pub input_bytes: u64,
    /// Bytes of tails of connections that await CONNECT, a part of `input_bytes`.
    pub connect_bytes: u64,
    /// Messages that wait in the store alone, and their cost in memory once they are read.
    pub stored_messages: u64,
    pub stored_bytes: u64,
    /// Bytes that the shard may hold, 0 for no bound.
    pub ceiling: u64,
    /// Bytes of a queue that may be in memory; the rest is in the store alone.
    queue_memory: u64,
    /// Bytes above the ceiling that a start, a move or a lowered ceiling has left. They refuse no connection: clients
    /// have to come to take their messages.
    excess: u64,
}

impl MemoryUse {
    pub(crate) fn new(ceiling: u64, queue_memory: u64) -> Self {
        Self {
            held: 0,
            spare: SpareMessages::default(),
            queued_messages: 0,
            queued_bytes: 0,
            input_bytes: 0,
            connect_bytes: 0,
            stored_messages: 0,
            stored_bytes: 0,
            ceiling,
            queue_memory,
            excess: 0,
        }
    }

    /// All bytes that count towards the ceiling.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        self.held + self.spare.bytes()
    }

    /// A message was forgotten: the next ones may use its memory, within a part of the ceiling.
    #[inline]
    pub(crate) fn reuse(&mut self, message: MessageRef) {
        if self.ceiling == 0 || self.spare.bytes() < self.ceiling / SPARE_PART {
            self.spare.put(message);
        }
    }

    /// Whether the shard holds more bytes than it may.
    #[inline]
    pub(crate) fn is_over_ceiling(&self) -> bool {
        self.would_exceed_ceiling(0)
    }

    /// True if the shard would exceed its limit with this number of further bytes.
    #[inline]
    pub(crate) fn would_exceed_ceiling(&self, more: u64) -> bool {
        let ceiling = self.ceiling;
        ceiling != 0 && self.taken() + more > ceiling
    }

    /// True if the shard is so far over its ceiling that connections and parts of packets are refused as well. Queues
    /// stop growing at the ceiling, and clients that come to empty them have to get in.
    #[inline]
    pub(crate) fn is_far_over_ceiling(&self) -> bool {
        let ceiling = self.ceiling;
        ceiling != 0 && self.taken() > ceiling.saturating_add(ceiling / 4).saturating_add(self.excess)
    }

    /// Sets another ceiling. Bytes above a lower one are allowed until they leave.
    pub(crate) fn set_ceiling(&mut self, ceiling: u64) {
        let before = std::mem::replace(&mut self.ceiling, ceiling);
        self.spare.clear();
        let is_lower = ceiling != 0 && (before == 0 || ceiling < before);
        if is_lower {
            self.allow_excess();
        }
    }

    /// The messages that the shard holds now are allowed, though they are above the ceiling.
    pub(crate) fn allow_excess(&mut self) {
        self.excess = self.excess.max(self.held.saturating_sub(self.ceiling));
    }

    /// The allowed excess only falls, with the messages that leave.
    pub(crate) fn lower_excess(&mut self) {
        self.excess = self.excess.min(self.held.saturating_sub(self.ceiling));
    }

    /// Bytes in flight beyond which a client gets no further message of a queue that is read from the store, where `most`
    /// is the configured number: few above the ceiling, since messages in flight stay in memory.
    #[inline]
    pub(crate) fn window_bytes(&self, most: u64) -> u64 {
        if !self.is_over_ceiling() {
            most
        } else if self.taken() - self.ceiling <= self.ceiling / 8 {
            most.min(SCARCE_WINDOW_BYTES)
        } else {
            0
        }
    }

    /// Whether unfinished CONNECTs take more than their part of the ceiling.
    pub(crate) fn are_connects_beyond_part(&self) -> bool {
        self.ceiling != 0 && self.connect_bytes > self.ceiling / CONNECT_PART
    }

    /// Bytes that a queue may hold in memory.
    pub(crate) fn queue_share(&self) -> u64 {
        let ceiling = self.ceiling;
        let scarce = ceiling != 0 && self.held > ceiling / 2;
        let share = self.queue_memory;
        if scarce { share.min(SCARCE_SHARE_BYTES) } else { share }
    }

    /// Adds one message's cost to the sums.
    #[inline]
    pub(crate) fn count_queued(&mut self, cost: u64) {
        self.queued_messages += 1;
        self.queued_bytes += cost;
        self.held += cost;
    }

    /// Takes one message's cost out of the sums.
    pub(crate) fn forget_queued(&mut self, cost: u64) {
        self.queued_messages -= 1;
        self.queued_bytes -= cost;
        self.held -= cost;
    }

    /// Takes the end of a queue out of the sums.
    pub(crate) fn forget_tail(&mut self, messages: u64, bytes: u64, counted: u64) {
        self.stored_messages -= messages;
        self.stored_bytes -= bytes;
        self.held -= counted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TenantId;
    use crate::message::Publication;
    use crate::now::Millis;
    use tidegate_mqtt::QoS;

    #[test]
    fn memory_of_forgotten_messages_counts_towards_the_ceiling() {
        const CEILING: u64 = 64 * 1024;
        let mut memory = MemoryUse::new(CEILING, 0);
        let (payload, qos) = ([b'x'; 300], QoS::AtLeastOnce);
        let message = || Publication::new(TenantId::DEFAULT, "t", qos, false, b"", Millis(7), &payload, 9).keep();
        for message in [message(), message(), message(), message(), message(), message()] {
            memory.reuse(message);
        }
        let spare = memory.spare.bytes();
        assert!((CEILING / SPARE_PART..2 * CEILING / SPARE_PART).contains(&spare), "{spare}");
        assert_eq!(memory.taken(), spare);
        assert!(!memory.would_exceed_ceiling(CEILING - spare) && memory.would_exceed_ceiling(CEILING - spare + 1));
        memory.set_ceiling(CEILING / 2);
        assert_eq!(memory.taken(), 0, "another ceiling has another part");
    }
}
