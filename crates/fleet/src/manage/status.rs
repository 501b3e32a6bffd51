//! The state of a fleet, for scripts and people.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::book::{Member, Phase};
use super::cluster_view::ClusterView;
use super::decisions::Decisions;
use super::explain;
use super::named::NamedEndpoints;
use super::sight::{OrchestratorView, Sight};
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Condition, Observed, ResourceName};

/// The parts that the state of a fleet is read from.
#[derive(Clone, Copy)]
pub(super) struct StatusOf<'a> {
    pub(super) fleet: FleetSeen<'a>,
    pub(super) decisions: &'a Decisions,
    pub(super) endpoints: &'a NamedEndpoints,
}

impl StatusOf<'_> {
    /// `levels`, `actions` and `totals` as JSON. `action` is the one under way that is oldest, `actions` are all.
    pub(super) fn all(&self) -> Value {
        let FleetSeen { settings, book, sight, now, observation, .. } = self.fleet;
        let levels: serde_json::Map<String, Value> =
            Level::ALL.iter().map(|level| (level.name().to_owned(), self.level_status(*level))).collect();
        let mut actions: Vec<_> = book.actions.values().chain(book.adoptions.values()).collect();
        actions.sort_by_key(|action| action.number);
        let actions: Vec<Value> = actions.into_iter().map(|action| explain::action(action, now)).collect();
        let totals = book.totals;
        json!({
            "fleet": settings.fleet,
            "at_ms": now.0,
            "interval_ms": u64::try_from(settings.interval.as_millis()).unwrap_or(u64::MAX),
            "observation": observation,
            "state": if book.started.len() < Level::ALL.len() { "starting" } else { "running" },
            "levels": levels,
            "action": actions.first(),
            "actions": actions,
            "cluster": sight.cluster().map(|cluster| cluster_status(cluster, sight)),
            "endpoints": self.endpoints.named().map(|endpoint| &endpoint.address).collect::<Vec<_>>(),
            "totals": {"actions": totals.actions, "healed": totals.healed, "failed": totals.failed, "given_up": totals.given_up},
        })
    }

    fn level_status(&self, level: Level) -> Value {
        let book = self.fleet.book;
        let count = |phases: &[Phase]| book.count(level, phases);
        let settings = self.fleet.settings.level(level);
        let judged = self.decisions.of(level);
        let mut members: Vec<&Member> = book.level(level).collect();
        members.sort_by_key(|member| member.order);
        json!({
            "serving": count(&[Phase::Serving]),
            "pending": count(&[Phase::Pending, Phase::Joining]),
            "draining": count(&[Phase::Draining, Phase::Leaving]),
            "dead": count(&[Phase::Lost]),
            "stopped": count(&[Phase::Stopped]),
            "min": settings.map(|settings| settings.least),
            "max": settings.map(|settings| settings.most),
            "load": judged.and_then(|judged| judged.decision.load),
            "skew": judged.and_then(|judged| judged.decision.skew.as_ref()).map(explain::skew),
            "reason": judged.map(|judged| &judged.decision.reason),
            "resources": members
                .into_iter()
                .map(|member| self.member_status(member))
                .chain(self.not_yet_members(level))
                .collect::<Vec<_>>(),
        })
    }

    /// Attached resources that have not answered yet, with the observed error.
    fn not_yet_members(&self, level: Level) -> Vec<Value> {
        let FleetSeen { book, sight, .. } = self.fleet;
        let unknown = sight.resources.iter().flat_map(BTreeMap::values).filter(|observed| {
            let resource = &observed.resource;
            resource.level == level && resource.template == ATTACHED && book.phase(&resource.name).is_none()
        });
        let shown = |observed: &Observed| {
            let resource = &observed.resource;
            json!({
                "name": resource.name, "template": resource.template, "state": "dead", "phase": null,
                "address": resource.address, "admin": resource.admin, "cpu": null, "memory": null, "pid": null, "owed": sight.owed(&resource.name),
                "note": note(observed),
            })
        };
        unknown.map(shown).collect()
    }

    fn member_status(&self, member: &Member) -> Value {
        let FleetSeen { settings, sight, now, .. } = self.fleet;
        let name = &member.wanted.name;
        let observed = sight.resource(name);
        let view = sight.orchestrators.get(name);
        let state = match (member.phase, observed.map(|observed| &observed.condition)) {
            (Phase::Serving, Some(Condition::Down(_) | Condition::Ended(_)) | None) | (Phase::Lost, _) => "dead",
            (Phase::Pending | Phase::Joining, _) => "pending",
            (Phase::Serving, _) => "serving",
            (Phase::Draining | Phase::Leaving, _) => "draining",
            (Phase::Stopped, _) => "stopped",
        };
        let owed = match member.wanted.level {
            Level::Broker => Some(sight.owed(name)),
            Level::Orchestrator => view.map(|view| view.owed),
        };
        json!({
            "name": name,
            "template": member.wanted.template,
            "state": state,
            "phase": member.phase,
            "address": observed.map(|observed| &observed.resource.address),
            "admin": observed.and_then(|observed| observed.resource.admin.as_ref()),
            "cpu": observed.and_then(|observed| observed.cpu),
            "memory": observed.and_then(|observed| observed.memory),
            "cores": member.wanted.cores,
            "since_ms": member.since.0,
            "pid": observed.and_then(|observed| observed.resource.pid),
            "owed": owed,
            "clients": view.map(|view| view.clients),
            "partitions": sight.partitions(name),
            "lost_since_ms": member.lost_since.map(|since| since.0),
            "failed_restarts": member.failed_restarts,
            "restart_left_ms": super::give_up::restart_left(member, settings.restart_limit, now).map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            "note": observed.map(note),
        })
    }
}

/// The cluster of the orchestrators, by its newest table.
fn cluster_status(cluster: &ClusterView, sight: &Sight) -> Value {
    let leads = |(_, view): &(&ResourceName, &OrchestratorView)| view.cluster.as_ref().is_some_and(|it| it.leads);
    json!({
        "epoch": cluster.epoch,
        "leader": sight.orchestrators.iter().find(leads).map(|(name, _)| name),
        "moves": cluster.moves,
        "members": cluster.partitions,
    })
}

/// The note about a resource for people, with the reason for a missing answer first.
fn note(observed: &Observed) -> String {
    match (&observed.condition, observed.resource.note.as_str()) {
        (Condition::Down(why) | Condition::Ended(why), "") => why.clone(),
        (Condition::Down(why) | Condition::Ended(why), note) => format!("{why}; {note}"),
        (_, note) => note.to_owned(),
    }
}
