//! Metrics of a manager for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::book::{Book, Phase};
use super::decisions::Decisions;
use super::named::NamedEndpoints;
use super::sight::Sight;
use super::silences::Silences;
use super::tally::Tally;
use crate::level::Level;

/// The name of the metric of members that suit the load.
pub(super) const SUITS: &str = "tidegate_fleet_suits";
/// The name of the metric of the load of the last decision.
pub(super) const LOAD: &str = "tidegate_fleet_load";
/// The name of the metric of the clients of all orchestrators.
pub(super) const CLIENTS: &str = "tidegate_fleet_clients";
/// The name of the metric of accepted messages that are not settled.
pub(super) const OWED_MESSAGES: &str = "tidegate_fleet_owed_messages";

/// Each state of a resource with its phases.
const STATES: [(&str, &[Phase]); 5] = [
    ("serving", &[Phase::Serving]),
    ("pending", &[Phase::Pending, Phase::Joining]),
    ("draining", &[Phase::Draining, Phase::Leaving]),
    ("dead", &[Phase::Lost]),
    ("stopped", &[Phase::Stopped]),
];

/// A page in the text format of Prometheus. Writing to a string cannot fail.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn only(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.value(name, "", value);
    }
}

/// The metrics of a manager in the text format of Prometheus, without the entry point's.
pub(super) fn page(
    book: &Book,
    silences: &Silences,
    sight: &Sight,
    decisions: &Decisions,
    endpoints: &NamedEndpoints,
    tally: &Tally,
) -> String {
    let mut page = Page::default();
    page.members(book, silences);
    page.decisions(decisions);
    page.sums(sight, endpoints);
    page.actions(book, tally);
    page.observations(tally);
    page.0
}

impl Page {
    fn members(&mut self, book: &Book, silences: &Silences) {
        let name = "tidegate_fleet_resources";
        self.head(name, "gauge", "Brokers and orchestrators of the fleet, by state.");
        for level in Level::ALL {
            for (state, phases) in STATES {
                let labels = format!("{{level=\"{level}\",state=\"{state}\"}}");
                self.value(name, &labels, book.count(level, phases));
            }
        }
        let name = "tidegate_fleet_silent";
        self.head(name, "gauge", "Members that did not answer at the last observation.");
        for level in Level::ALL {
            let silent = book.level(level).filter(|member| silences.of(&member.wanted.name) > 0);
            self.value(name, &format!("{{level=\"{level}\"}}"), silent.count());
        }
    }

    fn decisions(&mut self, decisions: &Decisions) {
        let name = LOAD;
        self.head(
            name,
            "gauge",
            "The load that was decided by last, 1 being all that a level can do; absent where it is not known.",
        );
        for (level, judged) in decisions.all() {
            if let Some(load) = judged.decision.load {
                self.value(name, &format!("{{level=\"{level}\"}}"), load);
            }
        }
        let name = SUITS;
        self.head(name, "gauge", "Members that suit the load by the level's policy; absent while it is unknown.");
        for (level, judged) in decisions.all() {
            if let Some(suits) = judged.decision.suits {
                self.value(name, &format!("{{level=\"{level}\"}}"), suits);
            }
        }
    }

    fn sums(&mut self, sight: &Sight, endpoints: &NamedEndpoints) {
        let Traffic { clients, owed } = traffic(sight);
        self.only(CLIENTS, "gauge", "Clients of all orchestrators that answered.", clients);
        let help = "Messages that orchestrators which answered have accepted and brokers have not settled.";
        self.only(OWED_MESSAGES, "gauge", help, owed);
        let cluster = sight.cluster();
        let members = cluster.map_or(0, |cluster| cluster.partitions.len());
        let help = "Orchestrators in the newest table of their cluster.";
        self.only("tidegate_fleet_members", "gauge", help, members);
        let moves = cluster.map_or(0, |cluster| cluster.moves);
        self.only(
            "tidegate_fleet_moves",
            "gauge",
            "Moves of partitions that are under way between orchestrators.",
            moves,
        );
        let named = endpoints.named().count();
        self.only("tidegate_fleet_endpoints", "gauge", "Orchestrators that the entry point names.", named);
        let help = "Orchestrators that the entry point should name and cannot.";
        self.only("tidegate_fleet_endpoints_unnamed", "gauge", help, endpoints.unnamed());
    }

