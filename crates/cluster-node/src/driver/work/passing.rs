//! Messages of brokers for partitions that have moved from one orchestrator to another. The old home forwards them in
//! pieces over the link, until the brokers of the new home know its filters and have delivered all earlier messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_administration::PIECE;
use tidegate_engine::{Behind, Partitions, Settling, UplinkState};
use tidegate_node::{MoveError, NodeHandle, NodeName, OrchestratorMoves};

use super::Worker;
use crate::driver::error::PartitionMoveError;

/// Bytes in front of the part: the kind, the move, the number of the part, and a mark of the last parts.
const HEAD: usize = 1 + 8 + 8 + 1;
/// It is the last part of its piece.
pub(super) const ENDS_PIECE: u8 = 1;
/// It is the last part of the last piece.
pub(super) const ENDS_MOVE: u8 = 2;
/// Longest part, bytes: much shorter than the longest question.
const PART: usize = 1024 * 1024;
/// How long the new home may take to answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two pieces, and before a part is sent once more.
const PIECE_PAUSE: Duration = Duration::from_millis(10);

/// The new home's answer to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PartVerdict {
    /// It has the part, or had it before.
    Taken = 1,
    /// The same, and its brokers know all filters.
    BrokersKnow = 2,
    /// It waits for no piece of this move.
    Unwanted = 3,
    /// It could not take the part, and may later.
    Failed = 4,
}

impl PartVerdict {
    pub(super) fn read(answer: &[u8]) -> Option<Self> {
        [Self::Taken, Self::BrokersKnow, Self::Unwanted, Self::Failed].into_iter().find(|it| answer == [*it as u8])
    }
}

/// Partitions that have left, and for which brokers may still deliver messages here.
pub(super) struct Passing {
    partitions: Partitions,
    to: String,
    /// Whether the new home serves them.
    served_there: bool,
    /// Parts that the new home has not taken, each with its mark.
    parts: Vec<(Vec<u8>, u8)>,
    /// The number of the first of them.
    number: u64,
    stage: Stage,
    next: Instant,
}

impl Passing {
    pub(super) fn partitions(&self) -> Partitions {
        self.partitions
    }
}

enum Stage {
    /// The brokers of the new home do not know all filters.
    Unknown,
    /// They know all filters. Earlier messages of the own brokers have still to arrive.
    Settling(Settling),
    /// The last piece is among the parts.
    Ending,
}

/// Partitions that have arrived, and for which the old home forwards messages.
#[derive(Default)]
pub(in crate::driver) struct Receiving(Mutex<BTreeMap<u64, Coming>>);

struct Coming {
    partitions: Partitions,
    from: String,
    /// The number of the next part.
    number: u64,
    piece: Vec<u8>,
}

impl Receiving {
    fn moves(&self) -> MutexGuard<'_, BTreeMap<u64, Coming>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These partitions have arrived from a node.
    pub(super) fn begin(&self, id: u64, partitions: Partitions, from: &str) {
        let coming = Coming { partitions, from: from.to_owned(), number: 0, piece: Vec::new() };
        self.moves().insert(id, coming);
    }

    /// Ends the moves for which `is_meant` is true, and delivers the messages kept back for them.
    pub(super) fn end(&self, node: &NodeHandle, is_meant: impl Fn(Partitions, &str) -> bool) -> Result<(), MoveError> {
        let mut moves = self.moves();
        let ended: Vec<u64> =
            moves.iter().filter(|(_, it)| is_meant(it.partitions, &it.from)).map(|(id, _)| *id).collect();
        for id in ended {
            moves.remove(&id);
            OrchestratorMoves::of(node).take_piece(id, &[], Behind::Nothing)?;
        }
        Ok(())
    }

    /// Takes the part in a question of the node `from`, and answers.
    pub(in crate::driver) fn take(&self, node: &NodeHandle, from: &str, question: &[u8]) -> Vec<u8> {
        vec![self.take_part(node, from, question).unwrap_or(PartVerdict::Failed) as u8]
    }

