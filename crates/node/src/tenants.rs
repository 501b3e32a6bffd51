//! The usage of tenants over all shards, and their quotas.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use tidegate_engine::{Holding, TenantId, TenantLedger, TenantQuota};

/// Tenants are counted in rows of this length; a row is created when one of them is used.
const ROW: usize = 256;
const ROWS: usize = (u16::MAX as usize + 1) / ROW;
const KINDS: usize = Holding::ALL.len();
const NANOSECONDS: u64 = 1_000_000_000;

/// The usage of each tenant over all shards, and its quotas, which may change at any time. Atomic numbers only: no
/// shard waits for another. The default tenant has no quotas and is not counted.
#[derive(Debug)]
pub struct TenantCounts {
    rows: Box<[OnceLock<Box<[TenantUse]>>]>,
    /// Whether any tenant may publish only so fast.
    limits_rates: AtomicBool,
}

/// The usage and the quotas of one tenant.
#[derive(Debug, Default)]
struct TenantUse {
    /// By the numbers of [`Holding`], as all below.
    counts: [Count; KINDS],
    refused: [AtomicU64; KINDS],
    /// 0 is no limit.
    quotas: [AtomicU32; KINDS],
    max_message_rate: AtomicU32,
    /// When the full burst of publishes is available again, nanoseconds of the monotonic clock.
    full_at: AtomicU64,
}

/// How many there are of something, and how many of these do not count against the quota. Both are in one number, so
/// that a claim sees them together.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    /// The low half has the number of all, the high half that of the exempt ones.
    const EXEMPT: u64 = 1 << 32;

    const fn all(value: u64) -> u64 {
        value % Self::EXEMPT
    }

    const fn counted(value: u64) -> u64 {
        Self::all(value).saturating_sub(value / Self::EXEMPT)
    }

    const fn has_room(value: u64, max: u64) -> bool {
        max == 0 || Self::counted(value) < max
    }

    /// How many count.
    fn load(&self) -> u64 {
        Self::counted(self.0.load(Relaxed))
    }

    /// One more; false at the quota.
    fn claim(&self, max: u64) -> bool {
        let one_more = |value| Self::has_room(value, max).then_some(value + 1);
        self.0.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    fn release(&self, count: u64) {
        let fewer = |value| Some(value - Self::all(value).min(count));
        let _ = self.0.fetch_update(Relaxed, Relaxed, fewer);
    }

    /// One of them does not count from now on.
    fn exempt(&self) {
        self.0.fetch_add(Self::EXEMPT, Relaxed);
    }

    /// One of the exempt ones counts again; false at the quota.
    fn include(&self, max: u64) -> bool {
        let one_fewer = |value| Self::has_room(value, max).then(|| value.checked_sub(Self::EXEMPT).unwrap_or(value));
        self.0.fetch_update(Relaxed, Relaxed, one_fewer).is_ok()
    }
}

/// A connection that another part of the process holds for a client without MQTT, in the quotas of its tenant. While the
/// client waits for nothing, the connection does not count: such clients could not end it otherwise, and would keep each
/// other and clients of MQTT out. Its session does not count if it ends with the connection.
#[derive(Debug)]
pub struct TenantSeat {
    counts: Arc<TenantCounts>,
    tenant: TenantId,
    is_resting: bool,
    is_passing: bool,
}

impl TenantSeat {
    /// A connection that counts, as its session does.
    pub const fn new(counts: Arc<TenantCounts>, tenant: TenantId) -> Self {
        Self { counts, tenant, is_resting: false, is_passing: false }
    }

    /// Counts the connection no longer, until [`TenantSeat::resume`].
    pub fn rest(&mut self) {
        if !std::mem::replace(&mut self.is_resting, true) {
            self.counts.exempt(self.tenant, Holding::Connections);
        }
    }

    /// Counts the connection again. False at the tenant's connection limit, which changes nothing.
    pub fn resume(&mut self) -> bool {
        if self.is_resting && self.counts.include(self.tenant, Holding::Connections) {
            self.is_resting = false;
        }
        !self.is_resting
    }

    /// Counts the session no longer: it ends with the connection.
    pub fn pass(&mut self) {
        if !std::mem::replace(&mut self.is_passing, true) {
            self.counts.exempt(self.tenant, Holding::Sessions);
        }
    }
}

