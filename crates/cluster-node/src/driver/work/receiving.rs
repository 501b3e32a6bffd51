//! Partitions that have moved here, and for which the old home forwards messages of its brokers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_engine::{Behind, Partitions};
use tidegate_node::{MoveError, NodeHandle};

use super::inheriting::{Inheriting, MovedHere, ORDER_LIMIT};
use super::piece_steps::{PieceSteps, deliver_by, end_transfers};
use super::pieces::{Arrival, Assembly, ENDS_ALL, Part, PartAnswer, answer_part};

/// How long messages are awaited for partitions whose old home is gone: longer than others work off its connections.
const GONE_LIMIT: Duration = Duration::from_secs(60);
/// How long a piece waits for the members of shared groups. Afterwards it is delivered to the members that are known.
const MEMBERS_LIMIT: Duration = Duration::from_secs(10);
/// Numbers of transfers for partitions that join a stream later have these bits, which no other transfer has.
const FURTHER_TRANSFERS: u64 = 5 << 61;

/// The receiving side of moves, shared by the thread of tables and the thread that answers questions.
pub(in crate::driver) type SharedReceiving = Arc<Receiving>;

/// Moves whose old homes forward messages. This lock is not held while a piece is stored.
#[derive(Default)]
pub(in crate::driver) struct Receiving(Mutex<Moves>);

#[derive(Default)]
struct Moves {
    /// By their ids.
    open: BTreeMap<u64, Coming>,
    /// The partitions for which the last pieces had not come to the last life of this process.
    of_last_life: Partitions,
    /// Transfers that were begun for partitions that joined a stream later.
    further: u64,
}

struct Coming {
    partitions: Partitions,
    /// The transfers that this stream has begun, with their partitions. The others have come by other moves and get the
    /// messages by these, as long as these are open.
    transfers: BTreeMap<u64, Partitions>,
    from: String,
    /// The life of the old home.
    life: u64,
    since: Instant,
    /// Since when no member has the life of the old home that forwards.
    gone_since: Option<Instant>,
    /// Since when its pieces wait for the members of shared groups.
    lacking_since: Option<Instant>,
    /// Whether the end of that wait has still to be reported.
    warns_of_members: bool,
    /// Whether messages of the own brokers wait no longer.
    is_late: bool,
    /// Whether the last piece has come. It may come once more if the answer was lost.
    is_over: bool,
    /// Locked while a part is taken, so that pieces are delivered in their order.
    assembly: Arc<Mutex<Assembly>>,
}

impl Coming {
    fn new(partitions: Partitions, from: &str, life: u64, is_late: bool) -> Self {
        Self {
            partitions,
            transfers: BTreeMap::new(),
            from: from.to_owned(),
            life,
            since: Instant::now(),
            gone_since: None,
            lacking_since: None,
            warns_of_members: true,
            is_late,
            is_over: false,
            assembly: Arc::new(Mutex::new(Assembly::of_life(life))),
        }
    }

    fn behind(&self) -> Behind {
        if self.is_late { Behind::LatePieces } else { Behind::Pieces }
    }

    /// The open transfers, their partitions, and the messages behind their pieces.
    fn open_transfers(&self) -> impl Iterator<Item = (u64, Partitions, Behind)> {
        self.transfers.iter().map(|(transfer, partitions)| (*transfer, *partitions, self.behind()))
    }
}

impl Moves {
    /// Ends the move. Returns its transfers, for which nothing is kept back any more.
    fn remove(&mut self, id: u64) -> Vec<u64> {
        self.open.remove(&id).map(|coming| coming.transfers.into_keys().collect()).unwrap_or_default()
    }
}

fn overlap(some: Partitions, others: Partitions) -> bool {
    some.without(others) != some
}

impl Receiving {
    fn moves(&self) -> MutexGuard<'_, Moves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last pieces for these partitions had not come to the last life of this process.
    pub(super) fn resume(&self, partitions: Partitions) {
        self.moves().of_last_life = partitions;
    }

    /// These partitions have arrived from this life of a node.
    pub(super) fn begin(&self, id: u64, partitions: Partitions, from: &str, life: u64) {
        let mut moves = self.moves();
        moves.open.retain(|_, coming| !coming.is_over || !overlap(coming.partitions, partitions));
        let mut coming = Coming::new(partitions, from, life, false);
        coming.transfers.insert(id, partitions);
        moves.open.insert(id, coming);
    }

