//! Loads of many shapes, for a comparison of policies by late seconds, cost and needless growth.

use std::fmt::Write;
use std::time::Duration;

use super::generate::{Day, Ramp, Sawtooth, ShapeError, Spikes};
use super::suite::SuiteError;
use super::{Model, ModelError, Report, Row, TierModel, Trace, run};
use crate::decide::{Bounds, Level, PolicyName, Settings, Sla};

/// Messages per second of one broker.
const CAPACITY: f64 = 100.0;
/// Each shape is run on a small and a large fleet: brokers that the low and the high load keep busy.
const SIZES: [(f64, f64); 2] = [(0.5, 4.0), (5.0, 40.0)];
/// Seconds from the request until a broker serves.
const LEADS_S: [u64; 2] = [30, 90];

/// The policies of this table; the study's policies are in the other one.
const COMPARED: [PolicyName; 5] =
    [PolicyName::Default, PolicyName::HoltWinters, PolicyName::Latency, PolicyName::Hpa, PolicyName::HpaStabilised];

/// A kind of shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Peaks of 15 to 29 s every five minutes.
    Spikes,
    /// One rise of 2 minutes to an hour.
    Ramps,
    /// Rises of 3 minutes to half an hour that end at once, without pauses.
    Sawtooths,
    /// As long high as low, 1 minute to an hour each.
    Squares,
    /// Three days of six hours each, with noise of 0, 3 and 10 percent.
    Days,
    /// Three days of six hours each, with two hours of work: steps at the same time each day.
    WorkingDays,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Spikes, Self::Ramps, Self::Sawtooths, Self::Squares, Self::Days, Self::WorkingDays];

    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spikes => "spikes",
            Self::Ramps => "ramps",
            Self::Sawtooths => "sawtooths",
            Self::Squares => "square waves",
            Self::Days => "day curves",
            Self::WorkingDays => "working days",
        }
    }

    /// Its traces between two loads in messages per second.
    fn traces(self, low: f64, high: f64) -> Result<Vec<Trace>, ShapeError> {
        match self {
            Self::Spikes => [15, 20, 25, 29]
                .map(|length_s| Spikes { base: low, height: high, length_s, every_s: 307, duration_s: 7200 }.trace())
                .into_iter()
                .collect(),
            Self::Ramps => [120, 300, 600, 1200, 3600]
                .map(|rise_s| Ramp { low, high, rise_s, hold_s: 1207 }.trace())
                .into_iter()
                .collect(),
            Self::Sawtooths => [180, 420, 900, 1800]
                .map(|rise_s| Sawtooth { low, high, rise_s, hold_s: 0, rest_s: 0, duration_s: 4 * 3600 }.trace())
                .into_iter()
                .collect(),
            Self::Squares => [61, 127, 307, 907, 3607]
                .map(|half| {
                    let (hold_s, rest_s) = (half, half);
                    Sawtooth { low, high, rise_s: 0, hold_s, rest_s, duration_s: 4 * 3600 }.trace()
                })
                .into_iter()
                .collect(),
            Self::Days => [0.0, 0.03, 0.1].into_iter().map(|noise| days(low, high, noise)).collect(),
            Self::WorkingDays => {
                let (hold_s, rest_s, duration_s) = (DAY_S / 3, DAY_S / 3 * 2, 3 * DAY_S);
                Ok(vec![Sawtooth { low, high, rise_s: 0, hold_s, rest_s, duration_s }.trace()?])
            }
        }
    }
}

/// A short day.
const DAY_S: u64 = 6 * 3600;

fn days(low: f64, high: f64, noise: f64) -> Result<Trace, ShapeError> {
    const FASTER: u64 = 86_400 / DAY_S;
    let days = Day { low, high, days: 3, step_s: 15 * FASTER, noise, seed: 7 }.trace()?;
    let rows = days.rows().iter().map(|row| Row { time_s: row.time_s / FASTER as f64, ..*row });
    Ok(Trace::new(rows.collect())?)
}

/// The result of a policy for the loads of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkloadOutcome {
    /// Seconds in which a message that came waited longer than a second.
    pub late_s: u64,
    /// Resource-seconds.
    pub cost: f64,
    /// Growths.
    pub growths: u64,
    /// Growths whose capacity was not needed within 60 s of serving.
    pub false_positives: u64,
    /// The largest proposal, over what serves the highest load around it at the upper threshold.
    pub overshoot: f64,
}

