//! Explanations of decisions.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Change, PolicyName};
use crate::load::Signal;

/// The rule of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No signal is known.
    NoSignal,
    /// There are too few observations.
    WarmingUp,
    /// The load is within the band.
    Within,
    /// The load is above the upper threshold.
    AboveUpper,
    /// The load is below the lower threshold.
    BelowLower,
    /// As many resources as the load asks for at the desired utilisation.
    Ratio,
    /// As many resources as the forecast asks for at the desired utilisation.
    Forecast,
    /// The demand has been too much for longer than a peak lasts.
    SustainedDemand,
    /// The demand has been rising for longer than a peak rises, and will be too much by when a resource serves.
    SteadyRise,
    /// A peak that returns in a rhythm is about to come.
    ReturningPeak,
    /// The backlog would take too long.
    Backlog,
    /// One resource is full, and the others have room.
    Skew,
    /// Messages wait longer than the target.
    Latency,
    /// The demand of the last minutes needs fewer resources.
    SpareCapacity,
    /// There are fewer resources than the SLA's minimum.
    SlaMinimum,
    /// There are more resources than the SLA's maximum.
    SlaMaximum,
}

impl Rule {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSignal => "no-signal",
            Self::WarmingUp => "warming-up",
            Self::Within => "within",
            Self::AboveUpper => "above-upper",
            Self::BelowLower => "below-lower",
            Self::Ratio => "ratio",
            Self::Forecast => "forecast",
            Self::SustainedDemand => "sustained-demand",
            Self::SteadyRise => "steady-rise",
            Self::ReturningPeak => "returning-peak",
            Self::Backlog => "backlog",
            Self::Skew => "skew",
            Self::Latency => "latency",
            Self::SpareCapacity => "spare-capacity",
            Self::SlaMinimum => "sla-minimum",
            Self::SlaMaximum => "sla-maximum",
        }
    }
}

/// A cause that prevented a change, in whole or in part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeldBack {
    /// Another action is under way.
    Pending {
        /// Resources that do not serve yet.
        pending: u32,
        /// Resources that are leaving.
        leaving: u32,
    },
    /// An action ended too short a time ago.
    CoolDownObservations {
        /// Observations to go.
        remaining: u32,
    },
    /// An action ended too short a time ago.
    CoolDownTime {
        /// Time to go.
        remaining: Duration,
    },
    /// The SLA allows this level no more.
    SlaMaximum {
        /// The most.
        most: u32,
    },
    /// The SLA allows all levels together no more.
    SlaMaximumInAll {
        /// The most.
        most: u32,
    },
    /// The SLA requires this number of members.
    SlaMinimum {
        /// The least.
        least: u32,
    },
    /// Not every resource answered for a signal, and the others may be busy.
    MissingSignal {
        /// The signal.
        signal: Signal,
    },
    /// A recommendation of the last minutes says otherwise.
    Stabilisation {
        /// Resources that it recommends.
        recommended: u32,
        /// How far back recommendations count.
        window: Duration,
    },
    /// There are too few violations in a row.
    TooFewInARow {
        /// How many there are.
        run: u32,
        /// How many count.
        needed: u32,
    },
    /// It may be a peak that is over before anything serves.
    MayBePeak {
        /// For how long it has been observed.
        lasted: Duration,
        /// Time from which the load is no peak.
        needed: Duration,
    },
    /// The forecast is only shown.
    Preview {
        /// Resources that it asks for.
        forecast: u32,
    },
    /// The forecast needs the capacity that would be removed.
    Forecast {
        /// Resources that it asks for.
        forecast: u32,
    },
    /// Messages wait to be worked off.
    Backlog {
        /// How long they would take, in seconds.
        seconds: f64,
    },
    /// The load is rising.
    Rising,
    /// Peaks return in a rhythm.
    ReturningPeak {
        /// Resources that they ask for.
        keep: u32,
        /// Seconds from one to the next.
        period: f64,
    },
    /// More resources have not relieved the full one.
    Skew,
    /// A resource is full.
    Full {
        /// Its load.
        load: f64,
    },
}

