//! The runs of a search for a size.

use super::{Candidate, Prices, SizeSearch};
use crate::results::{Measure, NotMeasured, Results};
use crate::run::{Order, Report, RunError, Said, run};
use crate::stop::Stop;
use crate::sweep::{Kept, Level};

/// The load that has to be carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Devices.
    pub devices: u32,
    /// Messages of each in a second.
    pub rate: f64,
    /// Bytes of a message.
    pub bytes: u32,
    /// QoS of the messages.
    pub qos: u8,
}

/// A candidate that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The size.
    pub candidate: Candidate,
    /// Whether it held; `None` if the run says nothing about the broker.
    pub held: Option<bool>,
    /// Why not.
    pub why: String,
    /// The latency of 99 % of the deliveries, milliseconds.
    pub p99_ms: Option<f64>,
    /// Deliveries, in percent of the due ones.
    pub delivered: Option<f64>,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The cheapest candidate that held.
    pub best: Option<Candidate>,
    /// All runs, in their order.
    pub tried: Vec<Tried>,
    /// Whether the search came to its end.
    pub complete: bool,
    /// The runs for a report.
    pub results: Option<Results>,
}

/// Why there is no size.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// A run could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The scenario of a load, as a file: devices publish, and one subscriber takes all messages.
pub fn scenario(asked: &Demand, devices: u32, seconds: u64) -> String {
    let Demand { rate, bytes, qos, .. } = asked;
    format!(
        "title = \"A size for devices\"\n\
         question = \"Does a broker of this size keep the service level?\"\n\
         method = \"Devices publish at a fixed rate to a broker with limits, and one subscriber takes all messages.\"\n\
         ids = [\"LAV-26\"]\n\
         case = \"{{devices}} devices\"\n\
         measures = [\"delivered\", \"latency-p99\", \"cpu-mean\", \"memory-peak\"]\n\
         [matrix]\n\
         devices = [{devices}]\n\
         [load]\n\
         warm_up_ms = 2000\n\
         duration_ms = {}\n\
         drain_ms = 3000\n\
         [[load.groups]]\n\
         name = \"hub\"\n\
         count = 1\n\
         role = {{ subscriber = {{ filters = [\"lab/device/#\"], qos = {qos} }} }}\n\
         [[load.groups]]\n\
         name = \"devices\"\n\
         count = \"{{devices}}\"\n\
         [load.groups.role.publisher]\n\
         topics = {{ pattern = \"lab/device/{{client}}\" }}\n\
         qos = {qos}\n\
         payload = {{ size = {{ fixed = {bytes} }} }}\n\
         pace = {{ open = {{ rate = {{ per-client = {rate:?} }} }} }}\n",
        seconds * 1_000
    )
}

/// Searches the cheapest candidate that keeps a level. `order` makes the order of a run for a candidate: brokers share
/// the devices evenly, and one of them is measured.
///
/// # Errors
/// When a run cannot be made or kept.
pub fn size(
    order: &mut dyn FnMut(Candidate) -> Result<Order, RunError>,
    mut search: SizeSearch,
    prices: Prices,
    level: &Level,
    (report, stop): (&mut dyn Report, &Stop),
) -> Result<Chosen, SizeError> {
    let (mut tried, mut all): (Vec<Tried>, Option<Results>) = (Vec::new(), None);
    while let Some(candidate) = search.next() {
        if stop.is_asked() {
            return Ok(Chosen { best: search.best(), tried, complete: false, results: all });
        }
        let mut order = order(candidate)?;
        order.scenario.limits = limits(candidate);
        let mut results = run(&order, report, stop)?;
        let one = judge(candidate, &results, level);
        report.say(Said::Done(one.sentence(prices)));
        let held = one.held;
        tried.push(one);
        match &mut all {
            None => all = Some(results),
            Some(all) => {
                all.runs.append(&mut results.runs);
                all.not_measured.append(&mut results.not_measured);
            }
        }
        let Some(held) = held else {
            return Ok(Chosen { best: search.best(), tried, complete: false, results: all });
        };
        search.tell(candidate, held);
    }
    Ok(Chosen { best: search.best(), tried, complete: true, results: all })
}

/// The limits of a broker, as a scenario has them.
fn limits(candidate: Candidate) -> toml::Table {
    let cpus = toml::Value::Float(f64::from(candidate.millicores) / 1e3);
    let memory = toml::Value::String(format!("{}MiB", candidate.mebibytes));
    [("cpus".to_owned(), cpus), ("memory".to_owned(), memory)].into_iter().collect()
}

fn judge(candidate: Candidate, results: &Results, level: &Level) -> Tried {
    let missing = results.not_measured.first();
    let Some(run) = results.runs.last() else {
        let (held, why) = missing.map_or((None, String::new()), without_run);
        return Tried { candidate, held, why, p99_ms: None, delivered: None };
    };
    let (held, why) = match missing {
        Some(missing) => without_run(missing),
        None => with_run(level.judge(run), run.broker_ended),
    };
    let (p99_ms, delivered) = (Measure::LatencyP99.of(run), Measure::Delivered.of(run));
    Tried { candidate, held, why, p99_ms, delivered }
}

/// The result without a whole run: only the end of a broker within its limits says that they are too small. All else,
/// such as limits that cannot be kept here, a full disk or a generator without threads, says nothing of the broker.
fn without_run(missing: &NotMeasured) -> (Option<bool>, String) {
    (missing.broker_ended.then_some(false), missing.why.clone())
}

/// The result of a whole run.
fn with_run(kept: Kept, broker_ended: bool) -> (Option<bool>, String) {
    match kept {
        Kept::Yes => (Some(true), String::new()),
        Kept::No(why) => (Some(false), why),
        Kept::Unknown(why) if broker_ended => (Some(false), why),
        Kept::Unknown(why) => (None, format!("the generator was at its limit: {why}")),
    }
}

impl Tried {
    /// The size and its result, in a line.
    pub fn sentence(&self, prices: Prices) -> String {
        let Candidate { brokers, millicores, mebibytes } = self.candidate;
        let held = match self.held {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "says nothing",
        };
        let cost = self.candidate.cost(prices);
        let p99 = self.p99_ms.map(|p99| format!(", p99 {p99:.1} ms")).unwrap_or_default();
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        format!("{brokers} x {millicores} millicores and {mebibytes} MiB, cost {cost:.3}: {held}{p99}{why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(why: &str, broker_ended: bool) -> NotMeasured {
        let (peer, case) = ("tidegate".to_owned(), "10 devices".to_owned());
        NotMeasured { peer, case, repetition: 1, why: why.to_owned(), broker_ended }
    }

    #[test]
    fn only_a_broker_that_ended_is_too_small() {
        let ended = "tidegate did not get ready: it ended with signal 9";
        assert_eq!(without_run(&missing(ended, true)), (Some(false), ended.to_owned()));
        for why in ["cannot apply the limits of the case here: no cgroup", "the system gives no thread", "stopped"] {
            assert_eq!(without_run(&missing(why, false)), (None, why.to_owned()));
        }
    }

    #[test]
    fn a_broker_that_ends_in_a_run_does_not_hold() {
        let why = || "the broker ended: signal 9".to_owned();
        assert_eq!(with_run(Kept::Unknown(why()), true), (Some(false), why()));
        assert_eq!(with_run(Kept::Unknown("late".to_owned()), false).0, None);
        assert_eq!(with_run(Kept::Yes, false), (Some(true), String::new()));
        assert_eq!(with_run(Kept::No("slow".to_owned()), false), (Some(false), "slow".to_owned()));
    }
}
