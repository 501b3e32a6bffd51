//! Moves are prepared: the old home sends the ends of long queues to the store of the new home over the link, while it
//! serves their clients. Each round sends the messages that came during the round before, until these are few. When the move has
//! begun and the clients are held, a last round sends the rest, and the images name all of it. So the time in which no
//! node serves the clients does not depend on their queues.
//!
//! A new home without a store, or without room, gets the queues in the images, within their limit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Sender, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_administration::AHEAD;
use tidegate_cluster::Move;
use tidegate_engine::{LongQueue, Partitions, SentAhead, ShardId};
use tidegate_node::{NoAnswer, NodeHandle, NodeName, PeerAnswer, QueuePart};

use super::Event;
use super::asking::ANSWER_PAUSE;
use crate::driver::pause;
use crate::driver::sets::set_of;

/// Bytes of a queue that are read and sent at once.
const PIECE_BYTES: usize = 1024 * 1024;
/// A move is prepared when no more bytes than these have come since the last round.
const ENOUGH_BYTES: u64 = 1024 * 1024;
/// Rounds after which a move begins, however much has come: it comes faster than it can be sent.
const MAX_ROUNDS: u32 = 8;
/// How long the new home may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a piece that was not taken is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long the last round may take. No node serves the clients meanwhile.
const LAST_ROUND_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts with one piece.
const MAX_ATTEMPTS: u32 = 20;

/// The answer to a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum AheadAnswer {
    /// It is in the store.
    Stored = 1,
    /// The table here does not have the move yet, or the piece was not stored.
    Later = 2,
    /// There is no store, or no room in it.
    NoRoom = 3,
}

/// The steps of the old home.
pub(super) trait AheadSteps {
    /// The queues whose ends are in the store alone.
    fn long_queues(&self, partitions: Partitions) -> Result<Vec<(ShardId, LongQueue)>, NoAnswer>;

    /// Reads a range of the store; `None` if it cannot be read now.
    fn read(&self, shard: ShardId, keys: (Vec<u8>, Vec<u8>)) -> Result<Option<QueuePart>, NoAnswer>;

    /// Asks the new home; `None` if there is no link.
    fn ask(&self, node: &str, question: Vec<u8>) -> Option<PeerAnswer>;
}

impl AheadSteps for NodeHandle {
    fn long_queues(&self, partitions: Partitions) -> Result<Vec<(ShardId, LongQueue)>, NoAnswer> {
        self.moves().long_queues(partitions)
    }

    fn read(&self, shard: ShardId, keys: (Vec<u8>, Vec<u8>)) -> Result<Option<QueuePart>, NoAnswer> {
        self.moves().read_queue(shard, keys, PIECE_BYTES)
    }

    fn ask(&self, node: &str, question: Vec<u8>) -> Option<PeerAnswer> {
        self.ask_node(&NodeName::new(node).ok()?, question).ok()
    }
}

/// How far the queues of a move have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// An answer is awaited, or a pause.
    Waiting,
    /// A round has ended: this number of bytes had come since the one before.
    RoundOver(u64),
    /// The new home has no room: the images bring the queues.
    NoRoom,
}

/// A piece that was sent.
struct PieceUnderWay {
    answer: Option<PeerAnswer>,
    since: Instant,
    /// The number up to which the queue is at the new home with it.
    reached: u64,
}

/// The queues of a move, and what of them is at the new home.
pub(super) struct Preparation {
    transfer: u64,
    partitions: Partitions,
    to: String,
    sent: BTreeMap<u64, SentAhead>,
    /// The queues of the present round.
    round: Option<VecDeque<(ShardId, LongQueue)>>,
    /// Bytes of this round, as far as they are known before.
    bytes: u64,
    rounds: u32,
    piece: Option<PieceUnderWay>,
    attempts: u32,
    pause_until: Option<Instant>,
    /// The move can begin, as far as this node is concerned.
    is_over: bool,
    has_room: bool,
}

impl Preparation {
    fn new(transfer: u64, partitions: Partitions, to: String) -> Self {
        Self {
            transfer,
            partitions,
            to,
            sent: BTreeMap::new(),
            round: None,
            bytes: 0,
            rounds: 0,
            piece: None,
            attempts: 0,
            pause_until: None,
            is_over: false,
            has_room: true,
        }
    }

    fn sent_of(&self, queue: &LongQueue) -> u64 {
        self.sent.get(&queue.session).map_or(0, |sent| sent.last)
    }

