//! What the admin API asks and tells the node.

mod fleet;

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_admin::fleet::BrokerAddress;
use tidegate_admin::{
    BanEntry, BanRequest, BanTarget, ClientEntry, ClientsRequest, DrainRequest, DrainStatus, FleetStatus, SlowClient,
    Story, StoryEvent, Subject, UnbanRequest,
};
use tidegate_console::Unavailable;
use tidegate_console::api::{Control, ControlError, Homes, reason_entry};
use tidegate_engine::{ClientQuery, ClientSummary, Millis, Now, SlowSession, TenantId};
use tidegate_node::{Ban, BanOrigin, FlightEvent, FlightSubject, Network, NodeHandle};

use crate::homes::HomesApi;
use crate::status::BrokerStatus;

pub(crate) use fleet::broker as broker_status;

impl Control for BrokerStatus {
    fn why(&self, subject: &Subject) -> Result<Story, ControlError> {
        let subject = match subject {
            Subject::Client(name) => FlightSubject::Client(name.as_str().into()),
            Subject::Topic(name) => FlightSubject::Topic(name.as_str().into()),
            Subject::Address(text) => FlightSubject::Address(network(text)?),
        };
        let answer = self.node()?.why(&subject).map_err(|_| Unavailable)?;
        Ok(Story { events: answer.events.iter().map(story_event).collect(), suppressed: answer.suppressed })
    }

    fn slow(&self, limit: usize) -> Result<Vec<SlowClient>, ControlError> {
        let slow = self.node()?.slow_sessions(limit).map_err(|_| Unavailable)?;
        Ok(slow.into_iter().map(slow_client).collect())
    }

    fn clients(&self, request: &ClientsRequest, limit: usize) -> Result<Vec<ClientEntry>, ControlError> {
        let after = match &request.after {
            Some(client) => Some((self.tenant(&request.after_tenant)?, client.clone())),
            None => None,
        };
        let (containing, filters) = (request.containing.clone(), request.filters as usize);
        let query = ClientQuery { containing, after, limit, filters };
        let clients = self.node()?.clients(&query).map_err(|_| Unavailable)?;
        Ok(clients.into_iter().map(|(summary, address)| self.client_entry(summary, address)).collect())
    }

    fn bans(&self) -> Result<Vec<BanEntry>, ControlError> {
        let node = self.node()?;
        let now = node.now();
        Ok(node.admission().bans(now).iter().map(|ban| self.ban_entry(now, ban)).collect())
    }

    fn ban(&self, request: &BanRequest) -> Result<u64, ControlError> {
        let node = self.node()?;
        let now = node.now();
        let until = match request.for_seconds {
            Some(seconds) => now.monotonic.plus(seconds.saturating_mul(1000)),
            None => Millis::NEVER,
        };
        let target = self.node_target(&request.target, &request.tenant)?;
        let reason = request.reason.as_str().into();
        let ban = Ban { target, reason, origin: BanOrigin::Operator, since: now.unix, until };
        let closed = node.ban(ban.clone()).map_err(refused)?;
        let seconds = request.for_seconds;
        tracing::warn!(banned = %ban.target, why = &*ban.reason, seconds, closed, "an operator banned");
        Ok(closed)
    }

    fn unban(&self, request: &UnbanRequest) -> Result<bool, ControlError> {
        let target = self.node_target(&request.target, &request.tenant)?;
        let removed = self.node()?.unban(&target).map_err(refused)?;
        if removed {
            tracing::info!(banned = %target, "an operator ended a ban");
        }
        Ok(removed)
    }

    fn homes(&self) -> Option<Arc<dyn Homes>> {
        // What one user has stays with the orchestrator that shows its credentials.
        let moves = self.fleet_config().is_some_and(|config| !config.passes_clients_through());
        let keeper = self.homes_keeper().filter(|_| moves)?;
        Some(Arc::new(HomesApi(Arc::clone(keeper))))
    }

    fn cluster(&self) -> Option<serde_json::Value> {
        self.cluster_api().map(crate::cluster::ClusterApi::view)
    }

    fn hub(&self) -> Result<serde_json::Value, ControlError> {
        crate::hub::status_of(self)
    }

    fn pause_pipeline(&self, name: &str, paused: bool) -> Result<(), ControlError> {
        let done = self.pipelines().is_some_and(|pipelines| pipelines.pause(name, paused));
        if done { Ok(()) } else { Err(ControlError::Invalid(format!("there is no pipeline `{name}`"))) }
    }

    fn fleet(&self) -> Result<FleetStatus, ControlError> {
        fleet::status(self)
    }

    fn set_broker(&self, name: &str, settings: &BrokerAddress) -> Result<(), ControlError> {
        fleet::set_broker(self, name, settings)
    }

