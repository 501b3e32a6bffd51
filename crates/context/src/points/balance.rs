//! A cycle of the manager: scores, ideal numbers, handovers, the list.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::nodes::GatewayNodes;
use super::travelling::Travelling;
use super::{FORGET_AFTER, Points, PointsAction};
use crate::gateways::{GatewayLoad, LoadTable, Standing};
use crate::ideal::{finite, ideal_numbers, ideal_shares};
use crate::latency::ConnectionStatistics;
use crate::messages::{GWList, Handover, ListedGateway, LoadReport};
use crate::ranking::GatewayView;
use crate::real::real;
use crate::reallocation::{Holder, Move};

/// A gateway in a cycle.
struct Candidate<'a> {
    view: GatewayView,
    address: &'a str,
    draining: bool,
    /// The home of a client is decided by its cluster.
    clustered: bool,
    /// Nodes that are connected and not on their way to elsewhere.
    connected: Vec<&'a str>,
}

impl Points {
    /// Looks at everything once more. `wall_ms` is the time of day, milliseconds since 1970.
    pub fn cycle(&mut self, now: Duration, wall_ms: u64) -> Vec<PointsAction> {
        self.table.forget(now, FORGET_AFTER);
        let table = &self.table;
        self.connections.retain(|gateway, _| table.knows(gateway));
        self.configured.retain(|gateway, _| table.knows(gateway));
        let mut actions = self.adapt_window(now);
        self.travelling.look(now, &self.connections);
        let candidates = candidates(&self.table, &self.connections, &self.travelling, now);
        let views: Vec<Option<GatewayView>> =
            candidates.iter().map(|candidate| (!candidate.draining).then(|| candidate.view.clone())).collect();
        let scores: Vec<Option<f64>> =
            views.iter().map(|view| Some(finite(self.ranking.score(view.as_ref()?)))).collect();
        let movable = candidates.iter().filter(|candidate| !candidate.clustered);
        let nodes = movable.map(|candidate| candidate.view.nodes).sum();
        let takers = views.into_iter().zip(&candidates);
        let takers = takers.map(|(view, candidate)| view.filter(|_| !candidate.clustered)).collect();
        let settled = ideal_shares(&*self.ranking, nodes, takers);
        let weight = self.settings.smoothing;
        let scores = smooth(&self.scores, &candidates, &scores, weight);
        let shares = smooth(&self.shares, &candidates, &settled, weight);
        let of = |values: &BTreeMap<String, f64>| -> Vec<Option<f64>> {
            candidates.iter().map(|candidate| values.get(&candidate.view.name).copied()).collect()
        };
        let mut ideal = ideal_numbers(nodes, &of(&shares));
        for (ideal, candidate) in ideal.iter_mut().zip(&candidates).filter(|(_, candidate)| candidate.clustered) {
            *ideal = candidate.view.nodes;
        }
        let handovers = if self.settings.balance && self.knows_all(now) {
            let holders = holders(&candidates, &ideal);
            let moves = self.reallocation.cycle(now, &holders);
            moves.iter().map(|one| handover(&candidates, one, wall_ms)).collect()
        } else {
            Vec::new()
        };
        let list = list(&candidates, &of(&scores), &ideal);
        (self.shares, self.scores) = (shares, scores);
        self.counters.nodes = candidates.iter().map(|candidate| candidate.view.nodes).sum();
        self.depart(now, &handovers);
        actions.extend(handovers.into_iter().map(PointsAction::HandOver));
        actions.extend(self.tell_list(now, list));
        actions
    }

    /// Whether all active gateways have reported their nodes: a gateway without a report may have nodes.
    fn knows_all(&self, now: Duration) -> bool {
        let mut active = self.table.all(now).filter(|(_, standing)| *standing != Standing::Inactive);
        active.all(|(load, _)| {
            self.connections.get(&load.report.gateway).is_some_and(|nodes| nodes.arrived >= load.began)
        })
    }

    fn depart(&mut self, now: Duration, handovers: &[Handover]) {
        self.counters.handovers += handovers.len() as u64;
        for handover in handovers {
            self.travelling.depart(&handover.node, &handover.to, now + self.settings.travel_time);
        }
    }

    /// Publishes the list when a gateway came, left, moved or changed its rank, and from time to time.
    fn tell_list(&mut self, now: Duration, gateways: Vec<ListedGateway>) -> Option<PointsAction> {
        let places = |gateways: &[ListedGateway]| -> Vec<(String, String)> {
            gateways.iter().map(|gateway| (gateway.name.clone(), gateway.address.clone())).collect()
        };
        if gateways.is_empty() && self.listed_at.is_none() {
            // No gateway has reported yet, so the list is unknown.
            return None;
        }
        let due = self.listed_at.is_none_or(|at| now.saturating_sub(at) >= self.settings.list_period);
        if !due && places(&gateways) == places(&self.listed.gateways) {
            return None;
        }
        self.listed = GWList { number: self.listed.number + 1, gateways };
        self.listed_at = Some(now);
        Some(PointsAction::List(self.listed.clone()))
    }
}

