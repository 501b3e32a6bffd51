//! The admin API below `/api/v1/`: questions and commands of people and scripts to a running broker.
//!
//! [`tidegate_admin`] has the requests, answers and paths.
//!
//! Answers are JSON; an error is `{"error": TEXT}`. [`Access`] says who may ask.

mod access;
mod advice;
mod answers;
mod body;
pub(crate) mod changes;
mod cluster;
mod cluster_wide;
mod fleet;
mod hub;
pub(crate) mod operations;
mod reasons;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post, put};
use tidegate_admin::fleet::{BrokerAddress, DrainBroker};
use tidegate_admin::members::BanChanged;
use tidegate_admin::{
    BanEntry, BanRecord, BanRequest, ClientEntry, ClientsRequest, DrainRequest, DrainStatus, FleetStatus, GetFleet,
    GetTotals, InvalidRequest, KickRequest, MeterRequest, PipelineOrder, Pipelines, Request, SlowClient, SlowRequest,
    Story, TenantUsage, UnbanRequest, WhyRequest,
};

use crate::status::Unavailable;

pub use access::Access;
pub(crate) use access::{guard_api, guard_metrics};
pub use advice::page as reasons_page;
pub use cluster_wide::{Members, answer_member};
pub use reasons::reason_entry;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The broker does not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The broker starts, and cannot answer this yet. The text is the reason of the wait, where one is known.
    #[error("the broker is starting{}: ask again when it is ready", .0.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    Starting(Option<String>),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The request is not possible at the moment.
    #[error("{0}")]
    Refused(String),
}

impl From<InvalidRequest> for ControlError {
    fn from(error: InvalidRequest) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// The bans of a process.
pub trait BanControl {
    /// All bans that hold.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn list(&self) -> Result<Vec<BanEntry>, ControlError>;

    /// Bans, and closes the connections of the banned. Returns the change for other members, too.
    ///
    /// # Errors
    /// When the broker does not answer, or the ban is not possible.
    fn add(&self, request: &BanRequest) -> Result<(BanChanged, BanRecord), ControlError>;

    /// Ends a ban. Returns the change for other members, too.
    ///
    /// # Errors
    /// When the broker does not answer, there is no such tenant, or the configuration bans.
    fn remove(&self, request: &UnbanRequest) -> Result<(BanChanged, BanRecord), ControlError>;

    /// Takes in a change of a ban by another member.
    ///
    /// # Errors
    /// As of [`Self::add`] and [`Self::remove`].
    fn change(&self, record: &BanRecord) -> Result<BanChanged, ControlError>;

    /// Takes in changes of bans by other members. A refused one is logged.
    fn change_all(&self, records: &[BanRecord]) {
        for record in records {
            if let Err(error) = self.change(record) {
                let (kind, name) = (record.target.kind(), record.target.name());
                tracing::warn!(kind, name, %error, "a ban of another node could not be applied here");
            }
        }
    }

    /// Bans of operators, and ends of such bans, for other members.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn records(&self) -> Result<Vec<BanRecord>, ControlError>;
}

/// The brokers behind an orchestrator, and the drain of its clients.
pub trait FleetControl {
    /// The orchestrator with its brokers.
    ///
    /// # Errors
    /// When the broker does not answer, or is no orchestrator.
    fn status(&self) -> Result<FleetStatus, ControlError>;

    /// Adds a broker to the fleet, or changes one.
    ///
    /// # Errors
    /// When the name or the address is invalid, another broker has the address, or this is no orchestrator.
    fn set_broker(&self, name: &str, settings: &BrokerAddress) -> Result<(), ControlError>;

    /// Gives a broker of the fleet no more messages.
    ///
    /// # Errors
    /// When there is no such broker, or no other.
    fn drain_broker(&self, name: &str) -> Result<(), ControlError>;

    /// Takes a broker out of the fleet.
    ///
    /// # Errors
    /// When it owes messages and is not forced, or no broker has the name.
    fn remove_broker(&self, name: &str, force: bool) -> Result<(), ControlError>;

    /// Begins to send clients elsewhere.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn drain(&self, request: &DrainRequest) -> Result<(), ControlError>;

    /// Takes clients again.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn end_drain(&self) -> Result<(), ControlError>;

    /// The progress of the drain.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn drain_status(&self) -> Result<DrainStatus, ControlError>;
}

/// The service that answers questions and takes commands. Every call is made on a thread that may wait, for a bounded
/// time.
pub trait Control: crate::status::StatusSource {
    /// The recent events of a subject.
    ///
    /// # Errors
    /// When the broker does not answer, or the subject is no address.
    fn why(&self, request: &WhyRequest) -> Result<Story, ControlError>;