impl WorkloadOutcome {
    fn add(&mut self, trace: &Trace, model: &Model, report: &Report) {
        self.late_s += report.missed_s;
        self.cost += report.cost;
        self.false_positives += report.false_positives;
        let offered: Vec<f64> = trace.seconds().collect();
        for action in report.actions.iter().filter(|action| action.to > action.from && action.level == Level::Broker) {
            self.growths += 1;
            self.overshoot = self.overshoot.max(f64::from(action.to) / suffices(&offered, model, action.time_s));
        }
    }
}

/// The resources that serve the highest load from two minutes before a decision until a minute after its resources
/// serve, at the upper threshold.
fn suffices(offered: &[f64], model: &Model, decided_s: f64) -> f64 {
    const BEFORE_S: usize = 120;
    const AFTER_S: usize = 60;
    let lead = (model.brokers.boot + model.brokers.subscription).as_secs() as usize;
    #[expect(clippy::cast_sign_loss, reason = "traces begin at 0")]
    let at = decided_s as usize;
    let around = offered.iter().skip(at.saturating_sub(BEFORE_S)).take(at.min(BEFORE_S) + lead + AFTER_S);
    let highest = around.fold(0.0_f64, |highest, rate| highest.max(*rate));
    (highest / CAPACITY / model.settings.thresholds.upper()).ceil().max(1.0)
}

/// The reaction of publishers to messages that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishers {
    /// They send on.
    SendOn,
    /// They publish nothing while the messages of four seconds of low load are outstanding.
    Wait,
}

fn model(low: f64, lead_s: u64, publishers: Publishers) -> Result<Model, ModelError> {
    let settings = Settings { season: Duration::from_secs(DAY_S), ..Settings::default() };
    #[expect(clippy::cast_sign_loss, reason = "a load is not negative")]
    let start = (low / settings.thresholds.upper()).ceil() as u32;
    let brokers = TierModel { boot: Duration::from_secs(lead_s), ..TierModel::new(CAPACITY, start) };
    let sla = Sla::new(Bounds::new(1, 1000)?, Bounds::new(1, 1)?, None)?;
    let outstanding = (publishers == Publishers::Wait).then_some(4.0 * low * CAPACITY);
    Ok(Model { brokers, orchestrators: None, sla, settings, deadline: Duration::from_secs(1), outstanding })
}

/// Lets a policy work through all loads of a family.
///
/// # Errors
/// When the suite's own numbers make no sense.
pub fn outcome(policy: PolicyName, family: Family, publishers: Publishers) -> Result<WorkloadOutcome, SuiteError> {
    let mut outcome = WorkloadOutcome::default();
    for (low, high) in SIZES {
        for trace in family.traces(low * CAPACITY, high * CAPACITY)? {
            for lead_s in LEADS_S {
                let model = model(low, lead_s, publishers)?;
                outcome.add(&trace, &model, &run(&trace, &model, policy)?);
            }
        }
    }
    Ok(outcome)
}

/// The outcome of each policy for a family.
pub type Outcomes = Vec<(PolicyName, WorkloadOutcome)>;

/// The outcomes of each policy for each family.
///
/// # Errors
/// When the suite's own numbers make no sense.
pub fn outcomes() -> Result<Vec<(Family, Outcomes)>, SuiteError> {
    let of_family = |family| {
        let of_policy = |policy| Ok((policy, outcome(policy, family, Publishers::SendOn)?));
        let outcomes: Result<Outcomes, SuiteError> = COMPARED.into_iter().map(of_policy).collect();
        Ok((family, outcomes?))
    };
    Family::ALL.into_iter().map(of_family).collect()
}

/// The comparison as a table in Markdown.
pub fn table(outcomes: &[(Family, Outcomes)]) -> String {
    let mut text = String::from(
        "| load | policy | late | cost | growth | false positives | largest growth over need |\n\
         | --- | --- | --: | --: | --: | --: | --: |\n",
    );
    for (family, outcomes) in outcomes {
        for (policy, outcome) in outcomes {
            let WorkloadOutcome { late_s, cost, growths, false_positives, overshoot } = outcome;
            let name = family.name();
            let _ = writeln!(
                text,
                "| {name} | `{policy}` | {late_s} s | {cost:.0} | {growths} | {false_positives} | {overshoot:.2} |"
            );
        }
    }
    text
}
