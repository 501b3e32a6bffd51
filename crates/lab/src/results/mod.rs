//! The outcome of runs: the content of `results.json`.
//!
//! The schema is [`SCHEMA`]: within one number, fields are added but neither removed nor given another meaning.
//! `docs/lab.md` explains them.

mod csv;
mod environment;
mod measured;
pub mod statistics;
mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use csv::csv;
pub use environment::Environment;
pub use table::{Cell, Table};

pub use crate::measure::{Better, Measure};

use crate::limits::Limits;
use crate::load::{LoadOutcome, LoadPlan};
use crate::network::Network;
use crate::platform::PartUse;
use crate::sample::Sampled;
use crate::scenario::Scenario;

/// The name and version of the format.
pub const SCHEMA: &str = "tidegate-lab/results/1";

/// Everything that a report is made from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The requested scenario.
    pub scenario: Scenario,
    /// How it was asked.
    pub settings: Settings,
    /// The machine.
    pub environment: Environment,
    /// The brokers, by name.
    pub peers: BTreeMap<String, PeerInfo>,
    /// Every run that was made, in the order in which they were made.
    pub runs: Vec<Run>,
    /// Requested measurements that are missing, and why.
    pub not_measured: Vec<NotMeasured>,
}

/// How a scenario was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The factor of all times of phases.
    pub time_scale: f64,
    /// Runs of each case and broker.
    pub repeat: u32,
    /// The seed of all chance.
    pub seed: u64,
    /// The base of ratios; the first broker if it is absent.
    #[serde(default)]
    pub base: Option<String>,
    /// The board that stood in for this machine, by limits.
    #[serde(default)]
    pub board: Option<String>,
}

/// A broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Its name for people.
    pub title: String,
    /// Its programming language; empty for an address.
    pub language: String,
    /// Its own version.
    pub version: String,
    /// Notes about its results.
    pub notes: Vec<String>,
    /// The files that it was given, and its command line.
    pub configuration: BTreeMap<String, String>,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Unique in its results.
    pub id: String,
    /// The case of the scenario.
    pub case: String,
    /// The broker.
    pub peer: String,
    /// The number of the repetition, from 1.
    pub repetition: u32,
    /// When the run began, seconds since 1970; the zero of its time axis.
    pub begun_unix_s: f64,
    /// From the start of the broker's process to its first answer, seconds; `None` for an address.
    pub ready_after_s: Option<f64>,
    /// The load's zero on the run's time axis, seconds.
    pub load_zero_s: f64,
    /// The protocol of the load, such as `mqtt` or `nats`.
    #[serde(default)]
    pub spoken: String,
    /// The plan of the generator.
    pub plan: LoadPlan,
    /// The outcome of the load.
    pub load: LoadOutcome,
    /// Results of tests for questions that a load does not answer, as tables.
    #[serde(default)]
    pub found: Vec<Found>,
    /// Samples of the broker.
    pub broker: Sampled,
    /// Samples of the generator.
    pub generator: Sampled,
    /// Events, on the run's time axis.
    pub events: Vec<Happened>,
    /// The limits of the broker, and their means.
    pub limits: AppliedLimits,
    /// The limits of groups of clients that have their own.
    #[serde(default)]
    pub group_limits: Vec<GroupLimits>,
    /// The resources that the parts of a platform used under load.
    #[serde(default)]
    pub parts: Vec<PartUse>,
    /// The network that was made for the broker; `None` when it had that of the machine.
    #[serde(default)]
    pub network: Option<AppliedNetwork>,
    /// The reason why the run says nothing about the broker; `None` if it does.
    pub invalid: Option<String>,
    /// Whether the broker ended before the run did.
    #[serde(default)]
    pub broker_ended: bool,
}

/// The result of a test, as a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its subject.
    pub title: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Notes about it.
    pub notes: Vec<String>,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    /// Seconds on the run's time axis.
    pub at_s: f64,
    /// The event, in a few words.
    #[serde(rename = "what")]
    pub event: String,
}

/// Limits that were in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AppliedLimits {
    /// The limits.
    pub wanted: Limits,
    /// The mechanism that enforced them; `None` when there were none.
    pub by: Option<String>,
    /// How often the limited process had to wait because its CPU time was used up.
    pub throttled: u64,
    /// How often the kernel killed a process for memory.
    pub killed_for_memory: u64,
}

/// The limits of a group of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupLimits {
    /// The group's name.
    pub group: String,
    /// The limits of its process.
    pub limits: AppliedLimits,
}

/// A network that was made for a broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AppliedNetwork {
    /// The requested network.
    pub wanted: Network,
    /// The mechanism that made it.
    pub by: String,
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMeasured {
    /// The broker.
    pub peer: String,
    /// The case.
    pub case: String,
    /// The number of the repetition, from 1.
    pub repetition: u32,
    /// The reason and the remedy.
    pub why: String,
    /// Whether its broker ended, or was killed by the limits of the case.
    #[serde(default)]
    pub broker_ended: bool,
}

impl Results {
    /// The brokers that have runs: the base of ratios first, the others by name.
    pub fn peer_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for run in &self.runs {
            if !names.contains(&run.peer) {
                names.push(run.peer.clone());
            }
        }
        let base = self.settings.base.as_deref().unwrap_or("tidegate");
        names.sort_by_key(|name| (name != base, name.clone()));
        names
    }

    /// The cases in the order of the scenario.
    pub fn case_names(&self) -> Vec<String> {
        let known = self.scenario.cases().unwrap_or_default();
        known.into_iter().map(|case| case.name).filter(|name| self.runs.iter().any(|run| run.case == *name)).collect()
    }

    /// The runs of a case and a broker.
    pub fn runs_of<'a>(&'a self, case: &'a str, peer: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.case == case && run.peer == peer)
    }
}
