//! Moves are prepared: the old home sends the ends of long queues to the store of the new home over the link, while it
//! serves their clients. Each round sends the messages that came during the round before, until these are few. When the move has
//! begun and the clients are held, a last round sends the rest, and the images name all of it. So the time in which no
//! node serves the clients does not depend on these queues.
//!
//! Other queues are in the images, within their limit: short ones, queues that get more than can be sent, and all of them if
//! the new home has no store or no room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Sender, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_administration::AHEAD;
use tidegate_cluster::Move;
use tidegate_engine::{LongQueue, PartitionId, Partitions, SentAhead, ShardId};
use tidegate_node::{AskError, NoAnswer, NodeHandle, NodeName, PeerAnswer, QueuePart};

use super::Event;
use super::asking::ANSWER_PAUSE;
use crate::driver::error::PartitionMoveError;
use crate::driver::pause;
use crate::driver::sets::set_of;

/// Bytes of a queue that are read and sent at once.
const PIECE_BYTES: usize = 1024 * 1024;
/// A queue is sent ahead if its stored end has at least these bytes.
const MIN_QUEUE_BYTES: u64 = 1024 * 1024;
/// Queues of one move that are sent ahead: the longest ones. Each of them may need a question while no node serves the
/// clients.
const MAX_QUEUES: usize = 64;
/// The time of a question as the bytes that are sent meanwhile.
const QUESTION_COST: u64 = 64 * 1024;
/// A move is prepared when no more bytes than these are to be sent, questions counted.
const ENOUGH_BYTES: u64 = 1024 * 1024;
/// Bytes that the last round may send, questions counted. Queues that get more meanwhile are in their images.
const LAST_ROUND_BYTES: u64 = 32 * 1024 * 1024;
/// Rounds after which a move begins, however much has come.
const MAX_ROUNDS: u32 = 8;
/// How long a move may be prepared.
const LONGEST_PREPARATION: Duration = Duration::from_secs(300);
/// How long the new home may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a piece that was not taken is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How long pieces are sent again while none is taken. The clients are served meanwhile.
const RETRY_TIME: Duration = Duration::from_secs(30);
/// How long the last round may take. No node serves the clients meanwhile, and no table is followed.
const LAST_ROUND_TIMEOUT: Duration = Duration::from_secs(2);

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

    /// Asks the new home.
    fn ask(&self, node: &str, question: Vec<u8>) -> Result<PeerAnswer, AskError>;
}

impl AheadSteps for NodeHandle {
    fn long_queues(&self, partitions: Partitions) -> Result<Vec<(ShardId, LongQueue)>, NoAnswer> {
        self.moves().long_queues(partitions)
    }

    fn read(&self, shard: ShardId, keys: (Vec<u8>, Vec<u8>)) -> Result<Option<QueuePart>, NoAnswer> {
        self.moves().read_queue(shard, keys, PIECE_BYTES)
    }

    fn ask(&self, node: &str, question: Vec<u8>) -> Result<PeerAnswer, AskError> {
        self.ask_node(&NodeName::new(node).map_err(|_| AskError::NotLinked)?, question)
    }
}

/// How far the queues of a move have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// An answer is awaited, or a pause.
    Waiting,
    /// A round has ended.
    RoundOver,
    /// The new home has no room: the images bring the queues.
    NoRoom,
}

/// A piece that was sent.
struct PieceUnderWay {
    answer: PeerAnswer,
    since: Instant,
    partition: PartitionId,
    session: u64,
    /// The number up to which the queue is at the new home with it.
    reached: u64,
}

/// The queues of a move, and what of them is at the new home.
pub(super) struct Preparation {
    transfer: u64,
    partitions: Partitions,
    to: String,
    began: Instant,
    sent: BTreeMap<u64, SentAhead>,
    /// Queues that are not sent: their images bring them.
    left_out: BTreeSet<u64>,
    /// Queues that images may name by now.
    noted: BTreeSet<u64>,
    /// The queues of the present round.
    round: Option<VecDeque<(ShardId, LongQueue)>>,
    /// Bytes of this round and of the one before, questions counted, as far as they are known before.
    cost: u64,
    cost_before: u64,
    rounds: u32,
    piece: Option<PieceUnderWay>,
    /// Since when no piece was taken.
    failing_since: Option<Instant>,
    pause_until: Option<Instant>,
    /// The move can begin, as far as this node is concerned.
    is_over: bool,
    has_room: bool,
    /// The clients are held.
    is_finishing: bool,
}

