//! Both sides of a move: images, the messages that came since, and their end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_engine::{Owed, PartitionId, PartitionImage, Partitions};

use super::ahead::Preparations;
use super::{Event, Worker, all};
use crate::driver::error::PartitionMoveError;
use crate::driver::logs::Logs;
use crate::driver::parcel::{ImagesHead, Parcel};
use crate::driver::parts::{self, Kind};
use crate::driver::pause;
use crate::driver::restore::without_retained;
use crate::driver::status::Shared;
use tidegate_node::{LeftOut, NoAnswer, NodeHandle, OrchestratorMoves};

/// Pause before the next check whether they have come.
const LOAD_PAUSE: Duration = Duration::from_millis(5);
/// Pause before the next check whether all nodes have cut.
pub(super) const CUT_PAUSE: Duration = Duration::from_millis(2);
/// How long that may take at most, with the reads from the store, and without the time in which the images are sent: each node
/// that this one has a session with needs one with the new home. The partitions are not served meanwhile, so a shorter lease
/// is the limit.
const LONGEST_CUT: Duration = Duration::from_secs(10);

/// How long the clients of leaving partitions may take until nothing of them is under way. The others are disconnected.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(250);
/// Pause before the next check whether they have left.
const LEAVE_PAUSE: Duration = Duration::from_millis(2);

/// Partitions that are to come.
pub(super) struct Arriving {
    partitions: Partitions,
    /// The images are here.
    taken_in: bool,
}

impl Arriving {
    pub(super) fn new(partitions: Partitions) -> Self {
        Self { partitions, taken_in: false }
    }
}

/// Partitions whose images were sent, and whose rest is not complete.
pub(super) struct Departing {
    partitions: Partitions,
    to: String,
    /// When the images were sent.
    since: Instant,
    /// Until when all nodes have to send to the new home.
    until: Instant,
}

impl Worker {
    /// Moves of these partitions are over.
    pub(super) fn end_moves_of(&mut self, partitions: Partitions) {
        let is_other = |moved: Partitions| moved.without(partitions) == moved;
        self.arriving.retain(|_, arriving| is_other(arriving.partitions));
        self.departing.retain(|_, departing| is_other(departing.partitions));
    }

    /// This node cannot do its part as the old home.
    pub(super) fn refuse_departure(&mut self, id: u64, to: &str, error: &PartitionMoveError) {
        self.departing.remove(&id);
        if let Some(passing) = self.passing.partitions_of(id) {
            self.end_passing_of(passing);
            self.note_passing();
        } else if self.shared.is_orchestrator
            && let Err(error) = OrchestratorMoves::of(&self.node).end_forwarding(id, all())
        {
            // The images may have been taken: messages are collected for the move from then on.
            self.complain(&error, "messages of brokers are still collected for partitions that have not moved");
        }
        self.shared.counters.note_failed();
        tracing::warn!(to, why = %error, "partitions were not moved; this node keeps them");
        let _ = self.events.send(Event::Refused(id));
    }

    /// Sends the images of leaving partitions, whose move a table of this epoch has begun.
    pub(super) fn send(
        &mut self,
        id: u64,
        partitions: Partitions,
        to: &str,
        epoch: u64,
    ) -> Result<(), PartitionMoveError> {
        let began = Instant::now();
        if self.receiving.keeps_back(partitions) || self.shared.inheriting.keeps_back(partitions) {
            return Err(PartitionMoveError::StillForwarded);
        }
        let limit = self.shared.lease().min(LONGEST_CUT);
        let (shared, life) = (Arc::clone(&self.shared), self.members.life);
        let check =
            || if shared.has_called_off((life, epoch), id) { Err(PartitionMoveError::CalledOff) } else { Ok(()) };
        let take = || {
            check()?;
            images(&self.node, &shared, &mut self.preparations, (id, partitions))
        };
        let images = attempt_until(began + limit, Instant::now, || pause(LOAD_PAUSE), take)?;
        let left = limit.saturating_sub(began.elapsed());
        if self.shared.is_orchestrator {
            // A restart has to know of it before the new home can serve the partitions.
            self.begin_passing(id, partitions)?;
        }
        let moves = self.shared.is_orchestrator.then(|| OrchestratorMoves::of(&self.node));
        let messages = moves.map(|moves| moves.take_had(id)).transpose()?;
        let named: Vec<u16> = images.iter().map(|image| image.partition.0).collect();
        let owed: Vec<Value> = images.iter().map(|image| without_retained(image.owed)).collect();
        let from = self.members.name.clone();
        let head = json!(ImagesHead { from, partitions: named.clone(), owed, had: messages.is_some() });
        let pieces = images.into_iter().map(|image| image.image).chain(messages).collect();
        let parcel = Parcel { head, pieces };
        let bytes = send_parcel(&self.logs, id, Kind::Images, &parcel, check)?;
        let since = Instant::now();
        self.departing.insert(id, Departing { partitions, to: to.to_owned(), since, until: since + left });
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(partitions = named.len(), bytes, ms, "partitions are moving to another node");
        Ok(())
    }

