//! Messages of brokers for the shared groups of partitions that leave. The new home deals them; this one does if the move is
//! called off.

use super::last_copies::StoredCopies;
use super::noted::NOTED_MAX_BYTES;
use crate::durable::crossing::Way;
use crate::ids::Partitions;
use crate::journal::Journal;
use crate::message::MessageRef;
use tidegate_mqtt::QoS;

/// A message that no group of some partitions has got, here or elsewhere.
#[derive(Debug)]
struct Undealt {
    /// On the topic of the clients.
    message: MessageRef,
    partitions: Partitions,
    /// The name by which the homes of the groups recognise it: see [`Way::KeptBack`].
    name: u64,
    /// Its number in the store; `None` where it is in memory only.
    number: Option<u64>,
}

/// The messages of one move, in their order.
#[derive(Debug, Default)]
pub(crate) struct ForGroups {
    undealt: Vec<Undealt>,
    bytes: u64,
    /// Messages of QoS 0 that came beyond [`NOTED_MAX_BYTES`].
    left_out: u64,
}

impl ForGroups {
    /// Notes a message, in the store above QoS 0: the sessions of its partitions count as having it from now on. Beyond
    /// [`NOTED_MAX_BYTES`] messages of QoS 0 are left out; the windows of the brokers limit the others.
    pub(crate) fn note(
        &mut self,
        journal: &mut Journal,
        stored: &mut StoredCopies,
        message: MessageRef,
        partitions: Partitions,
        name: u64,
    ) {
        if message.qos == QoS::AtMostOnce && self.bytes > NOTED_MAX_BYTES as u64 {
            self.left_out += 1;
            return;
        }
        let number = stored.put(journal, &Way::ForGroups { partitions, name }, None, &message);
        self.bytes += message.cost();
        self.undealt.push(Undealt { message, partitions, name, number });
    }

    /// Removes the messages for these partitions; returns them with the partitions among these that they are for, and
    /// with their names.
    pub(crate) fn take(
        &mut self,
        journal: &mut Journal,
        stored: &mut StoredCopies,
        partitions: Partitions,
    ) -> Vec<(MessageRef, Partitions, u64)> {
        let mut taken = Vec::new();
        self.undealt.retain_mut(|undealt| {
            let these = undealt.partitions.among(partitions);
            if these.is_empty() {
                return true;
            }
            taken.push((undealt.message.clone(), these, undealt.name));
            undealt.partitions = undealt.partitions.without(these);
            if let Some(number) = undealt.number.take() {
                stored.end(journal, number);
            }
            if undealt.partitions.is_empty() {
                self.bytes -= undealt.message.cost();
                return false;
            }
            let way = Way::ForGroups { partitions: undealt.partitions, name: undealt.name };
            undealt.number = stored.put(journal, &way, None, &undealt.message);
            true
        });
        taken
    }

    /// The number of messages that were left out since the last call.
    pub(crate) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.undealt.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{PartitionId, ShardId, TenantId};
    use crate::message::Publication;
    use crate::now::{Millis, Now};
    use crate::settings::Durability;

    fn message(qos: QoS, payload: &[u8]) -> MessageRef {
        Publication::new(TenantId::DEFAULT, "t", qos, false, &[], Millis::NEVER, payload, 0).keep()
    }

    #[test]
    fn messages_for_groups_have_a_limit_at_qos_0() {
        let mut journal = Journal::new(Durability::Commit, ShardId(0), Now::default());
        let (mut stored, mut noted) = (StoredCopies::default(), ForGroups::default());
        let large = vec![0; NOTED_MAX_BYTES / 2];
        for qos in [QoS::AtMostOnce, QoS::AtMostOnce, QoS::AtMostOnce, QoS::AtLeastOnce] {
            noted.note(&mut journal, &mut stored, message(qos, &large), Partitions::ALL, 0);
        }
        let taken = noted.take(&mut journal, &mut stored, Partitions::ALL);
        let qos: Vec<QoS> = taken.iter().map(|(message, ..)| message.qos).collect();
        assert_eq!(qos, [QoS::AtMostOnce, QoS::AtMostOnce, QoS::AtLeastOnce]);
        assert_eq!((noted.take_left_out(), noted.take_left_out(), noted.bytes), (1, 0, 0));
    }

    #[test]
    fn the_rest_of_a_message_stays_for_other_partitions() {
        let mut journal = Journal::new(Durability::Commit, ShardId(0), Now::default());
        let (mut stored, mut noted) = (StoredCopies::default(), ForGroups::default());
        let [one, two] = [3, 4].map(|number| Partitions::of(PartitionId(number)));
        noted.note(&mut journal, &mut stored, message(QoS::ExactlyOnce, b"x"), one.with(two), 7);
        let mut take = |of| {
            let taken = noted.take(&mut journal, &mut stored, of);
            taken.into_iter().map(|(_, partitions, name)| (partitions, name)).collect::<Vec<_>>()
        };
        assert_eq!(take(one), [(one, 7)]);
        assert!(take(one).is_empty());
        assert_eq!(take(Partitions::ALL), [(two, 7)]);
        assert!(noted.is_empty());
    }
}
