//! The tables of tenants, and the ledger of the shards.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_engine::{Holding, TenantId, TenantLedger, TenantQuota};

use super::announcement::{Announcement, KINDS};
use super::count::Count;
use super::sharing::Sharing;
use super::tenant_use::TenantUse;

/// Tenants are counted in rows of this length; a row is created when one of them is used.
const ROW: usize = 256;
const ROWS: usize = (u16::MAX as usize + 1) / ROW;

/// The usage of each tenant over all shards, and its quotas, which may change at any time. Atomic numbers only: no
/// shard waits for another. In a cluster, the use at other nodes counts as they have announced it last. The default tenant
/// has no quotas and is not counted.
#[derive(Debug)]
pub struct TenantCounts {
    rows: Box<[OnceLock<Box<[TenantUse]>>]>,
    /// Whether any tenant may publish only so fast.
    limits_rates: AtomicBool,
    sharing: Sharing,
}

/// The usage of a tenant, by the numbers of [`Holding`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantHoldings {
    /// How many count against the quota.
    pub counts: [u64; KINDS],
    /// How many were refused for the quota since the start.
    pub refused: [u64; KINDS],
    /// How many there may be; 0 is no limit.
    pub quotas: [u32; KINDS],
}

impl Default for TenantCounts {
    fn default() -> Self {
        let rows = std::iter::repeat_with(OnceLock::new).take(ROWS).collect();
        Self { rows, limits_rates: AtomicBool::new(false), sharing: Sharing::default() }
    }
}

impl TenantCounts {
    /// Applies quotas; an unnamed tenant has none. A tenant above its new quota keeps its usage, and gets no more.
    pub fn set_quotas(&self, quotas: &BTreeMap<TenantId, TenantQuota>) {
        let none = TenantQuota::default();
        for tenant in quotas.keys() {
            self.make(*tenant);
        }
        for (tenant, of) in self.made() {
            let quota = quotas.get(&tenant).unwrap_or(&none);
            for (holding, max) in Holding::ALL.into_iter().zip(&of.quotas) {
                max.store(quota.max_of(holding), Relaxed);
            }
            of.set_rate(quota.max_message_rate);
        }
        self.follow_others(None);
        self.limits_rates.store(quotas.values().any(|quota| quota.max_message_rate != 0), Relaxed);
        self.sharing.wake();
    }

    /// The current usage of a tenant.
    pub fn holdings(&self, tenant: TenantId) -> TenantHoldings {
        let Some(of) = self.get(tenant) else { return TenantHoldings::default() };
        TenantHoldings {
            counts: of.counts.each_ref().map(Count::load),
            refused: of.refused.each_ref().map(|count| count.load(Relaxed)),
            quotas: of.quotas.each_ref().map(|max| max.load(Relaxed)),
        }
    }

    pub(super) fn exempt(&self, tenant: TenantId, holding: Holding) {
        if let Some(of) = self.make(tenant) {
            of.counts[holding as usize].exempt();
        }
    }

    /// An exempt one counts again; false at the quota.
    pub(super) fn include(&self, tenant: TenantId, holding: Holding) -> bool {
        let Some(of) = self.get(tenant) else { return true };
        let kind = holding as usize;
        let included = of.counts[kind].include(of.quota(holding));
        if included {
            self.wake_if_due(of, holding);
        } else {
            of.refused[kind].fetch_add(1, Relaxed);
        }
        included
    }

    /// An exempt one is about to end.
    pub(super) fn end_exemption(&self, tenant: TenantId, holding: Holding) {
        if let Some(of) = self.get(tenant) {
            of.counts[holding as usize].include((0, 0));
        }
    }

    /// All tenants that are counted.
    fn made(&self) -> impl Iterator<Item = (TenantId, &TenantUse)> {
        self.rows.iter().enumerate().flat_map(|(row, made)| {
            let uses = made.get().into_iter().flatten().enumerate();
            uses.map(move |(place, of)| (TenantId((row * ROW + place) as u16), of))
        })
    }

    fn get(&self, tenant: TenantId) -> Option<&TenantUse> {
        if [TenantId::DEFAULT, TenantId::BROKER_LINK].contains(&tenant) {
            return None;
        }
        let number = usize::from(tenant.0);
        self.rows.get(number / ROW)?.get()?.get(number % ROW)
    }

    fn make(&self, tenant: TenantId) -> Option<&TenantUse> {
        if [TenantId::DEFAULT, TenantId::BROKER_LINK].contains(&tenant) {
            return None;
        }
        let number = usize::from(tenant.0);
        let row = self.rows.get(number / ROW)?;
        row.get_or_init(|| std::iter::repeat_with(TenantUse::default).take(ROW).collect()).get(number % ROW)
    }
}

