//! `GET /api/v1/clients`: who is there.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde_json::{Value, json};
use tidegate_engine::ClientSummary;

use super::{Control, ControlError, answer, waiting};

/// Clients in an answer unless more or fewer are asked for.
const DEFAULT_LIMIT: usize = 100;
/// Most clients in an answer.
const MAX_LIMIT: usize = 1000;
/// Most subscriptions of each that are named.
const MAX_FILTERS: usize = 100;

/// Which clients are asked for, in the order of tenants and client ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientsRequest {
    /// What their client ids contain.
    pub containing: String,
    /// Only those behind this client, where the answer before ended.
    pub after: Option<String>,
    /// The tenant of that one; the empty name is the default tenant.
    pub after_tenant: String,
    /// How many at most.
    pub limit: usize,
    /// How many subscriptions of each are named.
    pub filters: usize,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEntry {
    /// What its shard knows.
    pub summary: ClientSummary,
    /// The name of its tenant; empty for the default one.
    pub tenant: String,
    /// Where it is connected from.
    pub address: Option<IpAddr>,
}

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_request(query.as_deref().unwrap_or_default());
    let clients = waiting(move || {
        let mut request = request?;
        let limit = request.limit;
        // One more tells whether there are more.
        request.limit += 1;
        source.clients(&request).map(|clients| (clients, limit))
    });
    answer(clients.await.map(|(clients, limit)| {
        let more = clients.len() > limit;
        json!({ "clients": clients.iter().take(limit).map(json).collect::<Vec<Value>>(), "more": more })
    }))
}

fn read_request(query: &str) -> Result<ClientsRequest, ControlError> {
    let mut request = ClientsRequest { limit: DEFAULT_LIMIT, ..ClientsRequest::default() };
    for (key, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        let number = |least: usize, most: usize| {
            let number = value.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| ControlError::Invalid(format!("`{key}` is {least} to {most}")))
        };
        match key.as_str() {
            "limit" => request.limit = number(1, MAX_LIMIT)?,
            "filters" => request.filters = number(0, MAX_FILTERS)?,
            "containing" => request.containing = value,
            "after" => request.after = Some(value),
            "after_tenant" => request.after_tenant = value,
            _ => {
                let text =
                    "what may be asked for is containing=TEXT, limit=N, filters=N, after=CLIENT and after_tenant=NAME";
                return Err(ControlError::Invalid(text.to_owned()));
            }
        }
    }
    Ok(request)
}

fn json(client: &ClientEntry) -> Value {
    let ClientEntry { summary, tenant, address } = client;
    json!({
        "client": summary.client_id,
        "tenant": tenant,
        "connected": summary.connection.is_some(),
        "address": address.map(|address| address.to_string()),
        "version": summary.version.map(|version| version.to_string()),
        "keep_alive": summary.keep_alive,
        "user": summary.user_name,
        "session_expiry": summary.expiry_seconds,
        "subscriptions": summary.subscriptions,
        "filters": summary.filters,
        "inflight_messages": summary.inflight_messages,
        "queued_messages": summary.queued_messages,
        "queued_bytes": summary.queued_bytes,
    })
}
