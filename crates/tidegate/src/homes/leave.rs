//! Partitions leave: the old place's part of a move.
//!
//! It keeps its copy, and serves no client, until the new place has said that it serves them. After a crash, exactly
//! one of both has everything. If the outcome is not known (the other side does not answer), it asks until it is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_admin::homes::{
    Arrive, ArriveHead, Arrived, Complete, CompleteHead, Discard, MAX_PARCEL, MoveAll, MoveAllBegun, MoveDone,
    MovePartitions, MoveState, Moved, SetHomes, StopAfter,
};
use tidegate_admin::{AdminClient, ClientError};
use tidegate_console::api::ControlError;
use tidegate_engine::{Owed, PARTITIONS, PartitionId, PartitionImage, Partitions};

use super::HomesKeeper;
use super::parcel::Parcel;
use super::state::{Leaving, numbers_of, read_partitions};
use super::table::Table;
use super::view::{owed_entry, refused};

/// How long queues may take that are read from the store.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before it is looked again whether they have come.
const LOAD_PAUSE: Duration = Duration::from_millis(5);
/// How long brokers may take to hand out their earlier messages when the new place is known to them.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause before it is looked again whether they have.
const SETTLE_PAUSE: Duration = Duration::from_millis(2);
/// Pause before a place that does not answer is asked again.
const RESOLVE_PAUSE: Duration = Duration::from_secs(1);
/// Part of a parcel that messages may take as they are reckoned in memory.
const MAX_BYTES: u64 = MAX_PARCEL as u64 / 2;
/// How long another orchestrator may take for a step: the moved partitions have to be in its store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How far moving everything is.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) running: bool,
    pub(super) moved: u64,
    pub(super) last_error: String,
}

/// The partitions to move.
struct Order {
    partitions: Partitions,
    to: String,
    /// The step after which the move is left.
    stop: Option<StopAfter>,
}

/// Why a move did not come to its end, and what that means.
enum Failure {
    /// Everything is here as before.
    Stays(String),
    /// Only the other side knows.
    Unclear(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused { .. } | ClientError::Address(_) => Self::Stays(error.to_string()),
            ClientError::Unreachable { .. } | ClientError::NotAdmin { .. } => Self::Unclear(error.to_string()),
        }
    }
}

fn stays(error: impl std::fmt::Display) -> Failure {
    Failure::Stays(error.to_string())
}

impl HomesKeeper {
    /// Moves the partitions of a request.
    pub(super) fn move_named(self: &Arc<Self>, request: &MovePartitions) -> Result<Moved, ControlError> {
        let order = read_order(request)?;
        if let Some(epoch) = request.epoch {
            let known = self.state().table.as_ref().map(|table| table.epoch);
            if Some(epoch) != known {
                return Err(refused(format!("the table in force has epoch {}: read it first", known.unwrap_or(0))));
            }
        }
        self.run(&order)
    }