impl Preparation {
    fn new(transfer: u64, partitions: Partitions, to: String, now: Instant) -> Self {
        Self {
            transfer,
            partitions,
            to,
            began: now,
            sent: BTreeMap::new(),
            left_out: BTreeSet::new(),
            noted: BTreeSet::new(),
            round: None,
            cost: 0,
            cost_before: u64::MAX,
            rounds: 0,
            piece: None,
            failing_since: None,
            pause_until: None,
            is_over: false,
            has_room: true,
            is_finishing: false,
        }
    }

    fn sent_of(&self, queue: &LongQueue) -> u64 {
        self.sent.get(&queue.session).map_or(0, |sent| sent.last)
    }

    /// Bytes that are to be sent of a queue, and of a question if there are any.
    fn cost_of(&self, queue: &LongQueue) -> u64 {
        let behind = queue.last.saturating_sub(self.sent_of(queue).max(queue.first.saturating_sub(1)));
        let all = queue.last.saturating_sub(queue.first).saturating_add(1);
        let bytes = u128::from(queue.bytes) * u128::from(behind) / u128::from(all.max(1));
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if behind == 0 { 0 } else { bytes.saturating_add(QUESTION_COST) }
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
            let Some(round) = &self.round else {
                self.begin_round(steps)?;
                continue;
            };
            let next = round.front().cloned();
            let Some((shard, queue)) = next else {
                (self.round, self.rounds) = (None, self.rounds + 1);
                return Ok(Progress::RoundOver);
            };
            let is_done = self.sent_of(&queue) >= queue.last || self.left_out.contains(&queue.session);
            if !is_done {
                self.send_piece(steps, now, shard, &queue)?;
            } else if let Some(round) = &mut self.round {
                round.pop_front();
            }
        }
    }

    fn begin_round(&mut self, steps: &impl AheadSteps) -> Result<(), NoAnswer> {
        let queues = self.chosen(steps.long_queues(self.partitions)?);
        self.cost_before = if self.rounds == 0 { u64::MAX } else { self.cost };
        self.cost = queues.iter().fold(0, |cost: u64, (_, queue)| cost.saturating_add(self.cost_of(queue)));
        self.round = Some(queues.into());
        Ok(())
    }

    /// The queues to send: queues that the new home has a part of, and the longest others. The last round begins no queue.
    fn chosen(&self, mut queues: Vec<(ShardId, LongQueue)>) -> Vec<(ShardId, LongQueue)> {
        let is_begun = |queue: &LongQueue| self.sent.contains_key(&queue.session);
        let may_begin = |queue: &LongQueue| !self.is_finishing && queue.bytes >= MIN_QUEUE_BYTES;
        queues.retain(|(_, queue)| !self.left_out.contains(&queue.session) && (is_begun(queue) || may_begin(queue)));
        queues.sort_by_key(|(_, queue)| (!is_begun(queue), Reverse(queue.bytes)));
        let begun = queues.iter().filter(|(_, queue)| is_begun(queue)).count();
        queues.truncate(MAX_QUEUES.max(begun));
        queues
    }

    /// Takes the answer to the piece at hand. Returns whether none is awaited.
    fn take_answer(&mut self, now: Instant) -> bool {
        let Some(piece) = &self.piece else { return true };
        let answer = match piece.answer.try_recv() {
            Err(TryRecvError::Empty) if now.saturating_duration_since(piece.since) < ANSWER_TIMEOUT => return false,
            Err(_) => Err("it does not answer".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(bytes)) => Ok(bytes.first().copied()),
        };
        let PieceUnderWay { partition, session, reached, .. } = *piece;
        self.piece = None;
        match answer {
            Ok(Some(answer)) if answer == AheadAnswer::Stored as u8 => {
                let transfer = self.transfer;
                self.sent.insert(session, SentAhead { transfer, partition, session, last: reached });
                self.failing_since = None;
            }
            Ok(Some(answer)) if answer == AheadAnswer::NoRoom as u8 => {
                tracing::warn!(to = self.to, "the new home has no room for long queues; the images bring them");
                self.has_room = false;
                self.sent.clear();
            }
            Ok(_) => self.fail(now, session, "it takes none at the moment"),
            Err(why) => self.fail(now, session, &why),
        }
        self.pause_until.is_none_or(|until| until <= now)
    }

    /// A piece of a queue was not taken, or not read. It is sent again for a while.
    fn fail(&mut self, now: Instant, session: u64, why: &str) {
        let since = *self.failing_since.get_or_insert(now);
        self.pause_until = Some(now + RETRY_PAUSE);
        if now.saturating_duration_since(since) >= RETRY_TIME {
            self.leave_out(session, why);
        }
    }

    /// The image brings a queue.
    fn leave_out(&mut self, session: u64, why: &str) {
        tracing::warn!(to = self.to, why, "a long queue is not sent before its session moves; its image brings it");
        self.sent.remove(&session);
        self.left_out.insert(session);
    }

    fn send_piece(
        &mut self,
        steps: &impl AheadSteps,
        now: Instant,
        shard: ShardId,
        queue: &LongQueue,
    ) -> Result<(), NoAnswer> {
        let (partition, session) = (queue.partition, queue.session);
        let part = match queue.keys_behind(self.sent_of(queue)) {
            Some(keys) => steps.read(shard, keys)?,
            None => None,
        };
        let piece = match part.map(|part| queue.piece(self.transfer, &part.pairs, part.ends)) {
            Some(Err(error)) => {
                self.leave_out(session, &error.to_string());
                return Ok(());
            }
            Some(Ok(piece)) => Some(piece),
            None => None,
        };
        let Some((piece, reached)) = piece.filter(|(_, reached)| *reached > self.sent_of(queue)) else {
            self.fail(now, session, "it cannot be read at the moment");
            return Ok(());
        };
        let question = [&[AHEAD][..], &self.transfer.to_le_bytes(), &piece].concat();
        match steps.ask(&self.to, question) {
            Ok(answer) => self.piece = Some(PieceUnderWay { answer, since: now, partition, session, reached }),
            // One message is too long, and stays so.
            Err(error @ AskError::TooLong) => self.leave_out(session, &error.to_string()),
            Err(error) => self.fail(now, session, &error.to_string()),
        }
        Ok(())
    }

    /// Takes the next steps before the move begins, until a time if there is one. Returns whether it can begin by now.
    fn prepare(&mut self, steps: &impl AheadSteps, now: Instant, until: Option<Instant>) -> Result<bool, NoAnswer> {
        let progress = self.advance(steps, now);
        let latest = self.began + LONGEST_PREPARATION;
        let is_late = now >= until.map_or(latest, |until| until.min(latest));
        let is_enough = self.cost <= ENOUGH_BYTES || self.cost >= self.cost_before || self.rounds >= MAX_ROUNDS;
        self.is_over = match &progress {
            Ok(Progress::Waiting) => is_late,
            Ok(Progress::RoundOver) => is_late || is_enough,
            Ok(Progress::NoRoom) | Err(_) => true,
        };
        if progress? != Progress::NoRoom && self.is_over {
            self.leave_out_those_behind(steps)?;
        }
        Ok(self.is_over)
    }

    /// Leaves queues out that the last round could not send in time.
    fn leave_out_those_behind(&mut self, steps: &impl AheadSteps) -> Result<(), NoAnswer> {
        if self.sent.is_empty() {
            return Ok(());
        }
        let queues = self.chosen(steps.long_queues(self.partitions)?);
        let begun = queues.iter().filter(|(_, queue)| self.sent.contains_key(&queue.session));
        let mut costs: Vec<(u64, u64)> = begun.map(|(_, queue)| (self.cost_of(queue), queue.session)).collect();
        costs.sort_unstable();
        let mut sum = 0_u64;
        for (cost, session) in costs {
            sum = sum.saturating_add(cost);
            if sum > LAST_ROUND_BYTES {
                self.leave_out(session, "too much of it is not sent");
            }
        }
        Ok(())
    }

    /// Sends all that is here of the queues that the new home has a part of. Returns whether the images can name some.
    fn finish(
        &mut self,
        steps: &impl AheadSteps,
        clock: impl Fn() -> Instant,
        wait: impl Fn(),
    ) -> Result<bool, PartitionMoveError> {
        // The round that has begun may not have the last messages. The new home passes over a piece that comes twice.
        (self.round, self.piece, self.pause_until) = (None, None, None);
        self.is_finishing = true;
        let until = clock() + LAST_ROUND_TIMEOUT;
        while !self.sent.is_empty() {
            let now = clock();
            match self.advance(steps, now)? {
                Progress::Waiting if now < until => wait(),
                Progress::Waiting => return Err(PartitionMoveError::NotSent),
                Progress::RoundOver | Progress::NoRoom => break,
            }
        }
        if self.noted.iter().any(|session| !self.sent.contains_key(session)) {
            // The next images would name messages that the new home does not have.
            return Err(PartitionMoveError::NotSent);
        }
        self.noted.extend(self.sent.keys());
        Ok(!self.sent.is_empty())
    }
}

