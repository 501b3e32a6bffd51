//! `W = sum of a_k * (1 - usage_k)` over the resources of a gateway: processors, memory, event loops, queues, and the
//! pings of its nodes.

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
    /// Weight of the queue length.
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

impl ResourceWeights {
    /// The resources that can have a weight, by their names in the configuration.
    pub const RESOURCES: [&str; 6] = ["cpu", "memory", "loop_lag", "queues", "ping_rate", "latency"];

    fn weights(self) -> [f64; 6] {
        [self.cpu, self.memory, self.loop_lag, self.queues, self.ping_rate, self.latency]
    }

    /// Weights as text, `RESOURCE: WEIGHT`; an unnamed resource has weight 0 (CTX-53).
    ///
    /// # Errors
    /// When a text is invalid, or names an unknown resource, or one twice.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, WeightsError> {
        let mut given = [None; 6];
        for text in texts {
            let wrong = || WeightsError::Text(text.to_owned());
            let (name, weight) = text.split_once(':').ok_or_else(wrong)?;
            let place = Self::RESOURCES.iter().position(|resource| *resource == name.trim()).ok_or_else(wrong)?;
            let weight: f64 = weight.trim().parse().map_err(|_| wrong())?;
            match given.get_mut(place) {
                Some(seat @ None) => *seat = Some(weight),
                _ => return Err(WeightsError::Twice(name.trim().to_owned())),
            }
        }
        let [cpu, memory, loop_lag, queues, ping_rate, latency] = given.map(Option::unwrap_or_default);
        Ok(Self { cpu, memory, loop_lag, queues, ping_rate, latency, ..Self::default() })
    }

    /// The weights as text, for [`of`](Self::of).
    pub fn texts(self) -> Vec<String> {
        Self::RESOURCES.iter().zip(self.weights()).map(|(name, weight)| format!("{name}: {weight}")).collect()
    }
}

/// Weights that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// The weights are useless.
    #[error(
        "a weight is negative or not a number, all weights are 0, or a resource is full at 0; omit the key to use the defaults"
    )]
    Values,
    /// It is not a weight.
    #[error("`{0}` is not a weight; write RESOURCE: NUMBER with one of {known}", known = ResourceWeights::RESOURCES.join(", "))]
    Text(String),
    /// The same resource has two weights.
    #[error("`{0}` has two weights")]
    Twice(String),
}

/// Ranks by the free resources of a gateway.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedResources(ResourceWeights);

impl WeightedResources {
    /// Checks the weights.
    ///
    /// # Errors
    /// When one is negative or not finite, all are 0, or the full scale of a resource is 0.
    pub fn new(weights: ResourceWeights) -> Result<Self, WeightsError> {
        let all = weights.weights();
        let full = [weights.full_loop_lag_ms, weights.full_queue_bytes, weights.full_latency_ms];
        let valid =
            all.iter().all(|weight| weight.is_finite() && *weight >= 0.0) && all.iter().any(|weight| *weight > 0.0);
        if valid && full.iter().all(|full| full.is_finite() && *full > 0.0) {
            Ok(Self(weights))
        } else {
            Err(WeightsError::Values)
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
    fn weights_are_texts_and_back() {
        let default = ResourceWeights::default();
        let texts = default.texts();
        assert_eq!(texts, ["cpu: 4", "memory: 2", "loop_lag: 2", "queues: 1", "ping_rate: 1", "latency: 1"]);
        assert_eq!(ResourceWeights::of(texts.iter().map(String::as_str)), Ok(default));
        for (texts, wanted) in [
            (&["cpu"][..], "`cpu` is not a weight"),
            (&["cpu: much"], "write RESOURCE: NUMBER"),
            (&["disk: 1"], "ping_rate, latency"),
            (&["cpu: 1", "memory: 1", "cpu : 0"], "`cpu` has two weights"),
        ] {
            let said = ResourceWeights::of(texts.iter().copied()).unwrap_err().to_string();
            assert!(said.contains(wanted), "{texts:?}: {said}");
        }
    }

    #[test]
    fn a_resource_without_weight_does_not_count() {
        let ranking = WeightedResources::new(ResourceWeights::of(["memory: 0.5"]).unwrap()).unwrap();
        let view = GatewayView { cpu: 1.0, memory: 0.25, ..GatewayView::default() };
        assert!((ranking.score(&view) - 0.75).abs() < 1e-9);
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
