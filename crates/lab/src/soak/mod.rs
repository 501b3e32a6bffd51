//! Hours under load: changes of a broker over time under a constant load.

mod drift;

pub use drift::{Drift, Trend};

use crate::report::shown;
use crate::results::{Found, Run};

/// Points that the use of CPU has: two for each window of a drift.
const CPU_POINTS: f64 = 80.0;

/// A quantity of a run over time.
struct Quantity {
    name: &'static str,
    unit: &'static str,
    /// Whether a broker gets worse when it grows; throughput is worse when it shrinks.
    grows_worse: bool,
    at_s: Vec<f64>,
    values: Vec<f64>,
}

/// The drift of one quantity of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Drifted {
    /// The quantity.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The trend; `None` where there is too little to say.
    pub drift: Option<Drift>,
    /// Whether it got worse by more than noise.
    pub is_worse: bool,
}

/// The measures that drift in a run while publishers publish.
pub fn drifts(run: &Run) -> Vec<Drifted> {
    let of = |quantity: &Quantity| {
        let drift = Drift::of(&quantity.at_s, &quantity.values);
        let worse = if quantity.grows_worse { Trend::Grows } else { Trend::Shrinks };
        let is_worse = drift.is_some_and(|drift| drift.trend() == worse);
        Drifted { name: quantity.name, unit: quantity.unit, drift, is_worse }
    };
    quantities(run).iter().map(of).collect()
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn float(value: u64) -> f64 {
    value as f64
}

/// All quantities that are looked at, between the begin of measuring and its end.
fn quantities(run: &Run) -> Vec<Quantity> {
    const MIB: f64 = 1_048_576.0;
    let (from, to) = (float(run.load.measured_from_ns) / 1e9, float(run.load.measured_to_ns) / 1e9);
    let of_broker = |name, unit, column: &[u64], per: f64| {
        let looks = run.broker.at_s.iter().map(|at| at - run.load_zero_s).zip(column);
        let looks = looks.filter(|(at, _)| (from..to).contains(at)).map(|(at, value)| (at, float(*value) / per));
        let (at_s, values) = looks.unzip();
        Quantity { name, unit, grows_worse: true, at_s, values }
    };
    let of_load = |name, unit, grows_worse: bool, value: &dyn Fn(&crate::load::Second) -> f64| {
        // A second that is not whole says less than the others.
        let seconds = run.load.series.iter().filter(|second| {
            let at = f64::from(second.second);
            // A run without a delivery has no latency either.
            at >= from && at + 1.0 <= to && (second.received > 0 || !grows_worse)
        });
        let (at_s, values) = seconds.map(|second| (f64::from(second.second), value(second))).unzip();
        Quantity { name, unit, grows_worse, at_s, values }
    };
    vec![
        of_broker("Memory", "MiB", &run.broker.rss, MIB),
        of_broker("Anonymous memory", "MiB", &run.broker.anonymous, MIB),
        of_broker("Open files", "files", &run.broker.descriptors, 1.0),
        of_broker("Threads", "threads", &run.broker.threads, 1.0),
        cpu(run, from, to),
        of_load("Latency, median", "ms", true, &|second| float(second.p50_ns) / 1e6),
        of_load("Latency, p99", "ms", true, &|second| float(second.p99_ns) / 1e6),
        of_load("Throughput", "messages/s", false, &|second| float(second.received)),
    ]
}

/// CPU time between looks.
fn cpu(run: &Run, from: f64, to: f64) -> Quantity {
    let looks = run.broker.at_s.iter().map(|at| at - run.load_zero_s).zip(run.broker.cpu_s.iter().copied());
    let (at_s, values) = cores(looks.filter(|(at, _)| (from..to).contains(at)), ((to - from) / CPU_POINTS).max(1.0));
    Quantity { name: "CPU", unit: "cores", grows_worse: true, at_s, values }
}

/// The mean use between samples at this distance in seconds: CPU time is counted in ticks of 10 ms, so that a broker
/// with little to do seems idle between most samples that are close together, and their median is 0.
fn cores(looks: impl Iterator<Item = (f64, f64)>, apart_s: f64) -> (Vec<f64>, Vec<f64>) {
    let mut last: Option<(f64, f64)> = None;
    let pairs = looks.filter_map(|(at, used)| {
        let (before, used_before) = *last.get_or_insert((at, used));
        // Looks are seldom exactly as far apart as they should be.
        (at - before >= apart_s * 0.95).then(|| {
            last = Some((at, used));
            (at, (used - used_before) / (at - before))
        })
    });
    pairs.unzip()
}

/// The drifts of a run as a table of its report.
pub fn found(drifts: &[Drifted]) -> Found {
    let row = |drifted: &Drifted| {
        let (numbers, trend) = match &drifted.drift {
            None => (["–", "–", "–", "–"].map(str::to_owned), "too few looks"),
            Some(drift) => {
                let numbers = [shown(drift.from), shown(drift.to), shown(drift.per_hour), shown(drift.deviations)];
                let trend = match drift.trend() {
                    Trend::Grows => "grows",
                    Trend::Shrinks => "shrinks",
                    Trend::Steady => "steady",
                };
                (numbers, trend)
            }
        };
        let trend = if drifted.is_worse { format!("{trend}: worse") } else { trend.to_owned() };
        let [from, to, slope, deviations] = numbers;
        vec![drifted.name.to_owned(), drifted.unit.to_owned(), from, to, slope, deviations, trend]
    };
    Found {
        title: "Drift".to_owned(),
        columns: ["Quantity", "Unit", "At first", "At last", "In an hour", "Standard deviations", "Trend"]
            .map(str::to_owned)
            .to_vec(),
        rows: drifts.iter().map(row).collect(),
        notes: vec![
            "The first tenth of the time is left out. The slope is that of Theil and Sen over the medians of 40 windows, the test that of Mann and \
             Kendall: beyond 3.29 standard deviations noise alone shows such a trend once in a thousand. What changes less than 3 % counts as steady"
                .to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of a broker whose CPU time is counted in ticks, a sample each second.
    fn ticks(of_a_core: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut used = 0.0;
        let look = |at: u32| {
            used += of_a_core(f64::from(at));
            (f64::from(at), (used * 100.0_f64).floor() / 100.0)
        };
        (0..3600).map(look).collect()
    }

    #[test]
    fn the_cpu_time_of_an_idle_broker_is_known_despite_ticks() {
        let drift = |of_a_core: &dyn Fn(f64) -> f64| {
            let (at_s, values) = cores(ticks(of_a_core).into_iter(), 3600.0 / CPU_POINTS);
            Drift::of(&at_s, &values).unwrap()
        };
        let steady = drift(&|_| 0.004);
        assert!((steady.from - 0.004).abs() < 0.000_2, "{steady:?}");
        assert_eq!(steady.trend(), Trend::Steady, "{steady:?}");
        let growing = drift(&|at| 0.004 + 0.002 * at / 3600.0);
        assert!((growing.per_hour - 0.002).abs() < 0.000_2, "{growing:?}");
        assert_eq!(growing.trend(), Trend::Grows, "{growing:?}");
    }
}