    fn take_part(&self, node: &NodeHandle, from: &str, question: &[u8]) -> Option<PartVerdict> {
        let (head, part) = question.split_at_checked(HEAD)?;
        let number_at = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let (id, number, ends) = (number_at(1)?, number_at(9)?, *head.last()?);
        // One part after the other, so that pieces are delivered in their order.
        let mut moves = self.moves();
        let Some(coming) = moves.get_mut(&id).filter(|coming| coming.from == from) else {
            return Some(PartVerdict::Unwanted);
        };
        if number == coming.number {
            coming.piece.extend_from_slice(part);
            coming.number += 1;
            if ends != 0 {
                let piece = std::mem::take(&mut coming.piece);
                let behind = if ends & ENDS_MOVE != 0 { Behind::Nothing } else { Behind::Pieces };
                if let Err(error) = OrchestratorMoves::of(node).take_piece(id, &piece, behind) {
                    tracing::error!(%error, from, "messages for partitions that have moved here could not be taken in");
                }
            }
            if ends & ENDS_MOVE != 0 {
                moves.remove(&id);
            }
        }
        drop(moves);
        Some(if brokers_know(node) { PartVerdict::BrokersKnow } else { PartVerdict::Taken })
    }
}

/// Whether all brokers that are there hold all filters.
pub(super) fn brokers_know(node: &NodeHandle) -> bool {
    let Ok(fleet) = node.fleet() else { return false };
    fleet.brokers.iter().map(|broker| &broker.uplink).all(|uplink| match uplink.state {
        // A broker that cannot be reached delivers nothing here.
        UplinkState::Connecting => !uplink.last_error.is_empty(),
        UplinkState::Subscribing => false,
        UplinkState::Down => true,
        _ => uplink.filters_pending == 0,
    })
}

impl Worker {
    /// Begins to forward the messages that brokers deliver for these partitions after their images were taken.
    pub(super) fn begin_passing(&mut self, id: u64, partitions: Partitions, to: &str) {
        let passing = Passing {
            partitions,
            to: to.to_owned(),
            served_there: false,
            parts: Vec::new(),
            number: 0,
            stage: Stage::Unknown,
            next: Instant::now(),
        };
        self.passing.insert(id, passing);
        self.shared.counters.set_passing(self.passing.len());
    }

    /// Partitions here whose messages are passed on.
    pub(super) fn passed_on(&self) -> Partitions {
        self.passing.values().fold(Partitions::NONE, |all, passing| all.with(passing.partitions))
    }

    /// These partitions are served elsewhere. Returns the partitions to forget at once: messages are forwarded for the
    /// others.
    pub(super) fn pass_on(&mut self, partitions: Partitions) -> Partitions {
        let mut left = partitions;
        for passing in self.passing.values_mut() {
            if passing.partitions.without(partitions).is_empty() {
                passing.served_there = true;
                left = left.without(passing.partitions);
            }
        }
        left
    }