impl TenantCounts {
    /// Shares the quotas with other nodes from now on. `wake` is called on the thread of a shard when the use of a
    /// tenant has changed so much that [`TenantCounts::announce`] is due; it only hands the news over.
    pub fn share(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.sharing.set_wake(wake);
    }

    /// Whether any tenant has a quota: without one there is nothing to announce until other quotas are set, which wakes.
    pub fn has_quotas(&self) -> bool {
        self.limited().next().is_some()
    }

    /// Another node is linked, which may know nothing of this one: it gets a whole announcement.
    pub fn note_linked(&self) {
        self.sharing.introduce();
    }

    /// Forgets the use at nodes that are no members of the cluster any more.
    pub fn keep_members(&self, is_member: impl Fn(&str) -> bool) {
        let has_fewer = self.sharing.others().keep_members(is_member);
        if has_fewer {
            self.follow_others(None);
        }
    }

    /// The announcement to the other nodes now, or `None` if no tenant has a quota. `now` is in milliseconds of the
    /// monotonic clock. A whole announcement, one each second, has all tenants; the others have only those whose use has
    /// changed much.
    pub fn announce(&self, now: u64, is_whole: bool) -> Option<Vec<u8>> {
        let is_whole = self.sharing.begin(now, is_whole);
        if is_whole {
            if let Some(elapsed) = self.sharing.measure(now) {
                self.limited().for_each(|(_, of)| of.measure(elapsed));
            }
            self.follow_others(None);
        }
        let due = self.limited().filter(|(_, of)| is_whole || of.is_due());
        let uses: BTreeMap<_, _> = due.map(|(tenant, of)| (tenant, of.announce())).collect();
        let is_needed = !uses.is_empty() || is_whole && self.limited().next().is_some();
        is_needed.then(|| Announcement { is_whole, uses }.to_bytes())
    }

    /// Takes the announcement of another node. `now` is in milliseconds of the monotonic clock; bytes that are no
    /// announcement change nothing.
    pub fn take_announcement(&self, now: u64, node: &str, bytes: &[u8]) {
        let Some(announcement) = Announcement::read(bytes) else { return };
        let named: Vec<_> = announcement.uses.keys().copied().collect();
        let is_whole = announcement.is_whole;
        let is_new = self.sharing.others().take(now, node, announcement);
        self.follow_others(if is_whole || is_new { None } else { Some(&named) });
        if is_new {
            self.sharing.introduce();
        }
    }

    /// The tenants with a quota.
    fn limited(&self) -> impl Iterator<Item = (TenantId, &TenantUse)> {
        self.made().filter(|(_, of)| of.is_limited())
    }

    /// Applies the announcements of other nodes, to some tenants or all. With less room left, a smaller change of
    /// the use here is due.
    fn follow_others(&self, some: Option<&[TenantId]>) {
        let others = self.sharing.others();
        let mut is_due = false;
        let follow = |(tenant, of): (TenantId, &TenantUse)| {
            of.follow(others.len(), others.counts(tenant), others.demands(tenant));
            is_due |= of.is_due();
        };
        match some {
            Some(tenants) => tenants.iter().filter_map(|it| Some((*it, self.get(*it)?))).for_each(follow),
            None => self.limited().for_each(follow),
        }
        drop(others);
        if is_due {
            self.sharing.wake();
        }
    }

    /// Wakes the thread that announces, if something is due.
    fn wake_if_due(&self, of: &TenantUse, holding: Holding) {
        if of.is_due_for(holding) {
            self.sharing.wake();
        }
    }
}

impl TenantLedger for TenantCounts {
    fn claim(&self, tenant: TenantId, holding: Holding) -> bool {
        let Some(of) = self.make(tenant) else { return true };
        let kind = holding as usize;
        let claimed = of.counts[kind].claim(of.quota(holding));
        if claimed {
            self.wake_if_due(of, holding);
        } else {
            of.refused[kind].fetch_add(1, Relaxed);
        }
        claimed
    }

    fn add(&self, tenant: TenantId, holding: Holding, count: u64) {
        if let Some(of) = self.make(tenant) {
            of.counts[holding as usize].add(count);
            self.wake_if_due(of, holding);
        }
    }

    fn release(&self, tenant: TenantId, holding: Holding, count: u64) {
        if let Some(of) = self.get(tenant) {
            of.counts[holding as usize].release(count);
            self.wake_if_due(of, holding);
        }
    }

    fn limits_rates(&self) -> bool {
        self.limits_rates.load(Relaxed)
    }

    fn take_message(&self, tenant: TenantId, now: u64) -> Option<u64> {
        let of = self.get(tenant)?;
        of.take_message(now)
    }
}
