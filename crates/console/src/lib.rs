//! The HTTP listener of a broker: metrics and health for machines.
//!
//! | path | answer |
//! | --- | --- |
//! | `/` | a page for people with a browser; for others the paths |
//! | `/metrics` | all [`metrics`], in the text format of Prometheus |
//! | `/healthz` | 200 while the process works |
//! | `/readyz` | 200 while clients are taken in; 503 before, while stopping, and while nothing can be kept |
//! | `/api/v1/` | the [`api`]: why something happened, and bans |
//! | `POST /api/v1/reload` | 200 when the configuration was read again and is in force; from this machine only |
//!
//! It runs on its own thread, which sleeps until a request comes. It knows nothing of the broker but a
//! [`StatusSource`] with its [`api::Control`] and [`Operations`], and the broker runs as well without it. Every
//! connection is bounded in time, in the size of a request's head, and in number; when there are too many, the longest
//! silent one makes room, so that health is always answered.

pub mod api;
#[macro_use]
mod cluster;
pub mod metrics;
#[cfg(feature = "page")]
mod page;
mod process;
mod protocols;
mod routes;
mod server;
mod status;

pub use api::changes::Operations;
pub use cluster::ClusterNumbers;
pub use protocols::{CoapNumbers, HttpNumbers};
pub use server::{Console, ConsoleError, Limits, Running};
pub use status::{
    AdmissionStatus, BridgeEnd, BridgeNumbers, Phase, PipelineNumbers, Status, StatusSource, StoreCondition,
    TenantMeter, TenantNumbers, Unavailable,
};
