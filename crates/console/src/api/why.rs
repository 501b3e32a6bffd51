//! `GET /api/v1/why`: what happened to a client, a topic or an address.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use tidegate_admin::{ReasonEntry, WhyRequest, read_query};
use tidegate_engine::Reason;

use super::advice::advice;
use super::answers::answer;
use super::{Control, waiting};

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<WhyRequest>(query.as_deref());
    answer(waiting(move || source.why(&request?.0)).await)
}

/// A reason with its text and what to do about it.
pub fn reason_entry(reason: Reason) -> ReasonEntry {
    ReasonEntry {
        number: reason.number() as u64,
        label: reason.label().to_owned(),
        text: reason.text().to_owned(),
        code: reason.code() as u8,
        advice: advice(reason).to_owned(),
    }
}