    /// The partitions for which messages are still to come.
    pub(super) fn open_partitions(&self) -> Vec<u16> {
        let moves = self.moves();
        let open = moves.open.values().filter(|coming| !coming.is_over);
        let open = open.fold(moves.of_last_life, |all, coming| all.with(coming.partitions));
        open.iter().map(|partition| partition.0).collect()
    }

    /// Whether messages of own brokers wait for messages of an old home of some of these partitions.
    pub(super) fn keeps_back(&self, partitions: Partitions) -> bool {
        let keeps = |coming: &Coming| !coming.is_late && !coming.is_over && overlap(coming.partitions, partitions);
        self.moves().open.values().any(keeps)
    }

    /// Ends the moves of these partitions, and delivers the messages kept back for them. The other partitions of a move
    /// are not affected.
    pub(super) fn end(&self, steps: &impl PieceSteps, partitions: Partitions) -> Result<(), MoveError> {
        let mut moves = self.moves();
        moves.of_last_life = moves.of_last_life.without(partitions);
        let mut ended = Vec::new();
        for coming in moves.open.values_mut() {
            coming.partitions = coming.partitions.without(partitions);
            coming.transfers.retain(|transfer, brought| {
                *brought = brought.without(partitions);
                if brought.is_empty() {
                    ended.push(*transfer);
                }
                !brought.is_empty()
            });
        }
        moves.open.retain(|_, coming| !coming.partitions.is_empty());
        drop(moves);
        end_transfers(steps, ended)
    }

    /// Messages that were kept back too long are delivered: a broker of the old home may be away. Moves end whose old
    /// home is gone while no other member forwards its messages. `lives` are the members.
    pub(super) fn end_late(
        &self,
        steps: &impl PieceSteps,
        now: Instant,
        lives: &BTreeMap<String, u64>,
    ) -> Result<(), MoveError> {
        let mut moves = self.moves();
        let (mut over, mut late) = (Vec::new(), Vec::new());
        for (id, coming) in &mut moves.open {
            if lives.get(&coming.from) == Some(&coming.life) {
                coming.gone_since = None;
            } else {
                let gone = now.saturating_duration_since(*coming.gone_since.get_or_insert(now));
                if gone >= GONE_LIMIT || coming.is_over {
                    over.push(*id);
                    continue;
                }
            }
            if now.saturating_duration_since(coming.since) >= ORDER_LIMIT && !coming.is_late && !coming.is_over {
                coming.is_late = true;
                late.extend(coming.transfers.keys().copied());
            }
        }
        let ended = over.into_iter().flat_map(|id| moves.remove(id)).collect();
        drop(moves);
        for transfer in late {
            steps.deliver_kept_back(transfer, Behind::LatePieces)?;
        }
        end_transfers(steps, ended)
    }

    /// Whether [`Receiving::end_late`] has to look again.
    pub(super) fn is_waiting(&self) -> bool {
        let waits = |coming: &Coming| !coming.is_over && (!coming.is_late || coming.gone_since.is_some());
        self.moves().open.values().any(waits)
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
        answer_part(question, |part| self.take_part(node, inheriting, from, part, (served, Instant::now())))
    }

