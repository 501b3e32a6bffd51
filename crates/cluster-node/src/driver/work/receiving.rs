//! Partitions that have moved here, and for which the old home forwards messages of its brokers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_engine::{Behind, Partitions};
use tidegate_node::{MoveError, NodeHandle, OrchestratorMoves};

use super::adopting::ORDER_LIMIT;
use super::inheriting::Inheriting;
use super::passing::brokers_know;
use super::pieces::{Arrival, Assembly, ENDS_ALL, Part, PartVerdict};

/// How long messages are awaited for partitions whose old home is gone: longer than others work off its connections.
const GONE_LIMIT: Duration = Duration::from_secs(60);

/// The receiving side of moves, shared by the thread of tables and the thread that answers questions.
pub(in crate::driver) type SharedReceiving = Arc<Receiving>;

/// Moves whose old homes forward messages, by their ids.
#[derive(Default)]
pub(in crate::driver) struct Receiving(Mutex<BTreeMap<u64, Coming>>);

struct Coming {
    partitions: Partitions,
    from: String,
    assembly: Assembly,
    since: Instant,
    /// Since when no member has the life of the old home that forwards.
    gone_since: Option<Instant>,
    /// Whether messages of the own brokers wait no longer.
    is_late: bool,
    /// Whether the last piece has come. It may come once more if the answer was lost.
    is_over: bool,
    /// The partitions among them that were taken over from a dead node and get the messages by that transfer.
    taken_over: Partitions,
}

impl Coming {
    fn new(partitions: Partitions, from: &str, life: u64, is_late: bool) -> Self {
        Self {
            partitions,
            from: from.to_owned(),
            assembly: Assembly::of_life(life),
            since: Instant::now(),
            gone_since: None,
            is_late,
            is_over: false,
            taken_over: Partitions::NONE,
        }
    }

    /// Delivers a piece, and returns when it is in the store.
    fn deliver(
        &mut self,
        node: &NodeHandle,
        inheriting: &Inheriting,
        id: u64,
        part: &Part<'_>,
        piece: &[u8],
    ) -> Result<(), MoveError> {
        let moves = OrchestratorMoves::of(node);
        let others = inheriting.without_taken_over(self.taken_over);
        if !others.is_empty() || self.is_over {
            moves.resume_awaiting(id, self.partitions.without(self.taken_over).with(others))?;
            (self.taken_over, self.is_over) = (self.taken_over.without(others), false);
        }
        moves.take_piece(id, part.partitions, piece, self.behind())?;
        inheriting.deliver(node, part.partitions.without(part.partitions.without(self.taken_over)), piece)
    }

    fn behind(&self) -> Behind {
        if self.is_late { Behind::LatePieces } else { Behind::Pieces }
    }
}

fn overlap(some: Partitions, others: Partitions) -> bool {
    some.without(others) != some
}

impl Receiving {
    fn moves(&self) -> MutexGuard<'_, BTreeMap<u64, Coming>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These partitions have arrived from this life of a node.
    pub(super) fn begin(&self, id: u64, partitions: Partitions, from: &str, life: u64) {
        let mut moves = self.moves();
        moves.retain(|_, coming| !coming.is_over || !overlap(coming.partitions, partitions));
        moves.insert(id, Coming::new(partitions, from, life, false));
    }

    /// The partitions for which messages are still to come.
    pub(super) fn open_partitions(&self) -> Vec<u16> {
        let moves = self.moves();
        let open = moves.values().filter(|coming| !coming.is_over);
        let open = open.fold(Partitions::NONE, |all, coming| all.with(coming.partitions));
        open.iter().map(|partition| partition.0).collect()
    }

    /// Whether messages of own brokers wait for messages of an old home of some of these partitions.
    pub(super) fn keeps_back(&self, partitions: Partitions) -> bool {
        self.moves().values().any(|coming| !coming.is_late && !coming.is_over && overlap(coming.partitions, partitions))
    }

    /// Ends the moves of these partitions, and delivers the messages kept back for them. The other partitions of a move
    /// are not affected.
    pub(super) fn end(&self, node: &NodeHandle, partitions: Partitions) -> Result<(), MoveError> {
        let mut moves = self.moves();
        moves.values_mut().for_each(|coming| coming.partitions = coming.partitions.without(partitions));
        let ended: Vec<u64> = moves.iter().filter(|(_, it)| it.partitions.is_empty()).map(|(id, _)| *id).collect();
        for id in ended {
            moves.remove(&id);
            OrchestratorMoves::of(node).deliver_kept_back(id, Behind::Nothing)?;
        }
        Ok(())
    }