    /// Ends the forwarding for the moves of these partitions.
    pub(super) fn end_passing_of(&mut self, partitions: Partitions) {
        let ids = self.passing.iter().filter(|(_, it)| it.partitions.without(partitions) != it.partitions);
        for id in ids.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.passing.remove(&id);
            if let Err(error) = OrchestratorMoves::of(&self.node).end_forwarding(id) {
                self.complain(&error, "messages of brokers are still collected for partitions that have moved");
            }
        }
        self.shared.counters.set_passing(self.passing.len());
    }

    /// Forwards the messages that have arrived for partitions that are served elsewhere.
    pub(super) fn pass_pieces(&mut self) {
        let now = Instant::now();
        let due = self.passing.iter().filter(|(_, it)| it.served_there && it.next <= now);
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(mut passing) = self.passing.remove(&id) else { continue };
            match self.pass_piece(id, &mut passing) {
                Ok(false) => {
                    passing.next = Instant::now() + PIECE_PAUSE;
                    self.passing.insert(id, passing);
                }
                Ok(true) => self.forget_passed(id, &passing),
                Err(error) => {
                    self.complain(&error, "messages of brokers could not be passed on to where partitions have moved");
                    self.forget_passed(id, &passing);
                }
            }
        }
        self.shared.counters.set_passing(self.passing.len());
    }

    /// Forgets the sessions whose new home is dead. A partition of them may be restored here next: this comes before, so
    /// that the restored sessions stay.
    pub(super) fn forget_passed_to_dead(&mut self) {
        let lives = &self.lives;
        let dead = self.passing.iter().filter(|(_, it)| it.served_there && !lives.contains(&it.to));
        for id in dead.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(passing) = self.passing.remove(&id) {
                self.forget_passed(id, &passing);
            }
        }
        self.shared.counters.set_passing(self.passing.len());
    }

    fn forget_passed(&mut self, id: u64, passing: &Passing) {
        if let Err(error) = OrchestratorMoves::of(&self.node).end_forwarding(id) {
            self.complain(&error, "messages of brokers are still collected for partitions that have moved");
        }
        self.forget(passing.partitions);
        if let Err(error) = self.node.release_partitions(passing.partitions) {
            self.complain(&error, "partitions that have moved are still held here");
        }
        tracing::debug!(to = passing.to, "the brokers bring nothing more for partitions that have moved");
    }

    /// Forwards the next piece. Returns whether the new home has the last piece, or takes no pieces.
    fn pass_piece(&self, id: u64, passing: &mut Passing) -> Result<bool, PartitionMoveError> {
        if !self.lives.contains(&passing.to) {
            return Ok(true);
        }
        if passing.parts.is_empty() {
            let is_settled = match std::mem::replace(&mut passing.stage, Stage::Ending) {
                Stage::Ending => return Ok(true),
                Stage::Unknown => {
                    passing.stage = Stage::Unknown;
                    false
                }
                Stage::Settling(settling) => match self.node.settle(settling)? {
                    Some(left) => {
                        passing.stage = Stage::Settling(left);
                        false
                    }
                    None => true,
                },
            };
            let piece = OrchestratorMoves::of(&self.node).take_forwarded(id, true)?.unwrap_or_default();
            passing.parts = parts_of(&piece, if is_settled { ENDS_PIECE | ENDS_MOVE } else { ENDS_PIECE });
        }
        while let Some((part, ends)) = passing.parts.first() {
            match self.ask(&passing.to, &question(id, passing.number, *ends, part)) {
                Some(PartVerdict::Unwanted) => return Ok(true),
                Some(PartVerdict::Failed) | None => return Ok(false),
                Some(verdict) => {
                    if verdict == PartVerdict::BrokersKnow && matches!(passing.stage, Stage::Unknown) {
                        passing.stage = Stage::Settling(self.node.begin_settling()?);
                    }
                    passing.number += 1;
                    passing.parts.remove(0);
                }
            }
        }
        Ok(matches!(passing.stage, Stage::Ending))
    }

    pub(super) fn ask(&self, to: &str, question: &[u8]) -> Option<PartVerdict> {
        let answer = self.node.ask_node(&NodeName::new(to).ok()?, question.to_vec()).ok()?;
        PartVerdict::read(&answer.recv_timeout(ANSWER_TIMEOUT).ok()?.ok()?)
    }

    /// What partitions that came still wait for ends where the old home is gone.
    pub(super) fn end_receiving_of_gone(&self) {
        let lives = &self.lives;
        if let Err(error) = self.receiving.end(&self.node, |_, from| !lives.iter().any(|name| name == from)) {
            self.complain(&error, "messages that were kept back for partitions that have moved here are not delivered");
        }
    }

    /// The same for partitions that leave again, or were not to come.
    pub(super) fn end_receiving_of(&self, partitions: Partitions) {
        if let Err(error) = self.receiving.end(&self.node, |own, _| own.without(partitions) != own) {
            self.complain(&error, "messages that were kept back for partitions that have moved here are not delivered");
        }
    }
}

/// When the next piece of some moves is due.
pub(super) fn next_piece(moves: &BTreeMap<u64, Passing>) -> Option<Duration> {
    let next = moves.values().filter(|passing| passing.served_there).map(|passing| passing.next).min()?;
    Some(next.saturating_duration_since(Instant::now()))
}

/// A piece in parts; the last one ends it. A piece of nothing is one part.
pub(super) fn parts_of(piece: &[u8], ends: u8) -> Vec<(Vec<u8>, u8)> {
    let mut parts: Vec<(Vec<u8>, u8)> = piece.chunks(PART).map(|part| (part.to_vec(), 0)).collect();
    match parts.last_mut() {
        Some(last) => last.1 = ends,
        None => parts.push((Vec::new(), ends)),
    }
    parts
}

fn question(id: u64, number: u64, ends: u8, part: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + part.len());
    out.push(PIECE);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.push(ends);
    out.extend_from_slice(part);
    out
}

/// What both threads share of moves.
pub(in crate::driver) type SharedReceiving = Arc<Receiving>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_any_length_ends_with_its_last_part() {
        assert_eq!(parts_of(&[], ENDS_PIECE), [(Vec::new(), ENDS_PIECE)]);
        let parts = parts_of(&vec![7; PART + 1], ENDS_PIECE | ENDS_MOVE);
        let shapes: Vec<(usize, u8)> = parts.iter().map(|(part, ends)| (part.len(), *ends)).collect();
        assert_eq!(shapes, [(PART, 0), (1, ENDS_PIECE | ENDS_MOVE)]);
    }
}