    fn take_part(
        &self,
        steps: &impl PieceSteps,
        inheriting: &Inheriting,
        from: &str,
        part: &Part<'_>,
        (served, now): (Partitions, Instant),
    ) -> PartAnswer {
        if !part.partitions.without(served).is_empty() {
            // They are on their way here, or away.
            return PartAnswer::NotHere;
        }
        let id = part.stream[1];
        let Some(assembly) = self.assembly_of(from, part) else { return PartAnswer::Again };
        // A group that is not known here would not get its messages.
        match steps.knows_groups(part.partitions) {
            Ok(knows) if self.awaits_members(id, knows, now) => return PartAnswer::Again,
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, from, "cannot import messages for partitions that moved here");
                return PartAnswer::Again;
            }
        }
        let mut assembly = assembly.lock().unwrap_or_else(PoisonError::into_inner);
        match assembly.take(part) {
            Arrival::Unfit => return PartAnswer::Again,
            Arrival::Partial | Arrival::Repeated => {}
            Arrival::Whole(piece, missing) => match self.deliver(steps, inheriting, id, missing, &piece) {
                Ok(true) => assembly.note_stored(part),
                Ok(false) => return PartAnswer::Again,
                Err(error) => {
                    tracing::error!(%error, from, "cannot import messages for partitions that moved here");
                    return PartAnswer::Again;
                }
            },
        }
        let knows = steps.brokers_know();
        if part.ends & ENDS_ALL != 0
            && knows
            && let Err(error) = self.note_over(steps, id, part.partitions)
        {
            tracing::error!(%error, from, "messages that were kept back are not delivered");
            return PartAnswer::Again;
        }
        if knows { PartAnswer::BrokersKnow } else { PartAnswer::Taken }
    }

    /// Whether the pieces of a move wait for the members of shared groups. `knows` says whether all are known.
    fn awaits_members(&self, id: u64, knows: bool, now: Instant) -> bool {
        let mut moves = self.moves();
        let Some(coming) = moves.open.get_mut(&id) else { return !knows };
        if knows {
            coming.lacking_since = None;
            return false;
        }
        let since = *coming.lacking_since.get_or_insert(now);
        let waits = now.saturating_duration_since(since) < MEMBERS_LIMIT;
        if !waits && coming.warns_of_members {
            coming.warns_of_members = false;
            tracing::warn!(
                from = coming.from,
                seconds = MEMBERS_LIMIT.as_secs(),
                "messages for partitions that moved here no longer wait for members of shared groups: a node is out of reach"
            );
        }
        waits
    }

    /// The parts that have come of the part's stream; `None` if its move is of another old home. A move that is not
    /// known came in an earlier life of this process, or to a new home that has died.
    fn assembly_of(&self, from: &str, part: &Part<'_>) -> Option<Arc<Mutex<Assembly>>> {
        let ([life, id], mut moves) = (part.stream, self.moves());
        let begin = || Coming::new(part.partitions, from, life, true);
        let coming = Some(moves.open.entry(id).or_insert_with(begin)).filter(|coming| coming.from == from)?;
        (coming.partitions, coming.life) = (coming.partitions.with(part.partitions), coming.life.max(life));
        Some(Arc::clone(&coming.assembly))
    }

    /// Delivers a piece to these partitions, and returns when it is in the store. Says whether all have it: the move
    /// may have ended meanwhile.
    fn deliver(
        &self,
        steps: &impl PieceSteps,
        inheriting: &Inheriting,
        id: u64,
        partitions: Partitions,
        piece: &[u8],
    ) -> Result<bool, MoveError> {
        let left = deliver_by(steps, self.open_transfers(id), partitions, piece)?;
        let left = inheriting.deliver(steps, left, piece)?;
        if left.is_empty() {
            return Ok(true);
        }
        // A transfer of their own: it knows the messages that had come here before these partitions.
        let Some(transfer) = self.next_transfer(id) else { return Ok(false) };
        steps.resume_awaiting(transfer, left)?;
        if !self.note_transfer(id, transfer, left) {
            steps.deliver_kept_back(transfer, Behind::Nothing)?;
            return Ok(false);
        }
        Ok(steps.take_piece(transfer, left, piece, Behind::LatePieces)? == left)
    }

    /// The open transfers of this move, and then all others.
    fn open_transfers(&self, id: u64) -> Vec<(u64, Partitions, Behind)> {
        let moves = self.moves();
        let own = moves.open.get(&id).into_iter();
        let others = moves.open.iter().filter(|(other, coming)| **other != id && !coming.is_over);
        own.chain(others.map(|(_, coming)| coming)).flat_map(Coming::open_transfers).collect()
    }

    /// The number of the next transfer of this move; `None` if the move has ended.
    fn next_transfer(&self, id: u64) -> Option<u64> {
        let mut moves = self.moves();
        let coming = moves.open.get(&id)?;
        if !coming.transfers.contains_key(&id) {
            return Some(id);
        }
        moves.further += 1;
        Some(FURTHER_TRANSFERS | moves.further)
    }

    /// Says whether the move is still there.
    fn note_transfer(&self, id: u64, transfer: u64, partitions: Partitions) -> bool {
        let mut moves = self.moves();
        let Some(coming) = moves.open.get_mut(&id) else { return false };
        coming.transfers.values_mut().for_each(|brought| *brought = brought.without(partitions));
        coming.transfers.insert(transfer, partitions);
        coming.is_over = false;
        true
    }

    /// The last piece has come for these partitions of a move, and all brokers hold all filters.
    fn note_over(&self, steps: &impl PieceSteps, id: u64, partitions: Partitions) -> Result<(), MoveError> {
        let ended = self.moves().open.get(&id).map(|coming| coming.transfers.keys().copied().collect());
        end_transfers(steps, ended.unwrap_or_default())?;
        let mut moves = self.moves();
        moves.of_last_life = moves.of_last_life.without(partitions);
        if let Some(coming) = moves.open.get_mut(&id) {
            coming.is_over = true;
            coming.transfers.clear();
        }
        Ok(())
    }

    /// The transfers that brought partitions from a node that is dead: the partitions of each, and the messages behind
    /// its pieces.
    pub(in crate::driver) fn of_dead(&self, node: &str) -> Vec<MovedHere> {
        let moves = self.moves();
        let of_node = moves.open.values().filter(|coming| coming.from == node && !coming.is_over);
        of_node.flat_map(Coming::open_transfers).collect()
    }
}

