//! Connection statistics of a gateway (`CTX-50`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::real::real;

/// Statistics of the pongs of a round for one gateway. Times are milliseconds; the variance is that of the whole
/// population, in square milliseconds. Without a pong all times are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionStatistics {
    /// Nodes that were sent a ping.
    pub pinged: u64,
    /// Nodes whose pong came within the window.
    pub answered: u64,
    /// Mean latency.
    pub mean_ms: f64,
    /// Standard deviation of the latency.
    pub deviation_ms: f64,
    /// Variance of the latency.
    pub variance_ms2: f64,
    /// Median latency: of an even number of values, the mean of the two in the middle.
    pub median_ms: f64,
    /// Longest latency.
    pub max_ms: f64,
    /// Shortest latency.
    pub min_ms: f64,
}

impl ConnectionStatistics {
    /// Works the latencies of a round out.
    pub fn of(pinged: u64, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let answered = latencies.len() as u64;
        let pinged = pinged.max(answered);
        let values: Vec<f64> = latencies.iter().map(|latency| latency.as_secs_f64() * 1e3).collect();
        let (Some(min), Some(max)) = (values.first(), values.last()) else {
            return Self { pinged, ..Self::default() };
        };
        let mean = values.iter().sum::<f64>() / real(answered);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / real(answered);
        Self {
            pinged,
            answered,
            mean_ms: mean,
            deviation_ms: variance.sqrt(),
            variance_ms2: variance,
            median_ms: median(&values),
            max_ms: *max,
            min_ms: *min,
        }
    }

    /// The part of the nodes whose pong came within the window, 0 to 1; `None` when no node was pinged.
    pub fn ping_rate(&self) -> Option<f64> {
        (self.pinged > 0).then(|| real(self.answered) / real(self.pinged))
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or_default();
    if sorted.len().is_multiple_of(2) {
        let lower = sorted.get(middle.saturating_sub(1)).copied().unwrap_or_default();
        f64::midpoint(lower, upper)
    } else {
        upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pinged: u64, millis: &[u64]) -> ConnectionStatistics {
        ConnectionStatistics::of(pinged, millis.iter().map(|ms| Duration::from_millis(*ms)).collect())
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn figures_agree_with_the_definition() {
        let even = of(10, &[40, 10, 20, 30]);
        assert!(close(even.mean_ms, 25.0) && close(even.variance_ms2, 125.0) && close(even.median_ms, 25.0));
        assert!(close(even.deviation_ms, 125.0_f64.sqrt()) && close(even.min_ms, 10.0) && close(even.max_ms, 40.0));
        assert_eq!(even.ping_rate(), Some(0.4));
        assert!(close(of(3, &[5, 1, 9]).median_ms, 5.0));
    }

    #[test]
    fn no_node_answers_or_no_node_exists() {
        assert_eq!((of(7, &[]).ping_rate(), of(7, &[]).mean_ms), (Some(0.0), 0.0));
        assert_eq!(of(0, &[]).ping_rate(), None);
    }
}
