//! What the admin API asks of the homes.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use tidegate_console::api::{ControlError, Homes};
use tidegate_engine::{Owed, PARTITIONS};

use super::HomesKeeper;
use super::state::partitions_json;
use super::table::Table;

/// A refusal.
pub(super) fn refused(text: impl Into<String>) -> ControlError {
    ControlError::Refused(text.into())
}

/// What is owed, by name.
pub(crate) fn owed_json(owed: &Owed) -> Value {
    json!({
        "sessions": owed.sessions,
        "subscriptions": owed.subscriptions,
        "fetches": owed.fetches,
        "queued": owed.queued,
        "await_puback": owed.await_pub_ack,
        "await_pubrec": owed.await_pub_rec,
        "await_pubcomp": owed.await_pub_comp,
        "await_pubrel": owed.await_pub_rel,
        "wills": owed.wills,
        "retained": owed.retained,
    })
}

/// What answers for an orchestrator.
pub(crate) struct HomesApi(pub(crate) Arc<HomesKeeper>);

impl Homes for HomesApi {
    fn view(&self) -> Result<Value, ControlError> {
        let keeper = &self.0;
        let now = keeper.node()?.now();
        let state = keeper.state().clone();
        let numbers = keeper.numbers();
        let progress = keeper.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let alone = || json!({ "epoch": 0, "places": [], "homes": vec![keeper.name.clone(); PARTITIONS.into()] });
        let mut view = state.table.as_ref().map_or_else(alone, Table::to_json);
        let leaving = state
            .leaving
            .as_ref()
            .map(|it| json!({ "id": it.id, "to": it.to, "partitions": partitions_json(it.partitions) }));
        let arriving = state
            .arriving
            .as_ref()
            .map(|it| json!({ "id": it.id, "from": it.from, "partitions": partitions_json(it.partitions) }));
        let more = json!({
            "name": keeper.name,
            "here": numbers.here,
            "lease_ms": state.lease_until.map(|until| until.saturating_sub(now.unix)),
            "leaving": leaving,
            "arriving": arriving,
            "move_all": { "running": progress.running, "moved": progress.moved, "last_error": progress.last_error },
            "moved_out": numbers.moved_out,
            "moved_in": numbers.moved_in,
            "moves_failed": numbers.failed,
            "owed_mismatches": numbers.mismatches,
            "taken_anew": numbers.taken_anew,
            "sessions_given_up": numbers.given_up,
        });
        if let (Some(view), Value::Object(more)) = (view.as_object_mut(), more) {
            view.extend(more);
        }
        Ok(view)
    }

    fn set(&self, table: &Value) -> Result<Value, ControlError> {
        self.0.put(table)?;
        self.view()
    }

    fn start_move(&self, request: &Value) -> Result<Value, ControlError> {
        let moved = self.0.move_named(request)?;
        self.0.tell_others();
        Ok(moved)
    }

    fn move_all(&self, request: &Value) -> Result<Value, ControlError> {
        self.0.begin_move_all(request)
    }

    fn resume(&self) -> Result<Value, ControlError> {
        let _step = self.0.step.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(leaving) = self.0.state().leaving.clone() else {
            return Ok(json!({ "moved": false, "left": false }));
        };
        Ok(json!({ "moved": self.0.resolve(&leaving)?, "left": true }))
    }

    fn arrive(&self, id: &str, parcel: &[u8]) -> Result<Value, ControlError> {
        self.0.take_in(id, parcel)
    }

    fn complete(&self, id: &str, rest: &[u8]) -> Result<Value, ControlError> {
        self.0.complete_arrival(id, rest)
    }

    fn arrival(&self, id: &str) -> Result<Value, ControlError> {
        Ok(json!({ "state": self.0.state_of(id) }))
    }

    fn discard(&self, id: &str) -> Result<Value, ControlError> {
        self.0.discard_arrival(id)
    }
}