impl super::Worker {
    /// Looks whether messages are kept back too long.
    pub(super) fn end_late_receiving(&self) {
        if let Err(error) = self.receiving.end_late(&self.node, Instant::now(), &self.members.lives) {
            self.complain(&error, "messages that were kept back for partitions that have moved here are not delivered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece_steps::tests::{TestSteps, partitions};
    use super::super::pieces::ENDS_PIECE;
    use super::*;
    use crate::driver::restore::Inherited;

    const MOVE: u64 = 9;

    fn part(of: Partitions, number: u64, ends: u8, bytes: &[u8]) -> Part<'_> {
        let (kind, stream) = (1, [5, MOVE]);
        Part { kind, stream, of: "", broker: "", partitions: of, piece: number, index: 0, ends, bytes }
    }

    /// Takes parts of the node `a`.
    fn take(steps: &TestSteps<'_>, receiving: &Receiving, part: &Part<'_>) -> PartAnswer {
        take_at(steps, receiving, part, Instant::now())
    }

    fn take_at(steps: &TestSteps<'_>, receiving: &Receiving, part: &Part<'_>, now: Instant) -> PartAnswer {
        receiving.take_part(steps, &Inheriting::default(), "a", part, (part.partitions, now))
    }

    #[test]
    fn further_partitions_of_a_stream_get_its_messages() {
        let (steps, receiving) = (TestSteps::default(), Receiving::default());
        let (one, two) = (partitions(&[1]), partitions(&[1, 2]));
        assert_eq!(take(&steps, &receiving, &part(one, 0, ENDS_PIECE, b"m")), PartAnswer::Taken);
        assert_eq!(take(&steps, &receiving, &part(two, 0, ENDS_PIECE, b"m")), PartAnswer::Taken);
        assert_eq!(take(&steps, &receiving, &part(two, 1, ENDS_PIECE, b"n")), PartAnswer::Taken);
        assert_eq!((steps.have(b"m"), steps.have(b"n")), (two, two));
        assert_eq!(receiving.open_partitions(), [1, 2]);
    }

    #[test]
    fn an_open_move_brings_messages_of_another_old_home() {
        let (steps, receiving) = (TestSteps::default(), Receiving::default());
        let two = partitions(&[1, 2]);
        receiving.begin(3, partitions(&[2]), "d", 6);
        steps.resume_awaiting(3, partitions(&[2])).unwrap();
        take(&steps, &receiving, &part(two, 0, ENDS_PIECE, b"m"));
        assert_eq!(steps.have(b"m"), two);
        assert!(steps.delivered.borrow().contains(&(3, partitions(&[2]), b"m".to_vec())), "messages kept back follow");
        receiving.note_over(&steps, 3, partitions(&[2])).unwrap();
        take(&steps, &receiving, &part(two, 1, ENDS_PIECE, b"n"));
        assert_eq!(steps.have(b"n"), two);
    }

    #[test]
    fn a_transfer_that_ends_meanwhile_loses_no_message() {
        let (steps, receiving, inheriting) = (TestSteps::default(), Receiving::default(), Inheriting::default());
        let (transfer, two) = (1 << 63, partitions(&[1, 2]));
        let inherited = Inherited {
            transfer,
            of: "b".to_owned(),
            partitions: two,
            had: two,
            left: Partitions::NONE,
            adopted: Vec::new(),
            elsewhere: ["x".to_owned()].into(),
            broker_links: Vec::new(),
        };
        // The engine has ended it, and the list of transfers does not say so yet.
        inheriting.begin(&inherited);
        let answer =
            receiving.take_part(&steps, &inheriting, "a", &part(two, 0, ENDS_PIECE, b"m"), (two, Instant::now()));
        assert_eq!((answer, steps.have(b"m")), (PartAnswer::Taken, two));
        steps.resume_awaiting(transfer, two).unwrap();
        receiving.end(&steps, two).unwrap();
        receiving.take_part(&steps, &inheriting, "a", &part(two, 1, ENDS_PIECE, b"n"), (two, Instant::now()));
        assert_eq!(steps.delivered.borrow().last(), Some(&(transfer, two, b"n".to_vec())));
    }

    #[test]
    fn a_restart_remembers_that_messages_are_still_to_come() {
        let (mut steps, receiving) = (TestSteps::default(), Receiving::default());
        receiving.resume(partitions(&[1, 7]));
        assert_eq!(receiving.open_partitions(), [1, 7]);
        let one = partitions(&[1]);
        take(&steps, &receiving, &part(one, 0, ENDS_PIECE | ENDS_ALL, b"m"));
        assert_eq!(receiving.open_partitions(), [1, 7], "brokers do not hold all filters yet");
        steps.brokers_know = true;
        take(&steps, &receiving, &part(one, 0, ENDS_PIECE | ENDS_ALL, b"m"));
        assert_eq!(receiving.open_partitions(), [7]);
        receiving.end(&steps, partitions(&[7])).unwrap();
        assert!(receiving.open_partitions().is_empty(), "it has left");
    }

    #[test]
    fn a_piece_waits_for_the_members_of_groups() {
        let (mut steps, receiving) = (TestSteps { lacks_members: true, ..TestSteps::default() }, Receiving::default());
        let one = partitions(&[1]);
        assert_eq!(take(&steps, &receiving, &part(one, 0, ENDS_PIECE, b"m")), PartAnswer::Again);
        assert!(steps.delivered.borrow().is_empty());
        steps.lacks_members = false;
        assert_eq!(take(&steps, &receiving, &part(one, 0, ENDS_PIECE, b"m")), PartAnswer::Taken);
        assert_eq!(steps.have(b"m"), one);
    }

    #[test]
    fn a_piece_waits_for_members_no_longer_than_the_limit() {
        let (steps, receiving) = (TestSteps { lacks_members: true, ..TestSteps::default() }, Receiving::default());
        let (one, began) = (partitions(&[1]), Instant::now());
        let take =
            |number, bytes, after| take_at(&steps, &receiving, &part(one, number, ENDS_PIECE, bytes), began + after);
        assert_eq!(take(0, b"m", Duration::ZERO), PartAnswer::Again);
        assert_eq!(take(0, b"m", MEMBERS_LIMIT.saturating_sub(Duration::from_millis(1))), PartAnswer::Again);
        assert_eq!(take(0, b"m", MEMBERS_LIMIT), PartAnswer::Taken);
        assert_eq!(take(1, b"n", MEMBERS_LIMIT), PartAnswer::Taken, "the wait is over for the whole move");
        assert_eq!((steps.have(b"m"), steps.have(b"n")), (one, one));
    }

    #[test]
    fn a_piece_that_is_stored_delays_no_other_move() {
        let receiving = Receiving::default();
        let check = || assert!(receiving.0.try_lock().is_ok(), "other moves wait");
        let steps = TestSteps { while_stored: Some(Box::new(check)), brokers_know: true, ..TestSteps::default() };
        let two = partitions(&[1, 2]);
        receiving.begin(3, partitions(&[2]), "d", 6);
        steps.resume_awaiting(3, partitions(&[2])).unwrap();
        assert_eq!(take(&steps, &receiving, &part(two, 0, ENDS_PIECE | ENDS_ALL, b"m")), PartAnswer::BrokersKnow);
        receiving.end_late(&steps, Instant::now() + GONE_LIMIT, &BTreeMap::new()).unwrap();
        receiving.end(&steps, two).unwrap();
        assert_eq!(steps.have(b"m"), two);
    }
}
