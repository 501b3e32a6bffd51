//! Tenants of a shard: whose client somebody is, and how much each tenant may have.

use std::collections::BTreeMap;

use crate::desk::Desk;
use crate::engine::Engine;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::input::Refused;
use crate::rate::Bucket;
use crate::reason::Reason;
use crate::settings::TenantQuota;

/// What the tenants with a quota have on this shard. All others are not counted, and cost nothing.
#[derive(Debug, Default)]
pub(crate) struct TenantUses {
    uses: BTreeMap<TenantId, TenantUse>,
    /// Whether any tenant may publish only so fast: asked for every PUBLISH.
    limits_rate: bool,
}

/// What a tenant has on this shard.
#[derive(Debug)]
struct TenantUse {
    quota: TenantQuota,
    /// Clients that are connected.
    connected: u32,
    sessions: u32,
    subscriptions: u64,
    /// What its clients have published lately.
    published: Bucket,
}

impl TenantUses {
    pub(crate) fn new(quotas: &BTreeMap<TenantId, TenantQuota>) -> Self {
        let nothing = |quota: &TenantQuota| TenantUse {
            quota: quota.clone(),
            connected: 0,
            sessions: 0,
            subscriptions: 0,
            published: Bucket::default(),
        };
        Self {
            uses: quotas.iter().map(|(tenant, quota)| (*tenant, nothing(quota))).collect(),
            limits_rate: quotas.values().any(|quota| quota.max_message_rate != 0),
        }
    }

    /// Counts a client that has come in.
    pub(crate) fn add_connected(&mut self, tenant: TenantId) {
        self.change(tenant, |of| of.connected += 1);
    }

    /// Counts a client that has gone.
    pub(crate) fn remove_connected(&mut self, tenant: TenantId) {
        self.change(tenant, |of| of.connected = of.connected.saturating_sub(1));
    }

    /// Counts a new session.
    pub(crate) fn add_session(&mut self, tenant: TenantId) {
        self.change(tenant, |of| of.sessions += 1);
    }

    /// Counts a session that has ended.
    pub(crate) fn remove_session(&mut self, tenant: TenantId) {
        self.change(tenant, |of| of.sessions = of.sessions.saturating_sub(1));
    }

    /// Counts a new subscription, ordinary or shared.
    pub(crate) fn add_subscription(&mut self, tenant: TenantId) {
        self.change(tenant, |of| of.subscriptions += 1);
    }

    /// Counts subscriptions that have ended.
    pub(crate) fn remove_subscriptions(&mut self, tenant: TenantId, ended: usize) {
        self.change(tenant, |of| of.subscriptions = of.subscriptions.saturating_sub(ended as u64));
    }

    /// Whether the tenant has as many subscriptions as it may have.
    pub(crate) fn has_all_subscriptions(&self, tenant: TenantId) -> bool {
        self.uses.get(&tenant).is_some_and(|of| reached(of.subscriptions, of.quota.max_subscriptions))
    }

    /// Whether any tenant may publish only so fast.
    #[inline]
    pub(crate) fn limit_rates(&self) -> bool {
        self.limits_rate
    }

    /// Takes a message from what a tenant may publish; returns for how many nanoseconds it is short of it, or `None` where
    /// it may publish as fast as it likes.
    pub(crate) fn take_message(&mut self, tenant: TenantId, now: u64) -> Option<u64> {
        let of = self.uses.get_mut(&tenant).filter(|of| of.quota.max_message_rate != 0)?;
        let rate = u64::from(of.quota.max_message_rate);
        Some(of.published.take(now, 1, rate, rate))
    }

    /// Compares what is counted with what there is.
    pub(crate) fn audit(&self, desk: &Desk, wrong: &mut dyn FnMut(String)) {
        for (tenant, of) in &self.uses {
            let all = || desk.sessions.iter().map(|(_, session)| session).filter(|session| session.tenant == *tenant);
            let sessions = all().filter(|session| !session.is_inner()).count();
            let connected = all().filter(|session| session.connection.is_some()).count();
            let subscriptions: usize = all().map(crate::session::Session::subscriptions).sum();
            let kept = (of.connected as usize, of.sessions as usize, of.subscriptions);
            let counted = (connected, sessions, subscriptions as u64);
            if kept != counted {
                wrong(format!("{tenant:?}: {kept:?} are kept, {counted:?} are true"));
            }
        }
    }

    fn change(&mut self, tenant: TenantId, change: impl FnOnce(&mut TenantUse)) {
        if let Some(of) = self.uses.get_mut(&tenant) {
            change(of);
        }
    }
}

fn reached(there: u64, max: u32) -> bool {
    max != 0 && there >= u64::from(max)
}

impl Engine {
    /// The tenant of a client: what is settled before, else its user's, else its listener's or what was said instead of it.
    pub(crate) fn find_tenant(&mut self, key: ConnectionKey, user_name: Option<&str>) -> TenantId {
        let Some(connection) = self.desk.connections.get_mut(key) else { return TenantId::DEFAULT };
        let settled = connection.extra.as_ref().and_then(|extra| extra.preset.as_ref()?.settled);
        let of_user = || self.settings.tenants.as_ref()?.of_user(connection.tenant, user_name?);
        if let Some(tenant) = settled.or_else(of_user) {
            connection.tenant = tenant;
        }
        connection.tenant
    }

    /// Whether a tenant may have one client more. One that takes over its own connection or session is none more.
    pub(crate) fn check_tenant(&self, tenant: TenantId, existing: Option<SessionKey>) -> Result<(), Refused> {
        let Some(of) = self.desk.tenants.uses.get(&tenant) else { return Ok(()) };
        let existing = existing.and_then(|session| self.desk.sessions.get(session.0));
        let connected = existing.is_some_and(|session| session.connection.is_some());
        if !connected && reached(u64::from(of.connected), of.quota.max_connections) {
            return Err(Refused::new(Reason::TenantConnections, ""));
        }
        if existing.is_none() && reached(u64::from(of.sessions), of.quota.max_sessions) {
            return Err(Refused::new(Reason::TenantSessions, ""));
        }
        Ok(())
    }
}