impl TenantSeat {
    /// The connection is about to end: until then it counts, so that its place is not given away twice.
    pub fn leave(&mut self) {
        let held = [(&mut self.is_resting, Holding::Connections), (&mut self.is_passing, Holding::Sessions)];
        for (is_exempt, holding) in held {
            if std::mem::take(is_exempt) {
                self.counts.end_exemption(self.tenant, holding);
            }
        }
    }
}

impl Drop for TenantSeat {
    fn drop(&mut self) {
        self.leave();
    }
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
        Self { rows, limits_rates: AtomicBool::new(false) }
    }
}

impl TenantCounts {
    /// Applies quotas; an unnamed tenant has none. A tenant above its new quota keeps its usage, and gets no more.
    pub fn set_quotas(&self, quotas: &BTreeMap<TenantId, TenantQuota>) {
        let none = TenantQuota::default();
        for tenant in quotas.keys() {
            self.make(*tenant);
        }
        for (row, made) in self.rows.iter().enumerate() {
            for (place, of) in made.get().into_iter().flatten().enumerate() {
                let tenant = TenantId((row * ROW + place) as u16);
                let quota = quotas.get(&tenant).unwrap_or(&none);
                for (holding, max) in Holding::ALL.into_iter().zip(&of.quotas) {
                    max.store(quota.max_of(holding), Relaxed);
                }
                of.max_message_rate.store(quota.max_message_rate, Relaxed);
            }
        }
        self.limits_rates.store(quotas.values().any(|quota| quota.max_message_rate != 0), Relaxed);
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

    fn exempt(&self, tenant: TenantId, holding: Holding) {
        if let Some(of) = self.make(tenant) {
            of.counts[holding as usize].exempt();
        }
    }

    /// An exempt one counts again; false at the quota.
    fn include(&self, tenant: TenantId, holding: Holding) -> bool {
        let Some(of) = self.get(tenant) else { return true };
        let kind = holding as usize;
        let included = of.counts[kind].include(u64::from(of.quotas[kind].load(Relaxed)));
        if !included {
            of.refused[kind].fetch_add(1, Relaxed);
        }
        included
    }

    /// An exempt one is about to end.
    fn end_exemption(&self, tenant: TenantId, holding: Holding) {
        if let Some(of) = self.get(tenant) {
            of.counts[holding as usize].include(0);
        }
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

impl TenantLedger for TenantCounts {
    fn claim(&self, tenant: TenantId, holding: Holding) -> bool {
        let Some(of) = self.make(tenant) else { return true };
        let kind = holding as usize;
        let max = u64::from(of.quotas[kind].load(Relaxed));
        let claimed = of.counts[kind].claim(max);
        if !claimed {
            of.refused[kind].fetch_add(1, Relaxed);
        }
        claimed
    }

    fn add(&self, tenant: TenantId, holding: Holding, count: u64) {
        if let Some(of) = self.make(tenant) {
            of.counts[holding as usize].add(count);
        }
    }

    fn release(&self, tenant: TenantId, holding: Holding, count: u64) {
        if let Some(of) = self.get(tenant) {
            of.counts[holding as usize].release(count);
        }
    }

    fn limits_rates(&self) -> bool {
        self.limits_rates.load(Relaxed)
    }

    fn take_message(&self, tenant: TenantId, now: u64) -> Option<u64> {
        let of = self.get(tenant)?;
        let rate = u64::from(of.max_message_rate.load(Relaxed));
        let each = NANOSECONDS.checked_div(rate)?;
        let after = |full_at: u64| full_at.max(now).saturating_add(each);
        let before = of.full_at.fetch_update(Relaxed, Relaxed, |full_at| Some(after(full_at)));
        let full_at = after(before.unwrap_or_else(|unchanged| unchanged));
        // The tokens of one second may be used at once.
        Some(full_at.saturating_sub(now.saturating_add(NANOSECONDS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TenantId = TenantId(1);
    const OTHER: TenantId = TenantId(700);

    fn counts(quota: TenantQuota) -> TenantCounts {
        let counts = TenantCounts::default();
        counts.set_quotas(&BTreeMap::from([(ONE, quota)]));
        counts
    }

    #[test]
    fn a_quota_holds_under_concurrent_claims() {
        let counts = counts(TenantQuota { max_connections: 1000, ..TenantQuota::default() });
        let claim = || (0..400).filter(|_| counts.claim(ONE, Holding::Connections)).count();
        let claimed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
        });
        assert_eq!(claimed, 1000);
        let holdings = counts.holdings(ONE);
        assert_eq!((holdings.counts[0], holdings.refused[0], holdings.quotas[0]), (1000, 600, 1000));
        counts.release(ONE, Holding::Connections, 1);
        assert!(counts.claim(ONE, Holding::Connections) && !counts.claim(ONE, Holding::Connections));
        assert!(counts.claim(ONE, Holding::Sessions) && counts.claim(OTHER, Holding::Connections));
        assert!(counts.claim(TenantId::DEFAULT, Holding::Connections));
        assert_eq!(counts.holdings(TenantId::DEFAULT), TenantHoldings::default());
    }

    #[test]
    fn other_quotas_take_nothing_away_and_give_nothing_more() {
        let counts = counts(TenantQuota::default());
        for _ in 0..5 {
            assert!(counts.claim(ONE, Holding::Retained));
        }
        counts.set_quotas(&BTreeMap::from([(ONE, TenantQuota { max_retained: 3, ..TenantQuota::default() })]));
        assert!(!counts.claim(ONE, Holding::Retained));
        counts.add(ONE, Holding::Retained, 1);
        counts.release(ONE, Holding::Retained, 4);
        assert!(counts.claim(ONE, Holding::Retained) && !counts.claim(ONE, Holding::Retained));
        counts.set_quotas(&BTreeMap::new());
        assert!(counts.claim(ONE, Holding::Retained));
        assert_eq!(counts.holdings(ONE).counts[Holding::Retained as usize], 4);
    }

    #[test]
    fn a_rate_is_that_of_the_tenant_wherever_its_messages_come_in() {
        let counts = counts(TenantQuota { max_message_rate: 4, ..TenantQuota::default() });
        assert!(counts.limits_rates());
        assert_eq!(counts.take_message(OTHER, 0), None);
        let second = NANOSECONDS;
        let short: Vec<_> = (0..6).map(|_| counts.take_message(ONE, 10 * second)).collect();
        assert_eq!(short, [Some(0), Some(0), Some(0), Some(0), Some(second / 4), Some(second / 2)]);
        assert_eq!(counts.take_message(ONE, 20 * second), Some(0));
        counts.set_quotas(&BTreeMap::new());
        assert_eq!(counts.take_message(ONE, 20 * second), None);
        assert!(!counts.limits_rates());
    }

    #[test]
    fn a_resting_connection_gives_its_place_away() {
        let quota = TenantQuota { max_connections: 2, max_sessions: 1, ..TenantQuota::default() };
        let counts = Arc::new(counts(quota));
        let claim = |holding| counts.claim(ONE, holding);
        assert!(claim(Holding::Connections) && claim(Holding::Connections) && !claim(Holding::Connections));
        let mut seat = TenantSeat::new(Arc::clone(&counts), ONE);
        seat.rest();
        seat.rest();
        assert!(claim(Holding::Connections) && !claim(Holding::Connections));
        assert!(!seat.resume(), "another connection has the place");
        counts.release(ONE, Holding::Connections, 1);
        assert!(seat.resume() && seat.resume() && !claim(Holding::Connections));
        seat.rest();
        seat.leave();
        drop(seat);
        assert_eq!(counts.holdings(ONE).counts[0], 2, "its connection ends after it");
    }

    #[test]
    fn a_passing_session_does_not_count() {
        let quota = TenantQuota { max_sessions: 1, ..TenantQuota::default() };
        let counts = Arc::new(counts(quota));
        assert!(counts.claim(ONE, Holding::Sessions));
        counts.add(ONE, Holding::Sessions, 1);
        let mut seat = TenantSeat::new(Arc::clone(&counts), ONE);
        seat.pass();
        assert_eq!(counts.holdings(ONE).counts[1], 1);
        assert!(!counts.claim(ONE, Holding::Sessions));
        counts.release(ONE, Holding::Sessions, 1);
        assert!(counts.claim(ONE, Holding::Sessions));
    }
}