impl HeldBack {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::CoolDownObservations { .. } | Self::CoolDownTime { .. } => "cool-down",
            Self::SlaMaximum { .. } => "sla-maximum",
            Self::SlaMaximumInAll { .. } => "sla-maximum-in-all",
            Self::SlaMinimum { .. } => "sla-minimum",
            Self::MissingSignal { .. } => "missing-signal",
            Self::Stabilisation { .. } => "stabilisation",
            Self::TooFewInARow { .. } => "too-few-in-a-row",
            Self::MayBePeak { .. } => "may-be-peak",
            Self::Preview { .. } => "preview",
            Self::Forecast { .. } => "forecast",
            Self::Backlog { .. } => "backlog",
            Self::Rising => "rising",
            Self::ReturningPeak { .. } => "returning-peak",
            Self::Skew => "skew",
            Self::Full { .. } => "full",
        }
    }
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending { pending, leaving } => {
                write!(f, "an action is under way ({pending} starting, {leaving} leaving)")
            }
            Self::CoolDownObservations { remaining } => write!(f, "cool-down for {remaining} more observations"),
            Self::CoolDownTime { remaining } => write!(f, "cool-down for {} s more", remaining.as_secs()),
            Self::SlaMaximum { most } => write!(f, "the SLA allows {most} at this level"),
            Self::SlaMaximumInAll { most } => write!(f, "the SLA allows {most} in all"),
            Self::SlaMinimum { least } => write!(f, "the SLA wants {least} at this level"),
            Self::MissingSignal { signal } => write!(f, "{signal} is not known of every resource"),
            Self::Stabilisation { recommended, window } => {
                write!(f, "{recommended} were recommended within the last {} s", window.as_secs())
            }
            Self::TooFewInARow { run, needed } => write!(f, "{run} in a row, {needed} count"),
            Self::MayBePeak { lasted, needed } => {
                write!(f, "observed for {} s, may be a peak below {} s", lasted.as_secs(), needed.as_secs())
            }
            Self::Preview { forecast } => write!(f, "the forecast asks for {forecast} and is only shown"),
            Self::Forecast { forecast } => write!(f, "the forecast asks for {forecast}"),
            Self::Backlog { seconds } => write!(f, "messages wait that take {seconds:.0} s to work off"),
            Self::Rising => f.write_str("the load is rising"),
            Self::ReturningPeak { keep, period } => write!(f, "a peak every {period:.0} s asks for {keep}"),
            Self::Full { load } => write!(f, "one of them is at {:.0} %", load * 100.0),
            Self::Skew => f.write_str("more resources have not relieved it: its load may be that of one topic"),
        }
    }
}

/// Why a decision is as it is, in parts. Loads are fractions, 1 being all that the level can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The policy that decided.
    pub policy: PolicyName,
    /// The rule.
    pub rule: Rule,
    /// The signal that mattered.
    pub signal: Option<Signal>,
    /// That signal as it was observed.
    pub observed: Option<f64>,
    /// The resulting load.
    pub value: Option<f64>,
    /// The threshold that the load was compared with.
    pub threshold: Option<f64>,
    /// The change that the rule asked for.
    pub wanted: Change,
    /// The causes that reduced it.
    pub held_back: Vec<HeldBack>,
}

impl Explanation {
    /// As an object with a member for each field; `held_back` is a list of `{"cause", "text"}`.
    pub fn to_json(&self) -> Value {
        let cause = |held: &HeldBack| json!({"cause": held.name(), "text": held.to_string()});
        json!({
            "policy": self.policy.name(),
            "rule": self.rule.name(),
            "signal": self.signal.map(Signal::name),
            "observed": self.observed,
            "value": self.value,
            "threshold": self.threshold,
            "wanted": self.wanted.name(),
            "wanted_count": self.wanted.count(),
            "held_back": self.held_back.iter().map(cause).collect::<Vec<_>>(),
        })
    }
}