    fn drain_broker(&self, name: &str) -> Result<(), ControlError> {
        fleet::drain_broker(self, name)
    }

    fn remove_broker(&self, name: &str, force: bool) -> Result<(), ControlError> {
        fleet::remove_broker(self, name, force)
    }

    fn drain(&self, request: &DrainRequest) -> Result<(), ControlError> {
        fleet::drain(self, request)
    }

    fn end_drain(&self) -> Result<(), ControlError> {
        fleet::end_drain(self)
    }

    fn drain_status(&self) -> Result<DrainStatus, ControlError> {
        fleet::drain_status(self)
    }
}

impl BrokerStatus {
    pub(super) fn node(&self) -> Result<&NodeHandle, Unavailable> {
        self.handle().ok_or(Unavailable)
    }

    /// A tenant by its name; the empty name is the default one.
    fn tenant(&self, name: &str) -> Result<TenantId, ControlError> {
        let known = self.tenancy().ok_or(Unavailable)?.named(name);
        known.ok_or_else(|| ControlError::Invalid(format!("there is no tenant `{name}`")))
    }

    fn tenant_name(&self, tenant: TenantId) -> String {
        self.tenancy().map(|tenancy| tenancy.name(tenant)).unwrap_or_default()
    }

    fn client_entry(&self, summary: ClientSummary, address: Option<IpAddr>) -> ClientEntry {
        ClientEntry {
            tenant: self.tenant_name(summary.tenant),
            connected: summary.connection.is_some(),
            address: address.map(|address| address.to_string()),
            version: summary.version.map(|version| version.to_string()),
            keep_alive: summary.keep_alive,
            user: summary.user_name,
            session_expiry: summary.expiry_seconds,
            subscriptions: summary.subscriptions,
            filters: summary.filters,
            inflight_messages: summary.inflight_messages,
            queued_messages: summary.queued_messages,
            queued_bytes: summary.queued_bytes,
            client: summary.client_id,
        }
    }

    /// Whom a ban is about. An address belongs to no tenant.
    fn node_target(&self, target: &BanTarget, tenant: &str) -> Result<tidegate_node::BanTarget, ControlError> {
        let named = || self.tenant(tenant);
        Ok(match target {
            BanTarget::Address(_) if !tenant.is_empty() => {
                return Err(ControlError::Invalid("an address belongs to no tenant: leave `tenant` out".to_owned()));
            }
            BanTarget::Address(text) => tidegate_node::BanTarget::Address(network(text)?),
            BanTarget::Client(name) => tidegate_node::BanTarget::Client(named()?, name.as_str().into()),
            BanTarget::User(name) => tidegate_node::BanTarget::User(named()?, name.as_str().into()),
        })
    }

    fn ban_entry(&self, now: Now, ban: &Ban) -> BanEntry {
        let tenant = match &ban.target {
            tidegate_node::BanTarget::Address(_) => TenantId::DEFAULT,
            tidegate_node::BanTarget::Client(tenant, _) | tidegate_node::BanTarget::User(tenant, _) => *tenant,
        };
        BanEntry {
            kind: ban.target.kind().to_owned(),
            name: ban.target.name(),
            tenant: self.tenant_name(tenant),
            reason: ban.reason.to_string(),
            origin: ban.origin.label().to_owned(),
            since_ms: ban.since,
            until_ms: (ban.until != Millis::NEVER).then(|| now.to_unix(ban.until)),
        }
    }
}

fn refused(error: impl std::fmt::Display) -> ControlError {
    ControlError::Refused(error.to_string())
}

fn network(text: &str) -> Result<Network, ControlError> {
    text.parse().map_err(|error: tidegate_node::NetworkError| ControlError::Invalid(error.to_string()))
}

fn story_event(event: &FlightEvent) -> StoryEvent {
    StoryEvent {
        at_ms: event.at,
        kind: event.kind.label().to_owned(),
        shard: event.shard.0,
        client: event.client_id.as_deref().map(str::to_owned),
        topic: event.topic.as_deref().map(str::to_owned),
        address: event.address.map(|address| address.to_string()),
        reason: event.reason.map(reason_entry),
        detail: event.detail.to_string(),
        suppressed: event.suppressed,
    }
}

fn slow_client(slow: SlowSession) -> SlowClient {
    SlowClient {
        client: slow.client_id,
        tenant: slow.tenant.0,
        connected: slow.connected,
        unacknowledged_packet_id: slow.unacknowledged,
        inflight_messages: slow.inflight_messages,
        waiting_ms: slow.waiting_ms,
        queued_messages: slow.queued_messages,
        queued_bytes: slow.queued_bytes,
        blocked_publishers: slow.blocked_publishers,
    }
}
