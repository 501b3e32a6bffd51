//! Partitions arrive: the new place's part of a move.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_admin::homes::{ArriveHead, Arrived, CompleteHead, MoveState, MoveStatus, Owed as OwedEntry};
use tidegate_console::api::ControlError;
use tidegate_engine::{Owed, PartitionImage, Partitions, UplinkState};

use super::HomesKeeper;
use super::parcel::Parcel;
use super::state::{Arriving, read_partitions, remember};
use super::view::{owed_entry, refused};

/// How long brokers may take to hold the filters of arriving sessions.
const FILTERS_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause before it is looked again whether they do.
const FILTERS_PAUSE: Duration = Duration::from_millis(2);
/// Longest id of a move.
const MAX_ID: usize = 256;

impl HomesKeeper {
    /// Takes partitions in and holds them, once brokers give them published messages.
    pub(super) fn take_in(&self, id: &str, parcel: &[u8]) -> Result<Arrived, ControlError> {
        let invalid = || ControlError::Invalid("the body is no parcel of partitions of this version".to_owned());
        let parcel = Parcel::read(parcel).ok_or_else(invalid)?;
        let head: ArriveHead = parcel.read_head().ok_or_else(invalid)?;
        let ArriveHead { from, partitions, tenants, .. } = head;
        if id.len() > MAX_ID || partitions.len() != parcel.pieces.len() {
            return Err(invalid());
        }
        let all = read_partitions(&partitions).ok_or_else(invalid)?;
        if from == self.name {
            let text = format!(
                "the orchestrator that sends them is named `{from}` as this one is: give each a --name of its own"
            );
            tracing::error!("{text}");
            return Err(refused(text));
        }
        let own = self.tenant_names();
        if !own.iter().zip(&tenants).all(|(own, other)| own == other) || tenants.len() > own.len() {
            return Err(refused(format!(
                "tenants have other numbers at `{from}` ({}) than here ({}): name the same [[tenant]] sections in the same order",
                tenants.join(", "),
                own.join(", ")
            )));
        }
        // Two places that give each other something at once refuse rather than wait for each other.
        let busy = || refused("another move is under way; try again");
        let _step = self.step.try_lock().map_err(|_| busy())?;
        self.check_arrival(id, all)?;
        self.change(|state| {
            state.arriving = Some(Arriving { id: id.to_owned(), from: from.clone(), partitions: all });
        })?;
        if self.state().given_up.iter().any(|known| known == id) {
            // Its sender did not wait for the step.
            self.change(|state| state.arriving = None)?;
            return Err(refused("this move was given up"));
        }
        let images = all.iter().zip(parcel.pieces).map(|(partition, image)| PartitionImage {
            partition,
            image,
            owed: Owed::default(),
        });
        match self.take_images(images.collect()) {
            Ok(owed) => {
                tracing::info!(
                    from,
                    partitions = all.iter().count(),
                    "partitions have come, and wait for the rest of their messages"
                );
                Ok(Arrived { owed })
            }
            Err(error) => {
                self.give_up(id, all)?;
                Err(error)
            }
        }
    }

    /// Whether partitions may come by this move.
    fn check_arrival(&self, id: &str, partitions: Partitions) -> Result<(), ControlError> {
        let state = self.state();
        let table = state.table.as_ref().ok_or_else(|| refused("there is no table of homes here"))?;
        if state.given_up.iter().any(|known| known == id) {
            return Err(refused("this move was given up"));
        }
        if state.completed.iter().any(|known| known == id) {
            return Err(refused("this move has come to its end"));
        }
        if state.leaving.is_some() || state.arriving.as_ref().is_some_and(|other| other.id != id) {
            return Err(refused("another move is under way; try again"));
        }
        let here = table.at(&self.name);
        match partitions.iter().find(|partition| here.has(*partition)) {
            Some(partition) => Err(refused(format!("partition {} is at home here already", partition.0))),
            None => Ok(()),
        }
    }

    fn take_images(&self, images: Vec<PartitionImage>) -> Result<BTreeMap<u16, OwedEntry>, ControlError> {
        let node = self.node()?;
        let arrived = node.arrive(images).map_err(|error| refused(error.to_string()))?;
        if arrived.given_up.sessions > 0 {
            self.counters.given_up.fetch_add(arrived.given_up.sessions, Ordering::Relaxed);
            tracing::warn!(
                sessions = arrived.given_up.sessions,
                queued = arrived.given_up.queued,
                "sessions were given up for the newer ones that have come"
            );
        }
        let deadline = Instant::now() + FILTERS_TIMEOUT;
        while !self.brokers_know()? {
            if Instant::now() > deadline {
                return Err(refused(
                    "the brokers do not hold the filters of the arriving sessions; is one of them slow?",
                ));
            }
            super::pause(FILTERS_PAUSE);
        }
        let owed = arrived.owed.iter();
        Ok(owed.map(|(partition, owed)| (partition.0, owed_entry(&Owed { retained: 0, ..*owed }))).collect())
    }

