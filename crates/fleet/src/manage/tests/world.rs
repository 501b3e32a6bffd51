//! A model of a provider, brokers and orchestrators, with books about every message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::super::*;
use super::members::Cluster;
use crate::level::Level;
use crate::provider::{Allocation, Condition, Observed, Resource, ResourceName, Stack};

/// Milliseconds of a turn.
pub(super) const TURN: u64 = 1_000;
pub(super) const BOOT: u64 = 3_000;
pub(super) const STOP: u64 = 2_000;
const SUBSCRIBE: u64 = 2_000;
/// Longest time that one which is taken away is held.
pub(super) const GRACE: u64 = 60_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Life {
    Booting(u64),
    Online,
    Hanging,
    Ended,
    Stopping(u64),
    /// Removed, and held until it has no connections, or until that time; then it returns or not.
    Held(u64, bool),
}

#[derive(Clone, Debug)]
pub(super) struct Thing {
    pub(super) wanted: Allocation,
    pub(super) life: Life,
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) since: u64,
    pub(super) draining: bool,
    pub(super) owed: u64,
}

/// An orchestrator's stored state, which outlives its death.
#[derive(Clone, Debug, Default)]
pub(super) struct Orchestrator {
    pub(super) brokers: BTreeMap<ResourceName, Known>,
    /// Accepted while no broker served.
    pub(super) parked: u64,
    clients: u64,
    pub(super) draining: bool,
    turn: usize,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent switches of the model")]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) things: BTreeMap<ResourceName, Thing>,
    pub(super) orchestrators: BTreeMap<ResourceName, Orchestrator>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) traffic: bool,
    /// Brokers that settle no messages.
    pub(super) stuck: BTreeSet<ResourceName>,
    accepted: u64,
    settled: u64,
    /// Messages that orchestrators had when they were given up.
    pub(super) set_aside: u64,
    /// Whether setting aside fails.
    pub(super) full_aside: bool,
    /// Resources that no longer start.
    pub(super) broken: BTreeSet<ResourceName>,
    /// Whether the provider answers.
    pub(super) mute: bool,
    /// Whether brokers are too busy for probes.
    pub(super) busy: bool,
    /// Whether the entry point takes no names.
    pub(super) refuses_names: bool,
    /// Allocations that fail from now on.
    pub(super) refusals: u32,
    /// New resources end at once.
    pub(super) stillborn: bool,
    /// Only the last resource of a level can be released, and it is held.
    pub(super) stacked: bool,
    /// The cluster of the orchestrators.
    pub(super) cluster: Cluster,
    /// Orchestrators whose probe is answered: they have seen all partitions served.
    ready: BTreeSet<ResourceName>,
    /// Violations of the rules.
    pub(super) violations: Vec<String>,
    pub(super) most: BTreeMap<Level, usize>,
    pub(super) least: BTreeMap<Level, usize>,
    pub(super) history: Vec<Value>,
    /// How many were held to the end of their time.
    pub(super) late: u32,
}

impl World {
    pub(super) fn new(most: usize, least: usize) -> Self {
        let each = |count| BTreeMap::from([(Level::Broker, count), (Level::Orchestrator, count)]);
        Self { traffic: true, most: each(most), least: each(least), ..Self::default() }
    }

    pub(super) fn owed(&self) -> u64 {
        self.orchestrators.values().map(|it| it.parked + it.brokers.values().map(|known| known.owed).sum::<u64>()).sum()
    }

    pub(super) fn names(&self, level: Level) -> Vec<ResourceName> {
        let of_level = self.things.values().filter(|thing| thing.wanted.level == level);
        of_level.map(|thing| thing.wanted.name.clone()).collect()
    }

    pub(super) fn kill(&mut self, level: Level) {
        let online = self.things.values_mut().find(|thing| thing.wanted.level == level && thing.life == Life::Online);
        if let Some(thing) = online {
            thing.life = Life::Ended;
        }
    }

    /// An orchestrator dies for good, once, and only while another one can take its partitions over: the only one is
    /// waited for as long as it takes.
    pub(super) fn break_one(&mut self) {
        let is_place = |name: &ResourceName| self.is_online(name) && self.cluster.count(name) > 0;
        let places: Vec<ResourceName> = self.names(Level::Orchestrator).into_iter().filter(is_place).collect();
        if let (Some(first), 2.., true) = (places.first(), places.len(), self.broken.is_empty())
            && let Some(thing) = self.things.get_mut(first)
        {
            thing.life = Life::Ended;
            self.broken.insert(first.clone());
        }
    }

