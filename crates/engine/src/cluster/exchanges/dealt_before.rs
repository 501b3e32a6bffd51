//! Messages that a dead node has dealt to groups that had moved away from it by then.
//!
//! The node notifies their next home, but may die before the home has the notice. Then only the node's store has it,
//! and the successor of the node notifies the home instead: the publisher of such a message may be about to send it
//! again.

use crate::cluster::exchanges::Exchanges;
use crate::ids::Partitions;
use crate::link::exchange_word::ExchangeName;
use crate::partitions::put_partitions;
use crate::wire::WireWrite;

/// Messages, each with the partitions to whose groups it was dealt.
pub(crate) type DealtBefore = Vec<(ExchangeName, Partitions)>;

impl Exchanges {
    /// Writes which messages groups of some partitions were dealt here.
    pub(crate) fn put_dealt_before(&self, out: &mut Vec<u8>, partitions: Partitions) {
        let all: DealtBefore = self.marks.dealt_to(partitions).collect();
        out.put_u32(all.len() as u32);
        for (name, groups) in all {
            name.write(out);
            put_partitions(out, groups);
        }
    }
}
