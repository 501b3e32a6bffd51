//! The admin API: one type for each request and each answer, their paths, and a client.
//!
//! The console of a broker serves these routes, the command line and the manager of a fleet ask for
//! them. All of them use the types below, so that a field has one name, one type and one unit.
//!
//! | request | type | answer |
//! | --- | --- | --- |
//! | `GET /api/v1/why` | [`WhyRequest`] | [`Story`] |
//! | `GET /api/v1/slow` | [`SlowRequest`] | [`SlowClients`] |
//! | `GET /api/v1/totals` | [`GetTotals`] | [`Totals`] |
//! | `GET /api/v1/clients` | [`ClientsRequest`] | [`Clients`] |
//! | `GET /api/v1/bans` | [`ListBans`] | [`BanList`] |
//! | `POST /api/v1/bans` | [`BanRequest`] | [`Banned`] |
//! | `DELETE /api/v1/bans` | [`UnbanRequest`] | [`Unbanned`] |
//! | `POST /api/v1/kick` | [`KickRequest`] | [`Kicked`] |
//! | `POST /api/v1/reload` | [`ReloadRequest`] | [`Reloaded`] |
//! | `/api/v1/drain` | [`DrainRequest`], [`GetDrain`], [`EndDrain`] | [`DrainStatus`], [`Done`] |
//! | `GET /readyz` | [`AdminClient::readiness`] | [`Readiness`] |
//! | `GET /healthz` | [`AdminClient::liveness`] | none |
//! | `GET /api/v1/meter` | [`MeterRequest`] | [`Metered`] |
//! | `GET /api/v1/hub` | [`GetHub`] | JSON |
//! | `POST /api/v1/hub/NAME/pause`, `.../resume` | [`PausePipeline`], [`ResumePipeline`] | [`Done`] |
//! | `/api/v1/fleet` | [`GetFleet`] and types of [`fleet`] | [`FleetStatus`], [`Done`] |
//! | `/api/v1/cluster` | types of [`cluster`] | [`cluster::ClusterStatus`], [`Done`] |
//! | `/api/v1/status`, `/api/v1/plan` of a manager | types of [`manager`] | JSON |
//!
//! A request is read strictly: an unknown field, a wrong type and a value out of its range are errors that name the
//! field. An answer is read leniently: a client ignores fields that it does not know, and fields that were added later
//! have defaults. A time is milliseconds since 1970 and ends in `_ms`, unless its documentation says otherwise.

pub mod bans;
pub mod client;
pub mod clients;
pub mod cluster;
pub mod drain;
pub mod fleet;
pub mod hub;
mod invalid;
mod kick;
pub mod manager;
pub mod members;
pub mod meter;
mod read;
mod ready;
pub mod reload;
mod request;
pub mod slow;
mod token;
mod totals;
pub mod why;

pub use bans::{
    BanEntry, BanList, BanRecord, BanRequest, BanTarget, BanTerms, Banned, Closed, ListBans, UnbanRequest, Unbanned,
};
pub use client::{AdminClient, ClientError, read_token};
pub use clients::{ClientEntry, Clients, ClientsRequest};
pub use drain::{DrainRequest, DrainStatus, EndDrain, GetDrain};
pub use fleet::{BrokerState, BrokerStatus, FleetStatus, GetFleet};
pub use hub::{
    FailedMessage, GetHub, PausePipeline, PipelineCommand, PipelineCounts, PipelineOrder, PipelineReport, Pipelines,
    ReplayPipeline, ResumePipeline, SinkError, SinkReport,
};
pub use invalid::InvalidRequest;
pub use kick::{KickRequest, Kicked};
pub use members::{MemberAnswer, MemberRequest, Shares};
pub use meter::{MeterBy, MeterRequest, Metered, TenantUsage};
pub use read::{read_body, read_query};
pub use ready::Readiness;
pub use reload::{Change, ReloadRequest, Reloaded};
pub use request::{Body, COMMAND_HEADER, Done, Method, Refusal, Request};
pub use slow::{SlowClient, SlowClients, SlowRequest};
pub use token::{ListenerToken, MIN_TOKEN_LEN, TokenError, TokenFileError, read_listener_token};
pub use totals::{Amount, GetTotals, NodeTotals, Totals};
pub use why::{ReasonEntry, Story, StoryEvent, Subject, WhyRequest};

use std::ops::RangeInclusive;

/// Checks that a number of a request is in its range.
fn in_range<T: PartialOrd + std::fmt::Display>(
    field: &str,
    value: &T,
    range: &RangeInclusive<T>,
) -> Result<(), InvalidRequest> {
    if range.contains(value) {
        return Ok(());
    }
    Err(InvalidRequest::new(format!("`{field}` must be {} to {}", range.start(), range.end())))
}