    /// Takes the next steps, until something is awaited or a round is over.
    fn advance(&mut self, steps: &impl AheadSteps, now: Instant) -> Result<Progress, NoAnswer> {
        loop {
            let is_free = self.pause_until.is_none_or(|until| until <= now) && self.take_answer(now);
            if !self.has_room {
                return Ok(Progress::NoRoom);
            }
            if !is_free {
                return Ok(Progress::Waiting);
            }
            let next = match &self.round {
                Some(round) => round.front().cloned(),
                None => {
                    self.begin_round(steps)?;
                    continue;
                }
            };
            let Some((shard, queue)) = next else {
                (self.round, self.rounds) = (None, self.rounds + 1);
                return Ok(Progress::RoundOver(self.bytes));
            };
            if self.sent_of(&queue) < queue.last {
                self.send_piece(steps, now, shard, &queue)?;
            } else if let Some(round) = &mut self.round {
                round.pop_front();
            }
        }
    }

    fn begin_round(&mut self, steps: &impl AheadSteps) -> Result<(), NoAnswer> {
        let queues = steps.long_queues(self.partitions)?;
        let unsent = |queue: &LongQueue| {
            let behind = queue.last.saturating_sub(self.sent_of(queue).max(queue.first.saturating_sub(1)));
            let all = queue.last.saturating_sub(queue.first).saturating_add(1);
            u64::try_from(u128::from(queue.bytes) * u128::from(behind) / u128::from(all.max(1))).unwrap_or(u64::MAX)
        };
        self.bytes = queues.iter().map(|(_, queue)| unsent(queue)).sum();
        self.round = Some(queues.into());
        Ok(())
    }

    /// Takes the answer to the piece at hand. Returns whether none is awaited.
    fn take_answer(&mut self, now: Instant) -> bool {
        let Some(piece) = &self.piece else { return true };
        let answer = match piece.answer.as_ref().map(PeerAnswer::try_recv) {
            Some(Err(TryRecvError::Empty)) if now.saturating_duration_since(piece.since) < ANSWER_TIMEOUT => {
                return false;
            }
            Some(Ok(Ok(bytes))) => bytes.first().copied(),
            _ => None,
        };
        let reached = piece.reached;
        self.piece = None;
        if answer == Some(AheadAnswer::NoRoom as u8) {
            self.has_room = false;
        } else if answer != Some(AheadAnswer::Stored as u8) {
            self.retry_later(now);
        } else if let Some((_, queue)) = self.round.as_ref().and_then(VecDeque::front) {
            let (transfer, partition, session) = (self.transfer, queue.partition, queue.session);
            self.sent.insert(session, SentAhead { transfer, partition, session, last: reached });
            self.attempts = 0;
        }
        self.pause_until.is_none_or(|until| until <= now)
    }

    fn retry_later(&mut self, now: Instant) {
        self.attempts += 1;
        self.pause_until = Some(now + RETRY_PAUSE);
        self.has_room &= self.attempts < MAX_ATTEMPTS;
    }

    fn send_piece(
        &mut self,
        steps: &impl AheadSteps,
        now: Instant,
        shard: ShardId,
        queue: &LongQueue,
    ) -> Result<(), NoAnswer> {
        let part = match queue.keys_behind(self.sent_of(queue)) {
            Some(keys) => steps.read(shard, keys)?,
            None => None,
        };
        let piece = part.and_then(|part| queue.piece(self.transfer, &part.pairs, part.ends).ok());
        let Some((piece, reached)) = piece.filter(|(_, reached)| *reached > self.sent_of(queue)) else {
            self.retry_later(now);
            return Ok(());
        };
        let question = [&[AHEAD][..], &self.transfer.to_le_bytes(), &piece].concat();
        self.piece = Some(PieceUnderWay { answer: steps.ask(&self.to, question), since: now, reached });
        Ok(())
    }

    /// Takes the next steps before the move begins. Returns whether it can begin by now.
    fn prepare(&mut self, steps: &impl AheadSteps, now: Instant) -> Result<bool, NoAnswer> {
        let progress = self.advance(steps, now);
        self.is_over = match &progress {
            Ok(Progress::Waiting) => false,
            Ok(Progress::RoundOver(bytes)) => *bytes <= ENOUGH_BYTES || self.rounds >= MAX_ROUNDS,
            Ok(Progress::NoRoom) | Err(_) => true,
        };
        progress.map(|_| self.is_over)
    }

