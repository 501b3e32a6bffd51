//! The admin API of orchestrators, as their manager uses it.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_admin::cluster::{ClusterMove, GetCluster, SetShare};
use tidegate_admin::fleet::{BrokerAddress, DrainBroker, RemoveBroker, RemoveOptions, SetBroker};
use tidegate_admin::{AdminClient, ClientError, DrainRequest, EndDrain, GetDrain, GetFleet, Request, read_token};

use crate::manage::ClusterView;
use crate::manage::sight::{BrokerView, OrchestratorView};
use crate::provider::ResourceName;

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why a request to an orchestrator failed.
#[derive(Debug, thiserror::Error)]
pub enum OrchestratorError {
    /// The file of the token cannot be read.
    #[error("cannot read the token in {} (`orchestrators.admin_token_file`): {source}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// No answer, or a refusal.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Asks orchestrators.
#[derive(Clone, Debug)]
pub(super) struct OrchestratorApi {
    /// Read for each request: it may be changed while the manager works.
    token_file: Option<PathBuf>,
}

impl OrchestratorApi {
    /// # Errors
    /// When the file has no token: no orchestrator would ever answer.
    pub(super) fn open(token_file: Option<PathBuf>) -> Result<Self, OrchestratorError> {
        let api = Self { token_file };
        api.token()?;
        Ok(api)
    }

    /// An orchestrator's state of itself and of its brokers. Brokers with names that this fleet cannot have given are
    /// left out.
    pub(super) fn view(&self, admin: &str) -> Result<OrchestratorView, OrchestratorError> {
        let fleet = self.ask(admin, &GetFleet)?;
        let drain = self.ask(admin, &GetDrain)?;
        let named = fleet.brokers.into_iter().filter_map(|broker| {
            let last_error = Some(broker.last_error);
            let view = BrokerView { state: broker.state, owed: broker.owed, sent: broker.sent, last_error };
            Some((broker.name.parse().ok()?, view))
        });
        Ok(OrchestratorView {
            calls_itself: fleet.orchestrator,
            clients: fleet.clients,
            // Only the drain reports the pending messages of sessions.
            owed: fleet.owed.max(drain.owed),
            loop_lag_ms: fleet.loop_lag_ms.map(|lag| f64::from(u32::try_from(lag).unwrap_or(u32::MAX))),
            messages_in: fleet.messages_in,
            messages_out: fleet.messages_out,
            dropped: fleet.dropped,
            dropped_fleet_full: fleet.dropped_fleet_full,
            draining: drain.draining,
            cluster: self.cluster(admin)?,
            brokers: named.collect(),
        })
    }

    /// The cluster as an orchestrator sees it; `None` where it is in none.
    fn cluster(&self, admin: &str) -> Result<Option<ClusterView>, OrchestratorError> {
        let status = match self.ask(admin, &GetCluster) {
            Ok(status) => status,
            Err(OrchestratorError::Client(ClientError::Refused { status: 409, .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_own = |it: &&ClusterMove| it.from == status.name || it.to == status.name;
        let own_moves = status.moves.iter().filter(is_own).count() as u64;
        Ok(Some(ClusterView {
            is_member: status.member,
            leads: status.leads,
            wants_share: !status.leaving,
            epoch: status.epoch,
            moves: status.moves.len(),
            own_moves: own_moves + status.passing,
            partitions: status.nodes.into_iter().map(|node| (node.name, node.partitions)).collect(),
        }))
    }

    /// Has an orchestrator take a share of the partitions, or hand over all that it has.
    pub(super) fn set_share(&self, admin: &str, wanted: bool) -> Result<(), OrchestratorError> {
        self.ask(admin, &SetShare { wanted }).map(drop)
    }

    pub(super) fn add(
        &self,
        admin: &str,
        broker: &ResourceName,
        address: &str,
        replaces: &[ResourceName],
    ) -> Result<(), OrchestratorError> {
        let replaces = replaces.iter().map(ToString::to_string).collect();
        let settings = BrokerAddress { address: address.to_owned(), replaces };
        self.ask(admin, &SetBroker { name: broker.to_string(), settings }).map(drop)
    }

    pub(super) fn drain_broker(&self, admin: &str, broker: &ResourceName) -> Result<(), OrchestratorError> {
        self.ask(admin, &DrainBroker { name: broker.to_string() }).map(drop)
    }

    pub(super) fn remove(&self, admin: &str, broker: &ResourceName, force: bool) -> Result<(), OrchestratorError> {
        self.ask(admin, &RemoveBroker { name: broker.to_string(), options: RemoveOptions { force } }).map(drop)
    }

    pub(super) fn evict(&self, admin: &str, request: &DrainRequest) -> Result<(), OrchestratorError> {
        self.ask(admin, request).map(drop)
    }

    pub(super) fn end_eviction(&self, admin: &str) -> Result<(), OrchestratorError> {
        self.ask(admin, &EndDrain).map(drop)
    }

    /// The token that opens the API.
    fn token(&self) -> Result<Option<String>, OrchestratorError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        read_token(path).map(Some).map_err(|source| OrchestratorError::Token { path: path.clone(), source })
    }

    pub(super) fn ask<R: Request>(&self, admin: &str, request: &R) -> Result<R::Answer, OrchestratorError> {
        Ok(AdminClient::new(admin, self.token()?, TIMEOUT)?.send(request)?)
    }
}
