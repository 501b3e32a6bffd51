//! Messages of brokers for partitions that have moved from one orchestrator to another. The old home forwards them in
//! pieces over the link, until the brokers of the new home know its filters and have delivered all earlier messages.
//! If the new home dies, the next home of each partition gets the pieces. A restart of the old home continues.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_administration::PIECE;
use tidegate_engine::{BrokerLinkState, Partitions, Settling};
use tidegate_node::{NodeHandle, OrchestratorMoves};

use super::Worker;
use super::asking::{ANSWER_PAUSE, Awaited};
use super::pieces::{ENDS_ALL, ENDS_PIECE, Outbox};
use crate::driver::error::PartitionMoveError;
use crate::driver::sets::set_of;

/// Pause between two pieces.
const PIECE_PAUSE: Duration = Duration::from_millis(10);

/// Moves whose messages brokers still deliver here, by their ids.
#[derive(Default)]
pub(super) struct PassingMoves(BTreeMap<u64, Passing>);

impl PassingMoves {
    /// How many moves there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Partitions here whose messages are passed on.
    pub(super) fn partitions(&self) -> Partitions {
        self.0.values().fold(Partitions::NONE, |all, passing| all.with(passing.partitions))
    }

    /// The partitions of a move.
    pub(super) fn partitions_of(&self, id: u64) -> Option<Partitions> {
        self.0.get(&id).map(|passing| passing.partitions)
    }

    /// The partitions of each move, for a restart.
    pub(super) fn to_remember(&self) -> BTreeMap<u64, Vec<u16>> {
        let numbers = |passing: &Passing| passing.partitions.iter().map(|partition| partition.0).collect();
        self.0.iter().map(|(id, passing)| (*id, numbers(passing))).collect()
    }

    /// These partitions are served elsewhere. Returns the partitions to forget at once: messages are forwarded for the
    /// others.
    pub(super) fn pass_on(&mut self, partitions: Partitions) -> Partitions {
        let mut left = partitions;
        for passing in self.0.values_mut() {
            if passing.partitions.without(partitions) != passing.partitions {
                passing.served_there = true;
                left = left.without(passing.partitions);
            }
        }
        left
    }

    /// When the next piece is due.
    pub(super) fn next_piece(&self) -> Option<Duration> {
        let next = self.0.values().filter(|passing| passing.served_there).map(|passing| passing.next).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}

/// Partitions that have left, and for which brokers may still deliver messages here.
struct Passing {
    partitions: Partitions,
    /// Whether another member serves them.
    served_there: bool,
    /// Whether it began in an earlier life of this process: another member may have served them.
    is_resumed: bool,
    outbox: Outbox,
    awaited: Awaited,
    /// Messages of the piece at hand that brokers wait to have acknowledged.
    unanswered: usize,
    stage: Stage,
    next: Instant,
}

impl Passing {
    fn new(partitions: Partitions, is_resumed: bool) -> Self {
        Self {
            partitions,
            served_there: false,
            is_resumed,
            outbox: Outbox::default(),
            awaited: Awaited::default(),
            unanswered: 0,
            stage: Stage::Unknown,
            next: Instant::now(),
        }
    }
}

enum Stage {
    /// The brokers of the new homes do not know all filters.
    Unknown,
    /// They know all filters. Earlier messages of the own brokers have still to arrive.
    Settling(Settling),
    /// The last piece is at hand.
    Ending,
}

impl Stage {
    /// Whether all messages have arrived that the brokers had for these partitions when the brokers of the new homes knew
    /// the filters.
    fn is_settled(&mut self, node: &NodeHandle, brokers_know: bool) -> Result<bool, PartitionMoveError> {
        if !brokers_know {
            *self = Self::Unknown;
            return Ok(false);
        }
        let left = match std::mem::replace(self, Self::Unknown) {
            Self::Settling(settling) => node.moves().settle(settling)?,
            Self::Unknown | Self::Ending => Some(OrchestratorMoves::of(node).begin_settling()?),
        };
        let is_settled = left.is_none();
        if let Some(left) = left {
            *self = Self::Settling(left);
        }
        Ok(is_settled)
    }
}

/// Whether all brokers hold all filters. A process that has been named no broker yet does not know that.
pub(super) fn brokers_know(node: &NodeHandle) -> bool {
    node.fleet().report().is_ok_and(|fleet| {
        let brokers = fleet.brokers.iter().map(|broker| (broker.broker_link.state, broker.broker_link.filters_pending));
        all_hold_filters(brokers)
    })
}

fn all_hold_filters(brokers: impl IntoIterator<Item = (BrokerLinkState, u64)>) -> bool {
    let mut brokers = brokers.into_iter().peekable();
    brokers.peek().is_some() && brokers.all(holds_all_filters)
}

/// Whether a broker holds all filters. One that is away may be reachable for others, and lacks filters when it is back:
/// until then the old home receives its messages.
fn holds_all_filters((state, pending): (BrokerLinkState, u64)) -> bool {
    match state {
        BrokerLinkState::Connecting | BrokerLinkState::Subscribing | BrokerLinkState::Down => false,
        BrokerLinkState::Serving | BrokerLinkState::Draining | BrokerLinkState::Drained => pending == 0,
    }
}

impl Worker {
    /// Begins to forward the messages that brokers deliver for these partitions after their images were taken.
    ///
    /// # Errors
    /// When it cannot be remembered: a restart would not forward.
    pub(super) fn begin_passing(&mut self, id: u64, partitions: Partitions) -> Result<(), PartitionMoveError> {
        self.passing.0.insert(id, Passing::new(partitions, false));
        if self.note_passing() { Ok(()) } else { Err(PartitionMoveError::NotRemembered) }
    }

