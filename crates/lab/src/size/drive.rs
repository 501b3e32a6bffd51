//! The runs of a search for a size.

use super::{Candidate, Prices, SizeSearch};
use crate::results::{Measure, Results};
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
    /// Whether it held; `None` where the run says nothing of the broker.
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
    let Some(run) = results.runs.last() else {
        let why = results.not_measured.first().map_or_else(String::new, |missing| missing.why.clone());
        // A broker that does not even start within its limits is too small.
        return Tried { candidate, held: Some(false), why, p99_ms: None, delivered: None };
    };
    let (held, why) = match level.judge(run) {
        Kept::Yes => (Some(true), String::new()),
        Kept::No(why) => (Some(false), why),
        Kept::Unknown(why) => (None, format!("the generator was at its limit: {why}")),
    };
    let (p99_ms, delivered) = (Measure::LatencyP99.of(run), Measure::Delivered.of(run));
    Tried { candidate, held, why, p99_ms, delivered }
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