    /// The clients that hold most up, the worst first, `limit` at most.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn slow(&self, limit: usize) -> Result<Vec<SlowClient>, ControlError>;

    /// The clients that are asked for, in the order of tenants and client ids, at most `limit` in place of the limit of
    /// the request.
    ///
    /// # Errors
    /// When the broker does not answer, or there is no such tenant.
    fn clients(&self, request: &ClientsRequest, limit: usize) -> Result<Vec<ClientEntry>, ControlError>;

    /// The usage of tenants, and whether its books outlive the process. The books have all of it by then.
    ///
    /// # Errors
    /// When the broker does not answer, or the books cannot be written.
    fn meter(&self, request: &MeterRequest) -> Result<(Vec<TenantUsage>, bool), ControlError>;

    /// The bans of this process.
    fn bans(&self) -> impl BanControl;

    /// Closes connections; says how many.
    ///
    /// # Errors
    /// When the broker does not answer, or there is no such tenant.
    fn kick(&self, request: &KickRequest) -> Result<u64, ControlError>;

    /// The name of this node, or of the single broker.
    fn node_name(&self) -> String;

    /// The other members, where this is a node of a cluster. Never waits.
    fn members(&self) -> Option<Arc<dyn Members>> {
        None
    }

    /// The position of a tenant in the order of tenants, in which clients are listed.
    fn tenant_rank(&self, name: &str) -> usize;

    /// Its state in its cluster, as JSON, where it is a node of one.
    fn cluster(&self) -> Option<serde_json::Value> {
        None
    }

    /// Has this node take a share of the partitions, or hand over all that it has.
    ///
    /// # Errors
    /// When it is no node of a cluster.
    fn want_share(&self, _wanted: bool) -> Result<(), ControlError> {
        Err(ControlError::Refused(NO_CLUSTER.to_owned()))
    }

    /// The reports of its pipelines.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn hub(&self) -> Result<Pipelines, ControlError> {
        Ok(Pipelines::new())
    }

    /// The names of all pipelines of the configuration, also of pipelines that other members run. Never waits.
    fn pipeline_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Has a pipeline pause, resume or replay. False when this process has no such pipeline.
    ///
    /// # Errors
    /// When the pipeline cannot do it.
    fn order_pipeline(&self, _order: &PipelineOrder) -> Result<bool, ControlError> {
        Ok(false)
    }

    /// The brokers behind an orchestrator, and its drain.
    fn fleet(&self) -> impl FleetControl;
}

/// The answer of a process that is no node of a cluster.
pub const NO_CLUSTER: &str = "this is no node of a cluster: give it --node and --bus";

/// The paths of the API.
pub(crate) fn router<S: Control>() -> Router<Arc<S>> {
    let bans = get(cluster_wide::bans::<S>).post(cluster_wide::ban::<S>).delete(cluster_wide::unban::<S>);
    let fleet = Router::new()
        .route(GetFleet::ROUTE, get(fleet::get::<S>))
        .route(BrokerAddress::ROUTE, put(fleet::set_broker::<S>).delete(fleet::remove_broker::<S>))
        .route(DrainBroker::ROUTE, post(fleet::drain_broker::<S>))
        .route(DrainRequest::ROUTE, get(fleet::drain_status::<S>).post(fleet::drain::<S>).delete(fleet::end_drain::<S>))
        .layer(middleware::from_fn(fleet::guard_changes));
    Router::new()
        .route(WhyRequest::ROUTE, get(cluster_wide::why::<S>))
        .route(SlowRequest::ROUTE, get(cluster_wide::slow::<S>))
        .route(MeterRequest::ROUTE, get(cluster_wide::meter::<S>))
        .route(GetTotals::ROUTE, get(cluster_wide::totals::<S>))
        .route(ClientsRequest::ROUTE, get(cluster_wide::clients::<S>))
        .route(KickRequest::ROUTE, post(cluster_wide::kick::<S>))
        .route(BanRequest::ROUTE, bans)
        .merge(fleet)
        .merge(cluster::router::<S>())
        .merge(hub::router::<S>())
        .layer(DefaultBodyLimit::max(body::MAX_BODY))
}

/// Carries out slow requests on a thread that may wait, so that health is answered meanwhile.
pub(crate) async fn waiting<T: Send + 'static>(
    action: impl FnOnce() -> Result<T, ControlError> + Send + 'static,
) -> Result<T, ControlError> {
    let ended = tokio::task::spawn_blocking(action).await;
    ended.unwrap_or(Err(ControlError::Unavailable(Unavailable)))
}
