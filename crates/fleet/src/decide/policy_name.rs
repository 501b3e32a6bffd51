//! The policies by their names.

use std::fmt;
use std::str::FromStr;

/// A policy's name, as in `--policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// `default`: ours.
    Default,
    /// `brokel`: the study's.
    Brokel,
    /// `brokel-window`: the study's with a window.
    BrokelWindow,
    /// `consecutive`: violations in a row.
    Consecutive,
    /// `live`: thresholds that follow the load.
    Live,
    /// `hpa`: Kubernetes' formula.
    Hpa,
    /// `hpa-stabilised`: the same, with a stabilisation window for growth, too.
    HpaStabilised,
    /// `holt-winters`: ahead of the load.
    HoltWinters,
    /// `holt-winters-preview`: `default` that shows the forecast.
    HoltWintersPreview,
    /// `latency`: no message waits longer than a target.
    Latency,
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called `{name}`: choose one of {}", names())]
pub struct UnknownPolicy {
    /// The given name.
    pub name: String,
}

fn names() -> String {
    PolicyName::ALL.map(PolicyName::name).join(", ")
}

impl PolicyName {
    /// All of them, the default first.
    pub const ALL: [Self; 10] = [
        Self::Default,
        Self::Brokel,
        Self::BrokelWindow,
        Self::Consecutive,
        Self::Live,
        Self::Hpa,
        Self::HpaStabilised,
        Self::HoltWinters,
        Self::HoltWintersPreview,
        Self::Latency,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Brokel => "brokel",
            Self::BrokelWindow => "brokel-window",
            Self::Consecutive => "consecutive",
            Self::Live => "live",
            Self::Hpa => "hpa",
            Self::HpaStabilised => "hpa-stabilised",
            Self::HoltWinters => "holt-winters",
            Self::HoltWintersPreview => "holt-winters-preview",
            Self::Latency => "latency",
        }
    }

    /// A summary in one line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Default => "demand beyond a peak grows to the needed number; shrinks slowly to a safe one",
            Self::Brokel => "the Brokel study's: full aging against thresholds, one resource at a time",
            Self::BrokelWindow => "the study's with aging over a window of the newest observations",
            Self::Consecutive => "the observation itself against thresholds, violations in a row",
            Self::Live => "full aging against thresholds that follow the load's velocity",
            Self::Hpa => "Kubernetes' HPA: ceil(current * load / target), tolerance, 300 s stabilisation for shrinking",
            Self::HpaStabilised => "the same with a stabilisation window for growth that peaks fit into",
            Self::HoltWinters => "default, and growth ahead of a Holt-Winters forecast of the season",
            Self::HoltWintersPreview => "default; the forecast is shown in the reasons without effect",
            Self::Latency => "as few resources as keep messages from waiting longer than a target",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}
