//! The usage and the quotas of one tenant.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use tidegate_engine::Holding;

use super::announcement::{KINDS, NodeUse};
use super::count::{Count, Quota};
use super::rates::{Demand, shares};

const NANOSECONDS: u64 = 1_000_000_000;

/// The usage and the quotas of one tenant.
#[derive(Debug, Default)]
pub(super) struct TenantUse {
    /// By the numbers of [`Holding`], as all below.
    pub(super) counts: [Count; KINDS],
    pub(super) refused: [AtomicU64; KINDS],
    /// 0 is no limit.
    pub(super) quotas: [AtomicU32; KINDS],
    /// How many other nodes have.
    elsewhere: [AtomicU64; KINDS],
    /// The counts in the last announcement.
    announced: [AtomicU64; KINDS],
    /// How many other nodes share the quotas.
    others: AtomicU64,
    /// Messages in a second over all nodes; 0 is no limit.
    max_message_rate: AtomicU32,
    /// The share of this node.
    rate: AtomicU32,
    /// When the full burst of publishes is available again, nanoseconds of the monotonic clock.
    full_at: AtomicU64,
    /// Messages since the start, and at the last measure.
    taken: AtomicU64,
    measured: AtomicU64,
    /// Messages are counted: in a cluster, also while no other node is known. So a node that comes finds the demand here.
    is_measured: AtomicBool,
    /// Messages in a second at the last measure, and whether the share was too small for them.
    demand: AtomicU32,
    is_short: AtomicBool,
}

impl TenantUse {
    /// The quota of a holding.
    pub(super) fn quota(&self, holding: Holding) -> Quota {
        let kind = holding as usize;
        (u64::from(self.quotas[kind].load(Relaxed)), self.elsewhere[kind].load(Relaxed))
    }

    /// Whether there is any quota.
    pub(super) fn is_limited(&self) -> bool {
        self.max_message_rate.load(Relaxed) != 0 || self.quotas.iter().any(|max| max.load(Relaxed) != 0)
    }

    pub(super) fn set_rate(&self, max: u32) {
        self.max_message_rate.store(max, Relaxed);
        self.rate.store(max, Relaxed);
    }

    /// Takes a message from the rate. Returns the missing time in nanoseconds, or `None` without a limit.
    pub(super) fn take_message(&self, now: u64) -> Option<u64> {
        let rate = u64::from(self.rate.load(Relaxed));
        let each = NANOSECONDS.checked_div(rate)?;
        // Only the nodes of a cluster need the count.
        if self.is_measured.load(Relaxed) {
            self.taken.fetch_add(1, Relaxed);
        }
        let after = |full_at: u64| full_at.max(now).saturating_add(each);
        let before = self.full_at.fetch_update(Relaxed, Relaxed, |full_at| Some(after(full_at)));
        let full_at = after(before.unwrap_or_else(|unchanged| unchanged));
        // The tokens of one second may be used at once.
        Some(full_at.saturating_sub(now.saturating_add(NANOSECONDS)))
    }

    /// Measures the messages of these milliseconds.
    pub(super) fn measure(&self, elapsed_ms: u64) {
        self.is_measured.store(true, Relaxed);
        let taken = self.taken.load(Relaxed);
        let fresh = taken.saturating_sub(self.measured.swap(taken, Relaxed));
        let demand = u32::try_from(fresh.saturating_mul(1000) / elapsed_ms.max(1)).unwrap_or(u32::MAX);
        let rate = self.rate.load(Relaxed);
        self.demand.store(demand, Relaxed);
        self.is_short.store(rate != 0 && u64::from(demand) * 10 >= u64::from(rate) * 9, Relaxed);
    }

    fn demand(&self) -> Demand {
        Demand { rate: self.demand.load(Relaxed), is_short: self.is_short.load(Relaxed) }
    }

    /// Applies the use at this number of other nodes.
    pub(super) fn follow(&self, others: u64, counts: [u64; KINDS], demands: impl Iterator<Item = Demand>) {
        self.others.store(others, Relaxed);
        for (elsewhere, count) in self.elsewhere.iter().zip(counts) {
            elsewhere.store(count, Relaxed);
        }
        let max = self.max_message_rate.load(Relaxed);
        if max != 0 {
            let demands: Vec<_> = std::iter::once(self.demand()).chain(demands).collect();
            self.rate.store(shares(max, &demands).first().copied().unwrap_or(max), Relaxed);
        }
    }

    /// The use, which is announced now.
    pub(super) fn announce(&self) -> NodeUse {
        let mut counts = [0; KINDS];
        for (kind, announced) in counts.iter_mut().enumerate() {
            let count = self.counts[kind].load();
            self.announced[kind].store(count, Relaxed);
            *announced = u32::try_from(count).unwrap_or(u32::MAX);
        }
        NodeUse { counts, demand: self.demand() }
    }

    /// Whether an announcement is due before the next whole one.
    pub(super) fn is_due(&self) -> bool {
        Holding::ALL.into_iter().any(|holding| self.is_due_for(holding))
    }

    /// Whether the use of one kind has grown or fallen by the part of the room that a node may fill unannounced.
    pub(super) fn is_due_for(&self, holding: Holding) -> bool {
        let ((max, elsewhere), others) = (self.quota(holding), self.others.load(Relaxed));
        if max == 0 || others == 0 {
            return false;
        }
        let (count, announced) = (self.counts[holding as usize].load(), self.announced[holding as usize].load(Relaxed));
        let room = max.saturating_sub(announced.saturating_add(elsewhere));
        count.abs_diff(announced) >= unannounced(room, others)
    }
}

/// By how many the use of a node may change before it announces that, where this room was left.
fn unannounced(room: u64, others: u64) -> u64 {
    (room / (2 * (others + 1))).max(1)
}
