//! The runs of a sweep.

use super::{Level, Search, Votes};
use crate::results::Results;
use crate::run::{Order, Report, RunError, Said, run};
use crate::scenario::ScenarioError;
use crate::stop::Stop;

/// The load at which a broker's service level breaks.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Knee {
    /// The broker.
    pub peer: String,
    /// The greatest rate that held.
    pub held: Option<u64>,
    /// The least rate that did not.
    pub broke: Option<u64>,
    /// Why not; or why the search ended before something broke.
    pub why: String,
    /// The outcomes of the repetitions at each rate, in the order in which rates were tried.
    pub tried: Vec<(u64, Votes)>,
}

/// Why there is no sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A run could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The scenario cannot be asked for again.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario has no such value to raise.
    #[error("`{scenario}` has no value `{over}` to raise; name one of {} by --over", known.join(", "))]
    NoValue {
        /// The scenario.
        scenario: String,
        /// The quantity to raise.
        over: String,
        /// The values that it has.
        known: Vec<String>,
    },
    /// Several loads cannot be raised at once.
    #[error("several cases are left; choose one of them by --only: {}", cases.join("; "))]
    Cases {
        /// All that are left.
        cases: Vec<String>,
    },
}

/// Raises the value `over` of an order's scenario for each broker, until the level breaks. All runs are in the results.
///
/// # Errors
/// When the scenario cannot be swept, or results cannot be kept.
pub fn sweep(
    order: &Order,
    over: &str,
    search: &Search,
    level: &Level,
    report: &mut dyn Report,
    stop: &Stop,
) -> Result<(Vec<Knee>, Results), SweepError> {
    check(order, over)?;
    let mut knees = Vec::new();
    let mut all: Option<Results> = None;
    for peer in &order.peers {
        let (mut search, mut why, mut tried) = (search.clone(), String::new(), Vec::new());
        while let Some(rate) = search.next() {
            if stop.is_asked() {
                "it was stopped".clone_into(&mut why);
                break;
            }
            let mut raised = order.clone();
            raised.peers = vec![peer.clone()];
            raised.out = order.out.join(format!("{}-{rate}", peer.name().replace(['/', ':'], "-")));
            raise(&mut raised, over, &[rate]);
            let (votes, results) = vote(&raised, level, report, stop)?;
            merge(&mut all, results);
            let holds = votes.holds();
            if holds.is_none() {
                why = format!("at {rate} the generator was at its limit, not the broker: {}", votes.why);
            } else if holds == Some(false) {
                why.clone_from(&votes.why);
            }
            tried.push((rate, votes));
            let Some(holds) = holds else { break };
            search.tell(holds);
        }
        if why.is_empty() {
            "nothing broke up to the greatest rate that was asked for".clone_into(&mut why);
        }
        let knee = Knee { peer: peer.name().to_owned(), held: search.held(), broke: search.broke(), why, tried };
        report.say(Said::Done(format!("{}: {}", knee.peer, knee.sentence(over))));
        knees.push(knee);
    }
    let mut tried: Vec<u64> = knees.iter().flat_map(|knee| knee.tried.iter().map(|(rate, _)| *rate)).collect();
    tried.sort_unstable();
    tried.dedup();
    let mut whole = order.clone();
    raise(&mut whole, over, &tried);
    let mut results = match all {
        Some(results) => results,
        None => run(&Order { peers: Vec::new(), ..order.clone() }, report, stop)?,
    };
    results.scenario = whole.scenario;
    Ok((knees, results))
}

/// Repeats a rate until the majority of the repetitions that were asked for is decided.
fn vote(raised: &Order, level: &Level, report: &mut dyn Report, stop: &Stop) -> Result<(Votes, Results), SweepError> {
    let mut repeat = 1;
    loop {
        // Runs with results are not repeated.
        let results = run(&Order { repeat, ..raised.clone() }, report, stop)?;
        let mut votes = Votes::of(results.runs.iter().map(|run| level.judge(run)));
        if let Some(missing) = results.not_measured.first() {
            votes.why.clone_from(&missing.why);
        }
        let over = repeat >= raised.repeat || !results.not_measured.is_empty() || stop.is_asked();
        if over || votes.are_decided(raised.repeat) {
            return Ok((votes, results));
        }
        repeat += 1;
    }
}

impl Knee {
    /// The result, in a sentence.
    pub fn sentence(&self, over: &str) -> String {
        let number = |rate: u64| {
            let votes = self.tried.iter().find(|(tried, _)| *tried == rate).map(|(_, votes)| votes);
            let said = votes.filter(|votes| votes.held + votes.broke > 1);
            said.map_or_else(|| rate.to_string(), |votes| format!("{rate} ({votes})"))
        };
        let found = match (self.held, self.broke) {
            (Some(held), Some(broke)) => {
                format!("{over} {} held, {} did not: {}", number(held), number(broke), self.why)
            }
            (Some(held), None) => format!("{over} {} held; {}", number(held), self.why),
            (None, _) => format!("nothing held: {}", self.why),
        };
        let split: Vec<String> =
            self.tried.iter().filter(|(_, votes)| votes.disagree()).map(|(rate, _)| number(*rate)).collect();
        if split.is_empty() {
            return found;
        }
        format!("{found}; not stable: repetitions disagree at {}", split.join(", "))
    }
}

/// The scenario with other values in place of its own; variants differ in nothing else then.
fn raise(order: &mut Order, over: &str, rates: &[u64]) {
    let values = rates.iter().map(|rate| toml::Value::Integer(i64::try_from(*rate).unwrap_or(i64::MAX))).collect();
    for variant in &mut order.scenario.variants {
        variant.remove(over);
    }
    order.scenario.matrix.insert(over.to_owned(), values);
}

fn check(order: &Order, over: &str) -> Result<(), SweepError> {
    let scenario = &order.scenario;
    let known: Vec<String> =
        scenario.matrix.keys().chain(scenario.variants.iter().flat_map(|variant| variant.keys())).cloned().collect();
    if !known.iter().any(|name| name == over) {
        let mut known = known;
        known.sort();
        known.dedup();
        return Err(SweepError::NoValue { scenario: scenario.name.clone(), over: over.to_owned(), known });
    }
    let mut one = order.clone();
    raise(&mut one, over, &[1]);
    let cases: Vec<String> = one
        .scenario
        .cases()?
        .into_iter()
        .map(|case| case.name)
        .filter(|name| order.only.as_ref().is_none_or(|only| name.contains(only.as_str())))
        .collect();
    if cases.len() == 1 { Ok(()) } else { Err(SweepError::Cases { cases }) }
}

fn merge(all: &mut Option<Results>, mut results: Results) {
    match all {
        None => *all = Some(results),
        Some(all) => {
            all.runs.append(&mut results.runs);
            all.not_measured.append(&mut results.not_measured);
            all.peers.append(&mut results.peers);
        }
    }
}
