//! Messages on their way to the members that serve partitions now: the sender's side and the receiver's, both pure.
//!
//! A piece is a list of messages, sent in parts. A receiver answers the last part of a piece when the messages are in its
//! store. The sender keeps a piece until all receivers have it, and sends it once more from its first part after any
//! other answer, and after none. Pieces are numbered for each life of the sender, so that a receiver knows a repeated
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_engine::{PartitionId, Partitions};

/// It is the last part of its piece.
pub(super) const ENDS_PIECE: u8 = 1;
/// It is the last part of the last piece.
pub(super) const ENDS_ALL: u8 = 2;
/// Longest part, bytes: much shorter than the longest question.
const PART: usize = 1024 * 1024;
/// Pause before a piece is sent once more; it doubles with each further answer that is no success.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);
/// Refusals of a piece between two logged errors, about a minute.
const REFUSALS_TO_LOG: u32 = 100;

/// A part of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// The kind of the question.
    pub(super) kind: u8,
    /// The life of the sender, and the move or transfer there.
    pub(super) stream: [u64; 2],
    /// The dead orchestrator and the broker whose messages these are; empty for a move.
    pub(super) of: &'a str,
    pub(super) broker: &'a str,
    /// The partitions that it is for.
    pub(super) partitions: Partitions,
    /// The number of the piece, and of the part within it.
    pub(super) piece: u64,
    pub(super) index: u32,
    pub(super) ends: u8,
    pub(super) bytes: &'a [u8],
}

impl<'a> Part<'a> {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.bytes.len());
        out.extend_from_slice(&[self.kind, self.ends]);
        for number in [self.stream[0], self.stream[1], self.piece, u64::from(self.index)] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for name in [self.of, self.broker] {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        let partitions: Vec<u16> = self.partitions.iter().map(|partition| partition.0).collect();
        out.extend_from_slice(&(partitions.len() as u16).to_le_bytes());
        out.extend(partitions.iter().flat_map(|partition| partition.to_le_bytes()));
        out.extend_from_slice(self.bytes);
        out
    }

    pub(super) fn read(question: &'a [u8]) -> Option<Self> {
        let (&[kind, ends], rest) = question.split_first_chunk::<2>()?;
        let (numbers, rest) = rest.split_at_checked(32)?;
        let (of, rest) = read_name(rest)?;
        let (broker, rest) = read_name(rest)?;
        let (count, rest) = read_number(rest)?;
        let (partitions, bytes) = rest.split_at_checked(usize::from(count) * 2)?;
        let partitions = partitions.chunks_exact(2).filter_map(|it| Some(PartitionId(read_number(it)?.0))).collect();
        let mut numbers = numbers.chunks_exact(8).filter_map(|it| Some(u64::from_le_bytes(it.try_into().ok()?)));
        let (stream, piece) = ([numbers.next()?, numbers.next()?], numbers.next()?);
        let index = u32::try_from(numbers.next()?).ok()?;
        Some(Self { kind, stream, of, broker, partitions, piece, index, ends, bytes })
    }
}

/// The answer to a question with a part, which `take` takes; damaged questions are asked again.
pub(super) fn answer_part(question: &[u8], take: impl FnOnce(&Part<'_>) -> PartAnswer) -> Vec<u8> {
    vec![Part::read(question).map_or(PartAnswer::Again, |part| take(&part)) as u8]
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

/// The receiver's answer to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PartAnswer {
    /// It has the part. At the end of a piece: the messages are in its store.
    Taken = 1,
    /// The same, and its brokers know all filters.
    BrokersKnow = 2,
    /// It does not serve the partitions now.
    NotHere = 3,
    /// It cannot take the piece now, or has not got its first parts: the piece has to be sent from its first part.
    Again = 4,
}

impl PartAnswer {
    pub(super) fn read(answer: &[u8]) -> Option<Self> {
        [Self::Taken, Self::BrokersKnow, Self::NotHere, Self::Again].into_iter().find(|it| answer == [*it as u8])
    }
}

/// The pieces for the members that serve partitions now.
#[derive(Default)]
pub(super) struct Outbox {
    receivers: BTreeMap<String, Receiver>,
    /// The partitions whose home serves them, or will.
    covered: Partitions,
    piece: Option<Piece>,
    next: u64,
}

/// Messages that not all receivers have.
struct Piece {
    number: u64,
    parts: Vec<Vec<u8>>,
    ends: u8,
}

#[derive(Default)]
struct Receiver {
    partitions: Partitions,
    /// Whether it has the piece.
    has_piece: bool,
    /// The next part.
    index: usize,
    question: Question,
    /// When it is asked again.
    pause_until: Option<Instant>,
    failures: u32,
    refusals: u32,
    brokers_know: bool,
}

/// The question of a receiver that has no answer yet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Question {
    /// No answer is awaited.
    #[default]
    Unasked,
    /// Its answer is awaited.
    Asked,
    /// The piece has begun again since: its answer is awaited and does not count.
    Stale,
}

