//! The file format of a scenario.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::platform::Platform;
use crate::span::Span;

/// One file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name: that of the file.
    #[serde(default)]
    pub name: String,
    /// Its title in reports.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// How, in a sentence or two.
    pub method: String,
    /// Parts of the question that it leaves open, and differences from the study that it follows.
    #[serde(default)]
    pub differences: Vec<String>,
    /// The statements of the studies that it follows, such as `PI-09`.
    #[serde(default)]
    pub ids: Vec<String>,
    /// Values by name; there is a case for each combination.
    #[serde(default)]
    pub matrix: BTreeMap<String, Vec<toml::Value>>,
    /// Values that go together; there is each combination of the matrix for each of them.
    #[serde(default)]
    pub variants: Vec<BTreeMap<String, toml::Value>>,
    /// The name of a case; by default all its values.
    #[serde(default)]
    pub case: Option<String>,
    /// The test in place of a load; it uses only the version of the protocol from `load`.
    #[serde(default)]
    pub check: Option<Check>,
    /// The plan of the load.
    #[serde(default)]
    pub load: toml::Table,
    /// The limits of the broker; the text `none` removes a value, also in `network`.
    #[serde(default)]
    pub limits: toml::Table,
    /// The platform around the broker; without it there is one broker. It has limits of its own, and no `network` or `events`.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// The base of comparisons: the report names the cases that fall short of it, with the measure.
    #[serde(default)]
    pub base: Option<String>,
    /// The network between the broker and the load; the broker then has a network namespace of its own. See
    /// [`Network`](crate::network::Network).
    #[serde(default)]
    pub network: Option<toml::Table>,
    /// Sampled before the load begins.
    #[serde(default)]
    pub idle_before: Span,
    /// Sampled after the last client has gone.
    #[serde(default)]
    pub idle_after: Span,
    /// Events of the broker, at times after publishing has begun.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Published figures beside ours.
    #[serde(default)]
    pub references: Vec<Reference>,
    /// The measures that the report's summary shows first; see [`Measure`](crate::measure::Measure).
    #[serde(default)]
    pub measures: Vec<crate::measure::Measure>,
}

/// The subject of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Whether messages of a higher priority go first (MID-64..67).
    Priority,
    /// How many messages wait for a client, and whether each topic has a queue of its own (MID-68).
    Queue,
    /// The survey's criteria (MID-02 to MID-36): the results of a probe.
    Criteria,
}

/// An event of the broker while it is under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// After the load has begun.
    pub at: Span,
    /// The action.
    pub action: Action,
}

/// An action on a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// `kill -9`.
    Kill,
    /// Start it again in the same directory on the same ports.
    Start,
    /// `kill -9` of the second of several gateways.
    KillGateway,
    /// Start the killed one again.
    StartGateway,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The publication, and the place in it.
    pub source: String,
    /// The statement's id, such as `LAV-12`.
    pub id: String,
    /// The case that it belongs to; empty for the scenario as a whole.
    #[serde(default)]
    pub case: String,
    /// The system that was measured.
    pub system: String,
    /// The measured quantity, with its unit.
    #[serde(rename = "what")]
    pub quantity: String,
    /// The value, as a text since some are ranges.
    pub value: String,
    /// The same measure of ours, if there is one.
    #[serde(default)]
    pub measure: Option<crate::measure::Measure>,
}
