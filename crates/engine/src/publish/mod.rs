//! PUBLISH from a client: `handle_publish` checks it and finds its topic, `stages` decide about it, `pipeline` carries
//! out their answers and routes it, `dispatch` and `deliver` take it to its subscribers, `completion` answers it.

pub(crate) mod admission;
pub(crate) mod completion;
pub(crate) mod dead_letter;
pub(crate) mod dispatch;
mod exchange;
pub(crate) mod fan_out;
pub(crate) mod inbound;
pub(crate) mod layouts;
pub(crate) mod origin;
pub(crate) mod pipeline;
pub(crate) mod turn_share;

use crate::connection::Connection;
use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::session::Flow;
use crate::session::table::Sessions;
use tidegate_mqtt::PacketId;

/// Messages above QoS 0 that a connection has sent and that count against its Receive Maximum. `flow` is that of its
/// session.
#[inline]
pub(crate) fn unacknowledged(connection: &Connection, flow: Option<&Flow>) -> usize {
    let received = flow.map_or(0, |flow| flow.received.len().saturating_sub(flow.received_before));
    received + connection.extra.as_ref().map_or(0, |extra| extra.acks.pub_acks())
}

impl Sessions {
    /// The packet identifier of a QoS 2 message is taken; false if it was before.
    pub(crate) fn take_packet_id(&mut self, journal: &mut Journal, session: SessionKey, id: PacketId) -> bool {
        let Some(session) = self.get_mut(session.0) else { return false };
        let is_new = session.flow_mut().received.insert(id);
        if let Some(stored) = session.stored.filter(|_| is_new) {
            journal.put_received(stored, id, None);
        }
        is_new
    }
}
