//! Tests whether two series of runs differ: the Mann-Whitney test on the repetitions of each case, broker and measure.
//! It assumes no distribution, and needs at least four repetitions on each side to find a difference at 5 %.

use serde::Serialize;

use crate::results::statistics::{least_probability, mann_whitney, median};
use crate::results::{Better, Measure, Results, Run};

/// A difference this unlikely to be chance is called one.
pub const SIGNIFICANT: f64 = 0.05;
/// A smaller difference than this share does not matter to a user, however significant it is.
pub const NOTICEABLE: f64 = 0.03;

/// One side against the other, in one measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The case.
    pub case: String,
    /// The broker; where brokers are compared, `A against B`.
    pub peer: String,
    /// The measure.
    pub measure: Measure,
    /// The median before.
    pub before: f64,
    /// The median now.
    pub now: f64,
    /// Valid repetitions on each side.
    pub repetitions: (usize, usize),
    /// The probability of such a difference by chance.
    pub probability: f64,
    /// The conclusion.
    #[serde(rename = "verdict")]
    pub conclusion: Conclusion,
}

/// A conclusion from numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// It is better now.
    Better,
    /// It is worse now.
    Worse,
    /// No difference is shown.
    Same,
    /// Too few repetitions to show anything.
    TooFew,
}

/// All cases, brokers and measures that both have valid runs of.
pub fn compare(before: &Results, now: &Results) -> Vec<Difference> {
    let mut differences = Vec::new();
    for case in before.case_names() {
        for peer in before.peer_names() {
            let sides = (valid(before, &case, &peer), valid(now, &case, &peer));
            differences.extend(all_measures(&case, &peer, &sides.0, &sides.1));
        }
    }
    differences
}

/// The brokers of one series against the first of them.
pub fn compare_peers(results: &Results) -> Vec<Difference> {
    let peers = results.peer_names();
    let Some((base, others)) = peers.split_first() else { return Vec::new() };
    let mut differences = Vec::new();
    for case in results.case_names() {
        let first = valid(results, &case, base);
        for other in others {
            let name = format!("{other} against {base}");
            differences.extend(all_measures(&case, &name, &first, &valid(results, &case, other)));
        }
    }
    differences
}

fn valid<'a>(results: &'a Results, case: &'a str, peer: &'a str) -> Vec<&'a Run> {
    results.runs_of(case, peer).filter(|run| run.invalid.is_none()).collect()
}

fn all_measures(case: &str, peer: &str, before: &[&Run], now: &[&Run]) -> Vec<Difference> {
    let of = |runs: &[&Run], measure: Measure| -> Vec<f64> { runs.iter().filter_map(|run| measure.of(run)).collect() };
    Measure::ALL
        .iter()
        .filter_map(|measure| {
            let (before, now) = (of(before, *measure), of(now, *measure));
            let probability = mann_whitney(&before, &now)?;
            let (first, second) = (median(&before)?, median(&now)?);
            Some(Difference {
                case: case.to_owned(),
                peer: peer.to_owned(),
                measure: *measure,
                before: first,
                now: second,
                repetitions: (before.len(), now.len()),
                probability,
                conclusion: conclude(*measure, first, second, probability, (before.len(), now.len())),
            })
        })
        .collect()
}

fn conclude(measure: Measure, before: f64, now: f64, probability: f64, repetitions: (usize, usize)) -> Conclusion {
    if least_probability(repetitions.0, repetitions.1) > SIGNIFICANT {
        return Conclusion::TooFew;
    }
    let small = (now - before).abs() <= NOTICEABLE * before.abs().max(now.abs());
    if probability > SIGNIFICANT || small {
        return Conclusion::Same;
    }
    if (now > before) == (measure.better() == Better::Higher) { Conclusion::Better } else { Conclusion::Worse }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_to_be_sure_and_noticeable() {
        let judge = |measure, before, now, probability| conclude(measure, before, now, probability, (5, 5));
        assert_eq!(judge(Measure::Throughput, 100.0, 120.0, 0.01), Conclusion::Better);
        assert_eq!(judge(Measure::LatencyP99, 1.0, 1.2, 0.01), Conclusion::Worse);
        assert_eq!(judge(Measure::LatencyP99, 1.0, 1.2, 0.06), Conclusion::Same);
        assert_eq!(judge(Measure::LatencyP99, 1.0, 1.02, 0.001), Conclusion::Same, "two in a hundred do not matter");
        assert_eq!(conclude(Measure::Lost, 0.0, 9.0, 0.1, (3, 3)), Conclusion::TooFew);
    }
}