    /// Continues the forwarding of the last life of this process. Before it connects to its brokers.
    pub(super) fn resume_passing(&mut self, remembered: &BTreeMap<u64, Vec<u16>>) {
        for (id, partitions) in remembered {
            let partitions = set_of(partitions);
            if let Err(error) = OrchestratorMoves::of(&self.node).resume_forwarding(*id, partitions) {
                self.complain(&error, "messages of brokers are not forwarded for partitions that have moved");
            }
            self.passing.0.insert(*id, Passing::new(partitions, true));
        }
        self.shared.counters.set_passing(self.passing.len(), self.adopted.len());
    }

    /// A restart has to know for which partitions messages are forwarded. Says whether that is saved.
    pub(super) fn note_passing(&mut self) -> bool {
        self.shared.counters.set_passing(self.passing.len(), self.adopted.len());
        self.remember_again()
    }

    /// Ends the forwarding for these partitions, which stay here or are served here again. Their sessions get the messages
    /// that were collected while another member served them, unless they have them. A restart that has not heard of it does
    /// the same again, so nothing waits until it is remembered.
    pub(super) fn end_passing_of(&mut self, partitions: Partitions) {
        let moves = OrchestratorMoves::of(&self.node);
        let mut failure = None;
        for (id, passing) in &mut self.passing.0 {
            let returned = passing.partitions.without(passing.partitions.without(partitions));
            if returned.is_empty() {
                continue;
            }
            let ended = if passing.served_there || passing.is_resumed {
                moves.return_forwarded(*id, returned, &passing.outbox.messages())
            } else {
                // The sessions here have got them.
                moves.end_forwarding(*id, returned).map_err(Into::into)
            };
            passing.partitions = passing.partitions.without(returned);
            failure = ended.err().or(failure);
        }
        if let Some(error) = failure {
            self.complain(&error, "messages of brokers are still collected for partitions that have returned");
        }
        self.passing.0.retain(|_, passing| !passing.partitions.is_empty());
    }