    /// Whether all brokers that are there hold all filters.
    fn brokers_know(&self) -> Result<bool, ControlError> {
        let fleet = self.node()?.fleet().map_err(|_| ControlError::Unavailable(tidegate_console::Unavailable))?;
        Ok(fleet.brokers.iter().map(|broker| &broker.uplink).all(|uplink| match uplink.state {
            // One that has been tried in vain gives nothing to anybody here.
            UplinkState::Connecting => !uplink.last_error.is_empty(),
            UplinkState::Subscribing => false,
            UplinkState::Down => true,
            _ => uplink.filters_pending == 0,
        }))
    }

    /// Takes in the messages that came for the partitions at their old place, and serves them from now on.
    pub(super) fn complete_arrival(&self, id: &str, rest: &[u8]) -> Result<MoveStatus, ControlError> {
        let invalid = || ControlError::Invalid("the body is no parcel of this version".to_owned());
        let parcel = Parcel::read(rest).ok_or_else(invalid)?;
        let CompleteHead { epoch } = parcel.read_head().ok_or_else(invalid)?;
        let [rest] = parcel.pieces.as_slice() else { return Err(invalid()) };
        let _step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let arriving = {
            let state = self.state();
            if state.completed.iter().any(|known| known == id) {
                return Ok(MoveState::Completed.into());
            }
            let arriving = state.arriving.clone().filter(|arriving| arriving.id == id);
            arriving.ok_or_else(|| refused("nothing has come by this move, or it was given up"))?
        };
        let node = self.node()?;
        let came = node.deliver_rest(arriving.partitions, rest).map_err(|error| refused(error.to_string()))?;
        self.change(|state| {
            if let Some(table) = &state.table
                && let Some(own) = table.position(&self.name)
            {
                state.table = Some(table.moved(arriving.partitions, own, epoch.max(table.epoch)));
            }
            state.arriving = None;
            remember(&mut state.completed, id);
        })?;
        self.apply()?;
        node.release_partitions(arriving.partitions)
            .map_err(|_| ControlError::Unavailable(tidegate_console::Unavailable))?;
        let moved = arriving.partitions.iter().count() as u64;
        self.counters.moved_in.fetch_add(moved, Ordering::Relaxed);
        tracing::info!(
            from = arriving.from,
            partitions = moved,
            came_meanwhile = came,
            "partitions are served here now"
        );
        Ok(MoveStatus { state: MoveState::Completed, came_meanwhile: Some(came) })
    }

    /// How far a move is.
    pub(super) fn state_of(&self, id: &str) -> MoveState {
        let state = self.state();
        if state.completed.iter().any(|known| known == id) {
            MoveState::Completed
        } else if state.arriving.as_ref().is_some_and(|arriving| arriving.id == id) {
            MoveState::Arriving
        } else if state.given_up.iter().any(|known| known == id) {
            MoveState::GivenUp
        } else {
            MoveState::Unknown
        }
    }

    /// Gives a move up for good, unless it has come to its end; says which.
    pub(super) fn discard_arrival(&self, id: &str) -> Result<MoveState, ControlError> {
        if !matches!(self.state_of(id), MoveState::Completed | MoveState::Arriving) {
            // Not behind other steps: two places that refuse each other's moves would wait for each other.
            self.change(|state| remember(&mut state.given_up, id))?;
            if self.state_of(id) != MoveState::Arriving {
                return Ok(MoveState::GivenUp);
            }
        }
        let _step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        match self.state_of(id) {
            MoveState::Completed => return Ok(MoveState::Completed),
            MoveState::Arriving => {
                let partitions = self.state().arriving.as_ref().map_or(Partitions::NONE, |it| it.partitions);
                self.give_up(id, partitions)?;
            }
            _ => self.change(|state| remember(&mut state.given_up, id))?,
        }
        Ok(MoveState::GivenUp)
    }

    /// Forgets the partitions of a move, which is never taken in again.
    pub(super) fn give_up(&self, id: &str, partitions: Partitions) -> Result<(), ControlError> {
        let no_answer = |_| ControlError::Unavailable(tidegate_console::Unavailable);
        self.change(|state| {
            state.arriving = None;
            remember(&mut state.given_up, id);
        })?;
        let node = self.node()?;
        node.forget_partitions(partitions).map_err(no_answer)?;
        node.release_partitions(partitions).map_err(no_answer)?;
        self.apply()
    }
}
