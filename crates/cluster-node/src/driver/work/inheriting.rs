//! Messages that brokers kept for a dead orchestrator: one member connects to each broker as the dead one, and passes
//! the messages on to the members that have taken over the other partitions. This is the side of these members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidegate_administration::INHERITED;
use tidegate_engine::{Behind, PartitionId, Partitions};
use tidegate_node::{MoveError, NodeHandle, OrchestratorMoves};

use super::adopting::ORDER_LIMIT;
use super::brokers::BACK_LIMIT;
use super::passing::{ENDS_MOVE, PartVerdict, brokers_know};
use crate::driver::restore::Inherited;

/// A part of the messages that the connection of a dead orchestrator to a broker has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InheritedPart<'a> {
    /// The life of the member that passes it on, and the transfer there: numbers of parts begin with each.
    pub(super) stream: [u64; 2],
    /// The dead orchestrator and the name of the broker.
    pub(super) of: &'a str,
    pub(super) broker: &'a str,
    /// The partitions that it is for.
    pub(super) partitions: Partitions,
    pub(super) number: u64,
    pub(super) ends: u8,
    pub(super) part: &'a [u8],
}

impl<'a> InheritedPart<'a> {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = vec![INHERITED, self.ends];
        for number in [self.stream[0], self.stream[1], self.number] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for name in [self.of, self.broker] {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        let partitions: Vec<u16> = self.partitions.iter().map(|partition| partition.0).collect();
        out.extend_from_slice(&(partitions.len() as u16).to_le_bytes());
        out.extend(partitions.iter().flat_map(|partition| partition.to_le_bytes()));
        out.extend_from_slice(self.part);
        out
    }

    pub(super) fn read(question: &'a [u8]) -> Option<Self> {
        let (head, rest) = question.split_at_checked(2)?;
        let (numbers, rest) = rest.split_at_checked(24)?;
        let (of, rest) = read_name(rest)?;
        let (broker, rest) = read_name(rest)?;
        let (count, rest) = read_number(rest)?;
        let (partitions, part) = rest.split_at_checked(usize::from(count) * 2)?;
        let partitions = partitions.chunks_exact(2).filter_map(|it| Some(PartitionId(read_number(it)?.0))).collect();
        let mut numbers = numbers.chunks_exact(8).filter_map(|it| Some(u64::from_le_bytes(it.try_into().ok()?)));
        let (stream, number) = ([numbers.next()?, numbers.next()?], numbers.next()?);
        Some(Self { stream, of, broker, partitions, number, ends: *head.last()?, part })
    }
}

fn read_number(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_at_checked(2)?;
    Some((u16::from_le_bytes(number.try_into().ok()?), rest))
}

