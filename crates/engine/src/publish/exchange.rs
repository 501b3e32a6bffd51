//! A QoS 2 message that its publisher sends again before all nodes have confirmed it.

use crate::connection::table::Connections;
use crate::publish::inbound::Inbound;

impl Connections {
    /// True if the PUBREC of this packet identifier waits for confirmations, on this connection.
    pub(crate) fn awaits_pub_rec(&self, it: &Inbound<'_>) -> bool {
        let extra = self.get(it.key).and_then(|connection| connection.extra.as_ref());
        extra.zip(it.raw.packet_id).is_some_and(|(extra, id)| extra.acks.has_pub_rec(id))
    }
}