/// The gateways that take part, with their nodes. A node that two of them report is where it was reported last.
fn candidates<'a>(
    table: &'a LoadTable,
    connections: &'a BTreeMap<String, GatewayNodes>,
    travelling: &Travelling,
    now: Duration,
) -> Vec<Candidate<'a>> {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut newest: Vec<_> = connections.iter().collect();
    newest.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.arrived));
    let mut connected: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (gateway, nodes) in newest {
        if table.standing(now, gateway) != Standing::Inactive {
            let ids = nodes.nodes.iter().map(|node| node.id.as_str());
            let here = ids.filter(|id| travelling.is_at(id, gateway) && seen.insert(id)).collect();
            connected.insert(gateway, here);
        }
    }
    let coming = travelling.coming();
    let active = table.all(now).filter(|(_, standing)| *standing != Standing::Inactive);
    let candidate = |(load, standing): (&'a GatewayLoad, Standing)| {
        let report = &load.report;
        let name = report.gateway.as_str();
        let connected = connected.remove(name).unwrap_or_default();
        let nodes = connected.len() as u64 + coming.get(name).copied().unwrap_or_default();
        let statistics = connections.get(name).map(|nodes| nodes.statistics).unwrap_or_default();
        let view = view(report, nodes, statistics);
        let (draining, clustered) = (standing == Standing::Draining, report.clustered);
        Candidate { view, address: &report.address, draining, clustered, connected }
    };
    active.map(candidate).collect()
}

fn view(report: &LoadReport, nodes: u64, statistics: ConnectionStatistics) -> GatewayView {
    let free = if report.memory_total == 0 { 1.0 } else { real(report.memory_available) / real(report.memory_total) };
    GatewayView {
        name: report.gateway.clone(),
        nodes,
        capacity: report.max_connections,
        cpu: report.cpu,
        memory: 1.0 - free.clamp(0.0, 1.0),
        loop_lag_ms: report.loop_lag_ms,
        queue_bytes: report.queue_bytes,
        statistics,
    }
}

/// Scores of the gateways that accept nodes, averaged with the former ones. When the set of these gateways changes, the
/// former scores are dropped.
fn smooth(
    before: &BTreeMap<String, f64>,
    candidates: &[Candidate<'_>],
    values: &[Option<f64>],
    weight: f64,
) -> BTreeMap<String, f64> {
    let named = candidates.iter().zip(values);
    let now: BTreeMap<String, f64> =
        named.filter_map(|(candidate, value)| Some((candidate.view.name.clone(), (*value)?))).collect();
    if !now.keys().eq(before.keys()) {
        return now;
    }
    let mixed = |(name, value): (String, f64)| {
        let old = before.get(&name).copied().unwrap_or(value);
        (name, old + (value - old) * weight)
    };
    now.into_iter().map(mixed).collect()
}

fn holders<'a>(candidates: &[Candidate<'a>], ideal: &[u64]) -> Vec<Holder<'a>> {
    let holder = |(candidate, ideal): (&Candidate<'a>, &u64)| Holder {
        nodes: candidate.view.nodes,
        ideal: *ideal,
        connected: candidate.connected.clone(),
        leaving: candidate.draining && !candidate.clustered,
    };
    candidates.iter().zip(ideal).map(holder).collect()
}

fn handover(candidates: &[Candidate<'_>], one: &Move<'_>, at_ms: u64) -> Handover {
    let name = |place: usize| candidates.get(place).map(|candidate| candidate.view.name.clone()).unwrap_or_default();
    let address = candidates.get(one.to).map(|candidate| candidate.address.to_owned()).unwrap_or_default();
    Handover { node: one.node.to_owned(), from: name(one.from), to: name(one.to), address, at_ms }
}

/// The gateways that take nodes, by falling score.
fn list(candidates: &[Candidate<'_>], scores: &[Option<f64>], ideal: &[u64]) -> Vec<ListedGateway> {
    let mut listed: Vec<ListedGateway> = candidates
        .iter()
        .zip(scores)
        .zip(ideal)
        .filter_map(|((candidate, score), ideal)| {
            Some(ListedGateway {
                name: candidate.view.name.clone(),
                address: candidate.address.to_owned(),
                score: (*score)?,
                nodes: candidate.view.nodes,
                ideal: *ideal,
                statistics: candidate.view.statistics,
            })
        })
        .collect();
    listed.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
    listed
}