    /// Messages that were kept back too long are delivered: a broker of the old home may be away. Moves end whose old
    /// home is gone while no other member forwards its messages. `lives` are the members.
    pub(super) fn end_late(
        &self,
        node: &NodeHandle,
        now: Instant,
        lives: &BTreeMap<String, u64>,
    ) -> Result<(), MoveError> {
        let mut moves = self.moves();
        let mut ended = Vec::new();
        for (id, coming) in moves.iter_mut() {
            if lives.get(&coming.from) == Some(&coming.assembly.life()) {
                coming.gone_since = None;
            } else {
                let gone = now.saturating_duration_since(*coming.gone_since.get_or_insert(now));
                if gone >= GONE_LIMIT || coming.is_over {
                    ended.push(*id);
                    continue;
                }
            }
            if now.saturating_duration_since(coming.since) >= ORDER_LIMIT && !coming.is_late && !coming.is_over {
                coming.is_late = true;
                OrchestratorMoves::of(node).deliver_kept_back(*id, Behind::LatePieces)?;
            }
        }
        for id in ended {
            moves.remove(&id);
            OrchestratorMoves::of(node).deliver_kept_back(id, Behind::Nothing)?;
        }
        Ok(())
    }

    /// Whether [`Receiving::end_late`] has to look again.
    pub(super) fn is_waiting(&self) -> bool {
        self.moves().values().any(|coming| !coming.is_over && (!coming.is_late || coming.gone_since.is_some()))
    }

    /// Takes the part in a question of the node `from`, and answers. `served` are the partitions served here.
    pub(in crate::driver) fn take(
        &self,
        node: &NodeHandle,
        inheriting: &Inheriting,
        from: &str,
        question: &[u8],
        served: Partitions,
    ) -> Vec<u8> {
        let part = Part::read(question);
        let verdict = part.map_or(PartVerdict::Again, |part| self.take_part(node, inheriting, from, &part, served));
        vec![verdict as u8]
    }

    fn take_part(
        &self,
        node: &NodeHandle,
        inheriting: &Inheriting,
        from: &str,
        part: &Part<'_>,
        served: Partitions,
    ) -> PartVerdict {
        if !part.partitions.without(served).is_empty() {
            // They are on their way here, or away.
            return PartVerdict::NotHere;
        }
        let [life, id] = part.stream;
        // One part after the other, so that pieces are delivered in their order.
        let mut moves = self.moves();
        let coming = moves.entry(id).or_insert_with(|| {
            // They came in an earlier life of this process, or from a new home that has died.
            let taken_over = part.partitions;
            Coming { taken_over, ..Coming::new(part.partitions, from, life, true) }
        });
        if coming.from != from {
            return PartVerdict::Again;
        }
        let arrival = coming.assembly.take(part);
        if arrival == Arrival::Unfit {
            return PartVerdict::Again;
        }
        if let Arrival::Whole(piece) = arrival {
            if let Err(error) = coming.deliver(node, inheriting, id, part, &piece) {
                tracing::error!(%error, from, "messages for partitions that have moved here could not be taken in");
                return PartVerdict::Again;
            }
            coming.assembly.note_stored(part);
        }
        let knows = brokers_know(node);
        if part.ends & ENDS_ALL != 0 && knows && !coming.is_over {
            if let Err(error) = OrchestratorMoves::of(node).deliver_kept_back(id, Behind::Nothing) {
                tracing::error!(%error, from, "messages that were kept back are not delivered");
                return PartVerdict::Again;
            }
            coming.is_over = true;
        }
        if knows { PartVerdict::BrokersKnow } else { PartVerdict::Taken }
    }

    /// The moves that brought partitions from a node that is dead: the partitions of each, and the messages behind its pieces.
    pub(super) fn of_dead(&self, node: &str) -> Vec<(u64, Partitions, Behind)> {
        let moves = self.moves();
        let of_node = moves.iter().filter(|(_, coming)| coming.from == node && !coming.is_over);
        of_node.map(|(id, coming)| (*id, coming.partitions, coming.behind())).collect()
    }
}

impl super::Worker {
    /// Looks whether messages are kept back too long.
    pub(super) fn end_late_receiving(&self) {
        if let Err(error) = self.receiving.end_late(&self.node, Instant::now(), &self.members.lives) {
            self.complain(&error, "messages that were kept back for partitions that have moved here are not delivered");
        }
    }

    /// Ends the wait for messages for partitions that have left again, or were not to come.
    pub(super) fn end_receiving_of(&self, partitions: Partitions) {
        if let Err(error) = self.receiving.end(&self.node, partitions) {
            self.complain(&error, "messages that were kept back for partitions that have moved here are not delivered");
        }
    }
}
