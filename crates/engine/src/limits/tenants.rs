//! Tenants of a shard: the tenant of each client, and the quota of each tenant.

use crate::ids::TenantId;
use crate::limits::rate::Bucket;
use crate::session::table::Sessions;
use crate::settings::{Holding, Settings, TenantLedger, TenantQuota};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Uses of tenants: counted here for this shard alone, or by a ledger for all shards together.
#[derive(Debug)]
pub(crate) enum TenantUses {
    /// For this shard: the tenants with a quota. All others are not counted, and cost nothing.
    Own(OwnUses),
    /// For all shards.
    Shared {
        ledger: Arc<dyn TenantLedger>,
        /// Whether any tenant has a rate limit, as of the last input.
        limits_rates: bool,
    },
}

/// Uses of the tenants with a quota on this shard.
#[derive(Debug, Default)]
pub(crate) struct OwnUses {
    uses: BTreeMap<TenantId, TenantUse>,
    /// Whether any tenant may publish only so fast: asked for every PUBLISH.
    limits_rate: bool,
}

/// The resources that a tenant uses on this shard.
#[derive(Debug)]
struct TenantUse {
    quota: TenantQuota,
    /// By the numbers of [`Holding`]; retained messages are counted where they are kept.
    counts: [u64; Holding::ALL.len()],
    /// Recent publications of its clients.
    published: Bucket,
}

impl OwnUses {
    fn new(quotas: &BTreeMap<TenantId, TenantQuota>) -> Self {
        let nothing = |quota: &TenantQuota| TenantUse {
            quota: quota.clone(),
            counts: [0; Holding::ALL.len()],
            published: Bucket::default(),
        };
        Self {
            uses: quotas.iter().map(|(tenant, quota)| (*tenant, nothing(quota))).collect(),
            limits_rate: quotas.values().any(|quota| quota.max_message_rate != 0),
        }
    }

    fn count(&mut self, tenant: TenantId, holding: Holding) -> Option<&mut u64> {
        self.uses.get_mut(&tenant)?.counts.get_mut(holding as usize)
    }

    fn claim(&mut self, tenant: TenantId, holding: Holding) -> bool {
        let max = self.uses.get(&tenant).map_or(0, |of| of.quota.max_of(holding));
        let Some(count) = self.count(tenant, holding) else { return true };
        let may = max == 0 || *count < u64::from(max);
        *count += u64::from(may);
        may
    }

    fn take_message(&mut self, tenant: TenantId, now: u64) -> Option<u64> {
        let of = self.uses.get_mut(&tenant).filter(|of| of.quota.max_message_rate != 0)?;
        let rate = u64::from(of.quota.max_message_rate);
        Some(of.published.take(now, 1, rate, rate))
    }
}

impl TenantQuota {
    /// How many of something there may be; 0 is no limit.
    pub const fn max_of(&self, holding: Holding) -> u32 {
        match holding {
            Holding::Connections => self.max_connections,
            Holding::Sessions => self.max_sessions,
            Holding::Subscriptions => self.max_subscriptions,
            Holding::Retained => self.max_retained,
        }
    }
}

impl TenantUses {
    pub(crate) fn new(settings: &Settings) -> Self {
        match &settings.tenant_ledger {
            Some(ledger) => Self::Shared { ledger: Arc::clone(ledger), limits_rates: ledger.limits_rates() },
            None => Self::Own(OwnUses::new(&settings.tenant_quotas)),
        }
    }

    /// Counts one more, unless the tenant has reached its quota. Returns true if it was counted.
    pub(crate) fn claim(&mut self, tenant: TenantId, holding: Holding) -> bool {
        match self {
            Self::Own(own) => own.claim(tenant, holding),
            Self::Shared { ledger, .. } => ledger.claim(tenant, holding),
        }
    }

    /// Counts one more, even beyond the quota.
    pub(crate) fn add(&mut self, tenant: TenantId, holding: Holding) {
        match self {
            Self::Own(own) => own.count(tenant, holding).into_iter().for_each(|count| *count += 1),
            Self::Shared { ledger, .. } => ledger.add(tenant, holding, 1),
        }
    }

    /// Lowers the count by `ended`.
    pub(crate) fn release(&mut self, tenant: TenantId, holding: Holding, ended: usize) {
        let ended = ended as u64;
        match self {
            Self::Own(own) => {
                own.count(tenant, holding).into_iter().for_each(|count| *count = count.saturating_sub(ended));
            }
            Self::Shared { ledger, .. } => ledger.release(tenant, holding, ended),
        }
    }

    /// Looks again whether the ledger limits any tenant's rate: this may change at any time, and each PUBLISH needs it.
    #[inline]
    pub(crate) fn look_at_rates(&mut self) {
        if let Self::Shared { ledger, limits_rates } = self {
            *limits_rates = ledger.limits_rates();
        }
    }

    /// Whether any tenant has a rate limit.
    #[inline]
    pub(crate) fn limit_rates(&self) -> bool {
        match self {
            Self::Own(own) => own.limits_rate,
            Self::Shared { limits_rates, .. } => *limits_rates,
        }
    }

    /// Takes a message from a tenant's rate. Returns the missing time in nanoseconds, or `None` without a limit.
    pub(crate) fn take_message(&mut self, tenant: TenantId, now: u64) -> Option<u64> {
        match self {
            Self::Own(own) => own.take_message(tenant, now),
            Self::Shared { ledger, .. } => ledger.take_message(tenant, now),
        }
    }

    /// Compares the counts of this shard with its sessions.
    pub(crate) fn audit(&self, all_sessions: &Sessions, wrong: &mut dyn FnMut(String)) {
        let Self::Own(own) = self else { return };
        for (tenant, of) in &own.uses {
            let all =
                || all_sessions.iter().map(|(_, session)| session).filter(|session| session.counted_for() == *tenant);
            let connected = all().filter(|session| session.connection.is_some()).count();
            let sessions = all().count();
            let subscriptions: usize = all().map(crate::session::Session::subscriptions).sum();
            let counted = [connected as u64, sessions as u64, subscriptions as u64, 0];
            if of.counts != counted {
                wrong(format!("{tenant:?}: {:?} are kept, {counted:?} are true", of.counts));
            }
        }
    }
}
