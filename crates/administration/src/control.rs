//! What the admin API asks and tells the node.

mod fleet;
mod members;

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_admin::fleet::BrokerAddress;
use tidegate_admin::members::BanChanged;
use tidegate_admin::{
    BanEntry, BanRecord, BanRequest, BanTarget, BanTerms, ClientEntry, ClientsRequest, DrainRequest, DrainStatus,
    FleetStatus, KickRequest, MeterRequest, PipelineOrder, SlowClient, Story, StoryEvent, Subject, TenantUsage,
    UnbanRequest, WhyRequest,
};
use tidegate_console::Unavailable;
use tidegate_console::api::{Control, ControlError, Members, NO_CLUSTER, reason_entry};
use tidegate_engine::{ClientQuery, ClientSummary, Millis, Now, SlowSession, TenantId};
use tidegate_node::{Ban, BanOrigin, FlightEvent, FlightSubject, Network, NodeHandle};

use crate::status::BrokerStatus;

use members::LinkedMembers;

pub use members::{MembersThreadError, answer_others};

impl Control for BrokerStatus {
    fn why(&self, request: &WhyRequest) -> Result<Story, ControlError> {
        let tenant = request.tenant.as_deref().map(|name| tenant_of(self, name)).transpose()?;
        let subject = match &request.subject {
            Subject::Client(name) => FlightSubject::Client(name.as_str().into()),
            Subject::Topic(name) => FlightSubject::Topic(name.as_str().into()),
            Subject::Address(text) => FlightSubject::Address(network(text)?),
        };
        let answer = self.node()?.clients().why(&subject, tenant).map_err(|_| Unavailable)?;
        let name = |tenant| tenant_name(self, tenant);
        let events = answer.events.iter().map(|event| story_event(event, event.tenant.map(name))).collect();
        Ok(Story { events, suppressed: answer.suppressed, ..Story::default() })
    }

    fn slow(&self, limit: usize) -> Result<Vec<SlowClient>, ControlError> {
        let slow = self.node()?.clients().slow_sessions(limit).map_err(|_| Unavailable)?;
        Ok(slow.into_iter().map(|slow| slow_client(tenant_name(self, slow.tenant), slow)).collect())
    }

    fn clients(&self, request: &ClientsRequest, limit: usize) -> Result<Vec<ClientEntry>, ControlError> {
        let after = match &request.after {
            Some(client) => Some((tenant_of(self, &request.after_tenant)?, client.clone())),
            None => None,
        };
        let (containing, filters) = (request.containing.clone(), request.filters as usize);
        let query = ClientQuery { containing, after, limit, filters };
        let clients = self.node()?.clients().list(&query).map_err(|_| Unavailable)?;
        Ok(clients.into_iter().map(|(summary, address)| client_entry(self, summary, address)).collect())
    }

    fn meter(&self, request: &MeterRequest) -> Result<(Vec<TenantUsage>, bool), ControlError> {
        self.meter().ok_or(Unavailable)?.answer(request)
    }

    fn bans(&self) -> Result<Vec<BanEntry>, ControlError> {
        let node = self.node()?;
        let now = node.now();
        Ok(node.admission().bans(now).iter().map(|ban| ban_entry(self, now, ban)).collect())
    }

    fn ban(&self, request: &BanRequest) -> Result<(BanChanged, BanRecord), ControlError> {
        let node = self.node()?;
        let now = node.now();
        let target = node_target(self, &request.target, &request.tenant)?;
        let terms = BanTerms {
            reason: request.reason.clone(),
            until_ms: request.for_seconds.map(|seconds| now.unix.saturating_add(seconds.saturating_mul(1000))),
        };
        let record = BanRecord {
            target: request.target.clone(),
            tenant: request.tenant.clone(),
            changed_ms: node.admission().next_ban_change(now, &target),
            ban: Some(terms),
        };
        let changed = self.change_ban(&record)?;
        let seconds = request.for_seconds;
        tracing::warn!(banned = %target, why = request.reason, seconds, closed = changed.closed, "an operator banned");
        Ok((changed, record))
    }

    fn unban(&self, request: &UnbanRequest) -> Result<(BanChanged, BanRecord), ControlError> {
        let node = self.node()?;
        let target = node_target(self, &request.target, &request.tenant)?;
        let record = BanRecord {
            target: request.target.clone(),
            tenant: request.tenant.clone(),
            changed_ms: node.admission().next_ban_change(node.now(), &target),
            ban: None,
        };
        // Where there are no other nodes, the end need not be remembered for them.
        let changed = match self.members() {
            Some(_) => self.change_ban(&record)?,
            None => BanChanged { changed: node.clients().unban(&target).map_err(refused)?, closed: 0 },
        };
        if changed.changed {
            tracing::info!(banned = %target, "an operator ended a ban");
        }
        Ok((changed, record))
    }

