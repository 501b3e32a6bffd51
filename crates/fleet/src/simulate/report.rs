//! The results of a policy on a trace.

use serde_json::{Value, json};

use crate::decide::{Level, PolicyName};

/// A change that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// When it was decided, in the trace's seconds.
    pub time_s: f64,
    /// At which level.
    pub level: Level,
    /// Resources planned before.
    pub from: u32,
    /// Resources planned after.
    pub to: u32,
    /// Why.
    pub reason: String,
    /// For growth, whether the added resource was needed within 60 s of serving; for shrinking, whether the removed one
    /// was not missed within 60 s. `None` when the trace ended before.
    pub justified: Option<bool>,
}

/// Observations of the brokers by where their load was (BRK-55).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// Above the upper threshold.
    pub above: u64,
    /// Within the thresholds.
    pub within: u64,
    /// Below the lower threshold.
    pub below: u64,
}

/// Resources from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilePoint {
    /// In the trace's seconds.
    pub time_s: f64,
    /// Brokers that serve.
    pub brokers: u32,
    /// Brokers in any state.
    pub brokers_allocated: u32,
    /// Orchestrators that serve; 0 when they are left out.
    pub orchestrators: u32,
    /// Orchestrators in any state.
    pub orchestrators_allocated: u32,
}

/// The results of a policy on a trace. Resources count from the request until they are gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The policy.
    pub policy: PolicyName,
    /// Seconds until all messages were handled: the seconds of the trace, and of the remaining backlog (BRK-53 "time").
    pub time_s: f64,
    /// Time-weighted mean of resources (BRK-53 "resource").
    pub resource: f64,
    /// Resources times seconds (BRK-53 "cost").
    pub cost: f64,
    /// Our definition: `(T1 / T) * (R1 / R)`, where T1 and R1 belong to one resource per level.
    pub efficiency: f64,
    /// Seconds of the trace in which a message that came waited longer than the deadline.
    pub missed_s: u64,
    /// Seconds of the trace in which the load exceeded the capacity of the serving resources.
    pub under_provisioned_s: u64,
    /// Resource-seconds beyond the need of the load at the upper threshold.
    pub over_provisioned: f64,
    /// Messages dropped, since no more might wait.
    pub dropped: f64,
    /// The longest that a message waited, in seconds.
    pub longest_wait_s: f64,
    /// The changes that were made.
    pub actions: Vec<Action>,
    /// Growth whose added capacity was not needed within 60 s of serving.
    pub false_positives: u64,
    /// Shrinking whose removed capacity was missed within 60 s.
    pub regretted_shrinks: u64,
    /// Actions whose 60 s the trace ended before.
    pub unjudged: u64,
    /// How often a client has to change its broker within an hour, in the mean over clients and the trace, when each
    /// change moves only as many as needed for an even distribution. The share that a change moves is `|n - m| /
    /// max(n, m)`.
    pub handovers_per_client_hour: f64,
    /// Observations of the brokers by their load.
    pub observations: Observations,
    /// Brokers that served at the end.
    pub brokers_at_the_end: u32,
    /// The most brokers that there were in any state.
    pub most_brokers: u32,
    /// Resources over time, a point at each change.
    pub profile: Vec<ProfilePoint>,
}

impl Report {
    /// As an object with a member for each field, `actions` as a list of objects.
    pub fn to_json(&self) -> Value {
        let observations = self.observations;
        json!({
            "time_s": self.time_s,
            "resource": self.resource,
            "cost": self.cost,
            "efficiency": self.efficiency,
            "missed_s": self.missed_s,
            "under_provisioned_s": self.under_provisioned_s,
            "over_provisioned": self.over_provisioned,
            "dropped": self.dropped,
            "longest_wait_s": self.longest_wait_s,
            "false_positives": self.false_positives,
            "regretted_shrinks": self.regretted_shrinks,
            "unjudged": self.unjudged,
            "handovers_per_client_hour": self.handovers_per_client_hour,
            "observations": {"above": observations.above, "within": observations.within, "below": observations.below},
            "brokers_at_the_end": self.brokers_at_the_end,
            "most_brokers": self.most_brokers,
            "actions": self.actions.iter().map(Action::to_json).collect::<Vec<_>>(),
            "profile": self.profile.iter().map(|point| point.to_json()).collect::<Vec<_>>(),
        })
    }
}

impl Action {
    fn to_json(&self) -> Value {
        json!({
            "time_s": number(self.time_s),
            "level": self.level.name(),
            "from": self.from,
            "to": self.to,
            "reason": self.reason,
            "justified": self.justified,
        })
    }
}

impl ProfilePoint {
    fn to_json(self) -> Value {
        json!({
            "time_s": number(self.time_s),
            "brokers": self.brokers,
            "brokers_allocated": self.brokers_allocated,
            "orchestrators": self.orchestrators,
            "orchestrators_allocated": self.orchestrators_allocated,
        })
    }
}

/// A whole number as one.
fn number(value: f64) -> Value {
    if value.fract().abs() > 0.0 { Value::from(value) } else { Value::from(value as i64) }
}
