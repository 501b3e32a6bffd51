//! Decides whether the generator, and not the broker, limited a run.

use super::outcome::{Generator, LoadOutcome};

/// A schedule that is kept to this is kept, in nanoseconds.
const LAG_NS: u64 = 1_000_000;
/// Otherwise it may be late by this part of the latency at the same share.
const PART: u64 = 10;
/// The share of a core above which a process has no capacity left.
const BUSY: f64 = 0.95;

/// Why a run is invalid, if it is. The rule:
///
/// - The generator was later than its schedule by more than 1 ms *and* by more than a tenth of the latency, both at
///   p99: latencies are partly its own.
/// - A process of it took more than 95 % of a core while measuring: rates are the generator's limit, and the broker's
///   may be higher.
pub(crate) fn judge(outcome: &LoadOutcome) -> Option<String> {
    let Generator { lag, busiest, .. } = &outcome.generator;
    let (late_ns, latency_ns) = (lag.at(0.99), outcome.latency.at(0.99).max(outcome.acknowledgement.at(0.99)));
    if late_ns > LAG_NS.max(latency_ns / PART) {
        return Some(format!(
            "the generator was {} ms behind its schedule at p99, and the latency was {} ms: give it more CPU or less load",
            late_ns / 1_000_000,
            latency_ns / 1_000_000
        ));
    }
    (*busiest > BUSY)
        .then(|| format!("a process of the generator took {:.0} % of a core: rates are a lower bound", busiest * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(lag_ms: u64, latency_ms: u64, busiest: f64) -> LoadOutcome {
        let mut outcome = LoadOutcome::default();
        outcome.generator.lag.record(lag_ms * 1_000_000);
        outcome.latency.record(latency_ms * 1_000_000);
        outcome.generator.busiest = busiest;
        outcome
    }

    #[test]
    fn a_generator_that_was_the_bottleneck_is_reported() {
        assert_eq!(judge(&outcome(0, 5, 0.5)), None);
        assert_eq!(judge(&outcome(3, 100, 0.5)), None, "little beside the latency");
        assert!(judge(&outcome(3, 5, 0.5)).is_some_and(|why| why.contains("3 ms")));
        assert!(judge(&outcome(0, 5, 0.99)).is_some_and(|why| why.contains("99 %")));
    }
}