    fn change_ban(&self, record: &BanRecord) -> Result<BanChanged, ControlError> {
        let node = self.node()?;
        let now = node.now();
        let target = node_target(self, &record.target, &record.tenant)?;
        let ban = record.ban.as_ref().map(|terms| Ban {
            target: target.clone(),
            reason: terms.reason.as_str().into(),
            origin: BanOrigin::Operator,
            since: record.changed_ms,
            until: terms.until_ms.map_or(Millis::NEVER, |until| now.from_unix(until)),
        });
        let change = tidegate_node::BanRecord { target, changed: record.changed_ms, ban };
        let (changed, closed) = node.clients().apply_ban(change).map_err(refused)?;
        Ok(BanChanged { changed, closed })
    }

    fn ban_records(&self) -> Result<Vec<BanRecord>, ControlError> {
        let node = self.node()?;
        let now = node.now();
        let record = |record: tidegate_node::BanRecord| {
            let (target, tenant) = named_target(self, &record.target);
            let ban = record.ban.map(|ban| BanTerms {
                reason: ban.reason.to_string(),
                until_ms: (ban.until != Millis::NEVER).then(|| now.to_unix(ban.until)),
            });
            BanRecord { target, tenant, changed_ms: record.changed, ban }
        };
        Ok(node.admission().ban_records(now).into_iter().map(record).collect())
    }

    fn kick(&self, request: &KickRequest) -> Result<u64, ControlError> {
        let target = node_target(self, &request.target, &request.tenant)?;
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

    fn hub(&self) -> Result<serde_json::Value, ControlError> {
        match self.parts().pipelines() {
            Some(pipelines) => pipelines.view(self.handle()),
            None => Ok(serde_json::Value::Object(serde_json::Map::new())),
        }
    }

    fn pipeline_names(&self) -> Vec<String> {
        self.parts().pipelines().map(|pipelines| pipelines.names()).unwrap_or_default()
    }

    fn order_pipeline(&self, order: &PipelineOrder) -> Result<bool, ControlError> {
        self.parts().pipelines().map_or(Ok(false), |pipelines| pipelines.order(order))
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
}

/// A tenant by its name; the empty name is the default one.
fn tenant_of(status: &BrokerStatus, name: &str) -> Result<TenantId, ControlError> {
    let known = status.tenancy().ok_or(Unavailable)?.named(name);
    known.ok_or_else(|| ControlError::Invalid(format!("there is no tenant `{name}`")))
}

fn tenant_name(status: &BrokerStatus, tenant: TenantId) -> String {
    status.tenancy().map(|tenancy| tenancy.name(tenant)).unwrap_or_default()
}

fn client_entry(status: &BrokerStatus, summary: ClientSummary, address: Option<IpAddr>) -> ClientEntry {
    ClientEntry {
        node: String::new(),
        tenant: tenant_name(status, summary.tenant),
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

/// The target of a ban. An address belongs to no tenant.
fn node_target(
    status: &BrokerStatus,
    target: &BanTarget,
    tenant: &str,
) -> Result<tidegate_node::BanTarget, ControlError> {
    let named = || tenant_of(status, tenant);
    Ok(match target {
        BanTarget::Address(_) if !tenant.is_empty() => {
            return Err(ControlError::Invalid("an address belongs to no tenant: leave `tenant` out".to_owned()));
        }
        BanTarget::Address(text) => tidegate_node::BanTarget::Address(network(text)?),
        BanTarget::Client(name) => tidegate_node::BanTarget::Client(named()?, name.as_str().into()),
        BanTarget::User(name) => tidegate_node::BanTarget::User(named()?, name.as_str().into()),
    })
}

fn ban_entry(status: &BrokerStatus, now: Now, ban: &Ban) -> BanEntry {
    let (target, tenant) = named_target(status, &ban.target);
    BanEntry {
        kind: target.kind().to_owned(),
        name: target.name().to_owned(),
        tenant,
        reason: ban.reason.to_string(),
        origin: ban.origin.label().to_owned(),
        since_ms: ban.since,
        until_ms: (ban.until != Millis::NEVER).then(|| now.to_unix(ban.until)),
        ..BanEntry::default()
    }
}

/// Who is banned, with the name of the tenant.
fn named_target(status: &BrokerStatus, target: &tidegate_node::BanTarget) -> (BanTarget, String) {
    match target {
        tidegate_node::BanTarget::Address(network) => (BanTarget::Address(network.to_string()), String::new()),
        tidegate_node::BanTarget::Client(tenant, name) => {
            (BanTarget::Client(name.to_string()), tenant_name(status, *tenant))
        }
        tidegate_node::BanTarget::User(tenant, name) => {
            (BanTarget::User(name.to_string()), tenant_name(status, *tenant))
        }
    }
}

fn refused(error: impl std::fmt::Display) -> ControlError {
    ControlError::Refused(error.to_string())
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