fn read_name(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = read_number(bytes)?;
    let (name, rest) = rest.split_at_checked(usize::from(len))?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

/// Partitions of dead orchestrators that were taken over here, and the messages that are passed on for them.
#[derive(Default)]
pub(in crate::driver) struct Inheriting(Mutex<InheritingState>);

#[derive(Default)]
struct InheritingState {
    transfers: BTreeMap<u64, Transfer>,
    /// By the member that passes on, its numbers of the stream, the dead one, and the broker.
    streams: BTreeMap<StreamName, Stream>,
    /// The brokers whose connections are worked off here, by the dead orchestrator.
    worked_off: BTreeMap<String, BTreeSet<String>>,
    /// The dead orchestrators whose stores are being fetched.
    restoring: BTreeSet<String>,
}

type StreamName = (String, [u64; 2], String, String);

/// Partitions that were taken over at once.
struct Transfer {
    of: String,
    partitions: Partitions,
    /// The brokers that have not said all to another member.
    elsewhere: BTreeSet<String>,
    since: Instant,
    /// Whether messages of the own brokers wait no longer.
    is_late: bool,
    /// Since when the dead one is back.
    back_since: Option<Instant>,
}

#[derive(Default)]
struct Stream {
    /// The number of the next part.
    number: u64,
    piece: Vec<u8>,
}

impl Inheriting {
    fn state(&self) -> MutexGuard<'_, InheritingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Partitions were taken over. Before they are served.
    pub(super) fn begin(&self, inherited: &Inherited) {
        let Inherited { transfer, of, partitions, elsewhere, .. } = inherited;
        let (of, partitions, elsewhere) = (of.clone(), *partitions, elsewhere.clone());
        let begun = Transfer { of, partitions, elsewhere, since: Instant::now(), is_late: false, back_since: None };
        self.state().transfers.insert(*transfer, begun);
    }

    /// Notes the brokers whose connections are worked off here, by the dead orchestrator. The brokers of the
    /// orchestrators in `restoring` are not known yet.
    pub(super) fn note_worked_off(&self, of: BTreeMap<String, BTreeSet<String>>, restoring: BTreeSet<String>) {
        let mut state = self.state();
        (state.worked_off, state.restoring) = (of, restoring);
    }

    /// Answers a member that has started: the brokers whose connections of its last life are worked off here, or nothing
    /// while that is not known. `epoch` is that of the table in force here.
    pub(in crate::driver) fn answer_former_life(&self, from: &str, question: &[u8], epoch: u64) -> Vec<u8> {
        let joined = question.get(1..9).and_then(|it| Some(u64::from_le_bytes(it.try_into().ok()?)));
        let state = self.state();
        let is_known = joined.is_some_and(|joined| joined <= epoch) && !state.restoring.contains(from);
        let answer = is_known.then(|| state.worked_off.get(from).cloned().unwrap_or_default());
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    /// Whether anything is still to be passed on.
    pub(super) fn is_waiting(&self) -> bool {
        !self.state().transfers.is_empty()
    }

    /// Ends transfers that wait in vain. `is_adopted` says whether a connection of a transfer is worked off here.
    ///
    /// # Errors
    /// When messages that were kept back cannot be delivered.
    pub(super) fn end_waiting(
        &self,
        node: &NodeHandle,
        lives: &[String],
        is_adopted: impl Fn(u64) -> bool,
    ) -> Result<(), MoveError> {
        let mut state = self.state();
        state.streams.retain(|(from, ..), _| lives.contains(from));
        for transfer in state.transfers.values_mut().filter(|transfer| lives.contains(&transfer.of)) {
            transfer.back_since.get_or_insert_with(Instant::now);
        }
        let is_back = |transfer: &Transfer| transfer.back_since.is_some_and(|since| since.elapsed() >= BACK_LIMIT);
        let over =
            |transfer: &Transfer, id: u64| (transfer.elsewhere.is_empty() || is_back(transfer)) && !is_adopted(id);
        let ended: Vec<u64> = state.transfers.iter().filter(|(id, it)| over(it, **id)).map(|(id, _)| *id).collect();
        for id in ended {
            state.transfers.remove(&id);
            OrchestratorMoves::of(node).take_piece(id, &[], Behind::Nothing)?;
        }
        for (id, transfer) in &mut state.transfers {
            if !transfer.is_late && transfer.since.elapsed() >= ORDER_LIMIT {
                transfer.is_late = true;
                OrchestratorMoves::of(node).take_piece(*id, &[], Behind::LatePieces)?;
            }
        }
        Ok(())
    }

    /// Takes the part in a question of the node `from`, and answers. `served` are the partitions served here.
    pub(in crate::driver) fn take(
        &self,
        node: &NodeHandle,
        from: &str,
        question: &[u8],
        served: Partitions,
    ) -> Vec<u8> {
        let part = InheritedPart::read(question);
        vec![part.map_or(PartVerdict::Failed, |part| self.take_part(node, from, &part, served)) as u8]
    }

    fn take_part(&self, node: &NodeHandle, from: &str, part: &InheritedPart<'_>, served: Partitions) -> PartVerdict {
        if !part.partitions.without(served).is_empty() {
            // They are on their way here, or away.
            return PartVerdict::Failed;
        }
        let mut state = self.state();
        let InheritingState { transfers, streams, .. } = &mut *state;
        let name = (from.to_owned(), part.stream, part.of.to_owned(), part.broker.to_owned());
        let stream = streams.entry(name).or_default();
        if part.number == stream.number {
            stream.piece.extend_from_slice(part.part);
            stream.number += 1;
            if part.ends != 0 {
                let piece = std::mem::take(&mut stream.piece);
                let meant = |it: &Transfer| part.partitions.without(it.partitions) != part.partitions;
                for (id, transfer) in transfers.iter_mut().filter(|(_, transfer)| meant(transfer)) {
                    let behind = if transfer.is_late { Behind::LatePieces } else { Behind::Pieces };
                    if let Err(error) = OrchestratorMoves::of(node).take_piece(*id, &piece, behind) {
                        tracing::error!(%error, from, "messages of a broker for a dead orchestrator are not taken in");
                    }
                }
            }
        }
        if part.ends & ENDS_MOVE != 0 {
            for transfer in transfers.values_mut().filter(|transfer| transfer.of == part.of) {
                transfer.elsewhere.remove(part.broker);
            }
        }
        drop(state);
        if brokers_know(node) { PartVerdict::BrokersKnow } else { PartVerdict::Taken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_waits_for_brokers_that_are_worked_off() {
        let inheriting = Inheriting::default();
        let ask = |from: &str, epoch: u64| {
            let question = [&[tidegate_administration::FORMER_LIFE][..], &epoch.to_le_bytes()].concat();
            let answer = inheriting.answer_former_life(from, &question, 5);
            serde_json::from_slice::<Option<BTreeSet<String>>>(&answer).unwrap()
        };
        assert_eq!(ask("c", 6), None, "its table is not known here");
        assert_eq!(ask("c", 5), Some(BTreeSet::new()));
        inheriting.note_worked_off(BTreeMap::new(), ["c".to_owned()].into());
        assert_eq!((ask("c", 5), ask("d", 5)), (None, Some(BTreeSet::new())), "its store is being fetched");
        let brokers: BTreeSet<String> = ["x".to_owned()].into();
        inheriting.note_worked_off([("c".to_owned(), brokers.clone())].into(), BTreeSet::new());
        assert_eq!((ask("c", 5), ask("d", 5)), (Some(brokers), Some(BTreeSet::new())));
    }

    #[test]
    fn a_part_is_read_as_it_was_written() {
        let partitions = [3, 9].map(PartitionId).into_iter().collect();
        let part = InheritedPart {
            stream: [5, 6],
            of: "c",
            broker: "10.0.0.1:1883",
            partitions,
            number: 7,
            ends: 1,
            part: b"bytes",
        };
        let written = part.write();
        assert_eq!(InheritedPart::read(&written), Some(part));
        assert!((0..written.len() - 5).all(|len| InheritedPart::read(&written[..len]).is_none()));
    }
}
