//! The share of a node in the message rate of a tenant.

/// An idle node keeps a part of the rate, of one in this number of equal shares, so that its first messages need not
/// wait for an announcement.
const IDLE_PART: u64 = 8;

/// The messages of a tenant at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Messages in a second.
    pub(super) rate: u32,
    /// Whether its publishers need more than its share.
    pub(super) is_short: bool,
}

/// The share of each node in `limit` messages a second, in the order of their demands: a node that has enough keeps its
/// demand and a reserve, the others share the rest evenly. The sum is `limit`, but each node has at least 1.
pub(super) fn shares(limit: u32, demands: &[Demand]) -> Vec<u32> {
    let count = demands.len().max(1) as u64;
    let limit = u64::from(limit);
    let least = limit / (IDLE_PART * count);
    let wish = |demand: &Demand| {
        let rate = u64::from(demand.rate);
        if demand.is_short { limit } else { (rate + rate / 4).clamp(least, limit.max(least)) }
    };
    let mut in_order: Vec<(u64, usize)> = demands.iter().map(wish).enumerate().map(|(at, wish)| (wish, at)).collect();
    in_order.sort_unstable();
    let mut shares = vec![0; demands.len()];
    let (mut left, mut nodes) = (limit, count);
    for (wish, at) in in_order {
        let share = wish.min(left / nodes);
        (left, nodes) = (left - share, nodes - 1);
        if let Some(place) = shares.get_mut(at) {
            *place = share;
        }
    }
    let (each, rest) = (left / count, left % count);
    let with_rest = |(at, share): (usize, u64)| share + each + u64::from((at as u64) < rest);
    shares.into_iter().enumerate().map(with_rest).map(|share| u32::try_from(share.max(1)).unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn demand(rate: u32, is_short: bool) -> Demand {
        Demand { rate, is_short }
    }

    #[test]
    fn one_busy_node_gets_almost_all() {
        assert_eq!(shares(6000, &[demand(0, false); 3]), [2000; 3]);
        assert_eq!(shares(6000, &[demand(2000, true), demand(0, false), demand(0, false)]), [5500, 250, 250]);
        assert_eq!(shares(6000, &[demand(5500, true), demand(250, true), demand(0, false)]), [2875, 2875, 250]);
        assert_eq!(shares(6000, &[demand(100, false), demand(3000, true), demand(3000, true)]), [250, 2875, 2875]);
        assert_eq!(shares(1, &[demand(0, false); 3]), [1, 1, 1], "the overshoot of a small limit");
        assert_eq!(shares(7, &[demand(0, false)]), [7]);
    }

    proptest! {
        #[test]
        fn shares_are_the_limit_together(
            limit in 1_u32..10_000_000,
            demands in prop::collection::vec((0_u32..10_000_000, any::<bool>()), 1..64),
        ) {
            let demands: Vec<_> = demands.into_iter().map(|(rate, is_short)| demand(rate, is_short)).collect();
            let shares = shares(limit, &demands);
            let sum: u64 = shares.iter().map(|share| u64::from(*share)).sum();
            prop_assert!(sum >= u64::from(limit));
            prop_assert!(sum <= u64::from(limit) + demands.len() as u64);
            let short = shares.iter().zip(&demands).filter(|(_, demand)| demand.is_short).map(|(share, _)| *share);
            let (least, most) = (short.clone().min(), short.max());
            prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 2, "busy nodes share evenly: {shares:?}");
        }
    }
}
