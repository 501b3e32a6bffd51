//! Spikes that no policy should act on, and rises that every policy should: a comparison of policies.

use std::fmt::Write;
use std::time::Duration;

use super::generate::{Ramp, ShapeError, Spikes};
use super::{Model, ModelError, TierModel, Trace, run};
use crate::decide::{Bounds, PolicyName, Settings, Sla};

/// Messages per second of one broker of the suite.
const CAPACITY: f64 = 100.0;
/// Not a multiple of the interval, so that spikes meet observations at every offset.
const EVERY_S: u64 = 307;
/// An hour for each combination.
const DURATION_S: u64 = 3600;
/// Base loads in percent of the fleet.
const BASES: [u32; 12] = [10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65];
/// Loads during a spike in percent of the fleet.
const HEIGHTS: [u32; 3] = [100, 150, 300];
/// Lengths of a spike in seconds.
const LENGTHS: [u64; 4] = [15, 20, 25, 30];
/// Brokers of the fleet, which is also the minimum.
const FLEETS: [u32; 2] = [1, 4];

/// The reaction of a policy to the spikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpikeOutcome {
    /// Traces that were run.
    pub traces: u64,
    /// Traces with at least one false positive.
    pub traces_with_false_positives: u64,
    /// Growth, needed or not.
    pub growth: u64,
    /// Growth whose added capacity was not needed within 60 s of serving.
    pub false_positives: u64,
    /// The same at base loads up to 40 %.
    pub false_positives_up_to_40: u64,
}

/// The reaction of a policy to a step from half a broker's load to seven brokers'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RiseOutcome {
    /// From the step to the first action, in seconds.
    pub first_action_s: f64,
    /// Seconds in which the load exceeded the capacity of the serving resources.
    pub under_provisioned_s: u64,
    /// Seconds in which messages waited too long.
    pub missed_s: u64,
    /// Actions.
    pub actions: u64,
    /// Resource-seconds.
    pub cost: f64,
}

/// Why the suite could not run: its own numbers make no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SuiteError {
    /// A model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A trace.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// A fleet that starts at its minimum, with 30 s until a broker serves.
fn model(start: u32) -> Result<Model, ModelError> {
    let brokers = TierModel {
        boot: Duration::from_secs(25),
        subscription: Duration::from_secs(5),
        ..TierModel::new(CAPACITY, start)
    };
    let sla = Sla::new(Bounds::new(start, 100)?, Bounds::new(1, 1)?, None)?;
    let (settings, deadline) = (Settings::default(), Duration::from_secs(1));
    Ok(Model { brokers, orchestrators: None, sla, settings, deadline, outstanding: None })
}

/// Lets a policy work through spikes of 15 to 30 s over base loads of 10 to 65 %.
///
/// # Errors
/// When the suite's own numbers make no sense.
pub fn spikes(policy: PolicyName) -> Result<SpikeOutcome, SuiteError> {
    let mut outcome = SpikeOutcome::default();
    for fleet in FLEETS {
        let model = model(fleet)?;
        for base in BASES {
            for height in HEIGHTS {
                for length_s in LENGTHS {
                    let trace = spike_trace(fleet, base, height, length_s)?;
                    let report = run(&trace, &model, policy)?;
                    let found = report.false_positives;
                    outcome.traces += 1;
                    outcome.traces_with_false_positives += u64::from(found > 0);
                    outcome.growth +=
                        report.actions.iter().map(|action| u64::from(action.to > action.from)).sum::<u64>();
                    outcome.false_positives += found;
                    outcome.false_positives_up_to_40 += if base <= 40 { found } else { 0 };
                }
            }
        }
    }
    Ok(outcome)
}

fn spike_trace(fleet: u32, base: u32, height: u32, length_s: u64) -> Result<Trace, ShapeError> {
    let percent = f64::from(fleet) * CAPACITY / 100.0;
    let (base, height) = (f64::from(base) * percent, f64::from(height) * percent);
    Spikes { base, height, length_s, every_s: EVERY_S, duration_s: DURATION_S }.trace()
}

/// Lets a policy work through a rise from half a broker's load to seven brokers' within `rise_s` seconds, with one
/// broker at first.
///
/// # Errors
/// When the suite's own numbers make no sense.
pub fn rise(policy: PolicyName, rise_s: u64) -> Result<RiseOutcome, SuiteError> {
    // The step is between two observations.
    let hold_s = 1207;
    let trace = Ramp { low: CAPACITY / 2.0, high: 7.0 * CAPACITY, rise_s, hold_s }.trace()?;
    let up: Vec<_> = trace.rows().iter().take_while(|row| row.time_s < (2 * hold_s + rise_s) as f64).copied().collect();
    let report = run(&Trace::new(up).map_err(ShapeError::from)?, &model(1)?, policy)?;
    let first = report.actions.first().map_or(f64::INFINITY, |action| action.time_s);
    Ok(RiseOutcome {
        first_action_s: first - hold_s as f64,
        under_provisioned_s: report.under_provisioned_s,
        missed_s: report.missed_s,
        actions: report.actions.len() as u64,
        cost: report.cost,
    })
}

/// The comparison as two tables in Markdown.
///
/// # Errors
/// When the suite's own numbers make no sense.
pub fn tables() -> Result<String, SuiteError> {
    let mut text = String::from(
        "| policy | growth | false positives | of these at a base load up to 40 % | traces with one or more, of 288 |\n\
         | --- | --: | --: | --: | --: |\n",
    );
    for policy in PolicyName::ALL {
        let SpikeOutcome { growth, false_positives, false_positives_up_to_40, traces_with_false_positives, .. } =
            spikes(policy)?;
        let _ = writeln!(
            text,
            "| `{policy}` | {growth} | {false_positives} | {false_positives_up_to_40} | {traces_with_false_positives} |"
        );
    }
    text.push_str(
        "\n| policy | first action, step | too little, step | missed, step | cost, step | first action, ramp | too little, ramp | \
         missed, ramp | cost, ramp |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: |\n",
    );
    for policy in PolicyName::ALL {
        let (step, ramp) = (rise(policy, 0)?, rise(policy, 600)?);
        let _ = write!(text, "| `{policy}` |");
        for outcome in [step, ramp] {
            let RiseOutcome { first_action_s, under_provisioned_s, missed_s, cost, .. } = outcome;
            let _ = write!(text, " {first_action_s:.0} s | {under_provisioned_s} s | {missed_s} s | {cost:.0} |");
        }
        text.push('\n');
    }
    Ok(text)
}
