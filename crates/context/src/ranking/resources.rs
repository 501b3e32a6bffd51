//! `W = sum of a_k * (1 - usage_k)` over what a gateway has: processors, memory, event loops, queues, and what its nodes see of it.

use super::{GatewayView, Ranking};
use crate::real::real;

/// How much each resource counts, and where it is used up. Weights are relative to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceWeights {
    /// Weight of the processors.
    pub cpu: f64,
    /// Weight of the memory.
    pub memory: f64,
    /// Weight of the event loops' lag, in place of the study's pool of threads.
    pub loop_lag: f64,
    /// Weight of what waits in queues.
    pub queues: f64,
    /// Weight of nodes that answer no ping.
    pub ping_rate: f64,
    /// Weight of the latency.
    pub latency: f64,
    /// Lag with which loops are used up, milliseconds.
    pub full_loop_lag_ms: f64,
    /// Queues that are full, bytes.
    pub full_queue_bytes: f64,
    /// Mean latency with which a gateway is used up, milliseconds.
    pub full_latency_ms: f64,
}

impl Default for ResourceWeights {
    fn default() -> Self {
        Self {
            cpu: 4.0,
            memory: 2.0,
            loop_lag: 2.0,
            queues: 1.0,
            ping_rate: 1.0,
            latency: 1.0,
            full_loop_lag_ms: 100.0,
            full_queue_bytes: 268_435_456.0,
            full_latency_ms: 1_000.0,
        }
    }
}

/// Weights that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a weight of the ranking is negative, all are 0, or a resource is full at 0; leave keys out to use the defaults"
)]
pub struct WeightsError;

/// Ranks by what a gateway has left.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedResources(ResourceWeights);

impl WeightedResources {
    /// Checks the weights.
    ///
    /// # Errors
    /// When one is negative or not finite, all are 0, or something is full at 0.
    pub fn new(weights: ResourceWeights) -> Result<Self, WeightsError> {
        let ResourceWeights { cpu, memory, loop_lag, queues, ping_rate, latency, .. } = weights;
        let all = [cpu, memory, loop_lag, queues, ping_rate, latency];
        let full = [weights.full_loop_lag_ms, weights.full_queue_bytes, weights.full_latency_ms];
        let valid =
            all.iter().all(|weight| weight.is_finite() && *weight >= 0.0) && all.iter().any(|weight| *weight > 0.0);
        if valid && full.iter().all(|full| full.is_finite() && *full > 0.0) {
            Ok(Self(weights))
        } else {
            Err(WeightsError)
        }
    }
}

impl Ranking for WeightedResources {
    fn score(&self, gateway: &GatewayView) -> f64 {
        let weights = &self.0;
        let statistics = &gateway.statistics;
        let usages = [
            (weights.cpu, gateway.cpu),
            (weights.memory, gateway.memory),
            (weights.loop_lag, real(gateway.loop_lag_ms) / weights.full_loop_lag_ms),
            (weights.queues, real(gateway.queue_bytes) / weights.full_queue_bytes),
            (weights.ping_rate, 1.0 - statistics.ping_rate().unwrap_or(1.0)),
            (weights.latency, statistics.mean_ms / weights.full_latency_ms),
        ];
        let total: f64 = usages.iter().map(|(weight, _)| weight).sum();
        let left = |usage: f64| if usage.is_finite() { 1.0 - usage.clamp(0.0, 1.0) } else { 0.0 };
        usages.iter().map(|(weight, usage)| weight * left(*usage)).sum::<f64>() / total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_gateway_scores_1_and_one_used_up_0() {
        let ranking = WeightedResources::default();
        assert!((ranking.score(&GatewayView::default()) - 1.0).abs() < 1e-9);
        let mut full =
            GatewayView { cpu: 1.0, memory: 2.0, loop_lag_ms: 200, queue_bytes: 1 << 40, ..GatewayView::default() };
        full.statistics.pinged = 5;
        full.statistics.mean_ms = 5_000.0;
        assert!(ranking.score(&full).abs() < 1e-9);
        let busy = GatewayView { cpu: 0.5, ..GatewayView::default() };
        assert!(ranking.score(&busy) < 1.0 && ranking.score(&busy) > 0.5);
        assert!(ranking.score(&GatewayView { cpu: f64::NAN, ..GatewayView::default() }) < 1.0);
    }

    #[test]
    fn weights_that_rank_nothing_are_refused() {
        let with = |cpu| WeightedResources::new(ResourceWeights { cpu, ..ResourceWeights::default() });
        assert!(with(-1.0).is_err() && with(f64::NAN).is_err() && with(0.0).is_ok());
        assert!(
            WeightedResources::new(ResourceWeights { full_latency_ms: 0.0, ..ResourceWeights::default() }).is_err()
        );
    }
}
