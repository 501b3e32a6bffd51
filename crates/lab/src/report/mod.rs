//! Reports: one HTML file without other files, for readers who decide and for readers who check.

mod charts;
mod criteria;
mod found;
mod groups;
mod losses;
mod markup;
mod overview;
mod page;
mod parts;
mod percentile;
mod provenance;
mod published;
mod short;
mod summary;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use markup::{escape, put};
pub use overview::overview;
pub use page::page;
pub use tidegate_plot::shown;

use crate::results::{Measure, Results};
use crate::scenario::Check;

/// The report of results.
pub fn html(results: &Results) -> String {
    let mut body = String::new();
    summary::write(results, &mut body);
    short::write(results, &mut body);
    if results.scenario.check == Some(Check::Criteria) {
        criteria::write(results, &mut body);
    } else {
        found::write(results, &mut body);
    }
    // A test has no load to be drawn.
    if results.scenario.check.is_none() {
        charts::ratios(results, &mut body);
        tables::write(results, &mut body);
        losses::write(results, &mut body);
        groups::write(results, &mut body);
        parts::write(results, &mut body);
        charts::latency(results, &mut body);
        charts::time(results, &mut body);
    }
    published::write(results, &mut body);
    provenance::write(results, &mut body);
    page(&results.scenario.title, &body)
}

/// The measures that a report shows: first the measures of the scenario, then other meaningful ones.
fn measures(results: &Results) -> Vec<Measure> {
    let mut measures = results.scenario.measures.clone();
    for measure in
        [Measure::Lost, Measure::Duplicates, Measure::Reordered, Measure::CpuPerDelivery, Measure::MemoryPeak]
    {
        if !measures.contains(&measure) {
            measures.push(measure);
        }
    }
    measures
}