    /// A turn passes: things boot and stop, clients publish, brokers settle.
    pub(super) fn turn(&mut self) {
        self.now += TURN;
        let now = self.now;
        for (name, thing) in &mut self.things {
            if matches!(thing.life, Life::Booting(until) if until <= now) {
                let ends = self.stillborn || self.broken.contains(name);
                thing.life = if ends { Life::Ended } else { Life::Online };
            }
        }
        self.things.retain(|_, thing| !matches!(thing.life, Life::Stopping(until) if until <= now));
        self.let_go();
        let names: Vec<ResourceName> = self.orchestrators.keys().cloned().collect();
        for name in names {
            if self.is_online(&name) {
                self.work(&name);
            }
        }
        let online: BTreeSet<ResourceName> =
            self.names(Level::Orchestrator).into_iter().filter(|name| self.is_online(name)).collect();
        self.violations.extend(self.cluster.turn(now, &online));
        self.ready.retain(|name| online.contains(name));
        if self.cluster.is_settled() {
            self.ready.extend(online);
        }
        if self.accepted != self.settled + self.owed() + self.set_aside {
            self.violations.push(format!("{} accepted, {} settled, {} owed", self.accepted, self.settled, self.owed()));
        }
    }

    /// A held resource ends when it has no connections.
    fn let_go(&mut self) {
        let now = self.now;
        let names: Vec<ResourceName> = self.things.keys().cloned().collect();
        for name in names {
            let Some(Thing { wanted, life: Life::Held(until, again) }) = self.things.get(&name).cloned() else {
                continue;
            };
            let connected = match wanted.level {
                Level::Broker => self.orchestrators.values().any(|it| it.brokers.contains_key(&name)),
                Level::Orchestrator => self.view(&name).clients + self.view(&name).owed > 0,
            };
            if connected && until > now {
                continue;
            }
            if until <= now {
                self.late += 1;
            }
            if let Some(orchestrator) = self.orchestrators.get_mut(&name) {
                (orchestrator.clients, orchestrator.draining) = (0, false);
            }
            self.things.remove(&name);
            if again {
                self.things.insert(name, Thing { wanted, life: Life::Booting(now + BOOT) });
            }
        }
    }

    /// Another controller removes the last of a level.
    pub(super) fn take_last(&mut self, level: Level) {
        self.hold(level, self.names(level).pop(), false);
    }

    /// Another controller empties the machine of the first of a level, which returns elsewhere.
    pub(super) fn empty_machine(&mut self, level: Level) {
        self.hold(level, self.names(level).first().cloned(), true);
    }

    fn hold(&mut self, level: Level, name: Option<ResourceName>, again: bool) {
        // A hook has an orchestrator hand over its partitions and drains it, at any removal.
        if let (Level::Orchestrator, Some(name)) = (level, &name) {
            self.cluster.set_share(name, false);
        }
        if let Some(orchestrator) = name.as_ref().and_then(|name| self.orchestrators.get_mut(name)) {
            orchestrator.draining = level == Level::Orchestrator;
        }
        if let Some(thing) = name.and_then(|name| self.things.get_mut(&name)) {
            thing.life = Life::Held(self.now + GRACE, again);
        }
    }

    /// Another controller adds one to a level.
    pub(super) fn add_one(&mut self, level: Level, stack: &Stack) {
        let last = self.names(level).iter().filter_map(|name| stack.number(name)).max();
        let name = stack.resource(last.map_or(0, |last| last + 1)).unwrap();
        let wanted = Allocation { name: name.clone(), level, template: stack.name.clone(), cores: 0.5 };
        if level == Level::Orchestrator {
            self.orchestrators.entry(name.clone()).or_default();
        }
        self.things.insert(name, Thing { wanted, life: Life::Booting(self.now + BOOT) });
    }

    pub(super) fn is_online(&self, name: &ResourceName) -> bool {
        self.things.get(name).is_some_and(|thing| matches!(thing.life, Life::Online | Life::Held(..)))
    }

    fn work(&mut self, name: &ResourceName) {
        let serving = self.serving(name);
        let online: Vec<ResourceName> = self.things.keys().filter(|name| self.is_online(name)).cloned().collect();
        let published = self.endpoints.iter().any(|endpoint| endpoint.name == *name);
        let Some(orchestrator) = self.orchestrators.get_mut(name) else { return };
        // Clients come by the entry point, and go by eviction.
        orchestrator.clients = match (orchestrator.draining, published) {
            (true, _) => orchestrator.clients.saturating_sub(2),
            (false, true) => (orchestrator.clients + 1).min(5),
            (false, false) => orchestrator.clients,
        };
        if self.traffic && !orchestrator.draining && orchestrator.clients > 0 {
            self.accepted += 3;
            orchestrator.parked += 3;
        }
        for _ in 0..orchestrator.parked {
            if serving.is_empty() {
                break;
            }
            orchestrator.turn += 1;
            let broker = &serving[orchestrator.turn % serving.len()];
            if let Some(known) = orchestrator.brokers.get_mut(broker) {
                known.owed += 1;
                orchestrator.parked -= 1;
            }
        }
        for (broker, known) in &mut orchestrator.brokers {
            if online.contains(broker) && !self.stuck.contains(broker) {
                let done = known.owed.min(2);
                known.owed -= done;
                self.settled += done;
            }
        }
    }

