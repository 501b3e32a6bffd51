//! `W = capacity / (1 + nodes)`: a gateway with fewer nodes for its size ranks higher.

use super::{GatewayView, Ranking};
use crate::real::real;

/// Ranks by the number of nodes alone. A gateway without a known capacity counts as one of capacity 1, so use it where
/// all gateways report a capacity, or none does.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionsInverse;

impl Ranking for ConnectionsInverse {
    fn score(&self, gateway: &GatewayView) -> f64 {
        real(gateway.capacity.max(1)) / (1.0 + real(gateway.nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_nodes_and_more_capacity_are_lighter() {
        let score =
            |nodes, capacity| ConnectionsInverse.score(&GatewayView { nodes, capacity, ..GatewayView::default() });
        assert!(score(10, 100) > score(20, 100) && score(10, 200) > score(10, 100));
        assert!(score(0, 0).is_finite() && score(u64::MAX, 0) >= 0.0);
    }
}
