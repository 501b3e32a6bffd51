//! Acknowledgements as completions: each leaves when all that it promises is so, in the order of the packets answered.

use crate::connection::PendingAck;
use crate::connection::table::Connections;
use crate::ids::ConnectionKey;
use crate::link::envelope::Ticket;

impl Connections {
    /// The ticket under which others confirm the next answer of a connection.
    #[inline]
    pub(crate) fn next_ticket(&self, key: ConnectionKey) -> Ticket {
        let sequence = self
            .get(key)
            .and_then(|connection| connection.extra.as_ref())
            .map_or(0, |extra| extra.acks.next_sequence());
        Ticket { connection: key, sequence }
    }
}

impl Connections {
    pub(crate) fn pop_ready_answer(&mut self, key: ConnectionKey) -> Option<PendingAck> {
        self.get_mut(key)?.extra.as_mut()?.acks.pop_ready()
    }
}