    /// Moves everything that is here to these places in turn, on a thread of its own.
    pub(super) fn begin_move_all(self: &Arc<Self>, request: &MoveAll) -> Result<MoveAllBegun, ControlError> {
        let to = request.to.clone();
        let batch = request.batch.clamp(1, PARTITIONS.into());
        for name in &to {
            self.target(name).map_err(refused)?;
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.running {
            return Err(refused("everything is being moved already; GET /api/v1/homes says how far it is"));
        }
        *progress = Progress { running: true, ..Progress::default() };
        drop(progress);
        let keeper = Arc::clone(self);
        let run = move || keeper.move_everything(&to, batch as usize);
        thread::Builder::new().name("homes".into()).spawn(run).map_err(|error| refused(error.to_string()))?;
        Ok(MoveAllBegun { left: self.here().iter().count() as u64 })
    }

    fn here(&self) -> Partitions {
        self.state().table.as_ref().map_or(Partitions::NONE, |table| table.at(&self.name))
    }

    fn move_everything(self: &Arc<Self>, to: &[String], batch: usize) {
        let mut outcome = Ok(());
        for target in to.iter().cycle() {
            let partitions: Partitions = self.here().iter().take(batch).collect();
            if partitions.is_empty() {
                break;
            }
            match self.run(&Order { partitions, to: target.clone(), stop: None }) {
                Ok(_) => {
                    let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
                    progress.moved += partitions.iter().count() as u64;
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.running = false;
        if let Err(error) = outcome {
            tracing::warn!(%error, "not everything could be moved; the other partitions are served here as before");
            progress.last_error = error.to_string();
        }
        drop(progress);
        self.tell_others();
    }

    /// Another orchestrator, by its admin address.
    fn peer(&self, admin: &str) -> Result<AdminClient, ClientError> {
        AdminClient::new(admin, self.token.clone(), ANSWER_TIMEOUT)
    }

    /// A place that something can be moved to.
    fn target(&self, name: &str) -> Result<(AdminClient, Table), String> {
        let state = self.state();
        let table = state.table.clone().ok_or("there is no table of homes: set one first")?;
        let place = table.place(name).ok_or_else(|| format!("`{name}` is no place of the table"))?;
        if name == self.name {
            return Err("it is this place itself".to_owned());
        }
        if place.admin.is_empty() {
            return Err(format!("the table does not say where the admin address of `{name}` is"));
        }
        let peer = self.peer(&place.admin).map_err(|error| error.to_string())?;
        Ok((peer, table))
    }

    fn run(self: &Arc<Self>, order: &Order) -> Result<Moved, ControlError> {
        let _step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let (peer, table) = self.target(&order.to).map_err(refused)?;
        if let Some(other) = order.partitions.without(table.at(&self.name)).iter().next() {
            return Err(refused(format!("partition {} is not at home here", other.0)));
        }
        if self.state().leaving.is_some() || self.state().arriving.is_some() {
            return Err(refused("another move is under way, or was left: POST /api/v1/homes/resume ends it"));
        }
        let id = format!("{}-{}-{:x}", self.name, table.epoch + 1, self.node()?.now().unix);
        let leaving = Leaving { id, to: order.to.clone(), partitions: order.partitions, gone: false };
        self.change(|state| state.leaving = Some(leaving.clone()))?;
        match self.leave(order, &leaving, &peer, &table) {
            Ok(Some(mut done)) => {
                done.ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                Ok(Moved { id: leaving.id, left: false, done: Some(done) })
            }
            Ok(None) => Ok(Moved { id: leaving.id, left: true, done: None }),
            Err(failure) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                let text = match failure {
                    Failure::Stays(text) | Failure::Unclear(text) => text,
                };
                tracing::warn!(to = order.to, why = text, "partitions were not moved");
                if self.resolve(&leaving).is_err() {
                    self.resolve_later();
                }
                Err(refused(text))
            }
        }
    }

    /// The steps. Each may be the last.
    fn leave(
        &self,
        order: &Order,
        leaving: &Leaving,
        peer: &AdminClient,
        table: &Table,
    ) -> Result<Option<MoveDone>, Failure> {
        let node = self.node().map_err(stays)?;
        let partitions = order.partitions;
        let reference = table.place(&order.to).map(|place| place.mqtt.as_str()).filter(|mqtt| !mqtt.is_empty());
        node.hold_partitions(partitions, reference).map_err(stays)?;
        if order.stop == Some(StopAfter::Hold) {
            return Ok(None);
        }
        let images = self.images(partitions)?;
        let before: Vec<(PartitionId, Owed)> = images.iter().map(|image| (image.partition, image.owed)).collect();
        let head = ArriveHead {
            from: self.name.clone(),
            epoch: table.epoch,
            partitions: before.iter().map(|(partition, _)| partition.0).collect(),
            tenants: self.tenant_names(),
        };
        let parcel = Parcel::new(&head, images.into_iter().map(|image| image.image).collect()).write();
        if parcel.len() > MAX_PARCEL {
            return Err(Failure::Stays(format!(
                "it takes {} bytes, more than {MAX_PARCEL}; move fewer at once",
                parcel.len()
            )));
        }
        let arrived = peer.send(&Arrive { id: &leaving.id, parcel: &parcel })?;
        self.compare(&before, &arrived)?;
        if order.stop == Some(StopAfter::Arrive) {
            return Ok(None);
        }
        self.settle()?;
        let rest = node.take_rest().map_err(stays)?;
        let parcel = Parcel::new(&CompleteHead { epoch: table.epoch + 1 }, vec![rest]).write();
        let answer = peer.send(&Complete { id: &leaving.id, parcel: &parcel });
        let answer = answer.map_err(|error| Failure::Unclear(error.to_string()))?;
        let owed = self.finish(leaving).map_err(|error| Failure::Unclear(error.to_string()))?;
        Ok(Some(MoveDone {
            epoch: table.epoch + 1,
            partitions: numbers_of(partitions),
            came_meanwhile: answer.came_meanwhile,
            owed: owed_entry(&owed),
            ms: 0,
        }))
    }

    /// Waits until whatever brokers gave out before they knew of the new place has come here, as they confirm, and for
    /// as long as a person has said that it may take on top of that.
    fn settle(&self) -> Result<(), Failure> {
        let node = self.node().map_err(stays)?;
        let began = Instant::now();
        let mut settling = node.begin_settling().map_err(stays)?;
        while let Some(left) = node.settle(settling).map_err(stays)? {
            if began.elapsed() > SETTLE_TIMEOUT {
                let seconds = SETTLE_TIMEOUT.as_secs();
                return Err(Failure::Stays(format!(
                    "a broker has not handed out its messages for here within {seconds} s: GET /api/v1/fleet shows the messages in flight and unreturned"
                )));
            }
            settling = left;
            super::pause(SETTLE_PAUSE);
        }
        super::pause(self.settle.saturating_sub(began.elapsed()));
        Ok(())
    }

    /// Images of held partitions, once all of their queues are in memory.
    fn images(&self, partitions: Partitions) -> Result<Vec<PartitionImage>, Failure> {
        let node = self.node().map_err(stays)?;
        let deadline = Instant::now() + LOAD_TIMEOUT;
        loop {
            if let Some(images) = node.snapshot_partitions(partitions, MAX_BYTES).map_err(stays)? {
                return Ok(images);
            }
            if Instant::now() > deadline {
                return Err(Failure::Stays("queues could not be read from the store in time".to_owned()));
            }
            super::pause(LOAD_PAUSE);
        }
    }

    /// Messages owed before have to be owed after. Retained messages are copied and not moved, and do not count.
    fn compare(&self, before: &[(PartitionId, Owed)], after: &Arrived) -> Result<(), Failure> {
        for (partition, owed) in before {
            let expected = Some(owed_entry(&Owed { retained: 0, ..*owed }));
            let found = after.owed.get(&partition.0).copied();
            if expected != found {
                self.counters.mismatches.fetch_add(1, Ordering::Relaxed);
                tracing::error!(partition = partition.0, owed_before = ?expected, owed_after = ?found, "a move would lose owed messages; the partition stays");
                return Err(Failure::Stays(format!(
                    "partition {}: {expected:?} was owed before, {found:?} after",
                    partition.0
                )));
            }
        }
        Ok(())
    }

    /// The new place serves the partitions: the table says so here as well, and the copy is forgotten.
    fn finish(&self, leaving: &Leaving) -> Result<Owed, ControlError> {
        let node = self.node()?;
        self.change(|state| {
            if let Some(table) = &state.table
                && let Some(to) = table.position(&leaving.to)
            {
                state.table = Some(table.moved(leaving.partitions, to, table.epoch + u64::from(!leaving.gone)));
            }
            state.leaving = Some(Leaving { gone: true, ..leaving.clone() });
        })?;
        self.apply()?;
        let no_answer = |_| ControlError::Unavailable(tidegate_console::Unavailable);
        let owed = node.forget_partitions(leaving.partitions).map_err(no_answer)?;
        node.release_partitions(leaving.partitions).map_err(no_answer)?;
        self.change(|state| state.leaving = None)?;
        let moved = leaving.partitions.iter().count() as u64;
        self.counters.moved_out.fetch_add(moved, Ordering::Relaxed);
        tracing::info!(
            to = leaving.to,
            partitions = moved,
            sessions = owed.sessions,
            queued = owed.queued,
            "partitions moved"
        );
        Ok(owed)
    }

    /// Finds out how a move has ended and brings it to its end here: the new place serves the partitions, or has
    /// promised never to take them in by this move.
    pub(super) fn resolve(&self, leaving: &Leaving) -> Result<bool, ControlError> {
        if leaving.gone {
            self.finish(leaving)?;
            return Ok(true);
        }
        let (peer, _) = self.target(&leaving.to).map_err(refused)?;
        let answer = peer.send(&Discard { id: &leaving.id }).map_err(|error| refused(error.to_string()))?;
        if answer.state == MoveState::Completed {
            self.finish(leaving)?;
            return Ok(true);
        }
        self.change(|state| state.leaving = None)?;
        let no_answer = |_| ControlError::Unavailable(tidegate_console::Unavailable);
        self.node()?.release_partitions(leaving.partitions).map_err(no_answer)?;
        self.apply()?;
        Ok(false)
    }

    /// Ends a move with a place that is gone for good, as the setter of the table says: partitions that were to leave
    /// stay, as they were when they were held, and partitions that have come without their rest are given up.
    pub(super) fn end_moves_with(&self, gone: &[String]) -> Result<(), ControlError> {
        let (leaving, arriving) = {
            let state = self.state();
            (state.leaving.clone(), state.arriving.clone())
        };
        if let Some(leaving) = leaving.filter(|it| !it.gone && gone.contains(&it.to)) {
            tracing::warn!(
                to = leaving.to,
                partitions = leaving.partitions.iter().count(),
                "a move was under way to a place that is gone for good; its partitions go on here as they were before"
            );
            self.change(|state| state.leaving = None)?;
            let no_answer = |_| ControlError::Unavailable(tidegate_console::Unavailable);
            self.node()?.release_partitions(leaving.partitions).map_err(no_answer)?;
            self.apply()?;
        }
        if let Some(arriving) = arriving.filter(|it| gone.contains(&it.from)) {
            tracing::warn!(
                from = arriving.from,
                partitions = arriving.partitions.iter().count(),
                "partitions were coming from a place that is gone for good, and did not all come; the arrived ones are given up"
            );
            self.give_up(&arriving.id, arriving.partitions)?;
        }
        Ok(())
    }

    /// Asks again and again, on a thread of its own, until a move that was left has come to its end.
    pub(super) fn resolve_later(self: &Arc<Self>) {
        let keeper = Arc::clone(self);
        let run = move || {
            let mut told = false;
            loop {
                let step = keeper.step.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(leaving) = keeper.state().leaving.clone() else { return };
                let Err(error) = keeper.resolve(&leaving) else { return };
                drop(step);
                if !told {
                    tracing::warn!(to = leaving.to, %error, "a move was left between two steps; its partitions are not served until the other side answers");
                }
                told = true;
                super::pause(RESOLVE_PAUSE);
            }
        };
        if let Err(error) = thread::Builder::new().name("homes".into()).spawn(run) {
            tracing::error!(%error, "cannot start a thread; POST /api/v1/homes/resume brings the move to its end");
        }
    }

    /// Gives the table to all other places. A place that does not take it gets it from the manager.
    pub(super) fn tell_others(&self) {
        let (Some(table), lease_until) = ({
            let state = self.state();
            (state.table.clone(), state.lease_until)
        }) else {
            return;
        };
        if lease_until.is_some() {
            // The manager sets tables, and leases with them.
            return;
        }
        let request = SetHomes { table: table.to_body(), ..SetHomes::default() };
        for place in table.places.iter().filter(|place| place.name != self.name && !place.admin.is_empty()) {
            if let Err(error) = self.peer(&place.admin).and_then(|peer| peer.send(&request)) {
                tracing::info!(place = place.name, %error, "a place does not take the new table");
            }
        }
    }
}

fn read_order(request: &MovePartitions) -> Result<Order, ControlError> {
    let numbers: Vec<u16> = request.partition.into_iter().chain(request.partitions.iter().flatten().copied()).collect();
    let invalid = || ControlError::Invalid(format!("a partition is a number of 0 to {}", PARTITIONS - 1));
    let partitions = read_partitions(&numbers).filter(|it| !it.is_empty()).ok_or_else(invalid)?;
    Ok(Order { partitions, to: request.to.clone(), stop: request.stop_after })
}
