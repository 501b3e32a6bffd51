//! PUBACKs of the packets that one client has sent at once.
//!
//! They are gathered and written behind the other output of these packets. A broker of a fleet sends its messages back to
//! the connection that they came on: behind each other, their PUBACKs cost the orchestrator a fraction of single ones.

use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER};
use crate::journal::Mark;
use crate::state::ShardState;
use tidegate_mqtt::{PacketId, PacketType, QoS, RawPublish};

/// Bytes of a PUBACK without a reason code.
pub(crate) const ACK_LEN: usize = 4;

/// The PUBACKs of the input at hand that are not in its connection's output yet.
#[derive(Debug, Default)]
pub(crate) struct PubAcks {
    /// The connection whose packets are taken.
    of: Option<ConnectionKey>,
    /// Whole packets without a reason code, in the order of the messages. As many as there are messages in one read.
    bytes: Vec<u8>,
    /// Whether they promise changes that were written into the journal: all or none do.
    promise: bool,
}

impl PubAcks {
    /// Gathers a PUBACK of success; returns false where it is to be sent at once, since it belongs to another connection.
    /// PUBACKs with another kind of promise have to be written before.
    #[inline]
    pub(crate) fn gather(&mut self, key: ConnectionKey, id: PacketId, promises: bool) -> bool {
        if self.of != Some(key) || self.promise != promises && !self.bytes.is_empty() {
            return false;
        }
        self.promise = promises;
        let [high, low] = id.get().to_be_bytes();
        self.bytes.extend_from_slice(&[0x40, 2, high, low]);
        true
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }
}

/// Writes the gathered PUBACKs of a shard.
pub(crate) struct Gathered<'a>(pub(crate) &'a mut ShardState);

impl Gathered<'_> {
    /// Begins to gather the PUBACKs of a connection; returns the argument of [`Gathered::end`].
    #[inline]
    pub(crate) fn begin(mut self, key: ConnectionKey) -> Option<ConnectionKey> {
        self.write_all();
        self.0.pub_acks.of.replace(key)
    }

    /// Writes the gathered PUBACKs, and continues with the connection before.
    #[inline]
    pub(crate) fn end(mut self, before: Option<ConnectionKey>) {
        self.write_all();
        self.0.pub_acks.of = before;
    }

    /// Gathers the PUBACK of success of a message at QoS 1, which waits for no other shard, if no earlier answer of its
    /// connection waits. It spares nearly all messages the parts of an engine that an answer may need.
    #[inline]
    pub(crate) fn gather(self, key: ConnectionKey, raw: &RawPublish<'_>, mark: Mark) -> bool {
        let Some(id) = raw.packet_id.filter(|_| raw.qos == QoS::AtLeastOnce) else { return false };
        let Some(connection) = self.0.connections.get(key) else { return false };
        let is_first = connection.extra.as_ref().is_none_or(|extra| extra.acks.is_empty());
        let promises = self.0.journal.has_written_since(mark);
        is_first && connection.listener != PRINCIPAL_LISTENER && self.0.pub_acks.gather(key, id, promises)
    }

    /// Writes the gathered PUBACKs before a packet of this type is taken, unless it belongs to the exchange of a message.
    #[inline]
    pub(crate) fn write_before(self, packet_type: PacketType) {
        use PacketType::{PubAck, PubComp, PubRec, PubRel, Publish};
        if !matches!(packet_type, Publish | PubAck | PubRec | PubRel | PubComp) {
            self.write();
        }
    }

    /// Writes the gathered PUBACKs to the output of their connection.
    #[inline]
    pub(crate) fn write(mut self) {
        self.write_all();
    }

    #[inline]
    fn write_all(&mut self) {
        if !self.0.pub_acks.bytes.is_empty() {
            self.write_some();
        }
    }

    fn write_some(&mut self) {
        let state = &mut *self.0;
        let mut bytes = std::mem::take(&mut state.pub_acks.bytes);
        if let Some(key) = state.pub_acks.of {
            let promise = state.pub_acks.promise;
            // Answers leave in this turn, even if the messages of the input have named as many connections as they may.
            let left = state.to_write.begin_input();
            state.send_promise(key, PacketType::PubAck, promise, |out| {
                out.extend_from_slice(&bytes);
                true
            });
            state.to_write.end_input(left);
            // One of them is counted.
            state.counters.packets_out[PacketType::PubAck as usize] += (bytes.len() / ACK_LEN - 1) as u64;
        }
        bytes.clear();
        state.pub_acks.bytes = bytes;
    }
}
