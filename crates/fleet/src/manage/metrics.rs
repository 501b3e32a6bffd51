//! Metrics of a manager for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::book::Phase;
use super::machine::Manager;
use super::sight::Sight;
use crate::level::Level;

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

impl Manager {
    /// The manager's metrics in the text format of Prometheus, without those of its entry point.
    pub fn metrics(&self, sight: &Sight) -> String {
        let mut page = Page::default();
        self.resource_metrics(&mut page, sight);
        self.action_metrics(&mut page);
        page.0
    }

    fn resource_metrics(&self, page: &mut Page, sight: &Sight) {
        let name = "tidegate_fleet_resources";
        page.head(name, "gauge", "Brokers and orchestrators of the fleet, by state.");
        for level in Level::ALL {
            for (state, phases) in STATES {
                let labels = format!("{{level=\"{level}\",state=\"{state}\"}}");
                page.value(name, &labels, self.book.count(level, phases));
            }
        }
        let name = "tidegate_fleet_silent";
        page.head(name, "gauge", "Members that did not answer at the last observation.");
        for level in Level::ALL {
            let silent = self
                .book
                .level(level)
                .filter(|member| self.silent.get(&member.wanted.name).is_some_and(|count| *count > 0));
            page.value(name, &format!("{{level=\"{level}\"}}"), silent.count());
        }
        let name = "tidegate_fleet_load";
        page.head(
            name,
            "gauge",
            "The load that was decided by last, 1 being all that a level can do; absent where it is not known.",
        );
        for (level, judged) in &self.judged {
            if let Some(load) = judged.verdict.load {
                page.value(name, &format!("{{level=\"{level}\"}}"), load);
            }
        }
        let name = "tidegate_fleet_suits";
        page.head(name, "gauge", "Members that suit the load by the level's policy; absent while it is unknown.");
        for (level, judged) in &self.judged {
            if let Some(suits) = judged.verdict.suits {
                page.value(name, &format!("{{level=\"{level}\"}}"), suits);
            }
        }
        let Traffic { clients, owed } = traffic(sight);
        page.only("tidegate_fleet_clients", "gauge", "Clients of all orchestrators that answered.", clients);
        let help = "Messages that orchestrators which answered have accepted and brokers have not settled.";
        page.only("tidegate_fleet_owed_messages", "gauge", help, owed);
        let cluster = sight.cluster();
        let members = cluster.map_or(0, |cluster| cluster.partitions.len());
        let help = "Orchestrators in the newest table of their cluster.";
        page.only("tidegate_fleet_members", "gauge", help, members);
        let moves = cluster.map_or(0, |cluster| cluster.moves);
        page.only(
            "tidegate_fleet_moves",
            "gauge",
            "Moves of partitions that are under way between orchestrators.",
            moves,
        );
        let named = self.endpoints().count();
        page.only("tidegate_fleet_endpoints", "gauge", "Orchestrators that the entry point names.", named);
        let help = "Orchestrators that the entry point should name and cannot.";
        page.only("tidegate_fleet_endpoints_unnamed", "gauge", help, self.unnamed.len());
    }

    fn action_metrics(&self, page: &mut Page) {
        let name = "tidegate_fleet_actions_total";
        page.head(name, "counter", "Actions that have ended, by kind and outcome.");
        for ((level, action, outcome), count) in &self.tally.actions {
            let labels = format!("{{level=\"{level}\",action=\"{action}\",outcome=\"{outcome}\"}}");
            page.value(name, &labels, count);
        }
        let name = "tidegate_fleet_actions_under_way";
        let under_way = self.book.actions.len() + self.book.adoptions.len();
        page.only(name, "gauge", "Actions that have begun and not ended.", under_way);
        let name = "tidegate_fleet_step_seconds";
        page.head(name, "summary", "Time that the steps of actions took which have ended.");
        for ((level, step), (count, took)) in &self.tally.steps {
            let labels = format!("{{level=\"{level}\",step=\"{step}\"}}");
            page.value(&format!("{name}_sum"), &labels, seconds(*took));
            page.value(&format!("{name}_count"), &labels, count);
        }
        let name = "tidegate_fleet_replaced_total";
        page.head(name, "counter", "Members that were replaced or started again because they had died.");
        for level in Level::ALL {
            let count = self.tally.replaced.get(&level).copied().unwrap_or_default();
            page.value(name, &format!("{{level=\"{level}\"}}"), count);
        }
        let help =
            "Orchestrators that were given up because they could not be restarted, also by managers before this one.";
        page.only("tidegate_fleet_given_up_total", "counter", help, self.book.totals.given_up);
        let observations = self.tally.observations;
        page.only("tidegate_fleet_observations_total", "counter", "Observations.", observations.all);
        let help = "Observations that began more than half an interval late.";
        page.only("tidegate_fleet_observations_late_total", "counter", help, observations.late);
        let help = "Time that the last observation took, with everything that followed from it at once.";
        page.only("tidegate_fleet_observation_seconds", "gauge", help, seconds(observations.took_ms));
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
    pub(super) fn of(manager: &Manager, sight: &Sight) -> Self {
        let serving = manager.book.names(Level::Orchestrator, &[Phase::Serving]);
        let is_known = sight.resources.is_some()
            && !serving.is_empty()
            && serving.iter().all(|name| sight.orchestrators.contains_key(name));
        let traffic = is_known.then(|| traffic(sight));
        let judged = || manager.judged.iter();
        Self {
            suits: judged().filter_map(|(level, judged)| Some((*level, judged.verdict.suits?))).collect(),
            load: judged().filter_map(|(level, judged)| Some((*level, judged.verdict.load?))).collect(),
            clients: traffic.as_ref().map(|traffic| traffic.clients),
            owed: traffic.as_ref().map(|traffic| traffic.owed),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds of metrics need no more than 52 bits")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