/// The moves to here and their old homes, prepared ones included: pieces of their queues are taken.
#[derive(Default)]
pub(in crate::driver) struct MovesToHere(Mutex<BTreeMap<u64, String>>);

impl MovesToHere {
    /// Pieces of these moves alone are taken from now on, and the queues that came by others are dropped.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub(super) fn note(&self, node: &NodeHandle, moves: &BTreeMap<u64, String>) -> Result<(), NoAnswer> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == *moves {
            return Ok(());
        }
        moves.clone_into(&mut known);
        node.moves().keep_ahead(moves.keys().copied().collect())
    }

    /// Takes a piece of a queue whose session moves here later, from the old home of the move.
    pub(in crate::driver) fn take(&self, node: &NodeHandle, from: &str, question: &[u8]) -> Vec<u8> {
        // The lock is held, so that the queue is not dropped before the piece comes to it.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_from = |transfer: &u64| known.get(transfer).is_some_and(|home| home == from);
        let Some((transfer, piece)) = read_question(question).filter(|(transfer, _)| is_from(transfer)) else {
            return vec![AheadAnswer::Later as u8];
        };
        let answer = match node.moves().take_ahead(piece.to_vec()) {
            Ok(true) => AheadAnswer::Stored,
            Ok(false) => {
                // The images bring all queues of the move: its part of them takes room for nothing.
                let others = known.keys().copied().filter(|id| *id != transfer).collect();
                if let Err(error) = node.moves().keep_ahead(others) {
                    tracing::warn!(%error, "queues that came before their sessions stay in the store until the move ends");
                }
                AheadAnswer::NoRoom
            }
            Err(error) => {
                tracing::warn!(%error, "a part of a queue that moves here was not taken; it is sent again");
                AheadAnswer::Later
            }
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
            let new = || Preparation::new(it.id, set_of(&it.partitions), it.to.clone(), Instant::now());
            self.0.entry(it.id).or_insert_with(new);
        }
    }

    /// Takes the next steps of the moves that are prepared. A node that stops prepares them `until` a time.
    pub(super) fn advance(
        &mut self,
        node: &NodeHandle,
        until: Option<Instant>,
        events: &Sender<Event>,
    ) -> Result<(), NoAnswer> {
        let (now, mut failure) = (Instant::now(), None);
        for preparation in self.0.values_mut().filter(|preparation| !preparation.is_over) {
            let prepared = preparation.prepare(node, now, until);
            if preparation.is_over {
                let Preparation { to, rounds, has_room, sent, .. } = &*preparation;
                tracing::debug!(to, rounds, has_room, queues = sent.len(), "a move is prepared");
                if !sent.is_empty() {
                    tracing::info!(to, queues = sent.len(), "long queues were sent ahead of their sessions");
                }
                let _ = events.send(Event::Prepared(preparation.transfer));
            }
            failure = prepared.err().or(failure);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Sends the rest of the queues of a move whose clients are held, so that the images name them.
    ///
    /// # Errors
    /// When that takes too long: the move is to be prepared again, while the clients are served.
    pub(super) fn finish(&mut self, node: &NodeHandle, id: u64) -> Result<(), PartitionMoveError> {
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

    use tidegate_engine::TenantId;

    use super::*;

    /// Messages of a piece.
    const PER_PIECE: u64 = 1_000;
    /// Bytes of a message.
    const BYTES: u64 = 2_000;

    /// The way of an answer to its question.
    type Answers = std::sync::mpsc::Sender<Result<Vec<u8>, AskError>>;

    /// An old home with one long queue, and a new home that answers at once.
    struct Homes {
        last: Cell<u64>,
        /// Messages that come with each piece.
        rate: u64,
        answer: Result<AheadAnswer, AskError>,
        is_silent: bool,
        is_too_long: bool,
        /// Queues of the same length.
        queues: u64,
        /// The ends of questions without an answer.
        open: RefCell<Vec<Answers>>,
        pieces: RefCell<Vec<u64>>,
    }

    impl Homes {
        fn new(backlog: u64, rate: u64) -> Self {
            Self {
                last: Cell::new(backlog),
                rate,
                answer: Ok(AheadAnswer::Stored),
                is_silent: false,
                is_too_long: false,
                queues: 1,
                open: RefCell::default(),
                pieces: RefCell::default(),
            }
        }

        fn queue(&self, session: u64) -> LongQueue {
            let last = self.last.get();
            LongQueue {
                partition: PartitionId(1),
                tenant: TenantId::DEFAULT,
                client_id: "reader".into(),
                session,
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
            Ok((0..self.queues).map(|number| (ShardId(0), self.queue(64 + number))).collect())
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

        fn ask(&self, _: &str, question: Vec<u8>) -> Result<PeerAnswer, AskError> {
            assert_eq!(read_question(&question).map(|(transfer, _)| transfer), Some(7));
            self.last.set(self.last.get() + self.rate);
            let (sender, answer) = channel();
            if self.is_silent {
                self.open.borrow_mut().push(sender);
            } else {
                sender.send(self.answer.map(|answer| vec![answer as u8])).unwrap();
            }
            if self.is_too_long { Err(AskError::TooLong) } else { Ok(answer) }
        }
    }

    fn preparation() -> Preparation {
        Preparation::new(7, std::iter::once(PartitionId(1)).collect(), "b".into(), Instant::now())
    }

    /// Prepares the move; returns the time that it took.
    fn prepare_until(preparation: &mut Preparation, homes: &Homes, until: Option<Instant>) -> Duration {
        let mut now = preparation.began;
        while !preparation.prepare(homes, now, until).unwrap() {
            now += RETRY_PAUSE;
            assert!(now < preparation.began + 2 * LONGEST_PREPARATION, "it is never prepared");
        }
        now - preparation.began
    }

    fn prepare(preparation: &mut Preparation, homes: &Homes) -> Duration {
        prepare_until(preparation, homes, None)
    }

    /// The last round, of a new home that answers at once.
    fn finish(preparation: &mut Preparation, homes: &Homes) -> Option<bool> {
        preparation.finish(homes, Instant::now, || panic!("nothing is awaited")).ok()
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
            assert_eq!(finish(&mut preparation, &homes), Some(true));
            assert!(preparation.sent[&64].last >= backlog + 500);
            rounds.push(homes.count() - before);
        }
        assert!(rounds[0] <= 7 && rounds[1] <= 7, "{rounds:?} pieces while no node serves the client");
    }

    #[test]
    fn a_move_begins_although_more_comes_than_can_be_sent() {
        let (homes, mut preparation) = (Homes::new(10_000, PER_PIECE), preparation());
        prepare(&mut preparation, &homes);
        assert_eq!((preparation.rounds, finish(&mut preparation, &homes)), (2, Some(true)));
    }

    #[test]
    fn a_queue_that_grows_too_fast_is_in_its_image() {
        let (homes, mut preparation) = (Homes::new(100_000, PER_PIECE), preparation());
        prepare(&mut preparation, &homes);
        assert_eq!((preparation.left_out.len(), finish(&mut preparation, &homes)), (1, Some(false)));
    }

    #[test]
    fn only_the_longest_queues_are_sent_ahead() {
        let (homes, mut preparation) = (Homes { queues: 10_000, ..Homes::new(1_000, 0) }, preparation());
        prepare(&mut preparation, &homes);
        assert_eq!((homes.count(), finish(&mut preparation, &homes)), (MAX_QUEUES, Some(true)));
        let (homes, mut preparation) = (Homes { queues: 10_000, ..Homes::new(500, 0) }, self::preparation());
        prepare(&mut preparation, &homes);
        assert_eq!((homes.count(), finish(&mut preparation, &homes)), (0, Some(false)), "short queues");
    }

    #[test]
    fn a_new_home_without_room_gets_the_queues_in_images() {
        let (homes, mut preparation) =
            (Homes { answer: Ok(AheadAnswer::NoRoom), ..Homes::new(10_000, 0) }, preparation());
        assert_eq!((prepare(&mut preparation, &homes), homes.count()), (Duration::ZERO, 1));
        assert_eq!((finish(&mut preparation, &homes), homes.count()), (Some(false), 1));
    }

    #[test]
    fn a_piece_that_is_not_taken_is_sent_again_for_a_while() {
        for answer in [Ok(AheadAnswer::Later), Err(AskError::NotLinked), Err(AskError::Busy)] {
            let shown = format!("{answer:?}");
            let (homes, mut preparation) = (Homes { answer, ..Homes::new(10_000, 0) }, preparation());
            let took = prepare(&mut preparation, &homes);
            assert!(took >= RETRY_TIME && took <= RETRY_TIME + 2 * RETRY_PAUSE, "{shown}: {took:?}");
            assert_eq!((preparation.left_out.len(), finish(&mut preparation, &homes)), (1, Some(false)), "{shown}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_leaves_its_queue_to_the_image() {
        let (homes, mut preparation) = (Homes { is_too_long: true, ..Homes::new(10_000, 0) }, preparation());
        assert_eq!((prepare(&mut preparation, &homes), homes.count()), (RETRY_PAUSE, 1));
        assert!(preparation.has_room && preparation.left_out.contains(&64));
    }

    #[test]
    fn a_new_home_that_is_silent_ends_the_preparation_in_time() {
        let (homes, mut preparation) = (Homes { is_silent: true, ..Homes::new(10_000, 0) }, preparation());
        let until = preparation.began + Duration::from_secs(1);
        assert_eq!(prepare_until(&mut preparation, &homes, Some(until)), Duration::from_secs(1));
        assert_eq!(finish(&mut preparation, &homes), Some(false), "nothing of it is there");
    }

    #[test]
    fn a_last_round_that_takes_too_long_refuses_the_move() {
        let (mut homes, mut preparation) = (Homes::new(10_000, 0), preparation());
        prepare(&mut preparation, &homes);
        (homes.is_silent, homes.last) = (true, Cell::new(10_001));
        let now = Cell::new(Instant::now());
        let began = now.get();
        let finished = preparation.finish(&homes, || now.get(), || now.set(now.get() + Duration::from_millis(100)));
        assert!(matches!(finished, Err(PartitionMoveError::NotSent)));
        assert_eq!(now.get() - began, LAST_ROUND_TIMEOUT);
    }

    #[test]
    fn images_do_not_name_a_queue_that_came_no_more() {
        let (mut homes, mut preparation) = (Homes::new(10_000, 0), preparation());
        prepare(&mut preparation, &homes);
        assert_eq!(finish(&mut preparation, &homes), Some(true));
        (homes.answer, homes.last) = (Ok(AheadAnswer::NoRoom), Cell::new(10_001));
        assert_eq!(finish(&mut preparation, &homes), None);
    }

    #[test]
    fn a_move_without_long_queues_is_prepared_at_once() {
        let (homes, mut preparation) = (Homes::new(0, 0), preparation());
        assert_eq!((prepare(&mut preparation, &homes), homes.count()), (Duration::ZERO, 0));
    }
}
