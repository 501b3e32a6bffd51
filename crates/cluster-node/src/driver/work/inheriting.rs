//! Messages that brokers kept for a dead orchestrator: one member connects to each broker as the dead one, and passes
//! the messages on to the members that have taken over the other partitions. This is the side of these members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_engine::{Behind, Partitions};
use tidegate_node::{MoveError, NodeHandle, OrchestratorMoves};

use super::brokers::BACK_LIMIT;
use super::piece_steps::{PieceSteps, deliver_by};
use super::pieces::{Arrival, Assembly, ENDS_ALL, Part, PartAnswer, answer_part};
use super::resuming::NAMED_LIMIT;
use crate::driver::restore::Inherited;
use crate::driver::sets::both;

/// How long messages of the own brokers wait for messages of a dead orchestrator's brokers. The wait keeps the order of
/// topics.
pub(super) const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// A transfer of partitions that moved here: its number, its partitions, and the messages behind its pieces.
pub(in crate::driver) type MovedHere = (u64, Partitions, Behind);

/// Partitions of dead orchestrators that were taken over here, and the messages that are passed on for them.
#[derive(Default)]
pub(in crate::driver) struct Inheriting(Mutex<InheritingState>);

#[derive(Default)]
struct InheritingState {
    transfers: BTreeMap<u64, Transfer>,
    /// By the member that passes on, its number of the stream, the dead one, and the broker.
    streams: BTreeMap<StreamName, Assembly>,
    /// Transfers that were begun for parts of partitions that came in an earlier life of this process.
    resumed: u64,
    /// The brokers whose connections are worked off here, by the dead orchestrator.
    worked_off: BTreeMap<String, BTreeSet<String>>,
    /// Whether stores of dead orchestrators are being fetched: each may have connections of any member.
    is_restoring: bool,
    /// The members of the last table.
    living: BTreeSet<String>,
}

type StreamName = (String, u64, String, String);

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

impl Transfer {
    fn new(of: &str, partitions: Partitions, elsewhere: BTreeSet<String>, is_late: bool) -> Self {
        Self { of: of.to_owned(), partitions, elsewhere, since: Instant::now(), is_late, back_since: None }
    }

    fn behind(&self) -> Behind {
        if self.is_late { Behind::LatePieces } else { Behind::Pieces }
    }
}

/// Numbers of transfers that a restart has begun again have these bits, which no other transfer has.
const RESUMED_TRANSFERS: u64 = 3 << 62;

impl Inheriting {
    fn state(&self) -> MutexGuard<'_, InheritingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Partitions were taken over. Before they are served.
    pub(super) fn begin(&self, inherited: &Inherited) {
        let Inherited { transfer, of, partitions, elsewhere, .. } = inherited;
        let begun = Transfer::new(of, *partitions, elsewhere.clone(), false);
        self.state().transfers.insert(*transfer, begun);
    }

    /// The connection of a dead orchestrator to a broker is worked off here. Returns the transfers that have waited for its
    /// messages from another member, and their partitions.
    pub(super) fn take_waiting_for(&self, of: &str, broker: &str) -> Vec<(u64, Partitions)> {
        let mut state = self.state();
        let its = state.transfers.iter_mut().filter(|(_, transfer)| transfer.of == of);
        its.filter_map(|(id, it)| it.elsewhere.remove(broker).then_some((*id, it.partitions))).collect()
    }