impl Outbox {
    /// Names the homes of all partitions to which pieces go. A member that gets further partitions gets the piece at
    /// hand again: it delivers the piece to these partitions alone ([`Assembly`]).
    pub(super) fn set_homes(&mut self, homes: &BTreeMap<String, Partitions>) {
        self.covered = homes.values().fold(Partitions::NONE, |all, partitions| all.with(*partitions));
        self.receivers.retain(|name, _| homes.contains_key(name));
        for (name, partitions) in homes {
            let receiver = self.receivers.entry(name.clone()).or_default();
            if !partitions.without(receiver.partitions).is_empty() {
                (receiver.has_piece, receiver.index, receiver.brokers_know) = (false, 0, false);
                if receiver.question == Question::Asked {
                    receiver.question = Question::Stale;
                }
            }
            receiver.partitions = *partitions;
        }
    }

    /// Whether there is no piece that a receiver does not have.
    pub(super) fn is_idle(&self) -> bool {
        self.piece.is_none()
    }

    /// Puts the next piece, once the one before is delivered.
    pub(super) fn put(&mut self, messages: &[u8], ends: u8) {
        let mut parts: Vec<Vec<u8>> = messages.chunks(PART).map(<[u8]>::to_vec).collect();
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        self.piece = Some(Piece { number: self.next, parts, ends });
        self.next += 1;
        for receiver in self.receivers.values_mut() {
            (receiver.has_piece, receiver.index, receiver.failures, receiver.refusals) = (false, 0, 0, 0);
        }
    }

    /// The parts to send now, each with its receiver. An answer is awaited for each.
    pub(super) fn due(
        &mut self,
        now: Instant,
        (kind, stream, of, broker): (u8, [u64; 2], &str, &str),
    ) -> Vec<(String, Vec<u8>)> {
        let Some(piece) = &self.piece else { return Vec::new() };
        let mut due = Vec::new();
        for (name, receiver) in &mut self.receivers {
            if receiver.has_piece
                || receiver.question != Question::Unasked
                || receiver.pause_until.is_some_and(|until| until > now)
            {
                continue;
            }
            let Some(bytes) = piece.parts.get(receiver.index) else { continue };
            let ends = if receiver.index + 1 == piece.parts.len() { piece.ends } else { 0 };
            let (partitions, piece, index) = (receiver.partitions, piece.number, receiver.index as u32);
            let part = Part { kind, stream, of, broker, partitions, piece, index, ends, bytes };
            receiver.question = Question::Asked;
            due.push((name.clone(), part.write()));
        }
        due
    }

    /// Takes the answer to a part; `None` if there was none. Says whether an error is to be logged, since this receiver
    /// refuses the piece all the time. It is sent on: until the receiver has it, brokers keep the messages.
    pub(super) fn take_answer(&mut self, now: Instant, name: &str, answer: Option<PartAnswer>) -> bool {
        let (Some(piece), Some(receiver)) = (&self.piece, self.receivers.get_mut(name)) else { return false };
        if std::mem::take(&mut receiver.question) != Question::Asked {
            return false;
        }
        match answer {
            Some(PartAnswer::Taken | PartAnswer::BrokersKnow) => {
                receiver.brokers_know = answer == Some(PartAnswer::BrokersKnow);
                receiver.index += 1;
                receiver.has_piece = receiver.index >= piece.parts.len();
                (receiver.failures, receiver.pause_until) = (0, None);
            }
            Some(PartAnswer::NotHere | PartAnswer::Again) | None => {
                let pause = FIRST_PAUSE.saturating_mul(1 << receiver.failures.min(6)).min(LONGEST_PAUSE);
                receiver.pause_until = Some(now + pause);
                (receiver.index, receiver.failures) = (0, receiver.failures.saturating_add(1));
                if answer == Some(PartAnswer::Again) {
                    receiver.refusals = receiver.refusals.wrapping_add(1);
                    return receiver.refusals.is_multiple_of(REFUSALS_TO_LOG);
                }
            }
        }
        false
    }

