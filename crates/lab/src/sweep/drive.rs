//! The runs of a sweep.

use super::{Kept, Level, Search};
use crate::results::Results;
use crate::run::{Order, Report, RunError, Said, run};
use crate::scenario::ScenarioError;
use crate::stop::Stop;

/// Where a broker's service level breaks.
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
    /// There is nothing to raise.
    #[error("`{scenario}` has no value `{over}` to raise; name one of {} by --over", known.join(", "))]
    NoValue {
        /// The scenario.
        scenario: String,
        /// What was to be raised.
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
    let mut tried = Vec::new();
    for peer in &order.peers {
        let mut search = search.clone();
        let mut why = String::new();
        while let Some(rate) = search.next() {
            if stop.is_asked() {
                "it was stopped".clone_into(&mut why);
                break;
            }
            let mut raised = order.clone();
            raised.peers = vec![peer.clone()];
            raised.out = order.out.join(format!("{}-{rate}", peer.name().replace(['/', ':'], "-")));
            raise(&mut raised, over, &[rate]);
            let results = run(&raised, report, stop)?;
            tried.push(rate);
            let kept = results.runs.first().map_or_else(
                || Kept::Unknown(results.not_measured.first().map(|entry| entry.why.clone()).unwrap_or_default()),
                |run| level.judge(run),
            );
            merge(&mut all, results);
            if let Kept::Unknown(reason) = kept {
                why = format!("at {rate} the generator was at its limit, not the broker: {reason}");
                break;
            }
            if let Kept::No(reason) = &kept {
                why.clone_from(reason);
            }
            search.tell(kept == Kept::Yes);
        }
        if why.is_empty() {
            "nothing broke up to the greatest rate that was asked for".clone_into(&mut why);
        }
        let knee = Knee { peer: peer.name().to_owned(), held: search.held(), broke: search.broke(), why };
        report.say(Said::Done(format!("{}: {}", knee.peer, knee.sentence(over))));
        knees.push(knee);
    }
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

impl Knee {
    /// What was found, in a sentence.
    pub fn sentence(&self, over: &str) -> String {
        let number = |rate: u64| rate.to_string();
        match (self.held, self.broke) {
            (Some(held), Some(broke)) => {
                format!("{over} {} held, {} did not: {}", number(held), number(broke), self.why)
            }
            (Some(held), None) => format!("{over} {} held; {}", number(held), self.why),
            (None, _) => format!("nothing held: {}", self.why),
        }
    }
}

/// The scenario with other values in place of those that it has; variants differ in nothing else then.
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