    /// Sends all that is here. Returns whether the new home has it, and the images can name it.
    fn finish(
        &mut self,
        steps: &impl AheadSteps,
        clock: impl Fn() -> Instant,
        wait: impl Fn(),
    ) -> Result<bool, NoAnswer> {
        let until = clock() + LAST_ROUND_TIMEOUT;
        // A round that has begun may not have the last messages.
        let mut left = if self.round.is_some() { 2 } else { 1 };
        loop {
            let now = clock();
            match self.advance(steps, now)? {
                Progress::NoRoom => return Ok(false),
                Progress::Waiting if now < until => wait(),
                Progress::Waiting => self.has_room = false,
                Progress::RoundOver(_) => {
                    left -= 1;
                    if left == 0 {
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// The moves to here, prepared ones included: pieces of their queues are taken.
#[derive(Default)]
pub(in crate::driver) struct MovesToHere(Mutex<Vec<u64>>);

impl MovesToHere {
    /// Pieces of these moves alone are taken from now on, and the queues that came by others are dropped.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub(super) fn note(&self, node: &NodeHandle, moves: &[u64]) -> Result<(), NoAnswer> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == moves {
            return Ok(());
        }
        moves.clone_into(&mut known);
        node.moves().keep_ahead(moves.to_vec())
    }

    /// Takes a piece of a queue whose session moves here later.
    pub(in crate::driver) fn take(&self, node: &NodeHandle, question: &[u8]) -> Vec<u8> {
        // The lock is held, so that the queue is not dropped before the piece comes to it.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = read_question(question).filter(|(transfer, _)| known.contains(transfer));
        let answer = match piece.map(|(_, piece)| node.moves().take_ahead(piece.to_vec())) {
            Some(Ok(true)) => AheadAnswer::Stored,
            Some(Ok(false)) => AheadAnswer::NoRoom,
            Some(Err(error)) => {
                tracing::warn!(%error, "a part of a queue that moves here was not taken; it is sent again");
                AheadAnswer::Later
            }
            None => AheadAnswer::Later,
        };
        vec![answer as u8]
    }
}

/// The transfer of a piece, and the piece.
fn read_question(question: &[u8]) -> Option<(u64, &[u8])> {
    let (transfer, piece) = question.get(1..)?.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*transfer), piece))
}

/// Moves from here that are prepared or have begun, by their ids.
#[derive(Default)]
pub(super) struct Preparations(BTreeMap<u64, Preparation>);

impl Preparations {
    /// When the next step is due.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.0.values().any(|preparation| !preparation.is_over).then_some(ANSWER_PAUSE)
    }

    /// A table has come, which prepares these moves from here. Moves that it has begun keep their state.
    pub(super) fn note_table(&mut self, from_here: &[Move], begun: &[u64]) {
        let is_open = |id: &u64| begun.contains(id) || from_here.iter().any(|it| it.id == *id);
        self.0.retain(|id, _| is_open(id));
        for it in from_here {
            let new = || Preparation::new(it.id, set_of(&it.partitions), it.to.clone());
            self.0.entry(it.id).or_insert_with(new);
        }
    }