    fn state(&self, name: &ResourceName, known: &Known) -> BrokerState {
        match known {
            Known { draining: true, owed: 0, .. } => BrokerState::Drained,
            Known { draining: true, .. } => BrokerState::Draining,
            _ if !self.is_online(name) => BrokerState::Down,
            _ if self.now - known.since < SUBSCRIBE => BrokerState::Subscribing,
            _ => BrokerState::Serving,
        }
    }

    pub(super) fn serving(&self, at: &ResourceName) -> Vec<ResourceName> {
        let brokers = self.orchestrators.get(at).into_iter().flat_map(|it| &it.brokers);
        let serving = brokers.filter(|(name, known)| self.state(name, known) == BrokerState::Serving);
        serving.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn view(&self, name: &ResourceName) -> OrchestratorView {
        let Some(orchestrator) = self.orchestrators.get(name) else {
            return OrchestratorView { cluster: Some(self.cluster.view(name)), ..OrchestratorView::default() };
        };
        let brokers = orchestrator.brokers.iter().map(|(name, known)| {
            let view = BrokerView { state: self.state(name, known), owed: known.owed, sent: 0, last_error: None };
            (name.clone(), view)
        });
        OrchestratorView {
            clients: orchestrator.clients,
            owed: orchestrator.parked + orchestrator.brokers.values().map(|known| known.owed).sum::<u64>(),
            draining: orchestrator.draining,
            cluster: Some(self.cluster.view(name)),
            brokers: brokers.collect(),
            ..OrchestratorView::default()
        }
    }

    pub(super) fn sight(&self) -> Sight {
        let observed = |thing: &Thing| Observed {
            resource: Resource {
                name: thing.wanted.name.clone(),
                level: thing.wanted.level,
                template: thing.wanted.template.clone(),
                address: format!("mqtt://{}", thing.wanted.name),
                admin: Some(format!("http://{}-admin", thing.wanted.name)),
                pid: None,
                note: String::new(),
            },
            condition: match thing.life {
                Life::Booting(_) => Condition::Starting,
                Life::Online if self.busy && thing.wanted.level == Level::Broker => Condition::Down("busy".to_owned()),
                Life::Online
                    if thing.wanted.level == Level::Orchestrator && !self.ready.contains(&thing.wanted.name) =>
                {
                    Condition::Starting
                }
                Life::Online => Condition::Online,
                Life::Hanging => Condition::Down("hangs".to_owned()),
                Life::Ended => Condition::Ended("killed".to_owned()),
                Life::Stopping(_) | Life::Held(..) => Condition::Stopping,
            },
            cpu: Some(0.5),
            memory: Some(64 << 20),
        };
        let resources = self.things.iter().map(|(name, thing)| (name.clone(), observed(thing))).collect();
        let answering = self.names(Level::Orchestrator).into_iter().filter(|name| self.is_online(name));
        Sight {
            resources: (!self.mute).then_some(resources),
            orchestrators: answering.map(|name| (name.clone(), self.view(&name))).collect(),
        }
    }
}

/// A judge that changes a level to a given number, by one per decision.
pub(super) struct Script(pub(super) Vec<(u64, u32)>);

impl Judge for Script {
    fn judge(&mut self, seen: &LevelSeen) -> LevelDecision {
        let wanted = self.0.iter().rev().find(|(from, _)| *from <= seen.at.0).map(|(_, count)| *count);
        let planned = seen.serving + seen.pending;
        let wish = match wanted {
            Some(wanted) if wanted > planned => Wish::Grow(1),
            Some(wanted) if wanted < planned && seen.pending == 0 => Wish::Shrink(1),
            _ => Wish::Hold,
        };
        LevelDecision {
            wish,
            load: Some(0.5),
            reason: "the script says so".to_owned(),
            details: Value::Null,
            skew: None,
            suits: None,
        }
    }

    fn note_action(&mut self, _: Moment) {}
}

pub(super) fn settings(initial: [u32; 2], least: u32, most: u32) -> Settings {
    let level = |name: &str, initial| LevelSettings {
        initial,
        most,
        least,
        cores: 0.5,
        templates: vec![(name.to_owned(), 1)],
        victim: Victim::LastAdded,
        stack: None,
        decided_elsewhere: false,
    };
    Settings {
        fleet: "test".to_owned(),
        interval: Duration::from_secs(5),
        check: Duration::from_secs(1),
        levels: BTreeMap::from([
            (Level::Broker, level("broker", initial[0])),
            (Level::Orchestrator, level("orchestrator", initial[1])),
        ]),
        most_in_all: None,
        down_after: 2,
        restart_limit: Duration::from_secs(60),
        boot_limit: Duration::from_secs(20),
        join_limit: Duration::from_secs(20),
        drain_limit: Duration::from_secs(30),
        on_drain_limit: OnDrainLimit::Return,
        entry_ttl: Duration::from_secs(5),
        evict_per_second: 100,
        evict_after: Duration::from_secs(5),
    }
}