    /// Sends the messages that came for leaving partitions, where all nodes send to the new home by now.
    pub(super) fn send_rests(&mut self) {
        let ids: Vec<u64> = self.departing.keys().copied().collect();
        for id in ids {
            match self.send_rest(id) {
                Ok(false) => {}
                Ok(true) => drop(self.departing.remove(&id)),
                Err(error) => {
                    let to = self.departing.get(&id).map(|departing| departing.to.clone()).unwrap_or_default();
                    self.refuse_departure(id, &to, &error);
                }
            }
        }
    }

    /// Says whether it was sent.
    fn send_rest(&self, id: u64) -> Result<bool, PartitionMoveError> {
        let Some(departing) = self.departing.get(&id) else { return Ok(false) };
        if !self.node.moves().is_cut(id)? {
            if Instant::now() > departing.until {
                return Err(PartitionMoveError::NotCut);
            }
            return Ok(false);
        }
        let pieces = self.node.moves().take_transfer_rest(id)?;
        let parcel = Parcel { head: json!({ "from": self.members.name }), pieces };
        let bytes = send_parcel(&self.logs, id, Kind::Rest, &parcel, || Ok(()))?;
        self.shared.counters.note_out(departing.partitions.iter().count());
        let ms = u64::try_from(departing.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(bytes, ms, "all that has come for them is on its way as well");
        Ok(true)
    }

    /// Takes in a parcel of a move that is still under way, and says so when it was the last one.
    pub(super) fn take_in(&mut self, id: u64, kind: Kind, parcel: &[u8]) {
        let Some(arriving) = self.arriving.get(&id) else { return };
        let (expected, taken_in) = (arriving.partitions, arriving.taken_in);
        let outcome = match kind {
            Kind::Images => self.arrive(id, expected, parcel),
            // Whatever the images could not do was said.
            Kind::Rest if !taken_in => return,
            Kind::Rest => complete(&self.node, id, parcel),
        };
        let is_last = kind == Kind::Rest;
        let outcome = outcome.and_then(|()| if is_last { self.remember_arrival(id, expected) } else { Ok(()) });
        match (outcome, kind) {
            (Ok(()), Kind::Images) => {
                if let Some(arriving) = self.arriving.get_mut(&id) {
                    arriving.taken_in = true;
                }
            }
            (Ok(()), Kind::Rest) => drop(self.events.send(Event::Arrived(id))),
            (Err(error), _) => {
                self.shared.counters.note_failed();
                tracing::warn!(why = %error, "arriving partitions were not imported; they stay at their node");
                self.forget_unless_passed(expected);
                let _ = self.events.send(Event::Refused(id));
            }
        }
    }

    /// Remembers partitions that have come, before any node knows of it: when this node dies, others look here for them.
    fn remember_arrival(&mut self, id: u64, partitions: Partitions) -> Result<(), PartitionMoveError> {
        let Some(mut memory) = self.saved.clone() else { return Err(PartitionMoveError::NotRemembered) };
        memory.arrived.extend(partitions.iter().map(|partition| (partition.0, id)));
        if self.remember(&memory) { Ok(()) } else { Err(PartitionMoveError::NotRemembered) }
    }

    /// Takes images in, and asks all nodes to send here from now on.
    fn arrive(&self, id: u64, expected: Partitions, parcel: &[u8]) -> Result<(), PartitionMoveError> {
        let Parcel { head, mut pieces } = read_parcel(parcel)?;
        let head: ImagesHead = serde_json::from_value(head).map_err(|_| PartitionMoveError::NoParcel)?;
        let messages = if head.had { pieces.pop() } else { None };
        let partitions: Vec<PartitionId> = head.partitions.into_iter().map(PartitionId).collect();
        let named: Partitions = partitions.iter().copied().collect();
        if named != expected || partitions.len() != pieces.len() {
            return Err(PartitionMoveError::OtherPartitions);
        }
        let owed_before: BTreeMap<PartitionId, Value> = partitions.iter().copied().zip(head.owed).collect();
        let images = partitions.into_iter().zip(pieces);
        let images = images.map(|(partition, image)| PartitionImage { partition, image, owed: Owed::default() });
        let arrived = if self.shared.is_orchestrator {
            let from = head.from.as_str();
            self.receiving.begin(id, expected, from, self.members.lives.get(from).copied().unwrap_or_default());
            OrchestratorMoves::of(&self.node).arrive_from_member(images.collect(), messages, id)?
        } else {
            self.node.moves().arrive_from_node(images.collect(), id)?
        };
        for (partition, owed) in arrived.owed {
            let (before, after) = (owed_before.get(&partition), without_retained(owed));
            if before != Some(&after) {
                self.shared.counters.note_mismatch();
                let before = before.cloned();
                return Err(PartitionMoveError::OtherOwed { partition: partition.0, before, after });
            }
        }
        Ok(())
    }
}

/// Lets the clients of leaving partitions leave with their connections, all within one time. The hold disconnects
/// clients that are left out or not ready in time.
pub(super) fn let_clients_leave(node: &NodeHandle, leaving: &[(Partitions, LeftOut)]) -> Result<(), NoAnswer> {
    let (moves, began) = (node.moves(), Instant::now());
    for (partitions, left_out) in leaving {
        moves.begin_to_leave(*partitions, *left_out)?;
    }
    while moves.let_clients_leave()? > 0 && began.elapsed() < LEAVE_TIMEOUT {
        pause(LEAVE_PAUSE);
    }
    Ok(())
}

/// Sends a parcel in parts, with a check before each: a slow bus takes long.
fn send_parcel(
    logs: &Logs,
    id: u64,
    kind: Kind,
    parcel: &Parcel,
    check: impl Fn() -> Result<(), PartitionMoveError>,
) -> Result<usize, PartitionMoveError> {
    let parcel = parcel.write();
    if parcel.len() > parts::MAX_BYTES {
        return Err(PartitionMoveError::TooLong(parcel.len()));
    }
    for part in parts::cut(id, kind, &parcel) {
        check()?;
        logs.append_image(part)?;
    }
    Ok(parcel.len())
}

/// Attempts until there is a result, until a time at most.
fn attempt_until<T>(
    until: Instant,
    clock: impl Fn() -> Instant,
    wait: impl Fn(),
    mut attempt: impl FnMut() -> Result<Option<T>, PartitionMoveError>,
) -> Result<T, PartitionMoveError> {
    loop {
        if let Some(result) = attempt()? {
            return Ok(result);
        }
        if clock() > until {
            return Err(PartitionMoveError::NotRead);
        }
        wait();
    }
}

/// Images of held partitions, once the ends of their queues are at the new home, or in memory here; `None` before.
fn images(
    node: &NodeHandle,
    shared: &Shared,
    preparations: &mut Preparations,
    (id, partitions): (u64, Partitions),
) -> Result<Option<Vec<PartitionImage>>, PartitionMoveError> {
    preparations.finish(node, id)?;
    let max_bytes = parts::MAX_BYTES as u64;
    let images = if shared.is_orchestrator {
        OrchestratorMoves::of(node).snapshot(partitions, max_bytes, id)
    } else {
        node.moves().snapshot_for_node(partitions, max_bytes, id)
    };
    Ok(images?)
}

/// Delivers the messages that the old home has received since the images.
fn complete(node: &NodeHandle, id: u64, parcel: &[u8]) -> Result<(), PartitionMoveError> {
    let parcel = read_parcel(parcel)?;
    let messages = node.moves().finish_transfer(id, parcel.pieces)?;
    tracing::debug!(messages, "the messages that came meanwhile were delivered");
    Ok(())
}

fn read_parcel(parcel: &[u8]) -> Result<Parcel, PartitionMoveError> {
    Parcel::read(parcel).ok_or(PartitionMoveError::NoParcel)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn images_are_awaited_no_longer_than_the_limit() {
        let now = Cell::new(Instant::now());
        let until = now.get() + Duration::from_secs(10);
        let wait = || now.set(now.get() + Duration::from_secs(1));
        let never = attempt_until(until, || now.get(), wait, || Ok(None::<()>));
        assert!(matches!(never, Err(PartitionMoveError::NotRead)));
        assert_eq!(now.get(), until + Duration::from_secs(1));
        let called_off =
            attempt_until(until, || now.get(), wait, || Err::<Option<()>, _>(PartitionMoveError::CalledOff));
        assert!(matches!(called_off, Err(PartitionMoveError::CalledOff)));
        assert_eq!(attempt_until(until, || now.get(), wait, || Ok(Some(7))).ok(), Some(7), "it is there");
    }
}
