//! Medians and spread over repetitions.

use super::statistics::{median, range};
use super::{Measure, Results, Run};

/// The repetitions of one case with one broker, in one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The case.
    pub case: String,
    /// The broker.
    pub peer: String,
    /// The number of each repetition that has one.
    pub values: Vec<f64>,
    /// The median of them.
    pub median: f64,
    /// The least and the greatest.
    pub range: (f64, f64),
    /// Whether only runs are counted in which the generator was the bottleneck, since there are no others.
    pub invalid: bool,
}

/// One measure of all cases and brokers.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The measure.
    pub measure: Measure,
    /// The cells that have numbers.
    pub cells: Vec<Cell>,
}

impl Table {
    /// Of all runs of results. Runs that are invalid count only where a case has no others with a broker.
    pub fn of(results: &Results, measure: Measure) -> Self {
        let mut cells = Vec::new();
        for case in results.case_names() {
            for peer in results.peer_names() {
                let runs: Vec<&Run> = results.runs_of(&case, &peer).collect();
                let invalid = runs.iter().all(|run| run.invalid.is_some());
                let counted = runs.iter().filter(|run| invalid || run.invalid.is_none());
                let values: Vec<f64> = counted.filter_map(|run| measure.of(run)).collect();
                if let (Some(median), Some(range)) = (median(&values), range(&values)) {
                    cells.push(Cell { case: case.clone(), peer, values, median, range, invalid });
                }
            }
        }
        Self { measure, cells }
    }

    /// The cell of a case and a broker.
    pub fn get(&self, case: &str, peer: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.case == case && cell.peer == peer)
    }
}