    /// Ends the piece if the homes of all these partitions have it. Says whether it has ended, with its flags.
    pub(super) fn complete(&mut self, partitions: Partitions) -> Option<u8> {
        let all_have = self.receivers.values().all(|receiver| receiver.has_piece);
        if !all_have || !partitions.without(self.covered).is_empty() {
            return None;
        }
        self.piece.take().map(|piece| piece.ends)
    }

    /// Whether the brokers of all receivers know all filters, and all these partitions have a home. The brokers of the
    /// members in `but` do not count.
    pub(super) fn brokers_know(&self, partitions: Partitions, but: &BTreeSet<String>) -> bool {
        let know = |(name, receiver): (&String, &Receiver)| receiver.brokers_know || but.contains(name);
        partitions.without(self.covered).is_empty() && self.receivers.iter().all(know)
    }

    /// The messages of the piece at hand.
    pub(super) fn messages(&self) -> Vec<u8> {
        self.piece.as_ref().map(|piece| piece.parts.concat()).unwrap_or_default()
    }

    /// Whether a receiver is to be asked now, or its answer is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        self.piece.is_some() && self.receivers.values().any(|receiver| !receiver.has_piece)
    }
}

/// The parts of a piece that have come from a sender.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// The life of the sender.
    life: u64,
    /// The last piece that is in the store, and the partitions that have it.
    stored: Option<(u64, Partitions)>,
    /// The piece at hand, and the number of its parts that are here.
    piece: Option<(u64, u32)>,
    bytes: Vec<u8>,
}

/// The next step after a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// More parts have to come.
    Partial,
    /// The piece is here: it has to be stored for these partitions, and then noted by [`Assembly::note_stored`].
    Whole(Vec<u8>, Partitions),
    /// The piece is in the store for all of its partitions.
    Repeated,
    /// The first parts of the piece are missing, or the sender is an earlier life.
    Unfit,
}

impl Assembly {
    pub(super) fn of_life(life: u64) -> Self {
        Self { life, ..Self::default() }
    }

    pub(super) fn take(&mut self, part: &Part<'_>) -> Arrival {
        let [life, _] = part.stream;
        if life < self.life {
            return Arrival::Unfit;
        }
        if life > self.life {
            *self = Self::of_life(life);
        }
        let missing = match self.stored {
            Some((stored, _)) if part.piece < stored => return Arrival::Repeated,
            Some((stored, have)) if part.piece == stored => part.partitions.without(have),
            _ => part.partitions,
        };
        if missing.is_empty() && self.stored.is_some_and(|(stored, _)| part.piece == stored) {
            return Arrival::Repeated;
        }
        if part.index == 0 {
            (self.piece, self.bytes) = (Some((part.piece, 0)), Vec::new());
        }
        if self.piece != Some((part.piece, part.index)) {
            return Arrival::Unfit;
        }
        self.bytes.extend_from_slice(part.bytes);
        self.piece = Some((part.piece, part.index + 1));
        if part.ends == 0 {
            return Arrival::Partial;
        }
        self.piece = None;
        Arrival::Whole(std::mem::take(&mut self.bytes), missing)
    }