    /// Takes the next steps of the moves that are prepared.
    pub(super) fn advance(&mut self, node: &NodeHandle, events: &Sender<Event>) -> Result<(), NoAnswer> {
        let (now, mut failure) = (Instant::now(), None);
        for preparation in self.0.values_mut().filter(|preparation| !preparation.is_over) {
            let prepared = preparation.prepare(node, now);
            if preparation.is_over {
                let Preparation { to, rounds, has_room, .. } = &*preparation;
                tracing::debug!(to, rounds, has_room, "a move is prepared");
                let _ = events.send(Event::Prepared(preparation.transfer));
            }
            failure = prepared.err().or(failure);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Sends the rest of the queues of a move whose clients are held, so that the images name them. Where that fails,
    /// the images bring them.
    pub(super) fn finish(&mut self, node: &NodeHandle, id: u64) -> Result<(), NoAnswer> {
        let Some(preparation) = self.0.get_mut(&id) else { return Ok(()) };
        if preparation.finish(node, Instant::now, || pause(ANSWER_PAUSE))? {
            node.moves().note_sent_ahead(preparation.sent.values().copied().collect())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::mpsc::channel;

    use tidegate_engine::{PartitionId, TenantId};

    use super::*;

    /// Messages of a piece.
    const PER_PIECE: u64 = 1_000;
    /// Bytes of a message.
    const BYTES: u64 = 200;

    /// An old home with one long queue, and a new home that answers at once.
    struct Homes {
        last: Cell<u64>,
        /// Messages that come with each piece.
        rate: u64,
        answer: Option<AheadAnswer>,
        is_silent: bool,
        /// The ends of questions without an answer.
        open: RefCell<Vec<std::sync::mpsc::Sender<Result<Vec<u8>, tidegate_node::AskError>>>>,
        pieces: RefCell<Vec<u64>>,
    }

    impl Homes {
        fn new(backlog: u64, rate: u64) -> Self {
            let answer = Some(AheadAnswer::Stored);
            Self {
                last: Cell::new(backlog),
                rate,
                answer,
                is_silent: false,
                open: RefCell::default(),
                pieces: RefCell::default(),
            }
        }

        fn queue(&self) -> LongQueue {
            let last = self.last.get();
            LongQueue {
                partition: PartitionId(1),
                tenant: TenantId::DEFAULT,
                client_id: "reader".into(),
                session: 64,
                first: 1,
                last,
                bytes: last * BYTES,
            }
        }

        fn count(&self) -> usize {
            self.pieces.borrow().len()
        }
    }

    impl AheadSteps for Homes {
        fn long_queues(&self, _: Partitions) -> Result<Vec<(ShardId, LongQueue)>, NoAnswer> {
            Ok(vec![(ShardId(0), self.queue())])
        }

        fn read(&self, _: ShardId, (from, _): (Vec<u8>, Vec<u8>)) -> Result<Option<QueuePart>, NoAnswer> {
            let (session, number) = from.split_last_chunk::<8>().expect("a number");
            let first = u64::from_be_bytes(*number);
            let last = self.last.get().min(first + PER_PIECE - 1);
            self.pieces.borrow_mut().push(first);
            let key = |number: u64| [session, &number.to_be_bytes()].concat();
            let pairs = (first..=last).map(|number| (key(number), vec![1])).collect();
            Ok(Some(QueuePart { pairs, ends: last == self.last.get() }))
        }

        fn ask(&self, _: &str, question: Vec<u8>) -> Option<PeerAnswer> {
            assert_eq!(read_question(&question).map(|(transfer, _)| transfer), Some(7));
            self.last.set(self.last.get() + self.rate);
            let (sender, answer) = channel();
            if self.is_silent {
                self.open.borrow_mut().push(sender);
            } else {
                sender.send(Ok(vec![self.answer? as u8])).unwrap();
            }
            Some(answer)
        }
    }

    fn preparation() -> Preparation {
        Preparation::new(7, std::iter::once(PartitionId(1)).collect(), "b".into())
    }

    /// Prepares the move; returns the number of looks.
    fn prepare(preparation: &mut Preparation, homes: &Homes) -> u32 {
        let mut now = Instant::now();
        for looks in 1..1_000 {
            if preparation.prepare(homes, now).unwrap() {
                return looks;
            }
            now += RETRY_PAUSE;
        }
        panic!("it is never prepared");
    }

    #[test]
    fn the_last_round_does_not_grow_with_the_queue() {
        let mut rounds = Vec::new();
        for backlog in [10_000, 1_000_000] {
            let (homes, mut preparation) = (Homes::new(backlog, 100), preparation());
            prepare(&mut preparation, &homes);
            assert!(homes.count() as u64 >= backlog / PER_PIECE);
            let before = homes.count();
            homes.last.set(homes.last.get() + 500);
            assert_eq!(preparation.finish(&homes, Instant::now, || panic!("nothing is awaited")), Ok(true));
            assert!(preparation.sent[&64].last >= backlog + 500);
            rounds.push(homes.count() - before);
        }
        assert!(rounds[0] <= 7 && rounds[1] <= 7, "{rounds:?} pieces while no node serves the client");
    }

    #[test]
    fn a_move_begins_although_more_comes_than_can_be_sent() {
        let (homes, mut preparation) = (Homes::new(10_000, PER_PIECE), preparation());
        assert_eq!((prepare(&mut preparation, &homes), preparation.rounds), (MAX_ROUNDS, MAX_ROUNDS));
    }

    #[test]
    fn a_new_home_without_room_gets_the_queues_in_images() {
        for answer in [Some(AheadAnswer::NoRoom), Some(AheadAnswer::Later), None] {
            let (homes, mut preparation) = (Homes { answer, ..Homes::new(10_000, 0) }, preparation());
            let looks = prepare(&mut preparation, &homes);
            let attempts = if answer == Some(AheadAnswer::NoRoom) { 1 } else { MAX_ATTEMPTS };
            assert!(looks <= attempts + 1 && !preparation.has_room, "{answer:?}");
            assert_eq!(
                (homes.count(), preparation.finish(&homes, Instant::now, || {})),
                (attempts as usize, Ok(false)),
                "{answer:?}"
            );
        }
    }

    #[test]
    fn a_new_home_that_is_silent_ends_the_last_round() {
        let (homes, mut preparation) = (Homes { is_silent: true, ..Homes::new(10_000, 0) }, preparation());
        let now = Cell::new(Instant::now());
        let finished = preparation.finish(&homes, || now.get(), || now.set(now.get() + Duration::from_millis(100)));
        assert_eq!((finished, homes.count()), (Ok(false), 1));
    }

    #[test]
    fn a_move_without_long_queues_is_prepared_at_once() {
        let (homes, mut preparation) = (Homes::new(0, 0), preparation());
        assert_eq!((prepare(&mut preparation, &homes), homes.count()), (1, 0));
    }
}