    /// Begins a transfer again for partitions that were taken over in an earlier life of this process. Messages come by the
    /// brokers in `elsewhere`. Returns its number.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub(super) fn resume(
        &self,
        node: &NodeHandle,
        of: &str,
        partitions: Partitions,
        elsewhere: BTreeSet<String>,
    ) -> Result<u64, MoveError> {
        self.state().resume(node, of, partitions, elsewhere)
    }

    /// Notes the members of a table, before partitions are sent away for it.
    pub(super) fn note_living(&self, lives: &BTreeMap<String, u64>) {
        self.state().living = lives.keys().cloned().collect();
    }

    /// Whether some of these partitions stay here: messages of own brokers wait for messages of a dead node, or the dead
    /// node is back while its brokers still bring messages for these partitions. It would be a home without brokers until
    /// then. [`Inheriting::end_waiting`] ends this after [`BACK_LIMIT`].
    pub(super) fn keeps_back(&self, partitions: Partitions) -> bool {
        let state = self.state();
        let is_open = |it: &Transfer| !it.is_late || state.living.contains(&it.of);
        state.transfers.values().any(|it| is_open(it) && !both(it.partitions, partitions).is_empty())
    }

    /// Delivers messages that an old home forwards for partitions that were taken over from a dead node. Returns the
    /// partitions that no open transfer has brought.
    pub(super) fn deliver(
        &self,
        steps: &impl PieceSteps,
        partitions: Partitions,
        piece: &[u8],
    ) -> Result<Partitions, MoveError> {
        let transfers = &self.state().transfers;
        let transfers = transfers.iter().map(|(id, transfer)| (*id, transfer.partitions, transfer.behind()));
        deliver_by(steps, transfers, partitions, piece)
    }

    /// Notes the brokers whose connections are worked off here, by the dead orchestrator, and whether stores that may have
    /// more of them are being fetched.
    pub(super) fn note_worked_off(&self, of: BTreeMap<String, BTreeSet<String>>, is_restoring: bool) {
        let mut state = self.state();
        (state.worked_off, state.is_restoring) = (of, is_restoring);
    }

    /// Answers a member that has started: the brokers whose connections of its last life are worked off here, or nothing
    /// while that is not known. `epoch` is that of the table in force here; the question has one that has to be in force.
    pub(in crate::driver) fn answer_former_life(&self, from: &str, question: &[u8], epoch: u64) -> Vec<u8> {
        let there = question.get(1..9).and_then(|it| Some(u64::from_le_bytes(it.try_into().ok()?)));
        let state = self.state();
        let is_known = there.is_some_and(|there| there <= epoch) && !state.is_restoring;
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
        lives: &BTreeMap<String, u64>,
        is_adopted: impl Fn(u64) -> bool,
    ) -> Result<(), MoveError> {
        self.note_living(lives);
        let mut state = self.state();
        state.streams.retain(|(from, ..), _| lives.contains_key(from));
        state.forget_missing_brokers(Instant::now(), || OrchestratorMoves::of(node).broker_names());
        for transfer in state.transfers.values_mut().filter(|transfer| lives.contains_key(&transfer.of)) {
            transfer.back_since.get_or_insert_with(Instant::now);
        }
        let is_back = |transfer: &Transfer| transfer.back_since.is_some_and(|since| since.elapsed() >= BACK_LIMIT);
        let over =
            |transfer: &Transfer, id: u64| (transfer.elsewhere.is_empty() || is_back(transfer)) && !is_adopted(id);
        let ended: Vec<u64> = state.transfers.iter().filter(|(id, it)| over(it, **id)).map(|(id, _)| *id).collect();
        for id in ended {
            state.transfers.remove(&id);
            OrchestratorMoves::of(node).deliver_kept_back(id, Behind::Nothing)?;
        }
        for (id, transfer) in &mut state.transfers {
            if !transfer.is_late && transfer.since.elapsed() >= ORDER_LIMIT {
                transfer.is_late = true;
                OrchestratorMoves::of(node).deliver_kept_back(*id, Behind::LatePieces)?;
            }
        }
        Ok(())
    }

    /// Takes the part in a question of the node `from`, and answers. `moved_from` names the open transfers of partitions
    /// that a node moved here before it died; `served` are the partitions served here.
    pub(in crate::driver) fn take(
        &self,
        node: &NodeHandle,
        moved_from: &dyn Fn(&str) -> Vec<MovedHere>,
        from: &str,
        question: &[u8],
        served: Partitions,
    ) -> Vec<u8> {
        answer_part(question, |part| self.take_part(node, moved_from, from, part, served))
    }

    fn take_part(
        &self,
        steps: &impl PieceSteps,
        moved_from: &dyn Fn(&str) -> Vec<MovedHere>,
        from: &str,
        part: &Part<'_>,
        served: Partitions,
    ) -> PartAnswer {
        if !part.partitions.without(served).is_empty() {
            // They are on their way here, or away.
            return PartAnswer::NotHere;
        }
        // Before the other lock: an old home that lives asks in the other order.
        let moved = moved_from(part.of);
        let mut state = self.state();
        let name = (from.to_owned(), part.stream[1], part.of.to_owned(), part.broker.to_owned());
        let assembly = state.streams.entry(name.clone()).or_default();
        match assembly.take(part) {
            Arrival::Unfit => return PartAnswer::Again,
            Arrival::Partial | Arrival::Repeated => {}
            Arrival::Whole(piece, missing) => {
                match state.deliver_piece(steps, &moved, part, missing, &piece) {
                    Ok(true) => {}
                    Ok(false) => return PartAnswer::Again,
                    Err(error) => {
                        tracing::error!(%error, from, "cannot import messages of a broker for a dead orchestrator");
                        return PartAnswer::Again;
                    }
                }
                if let Some(assembly) = state.streams.get_mut(&name) {
                    assembly.note_stored(part);
                }
            }
        }
        if part.ends & ENDS_ALL != 0 {
            for transfer in state.transfers.values_mut().filter(|transfer| transfer.of == part.of) {
                transfer.elsewhere.remove(part.broker);
            }
        }
        drop(state);
        if steps.brokers_know() { PartAnswer::BrokersKnow } else { PartAnswer::Taken }
    }
}

