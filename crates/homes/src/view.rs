//! What the admin API asks of the homes.

use std::sync::{Arc, PoisonError};

use tidegate_admin::homes::{
    Arrived, Arriving, HomeOf, HomesTable, HomesView, Leaving, MoveAll, MoveAllBegun, MoveAllStatus, MovePartitions,
    MoveState, MoveStatus, Moved, Owed as OwedEntry, Resumed, SetHomes,
};
use tidegate_console::api::{ControlError, Homes};
use tidegate_engine::{Owed, PARTITIONS};

use super::HomesKeeper;
use super::state::numbers_of;
use super::table::Table;

/// A refusal.
pub(super) fn refused(text: impl Into<String>) -> ControlError {
    ControlError::Refused(text.into())
}

/// What is owed, as it is sent.
pub fn owed_entry(owed: &Owed) -> OwedEntry {
    OwedEntry {
        sessions: owed.sessions,
        subscriptions: owed.subscriptions,
        fetches: owed.fetches,
        queued: owed.queued,
        await_puback: owed.await_pub_ack,
        await_pubrec: owed.await_pub_rec,
        await_pubcomp: owed.await_pub_comp,
        await_pubrel: owed.await_pub_rel,
        wills: owed.wills,
        retained: owed.retained,
    }
}

/// What answers for an orchestrator.
pub struct HomesApi(pub Arc<HomesKeeper>);

impl Homes for HomesApi {
    fn view(&self) -> Result<HomesView, ControlError> {
        let keeper = &self.0;
        let now = keeper.node()?.now();
        let state = keeper.state().clone();
        let numbers = keeper.numbers();
        let progress = keeper.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let alone = || HomesTable {
            homes: vec![HomeOf::Name(keeper.name.clone()); PARTITIONS.into()],
            ..HomesTable::default()
        };
        Ok(HomesView {
            table: state.table.as_ref().map_or_else(alone, Table::to_body),
            name: keeper.name.clone(),
            here: numbers.here,
            lease_ms: state.lease_until.map(|until| until.saturating_sub(now.unix)),
            leaving: state.leaving.map(|it| Leaving { id: it.id, to: it.to, partitions: numbers_of(it.partitions) }),
            arriving: state.arriving.map(|it| Arriving {
                id: it.id,
                from: it.from,
                partitions: numbers_of(it.partitions),
            }),
            move_all: MoveAllStatus {
                running: progress.running,
                moved: progress.moved,
                last_error: progress.last_error,
            },
            moved_out: numbers.moved_out,
            moved_in: numbers.moved_in,
            moves_failed: numbers.failed,
            owed_mismatches: numbers.mismatches,
            taken_anew: numbers.taken_anew,
            sessions_given_up: numbers.given_up,
        })
    }

    fn set(&self, request: &SetHomes) -> Result<HomesView, ControlError> {
        self.0.put(request)?;
        self.view()
    }

    fn start_move(&self, request: &MovePartitions) -> Result<Moved, ControlError> {
        let moved = self.0.move_named(request)?;
        self.0.tell_others();
        Ok(moved)
    }

    fn move_all(&self, request: &MoveAll) -> Result<MoveAllBegun, ControlError> {
        self.0.begin_move_all(request)
    }

    fn resume(&self) -> Result<Resumed, ControlError> {
        let _step = self.0.step.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(leaving) = self.0.state().leaving.clone() else {
            return Ok(Resumed { moved: false, left: false });
        };
        Ok(Resumed { moved: self.0.resolve(&leaving)?, left: true })
    }

    fn arrive(&self, id: &str, parcel: &[u8]) -> Result<Arrived, ControlError> {
        self.0.take_in(id, parcel)
    }

    fn complete(&self, id: &str, rest: &[u8]) -> Result<MoveStatus, ControlError> {
        self.0.complete_arrival(id, rest)
    }

    fn arrival(&self, id: &str) -> MoveState {
        self.0.state_of(id)
    }

    fn discard(&self, id: &str) -> Result<MoveState, ControlError> {
        self.0.discard_arrival(id)
    }
}
