//! Questions and commands of the admin API to the node.

mod bans;
mod fleet;
mod members;
mod quotas;
mod users;

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_admin::{
    ClientEntry, ClientsRequest, KickRequest, MeterRequest, PipelineOrder, Pipelines, SlowClient, Story, StoryEvent,
    Subject, TenantUsage, WhyRequest,
};
use tidegate_console::api::{BanControl, Control, ControlError, FleetControl, Members, NO_CLUSTER, reason_entry};
use tidegate_console::{Phase, StatusSource as _, Unavailable};
use tidegate_engine::{ClientQuery, ClientSummary, SlowSession, TenantId};
use tidegate_identity::access::Tenancy;
use tidegate_node::{FlightEvent, FlightSubject, Network, NodeHandle};

use crate::status::BrokerStatus;

use bans::Bans;
use fleet::Fleet;
use members::LinkedMembers;

pub use members::{MembersThreadError, answer_others};

impl Control for BrokerStatus {
    fn why(&self, request: &WhyRequest) -> Result<Story, ControlError> {
        let tenant = request.tenant.as_deref().map(|name| tenant_of(self.tenancy(), name)).transpose()?;
        let subject = match &request.subject {
            Subject::Client(name) => FlightSubject::Client(name.as_str().into()),
            Subject::Topic(name) => FlightSubject::Topic(name.as_str().into()),
            Subject::Address(text) => FlightSubject::Address(network(text)?),
        };
        let answer = self.node()?.clients().why(&subject, tenant).map_err(|_| Unavailable)?;
        let name = |tenant| tenant_name(self.tenancy(), tenant);
        let events = answer.events.iter().map(|event| story_event(event, event.tenant.map(name))).collect();
        Ok(Story { events, suppressed: answer.suppressed, ..Story::default() })
    }

    fn slow(&self, limit: usize) -> Result<Vec<SlowClient>, ControlError> {
        let slow = self.node()?.clients().slow_sessions(limit).map_err(|_| Unavailable)?;
        Ok(slow.into_iter().map(|slow| slow_client(tenant_name(self.tenancy(), slow.tenant), slow)).collect())
    }

    fn clients(&self, request: &ClientsRequest, limit: usize) -> Result<Vec<ClientEntry>, ControlError> {
        let after = match &request.after {
            Some(client) => Some((tenant_of(self.tenancy(), &request.after_tenant)?, client.clone())),
            None => None,
        };
        let (containing, filters) = (request.containing.clone(), request.filters as usize);
        let query = ClientQuery { containing, after, limit, filters };
        let clients = self.node()?.clients().list(&query).map_err(|_| Unavailable)?;
        Ok(clients.into_iter().map(|(summary, address)| client_entry(self.tenancy(), summary, address)).collect())
    }

    fn meter(&self, request: &MeterRequest) -> Result<(Vec<TenantUsage>, bool), ControlError> {
        self.meter().ok_or_else(|| self.no_answer())?.answer(request)
    }

    fn bans(&self) -> impl BanControl {
        Bans(self)
    }

    fn kick(&self, request: &KickRequest) -> Result<u64, ControlError> {
        let target = Bans(self).node_target(&request.target, &request.tenant)?;
        let closed = self.node()?.clients().close_connections_of(&target).map_err(|_| Unavailable)?;
        tracing::info!(%target, closed, "an operator closed connections");
        Ok(closed)
    }

    fn node_name(&self) -> String {
        members::name_of(self)
    }

    fn members(&self) -> Option<Arc<dyn Members>> {
        if self.parts().cluster().is_some() {
            return Some(Arc::new(LinkedMembers::new(self.handle()?.clone())));
        }
        None
    }

    fn tenant_rank(&self, name: &str) -> usize {
        self.tenancy().and_then(|tenancy| tenancy.named(name)).map_or(usize::MAX, |tenant| tenant.0.into())
    }

    fn cluster(&self) -> Option<serde_json::Value> {
        self.parts().cluster().map(|cluster| cluster.view())
    }

    fn want_share(&self, wanted: bool) -> Result<(), ControlError> {
        let none = || ControlError::Refused(NO_CLUSTER.to_owned());
        self.parts().cluster().ok_or_else(none)?.want_share(wanted);
        Ok(())
    }

    fn hub(&self) -> Result<Pipelines, ControlError> {
        match self.parts().pipelines() {
            Some(pipelines) => pipelines.view(self.handle()),
            None if self.phase() == Phase::Starting => Err(self.no_answer()),
            None => Ok(Pipelines::new()),
        }
    }

    fn pipeline_names(&self) -> Vec<String> {
        self.parts().pipelines().map(|pipelines| pipelines.names()).unwrap_or_default()
    }

    fn order_pipeline(&self, order: &PipelineOrder) -> Result<bool, ControlError> {
        match self.parts().pipelines() {
            Some(pipelines) => pipelines.order(order),
            None if self.phase() == Phase::Starting => Err(self.no_answer()),
            None => Ok(false),
        }
    }

    fn fleet(&self) -> impl FleetControl {
        Fleet(self)
    }
}

impl BrokerStatus {
    pub(super) fn node(&self) -> Result<&NodeHandle, ControlError> {
        self.handle().ok_or_else(|| self.no_answer())
    }

    /// Why a part of the broker gives no answer that is there in a broker that runs.
    fn no_answer(&self) -> ControlError {
        match self.phase() {
            Phase::Starting => ControlError::Starting(self.block_reason()),
            Phase::Ready | Phase::Stopping => Unavailable.into(),
        }
    }
}

/// A tenant by its name; the empty name is the default one.
fn tenant_of(tenancy: Option<&Tenancy>, name: &str) -> Result<TenantId, ControlError> {
    // They are set before the node runs.
    let known = tenancy.ok_or(ControlError::Starting(None))?.named(name);
    known.ok_or_else(|| ControlError::Invalid(format!("there is no tenant `{name}`")))
}

fn tenant_name(tenancy: Option<&Tenancy>, tenant: TenantId) -> String {
    tenancy.map(|tenancy| tenancy.name(tenant)).unwrap_or_default()
}

fn client_entry(tenancy: Option<&Tenancy>, summary: ClientSummary, address: Option<IpAddr>) -> ClientEntry {
    ClientEntry {
        node: String::new(),
        tenant: tenant_name(tenancy, summary.tenant),
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

fn network(text: &str) -> Result<Network, ControlError> {
    text.parse().map_err(|error: tidegate_node::NetworkError| ControlError::Invalid(error.to_string()))
}

fn story_event(event: &FlightEvent, tenant: Option<String>) -> StoryEvent {
    StoryEvent {
        at_ms: event.at,
        node: String::new(),
        kind: event.kind.label().to_owned(),
        shard: event.shard.0,
        tenant,
        client: event.client_id.as_deref().map(str::to_owned),
        topic: event.topic.as_deref().map(str::to_owned),
        address: event.address.map(|address| address.to_string()),
        reason: event.reason.map(reason_entry),
        detail: event.detail.to_string(),
        suppressed: event.suppressed,
    }
}

fn slow_client(tenant_name: String, slow: SlowSession) -> SlowClient {
    SlowClient {
        node: String::new(),
        client: slow.client_id,
        tenant_name,
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
