//! How much a network may ask: a bounded table of budgets.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Instant;

use crate::settings::Limits;

/// Budgets in the table. Networks with the same hash share one; each process chooses its hash at random, so an attacker
/// cannot aim at another network. 12 bytes each.
const BUDGETS: usize = 1 << 16;

/// Parts of a query that a budget counts in.
const PARTS: u64 = 1000;

/// How a query arrived. A network has a budget for each, so that one whose address is abused over UDP can ask over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A datagram, whose source may be forged.
    Udp,
    /// A connection.
    Tcp,
}

/// The decision about a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateDecision {
    /// It is answered.
    Pass,
    /// It is answered with an invitation to ask over TCP.
    Slip,
    /// It is dropped.
    Drop,
}

/// The network of an address: /24 of IPv4, /56 of IPv6, the usual size of one subscriber's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Network(u128);

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // Below ::ffff:0:0/96, where no network of IPv6 is.
            IpAddr::V4(address) => Self(0xffff_0000_0000 | u128::from(address.to_bits() & 0xffff_ff00)),
            IpAddr::V6(address) => Self(address.to_bits() & !((1 << 72) - 1)),
        }
    }
}

/// The remaining budget of one network.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// Thousandths of queries that were spent and have not returned yet.
    spent: u32,
    /// When that was, ms after the start of the table.
    at_ms: u32,
    /// Queries above the limit, for every how-many-th.
    over: u32,
}

/// The table of budgets. It never grows and never evicts, so a flood from many forged addresses cannot reset a budget.
#[derive(Debug)]
pub(crate) struct Budgets {
    table: Box<[Budget]>,
    hasher: RandomState,
    start: Instant,
    per_second: u64,
    burst: u64,
    slip: u32,
}

impl Budgets {
    pub(crate) fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            table: vec![Budget::default(); if limits.queries_per_second == 0 { 0 } else { BUDGETS }].into_boxed_slice(),
            hasher: RandomState::new(),
            start: now,
            per_second: u64::from(limits.queries_per_second),
            // The budget has to fit 32 bits.
            burst: u64::from(limits.burst.clamp(1, 1_000_000)) * PARTS,
            slip: limits.slip,
        }
    }

    /// Takes a query's price out of its network's budget.
    pub(crate) fn spend(&mut self, transport: Transport, network: Network, now: Instant) -> RateDecision {
        // Even places are for UDP, odd ones for TCP.
        let place = (self.hasher.hash_one(network) as usize % (BUDGETS / 2)) * 2 + transport as usize;
        let Some(budget) = self.table.get_mut(place) else { return RateDecision::Pass };
        // After 49 days the clock wraps around, and a budget is full a little early or late, once.
        let now_ms = now.saturating_duration_since(self.start).as_millis() as u32;
        let rest = u64::from(now_ms.wrapping_sub(budget.at_ms));
        // Queries per second are thousandths of queries per millisecond.
        let spent = u64::from(budget.spent).saturating_sub(rest.saturating_mul(self.per_second));
        budget.at_ms = now_ms;
        if spent + PARTS <= self.burst {
            budget.spent = (spent + PARTS) as u32;
            return RateDecision::Pass;
        }
        budget.spent = spent as u32;
        budget.over = budget.over.wrapping_add(1);
        if self.slip > 0 && budget.over.is_multiple_of(self.slip) { RateDecision::Slip } else { RateDecision::Drop }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::RateDecision::{Drop, Pass, Slip};
    use super::*;

    fn budgets(per_second: u32, burst: u32, slip: u32) -> (Budgets, Instant) {
        let now = Instant::now();
        let limits = Limits { queries_per_second: per_second, burst, slip, ..Limits::default() };
        (Budgets::new(&limits, now), now)
    }

    fn network(text: &str) -> Network {
        Network::of(text.parse().unwrap())
    }

    #[test]
    fn addresses_of_one_subscriber_are_one_network() {
        assert_eq!(network("192.0.2.1"), network("192.0.2.254"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.9"));
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:ff::2"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:101::1"));
    }

    #[test]
    fn a_burst_passes_then_queries_slip_until_time_refills_it() {
        let (mut budgets, start) = budgets(10, 3, 2);
        let mut ask = |after_ms| {
            let at = start + Duration::from_millis(after_ms);
            budgets.spend(Transport::Udp, network("192.0.2.1"), at)
        };
        let first: Vec<RateDecision> = (0..7).map(|_| ask(0)).collect();
        assert_eq!(first, [Pass, Pass, Pass, Drop, Slip, Drop, Slip]);
        assert_eq!(ask(99), Drop);
        assert_eq!(ask(100), Pass);
        assert_eq!(ask(101), Slip);
        let later: Vec<RateDecision> = (0..4).map(|_| ask(10_000)).collect();
        assert_eq!(later, [Pass, Pass, Pass, Drop]);
    }

    #[test]
    fn networks_and_transports_have_budgets_of_their_own() {
        let (mut budgets, start) = budgets(1, 1, 0);
        // By chance two of a few networks may share a budget, all of them do not.
        let passed = (0..16u8).filter(|net| {
            let network = Network::of(IpAddr::from([10, 0, *net, 1]));
            budgets.spend(Transport::Udp, network, start) == Pass
        });
        assert!(passed.count() > 12);
        let (mut budgets, start) = self::budgets(1, 1, 0);
        let one = network("192.0.2.1");
        assert_eq!(budgets.spend(Transport::Udp, one, start), Pass);
        assert_eq!(budgets.spend(Transport::Udp, one, start), Drop);
        assert_eq!(budgets.spend(Transport::Tcp, one, start), Pass);
    }

    #[test]
    fn a_limit_of_0_is_no_limit() {
        let (mut budgets, start) = budgets(0, 1, 0);
        assert!((0..1000).all(|_| budgets.spend(Transport::Udp, network("192.0.2.1"), start) == Pass));
    }
}