    /// Forwards the messages that have arrived for partitions that are served elsewhere.
    pub(super) fn pass_pieces(&mut self) {
        let now = Instant::now();
        let due = self.passing.0.iter().filter(|(_, it)| it.served_there && it.next <= now);
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(mut passing) = self.passing.0.remove(&id) else { continue };
            match self.pass_piece(id, &mut passing) {
                Ok(true) => self.forget_passed(id, &passing),
                Ok(false) => {
                    passing.next =
                        Instant::now() + if passing.outbox.is_waiting() { ANSWER_PAUSE } else { PIECE_PAUSE };
                    self.passing.0.insert(id, passing);
                }
                Err(error) => {
                    self.complain(&error, "messages of brokers could not be passed on; it is tried again");
                    passing.next = Instant::now() + PIECE_PAUSE;
                    self.passing.0.insert(id, passing);
                }
            }
        }
    }

    /// These partitions do not come, or have left: they are forgotten, unless messages are forwarded for them. Then their
    /// sessions stay, since they say which messages these are.
    pub(super) fn forget_unless_passed(&mut self, partitions: Partitions) {
        let left = self.passing.pass_on(partitions);
        let passed = partitions.without(left);
        if !passed.is_empty()
            && let Err(error) = OrchestratorMoves::of(&self.node).refuse_arrival(passed)
        {
            self.complain(&error, "messages of brokers are queued for partitions that are not here");
        }
        // Before their moves end: messages kept back for them are dealt to no group here, since their home deals them.
        self.forget(left);
        if let Err(error) = self.receiving.end(&self.node, left) {
            self.complain(&error, "messages that were kept back for partitions that have moved here are not delivered");
        }
    }

    fn forget_passed(&mut self, id: u64, passing: &Passing) {
        if let Err(error) = OrchestratorMoves::of(&self.node).end_forwarding(id, passing.partitions) {
            self.complain(&error, "messages of brokers are still collected for partitions that have moved");
        }
        self.forget(passing.partitions);
        if let Err(error) = self.node.moves().release_partitions(passing.partitions) {
            self.complain(&error, "partitions that have moved are still held here");
        }
        self.note_passing();
        tracing::debug!("the brokers bring nothing more for partitions that have moved");
    }

    /// Forwards the next piece. Returns whether the new homes have the last piece.
    fn pass_piece(&self, id: u64, passing: &mut Passing) -> Result<bool, PartitionMoveError> {
        let Passing { partitions, outbox, awaited, .. } = passing;
        outbox.set_homes(&self.members.homes_of(*partitions));
        if outbox.is_idle() {
            let is_settled =
                passing.stage.is_settled(&self.node, outbox.brokers_know(*partitions, &BTreeSet::new()))?;
            let forwarded = OrchestratorMoves::of(&self.node).take_forwarded(id, true)?.unwrap_or_default();
            passing.unanswered = forwarded.unanswered;
            if is_settled {
                passing.stage = Stage::Ending;
                outbox.put(&forwarded.messages, ENDS_PIECE | ENDS_ALL);
            } else if !forwarded.messages.is_empty() || matches!(passing.stage, Stage::Unknown) {
                // One of nothing asks whether the brokers there know the filters.
                outbox.put(&forwarded.messages, ENDS_PIECE);
            }
        }
        awaited.exchange(&self.node, self.members.life, outbox, (PIECE, id, "", ""));
        let Some(ends) = outbox.complete(*partitions) else { return Ok(false) };
        let unanswered = std::mem::take(&mut passing.unanswered);
        if unanswered > 0 {
            OrchestratorMoves::of(&self.node).confirm_forwarded(id, unanswered);
        }
        // A home that has taken over from a dead one may have got the last piece alone.
        let is_over = ends & ENDS_ALL != 0 && outbox.brokers_know(*partitions, &BTreeSet::new());
        if matches!(passing.stage, Stage::Ending) && !is_over {
            passing.stage = Stage::Unknown;
        }
        Ok(is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_away_does_not_hold_the_filters() {
        let away = [BrokerLinkState::Connecting, BrokerLinkState::Subscribing, BrokerLinkState::Down];
        let serving = (BrokerLinkState::Serving, 0);
        assert!(away.into_iter().all(|state| !all_hold_filters([serving, (state, 0)])));
        assert!(all_hold_filters([serving]) && !all_hold_filters([serving, (BrokerLinkState::Serving, 1)]));
        assert!(!all_hold_filters([]), "no broker is named yet");
    }
}