impl InheritingState {
    /// A broker that was taken out of the fleet brings nothing: the member that works off its connection ends that without
    /// a last piece. Before the first broker is named, none is missing.
    fn forget_missing_brokers(&mut self, now: Instant, brokers: impl FnOnce() -> BTreeSet<String>) {
        let is_long = |it: &Transfer| now.saturating_duration_since(it.since) >= NAMED_LIMIT;
        let mut waiting = self.transfers.values_mut().filter(|it| is_long(it) && !it.elsewhere.is_empty()).peekable();
        if waiting.peek().is_none() {
            return;
        }
        let brokers = brokers();
        for transfer in waiting.filter(|_| !brokers.is_empty()) {
            transfer.elsewhere.retain(|broker| brokers.contains(broker));
        }
    }

    fn resume(
        &mut self,
        steps: &impl PieceSteps,
        of: &str,
        partitions: Partitions,
        elsewhere: BTreeSet<String>,
    ) -> Result<u64, MoveError> {
        let id = RESUMED_TRANSFERS | self.resumed;
        self.resumed += 1;
        steps.resume_awaiting(id, partitions)?;
        self.transfers.insert(id, Transfer::new(of, partitions, elsewhere, true));
        Ok(id)
    }

    /// Delivers a piece to the partitions among these that were taken over, or had `moved` here from the dead
    /// orchestrator. Says whether all have it: a transfer may have ended meanwhile.
    fn deliver_piece(
        &mut self,
        steps: &impl PieceSteps,
        moved: &[MovedHere],
        part: &Part<'_>,
        partitions: Partitions,
        piece: &[u8],
    ) -> Result<bool, MoveError> {
        let taken_over = self.transfers.iter().filter(|(_, transfer)| transfer.of == part.of);
        let taken_over = taken_over.map(|(id, transfer)| (*id, transfer.partitions, transfer.behind()));
        let left = deliver_by(steps, taken_over.chain(moved.iter().copied()), partitions, piece)?;
        if !left.is_empty() && !piece.is_empty() {
            // They came in an earlier life of this process.
            let id = self.resume(steps, part.of, left, [part.broker.to_owned()].into())?;
            return Ok(steps.take_piece(id, left, piece, Behind::LatePieces)? == left);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece_steps::tests::{TestSteps, partitions};
    use super::super::pieces::ENDS_PIECE;
    use super::super::receiving::Receiving;
    use super::*;

    #[test]
    fn further_partitions_get_the_piece_of_a_dead_home() {
        let (steps, receiving, inheriting) = (TestSteps::default(), Receiving::default(), Inheriting::default());
        let take = |of: Partitions| {
            let (kind, stream, bytes) = (2, [5, 1 << 63], &b"m"[..]);
            let (of_dead, broker) = ("b", "x");
            let part =
                Part { kind, stream, of: of_dead, broker, partitions: of, piece: 0, index: 0, ends: ENDS_PIECE, bytes };
            inheriting.take_part(&steps, &|of| receiving.of_dead(of), "a", &part, of)
        };
        let (one, two) = (partitions(&[1]), partitions(&[1, 2]));
        assert_eq!((take(one), steps.have(b"m")), (PartAnswer::Taken, one));
        assert_eq!((take(two), steps.have(b"m")), (PartAnswer::Taken, two));
    }

    #[test]
    fn partitions_wait_for_messages_of_a_member_that_is_back() {
        let inheriting = Inheriting::default();
        let set = |partition: u16| std::iter::once(tidegate_engine::PartitionId(partition)).collect::<Partitions>();
        inheriting.begin(&Inherited {
            transfer: 1,
            of: "b".to_owned(),
            partitions: set(3),
            had: set(3),
            left: Partitions::NONE,
            adopted: Vec::new(),
            elsewhere: ["x".to_owned()].into(),
            broker_links: Vec::new(),
        });
        assert!(inheriting.keeps_back(set(3)) && !inheriting.keeps_back(set(4)));
        inheriting.state().transfers.get_mut(&1).unwrap().is_late = true;
        assert!(!inheriting.keeps_back(set(3)), "the next home gets the messages of the dead one, too");
        inheriting.note_living(&[("b".to_owned(), 2)].into());
        assert!(inheriting.keeps_back(set(3)), "messages of its brokers pass b by");
        inheriting.state().transfers.remove(&1);
        assert!(!inheriting.keeps_back(set(3)));
    }

    #[test]
    fn transfers_wait_for_no_connection_that_is_here() {
        let inheriting = Inheriting::default();
        for (transfer, of) in [(1, "b"), (2, "b"), (3, "c")] {
            let elsewhere = ["x".to_owned(), "y".to_owned()].into();
            let begun = Transfer::new(of, partitions(&[transfer as u16]), elsewhere, false);
            inheriting.state().transfers.insert(transfer, begun);
        }
        let both = vec![(1, partitions(&[1])), (2, partitions(&[2]))];
        assert_eq!(inheriting.take_waiting_for("b", "x"), both, "the member that had the connection has died");
        assert_eq!(inheriting.take_waiting_for("b", "x"), []);
        assert_eq!(inheriting.take_waiting_for("b", "y"), both);
        assert_eq!(inheriting.take_waiting_for("c", "y"), [(3, partitions(&[3]))]);
    }

    #[test]
    fn transfers_wait_for_no_broker_that_left_the_fleet() {
        let mut state = InheritingState::default();
        let elsewhere = ["x".to_owned(), "y".to_owned()].into();
        state.transfers.insert(1, Transfer::new("b", partitions(&[1]), elsewhere, false));
        let (soon, late) = (Instant::now(), Instant::now() + NAMED_LIMIT);
        let mut left = |now, fleet: &[&str]| {
            state.forget_missing_brokers(now, || fleet.iter().map(|it| (*it).to_owned()).collect());
            state.transfers[&1].elsewhere.len()
        };
        assert_eq!(left(soon, &["y"]), 2, "it may be named later");
        assert_eq!(left(late, &[]), 2, "no broker is named yet");
        assert_eq!((left(late, &["y"]), left(late, &["z"])), (1, 0));
    }

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
        inheriting.note_worked_off(BTreeMap::new(), true);
        assert_eq!((ask("c", 5), ask("d", 5)), (None, None), "a store that may have its connections is being fetched");
        let brokers: BTreeSet<String> = ["x".to_owned()].into();
        inheriting.note_worked_off([("c".to_owned(), brokers.clone())].into(), false);
        assert_eq!((ask("c", 5), ask("d", 5)), (Some(brokers), Some(BTreeSet::new())));
    }
}