    fn actions(&mut self, book: &Book, tally: &Tally) {
        let name = "tidegate_fleet_actions_total";
        self.head(name, "counter", "Actions that have ended, by kind and outcome.");
        for ((level, action, outcome), count) in &tally.actions {
            let labels = format!("{{level=\"{level}\",action=\"{action}\",outcome=\"{outcome}\"}}");
            self.value(name, &labels, count);
        }
        let name = "tidegate_fleet_actions_under_way";
        let under_way = book.actions.len() + book.adoptions.len();
        self.only(name, "gauge", "Actions that have begun and not ended.", under_way);
        let name = "tidegate_fleet_step_seconds";
        self.head(name, "summary", "Time that the steps of actions took which have ended.");
        for ((level, step), (count, took)) in &tally.steps {
            let labels = format!("{{level=\"{level}\",step=\"{step}\"}}");
            self.value(&format!("{name}_sum"), &labels, seconds(*took));
            self.value(&format!("{name}_count"), &labels, count);
        }
        let name = "tidegate_fleet_replaced_total";
        self.head(name, "counter", "Members that were replaced or started again because they had died.");
        for level in Level::ALL {
            let count = tally.replaced.get(&level).copied().unwrap_or_default();
            self.value(name, &format!("{{level=\"{level}\"}}"), count);
        }
        let help =
            "Orchestrators that were given up because they could not be restarted, also by managers before this one.";
        self.only("tidegate_fleet_given_up_total", "counter", help, book.totals.given_up);
    }

    fn observations(&mut self, tally: &Tally) {
        let observations = tally.observations;
        self.only("tidegate_fleet_observations_total", "counter", "Observations.", observations.all);
        let help = "Observations that began more than half an interval late.";
        self.only("tidegate_fleet_observations_late_total", "counter", help, observations.late);
        let help = "Time that the last observation took, with everything that followed from it at once.";
        self.only("tidegate_fleet_observation_seconds", "gauge", help, seconds(observations.took_ms));
    }
}

/// Sums over the orchestrators that answered.
struct Traffic {
    clients: u64,
    owed: u64,
}

fn traffic(sight: &Sight) -> Traffic {
    let views = || sight.orchestrators.values();
    Traffic { clients: views().map(|view| view.clients).sum(), owed: views().map(|view| view.owed).sum() }
}

/// The numbers that an autoscaler outside can decide by.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ScalingNumbers {
    /// Members that suit the load, by level; absent while unknown.
    pub(super) suits: BTreeMap<Level, u32>,
    /// The load of the last decision, 1 being full, by level; absent while unknown.
    pub(super) load: BTreeMap<Level, f64>,
    /// Clients of all orchestrators; absent unless each serving one answered.
    pub(super) clients: Option<u64>,
    /// Messages that orchestrators have accepted and brokers have not settled; absent unless each serving one answered.
    pub(super) owed: Option<u64>,
}

impl ScalingNumbers {
    /// The numbers of a manager as of its last look.
    pub(super) fn of(book: &Book, decisions: &Decisions, sight: &Sight) -> Self {
        let serving = book.names(Level::Orchestrator, &[Phase::Serving]);
        let is_known = sight.resources.is_some()
            && !serving.is_empty()
            && serving.iter().all(|name| sight.orchestrators.contains_key(name));
        let traffic = is_known.then(|| traffic(sight));
        let judged = || decisions.all();
        Self {
            suits: judged().filter_map(|(level, judged)| Some((level, judged.decision.suits?))).collect(),
            load: judged().filter_map(|(level, judged)| Some((level, judged.decision.load?))).collect(),
            clients: traffic.as_ref().map(|traffic| traffic.clients),
            owed: traffic.as_ref().map(|traffic| traffic.owed),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds of metrics need no more than 52 bits")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