    /// All partitions of the part have its piece.
    pub(super) fn note_stored(&mut self, part: &Part<'_>) {
        let before = self.stored.filter(|(stored, _)| *stored == part.piece);
        let before = before.map_or(Partitions::NONE, |(_, have)| have);
        self.stored = Some((part.piece, before.with(part.partitions)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVE: (u8, [u64; 2], &str, &str) = (1, [5, 9], "", "");

    fn partitions(of: &[u16]) -> Partitions {
        of.iter().copied().map(PartitionId).collect()
    }

    fn homes(of: &[(&str, &[u16])]) -> BTreeMap<String, Partitions> {
        of.iter().map(|(name, of)| ((*name).to_owned(), partitions(of))).collect()
    }

    fn outbox(of: &[(&str, &[u16])]) -> Outbox {
        let mut outbox = Outbox::default();
        outbox.set_homes(&homes(of));
        outbox
    }

    fn names(due: &[(String, Vec<u8>)]) -> Vec<&str> {
        due.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_part_is_read_as_it_was_written() {
        let part = Part {
            kind: 2,
            stream: [5, 6],
            of: "c",
            broker: "10.0.0.1:1883",
            partitions: partitions(&[3, 9]),
            piece: 7,
            index: 1,
            ends: 1,
            bytes: b"bytes",
        };
        let written = part.write();
        assert_eq!(Part::read(&written), Some(part));
        assert!((0..written.len() - 5).all(|len| Part::read(&written[..len]).is_none()));
    }

    #[test]
    fn a_piece_that_was_not_stored_is_sent_again_whole() {
        let (now, mut outbox, mut assembly) = (Instant::now(), outbox(&[("b", &[1])]), Assembly::default());
        let piece: Vec<u8> = (0..=PART * 2).map(|at| (at % 251) as u8).collect();
        outbox.put(&piece, ENDS_PIECE);
        let mut later = now;
        let mut send = |outbox: &mut Outbox, store: bool| -> Option<Vec<u8>> {
            later += LONGEST_PAUSE;
            for _ in 0..3 {
                let due = outbox.due(later, MOVE);
                let part = Part::read(&due[0].1).unwrap();
                let arrival = assembly.take(&part);
                let answer = match &arrival {
                    Arrival::Whole(..) if !store => PartAnswer::Again,
                    Arrival::Unfit => PartAnswer::Again,
                    _ => PartAnswer::Taken,
                };
                assert!(!outbox.take_answer(later, "b", Some(answer)));
                if let Arrival::Whole(bytes, _) = arrival {
                    if store {
                        assembly.note_stored(&part);
                    }
                    return Some(bytes);
                }
            }
            None
        };
        assert_eq!(send(&mut outbox, false).as_ref(), Some(&piece));
        assert_eq!(outbox.complete(partitions(&[1])), None, "a shard could not take it in");
        assert_eq!(send(&mut outbox, true).as_ref(), Some(&piece));
        assert_eq!(outbox.complete(partitions(&[1])), Some(ENDS_PIECE));
        assert!(outbox.is_idle());
    }

    #[test]
    fn a_new_life_of_the_sender_restarts_its_pieces() {
        let mut assembly = Assembly::of_life(5);
        let part = |life: u64, piece: u64, index: u32, ends: u8| Part {
            kind: 1,
            stream: [life, 9],
            of: "",
            broker: "",
            partitions: partitions(&[1]),
            piece,
            index,
            ends,
            bytes: b"x",
        };
        let whole = || Arrival::Whole(b"x".to_vec(), partitions(&[1]));
        for piece in 0..3 {
            assert_eq!(assembly.take(&part(5, piece, 0, ENDS_PIECE)), whole());
            assembly.note_stored(&part(5, piece, 0, ENDS_PIECE));
        }
        assert_eq!(assembly.take(&part(5, 2, 0, ENDS_PIECE)), Arrival::Repeated);
        assert_eq!(assembly.take(&part(5, 3, 0, 0)), Arrival::Partial);
        assert_eq!(assembly.take(&part(6, 0, 0, ENDS_PIECE)), whole());
        assert_eq!(assembly.take(&part(5, 3, 1, ENDS_PIECE)), Arrival::Unfit, "of the life before");
        assert_eq!(assembly.take(&part(6, 7, 1, ENDS_PIECE)), Arrival::Unfit, "its first part is missing");
    }

    #[test]
    fn a_receiver_that_does_not_answer_delays_no_other() {
        let (now, mut outbox) = (Instant::now(), outbox(&[("b", &[1]), ("c", &[2])]));
        outbox.put(b"m", ENDS_PIECE);
        assert_eq!(names(&outbox.due(now, MOVE)), ["b", "c"]);
        assert!(outbox.due(now, MOVE).is_empty(), "both are asked");
        outbox.take_answer(now, "c", Some(PartAnswer::BrokersKnow));
        assert_eq!(outbox.complete(partitions(&[1, 2])), None);
        outbox.take_answer(now, "b", None);
        assert!(outbox.due(now, MOVE).is_empty(), "after a pause");
        assert_eq!(names(&outbox.due(now + FIRST_PAUSE, MOVE)), ["b"]);
        outbox.take_answer(now, "b", Some(PartAnswer::Taken));
        assert_eq!(outbox.complete(partitions(&[1, 2])), Some(ENDS_PIECE));
        assert!(!outbox.brokers_know(partitions(&[1, 2]), &BTreeSet::new()));
    }

    #[test]
    fn the_next_home_of_a_partition_gets_the_piece_at_hand() {
        let (now, mut outbox) = (Instant::now(), outbox(&[("b", &[1, 2])]));
        outbox.put(b"m", ENDS_PIECE);
        outbox.due(now, MOVE);
        // The first one dies, and another one takes over one of the partitions.
        outbox.set_homes(&homes(&[("c", &[1])]));
        outbox.take_answer(now, "b", Some(PartAnswer::Taken));
        let due = outbox.due(now, MOVE);
        assert_eq!(names(&due), ["c"]);
        assert_eq!(Part::read(&due[0].1).unwrap().partitions, partitions(&[1]));
        outbox.take_answer(now, "c", Some(PartAnswer::Taken));
        assert_eq!(outbox.complete(partitions(&[1, 2])), None, "one has no home yet");
        outbox.set_homes(&homes(&[("c", &[1, 2])]));
        assert_eq!(Part::read(&outbox.due(now, MOVE)[0].1).unwrap().partitions, partitions(&[1, 2]));
        outbox.take_answer(now, "c", Some(PartAnswer::Taken));
        assert_eq!(outbox.complete(partitions(&[1, 2])), Some(ENDS_PIECE));
    }

    #[test]
    fn further_partitions_of_a_member_get_the_piece_at_hand() {
        let (now, mut outbox, mut assembly) = (Instant::now(), outbox(&[("c", &[1])]), Assembly::default());
        outbox.put(b"m", ENDS_PIECE);
        let mut send = |outbox: &mut Outbox| {
            let due = outbox.due(now, MOVE);
            let part = Part::read(&due[0].1).unwrap();
            let arrival = assembly.take(&part);
            assembly.note_stored(&part);
            outbox.take_answer(now, "c", Some(PartAnswer::Taken));
            arrival
        };
        let whole = |of: &[u16]| Arrival::Whole(b"m".to_vec(), partitions(of));
        assert_eq!(send(&mut outbox), whole(&[1]));
        outbox.set_homes(&homes(&[("c", &[1, 2])]));
        assert_eq!(send(&mut outbox), whole(&[2]), "the first one has it");
        outbox.set_homes(&homes(&[("c", &[1, 2, 3])]));
        assert_eq!(send(&mut outbox), whole(&[3]));
        outbox.set_homes(&homes(&[]));
        outbox.set_homes(&homes(&[("c", &[1, 3])]));
        assert_eq!(send(&mut outbox), Arrival::Repeated);
    }

    #[test]
    fn a_piece_that_is_refused_is_logged_and_never_given_up() {
        let (mut now, mut outbox) = (Instant::now(), outbox(&[("b", &[1])]));
        outbox.put(b"m", ENDS_PIECE);
        let mut refuse = |outbox: &mut Outbox| {
            now += LONGEST_PAUSE;
            assert_eq!(outbox.due(now, MOVE).len(), 1);
            // A link that is cut is no refusal.
            outbox.take_answer(now, "b", None);
            now += LONGEST_PAUSE;
            outbox.due(now, MOVE);
            outbox.take_answer(now, "b", Some(PartAnswer::Again))
        };
        let logged = (0..2 * REFUSALS_TO_LOG).filter(|_| refuse(&mut outbox)).count();
        assert_eq!((logged, outbox.complete(partitions(&[1]))), (2, None), "it would be acknowledged to the broker");
        let later = now + LONGEST_PAUSE;
        assert_eq!(outbox.due(later, MOVE).len(), 1);
        outbox.take_answer(later, "b", Some(PartAnswer::Taken));
        assert_eq!(outbox.complete(partitions(&[1])), Some(ENDS_PIECE));
    }
}
