//! A model of a provider, brokers and orchestrators, with books about every message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::super::*;
use super::homes::{self, Homes, Leaving};
use crate::level::Level;
use crate::provider::{Allocation, Condition, Observed, Resource, ResourceName, Stack};

/// Milliseconds of a turn.
pub(super) const TURN: u64 = 1_000;
const BOOT: u64 = 3_000;
const STOP: u64 = 2_000;
const SUBSCRIBE: u64 = 2_000;
/// Longest time that one which is taken away is held.
const GRACE: u64 = 60_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Life {
    Booting(u64),
    Online,
    Hanging,
    Ended,
    Stopping(u64),
    /// Taken away, and held until nobody is connected to it, or until that time; then it comes back or not.
    Held(u64, bool),
}

#[derive(Clone, Debug)]
pub(super) struct Thing {
    pub(super) wanted: Allocation,
    pub(super) life: Life,
}

#[derive(Clone, Debug)]
struct Known {
    since: u64,
    draining: bool,
    owed: u64,
}

/// What an orchestrator keeps, also while it is dead.
#[derive(Clone, Debug, Default)]
struct Orchestrator {
    brokers: BTreeMap<ResourceName, Known>,
    /// Accepted while no broker served.
    parked: u64,
    clients: u64,
    draining: bool,
    turn: usize,
    homes: Homes,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the model of its own")]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) things: BTreeMap<ResourceName, Thing>,
    orchestrators: BTreeMap<ResourceName, Orchestrator>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) traffic: bool,
    /// Brokers that settle nothing.
    pub(super) stuck: BTreeSet<ResourceName>,
    accepted: u64,
    settled: u64,
    /// Whether the provider answers.
    pub(super) mute: bool,
    /// Whether brokers are too busy for probes.
    pub(super) busy: bool,
    /// Allocations that fail from now on.
    pub(super) refusals: u32,
    /// New resources end at once.
    pub(super) stillborn: bool,
    /// Only the last resource of a level can be released, and it is held.
    pub(super) stacked: bool,
    /// What must never happen and did.
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

    /// A turn passes: things boot and stop, clients publish, brokers settle.
    pub(super) fn turn(&mut self) {
        self.now += TURN;
        let now = self.now;
        for thing in self.things.values_mut() {
            if matches!(thing.life, Life::Booting(until) if until <= now) {
                thing.life = if self.stillborn { Life::Ended } else { Life::Online };
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
        self.end_moves();
        let all = self.orchestrators.iter().map(|(name, it)| (name.clone(), &it.homes)).collect();
        self.violations.extend(homes::wrong(&all));
        if self.accepted != self.settled + self.owed() {
            self.violations.push(format!("{} accepted, {} settled, {} owed", self.accepted, self.settled, self.owed()));
        }
    }

    /// Moves end when both sides answer.
    fn end_moves(&mut self) {
        let under_way =
            self.orchestrators.iter().filter_map(|(name, it)| Some((name.clone(), it.homes.leaving.clone()?)));
        let under_way: Vec<(ResourceName, Leaving)> = under_way.collect();
        for (name, leaving) in under_way {
            if leaving.until > self.now || !self.is_online(&name) || !self.is_online(&leaving.to) {
                continue;
            }
            let epoch = self.orchestrators[&name].homes.epoch() + 1;
            for side in [&name, &leaving.to] {
                if let Some(it) = self.orchestrators.get_mut(side) {
                    it.homes.moved(&leaving, epoch);
                }
            }
            if let Some(it) = self.orchestrators.get_mut(&name) {
                it.homes.leaving = None;
            }
        }
    }

    fn is_arriving(&self, at: &ResourceName) -> bool {
        self.orchestrators.values().any(|it| it.homes.leaving.as_ref().is_some_and(|leaving| leaving.to == *at))
    }

    /// What is held goes when nobody is connected to it any more.
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

    /// Somebody else takes the last of a level away.
    pub(super) fn take_last(&mut self, level: Level) {
        self.hold(level, self.names(level).pop(), false);
    }

    /// Somebody else empties the machine of the first of a level, which comes back elsewhere.
    pub(super) fn empty_machine(&mut self, level: Level) {
        self.hold(level, self.names(level).first().cloned(), true);
    }

    fn hold(&mut self, level: Level, name: Option<ResourceName>, again: bool) {
        // A hook drains an orchestrator, whoever takes it away.
        if let Some(orchestrator) = name.as_ref().and_then(|name| self.orchestrators.get_mut(name)) {
            orchestrator.draining = level == Level::Orchestrator;
        }
        if let Some(thing) = name.and_then(|name| self.things.get_mut(&name)) {
            thing.life = Life::Held(self.now + GRACE, again);
        }
    }

    /// Somebody else adds one to a level.
    pub(super) fn add_one(&mut self, level: Level, stack: &Stack) {
        let last = self.names(level).iter().filter_map(|name| stack.number(name)).max();
        let name = stack.resource(last.map_or(0, |last| last + 1)).unwrap();
        let wanted = Allocation { name: name.clone(), level, template: stack.name.clone(), cores: 0.5 };
        if level == Level::Orchestrator {
            self.orchestrators.entry(name.clone()).or_default();
        }
        self.things.insert(name, Thing { wanted, life: Life::Booting(self.now + BOOT) });
    }

    fn is_online(&self, name: &ResourceName) -> bool {
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

    fn serving(&self, at: &ResourceName) -> Vec<ResourceName> {
        let view = self.view(at);
        let serves = |known: &BrokerView| known.state == BrokerState::Serving;
        view.brokers.into_iter().filter(|(_, known)| serves(known)).map(|(name, _)| name).collect()
    }

    fn view(&self, name: &ResourceName) -> OrchestratorView {
        let orchestrator = self.orchestrators.get(name).cloned().unwrap_or_default();
        let state = |name: &ResourceName, known: &Known| match known {
            Known { draining: true, owed: 0, .. } => BrokerState::Drained,
            Known { draining: true, .. } => BrokerState::Draining,
            _ if !self.is_online(name) => BrokerState::Down,
            _ if self.now - known.since < SUBSCRIBE => BrokerState::Subscribing,
            _ => BrokerState::Serving,
        };
        let brokers = orchestrator.brokers.iter().map(|(name, known)| {
            let view = BrokerView { state: state(name, known), owed: known.owed, sent: 0, last_error: None };
            (name.clone(), view)
        });
        OrchestratorView {
            clients: orchestrator.clients,
            owed: orchestrator.parked + orchestrator.brokers.values().map(|known| known.owed).sum::<u64>(),
            draining: orchestrator.draining,
            homes: Some(HomesView {
                table: orchestrator.homes.table.clone(),
                moving: orchestrator.homes.leaving.is_some() || self.is_arriving(name),
            }),
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
                // Pods have no place for relayed clients.
                relay: (!self.stacked).then(|| format!("{}-relay", thing.wanted.name)),
                pid: None,
                note: String::new(),
            },
            condition: match thing.life {
                Life::Booting(_) => Condition::Starting,
                Life::Online if self.busy && thing.wanted.level == Level::Broker => Condition::Down("busy".to_owned()),
                Life::Online => Condition::Online,
                Life::Hanging => Condition::Down("hangs".to_owned()),
                Life::Ended => Condition::Ended("killed".to_owned()),
                Life::Stopping(_) | Life::Held(..) => Condition::Stopping,
            },
            cpu: Some(0.5),
        };
        let resources = self.things.iter().map(|(name, thing)| (name.clone(), observed(thing))).collect();
        let answering = self.names(Level::Orchestrator).into_iter().filter(|name| self.is_online(name));
        Sight {
            resources: (!self.mute).then_some(resources),
            orchestrators: answering.map(|name| (name.clone(), self.view(&name))).collect(),
        }
    }

    /// Does what is asked for; what cannot be done is an error, and what must never be asked for a violation.
    pub(super) fn execute(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Keep(_) => {}
            Command::Allocate(wanted) => self.allocate(wanted)?,
            Command::Release(name) => self.release(name),
            Command::AddBroker { at, broker } => {
                let since = self.now;
                let known =
                    self.asked(at)?.brokers.entry(broker.clone()).or_insert(Known { since, draining: false, owed: 0 });
                known.draining = false;
            }
            Command::DrainBroker { at, broker } => {
                self.asked(at)?.brokers.get_mut(broker).ok_or("unknown broker")?.draining = true;
            }
            Command::RemoveBroker { at, broker, force } => self.remove(at, broker, *force)?,
            Command::Evict { at, .. } => self.asked(at)?.draining = true,
            Command::EndEviction { at } => self.asked(at)?.draining = false,
            Command::SetHomes { at, table, if_epoch } => {
                let arriving = self.is_arriving(at);
                self.asked(at)?.homes.set(table, *if_epoch, arriving)?;
            }
            Command::MovePartitions { at, to, partitions, epoch } => {
                if !self.is_online(to) || self.is_arriving(to) || self.orchestrators[to].homes.leaving.is_some() {
                    return Err(format!("{to} takes nothing in"));
                }
                let leaving = Leaving { to: to.clone(), partitions: partitions.clone(), until: self.now + TURN };
                self.asked(at)?.homes.leave(at, leaving, *epoch)?;
            }
            Command::SetEndpoints(endpoints) => self.endpoints.clone_from(endpoints),
            Command::Tell(Entry(value)) => self.history.push(value.clone()),
        }
        Ok(())
    }

    fn asked(&mut self, at: &ResourceName) -> Result<&mut Orchestrator, String> {
        if !self.is_online(at) {
            return Err(format!("{at} does not answer"));
        }
        Ok(self.orchestrators.entry(at.clone()).or_default())
    }

    fn allocate(&mut self, wanted: &Allocation) -> Result<(), String> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err("refused".to_owned());
        }
        let until = self.now + BOOT;
        let thing = self
            .things
            .entry(wanted.name.clone())
            .or_insert(Thing { wanted: wanted.clone(), life: Life::Booting(until) });
        if matches!(thing.life, Life::Ended | Life::Hanging) {
            thing.life = Life::Booting(until);
        }
        if wanted.level == Level::Orchestrator {
            self.orchestrators.entry(wanted.name.clone()).or_default();
        }
        for level in Level::ALL {
            if self.names(level).len() > self.most[&level] {
                self.violations.push(format!("more than the SLA's maximum: {:?}", self.names(level)));
            }
        }
        Ok(())
    }

    fn release(&mut self, name: &ResourceName) {
        let Some(thing) = self.things.get(name) else { return };
        if matches!(thing.life, Life::Stopping(_) | Life::Held(..)) {
            return;
        }
        if self.stacked && self.names(thing.wanted.level).last() != Some(name) {
            self.violations.push(format!("{name} was released and is not the last"));
        }
        let (level, life) = (thing.wanted.level, thing.life.clone());
        let owed: u64 = match level {
            Level::Broker if life == Life::Ended || life == Life::Hanging => 0,
            Level::Broker => {
                self.orchestrators.values().filter_map(|it| it.brokers.get(name)).map(|known| known.owed).sum()
            }
            Level::Orchestrator => self.view(name).owed + self.view(name).clients,
        };
        let own = self.orchestrators.get(name).map(|it| it.homes.own(name).len()).unwrap_or_default();
        if own > 0 {
            self.violations.push(format!("{name} was released while {own} partitions were at home there"));
        }
        if owed > 0 {
            self.violations.push(format!("{name} was released while {owed} were owed"));
        }
        let others = self.things.values().filter(|thing| thing.wanted.level == level && thing.life == Life::Online);
        let left = others.filter(|thing| thing.wanted.name != *name).count();
        if life == Life::Online && left < self.least[&level] {
            self.violations.push(format!("{name} was released although only {left} would be left"));
        }
        if level == Level::Orchestrator && !self.stacked {
            self.orchestrators.remove(name);
        }
        if let Some(thing) = self.things.get_mut(name) {
            let until = self.now + if self.stacked { GRACE } else { STOP };
            thing.life = if self.stacked { Life::Held(until, false) } else { Life::Stopping(until) };
        }
    }

    fn remove(&mut self, at: &ResourceName, broker: &ResourceName, force: bool) -> Result<(), String> {
        let lives = self.things.contains_key(broker);
        let orchestrator = self.asked(at)?;
        let Some(known) = orchestrator.brokers.get(broker) else { return Ok(()) };
        if known.owed > 0 && !force {
            return Err(format!("{} are owed", known.owed));
        }
        if known.owed > 0 && lives {
            self.violations.push(format!("{broker} was removed at {at} by force although it is there"));
            return Ok(());
        }
        // Messages of a broker that is gone are sent to others.
        orchestrator.parked += known.owed;
        orchestrator.brokers.remove(broker);
        Ok(())
    }
}

/// A judge that wants a level to have so many at a time, one more or fewer per decision.
pub(super) struct Script(pub(super) Vec<(u64, u32)>);

impl Judge for Script {
    fn judge(&mut self, seen: &LevelSeen) -> Verdict {
        let wanted = self.0.iter().rev().find(|(from, _)| *from <= seen.at.0).map(|(_, count)| *count);
        let planned = seen.serving + seen.pending;
        let wish = match wanted {
            Some(wanted) if wanted > planned => Wish::Grow(1),
            Some(wanted) if wanted < planned && seen.pending == 0 => Wish::Shrink(1),
            _ => Wish::Hold,
        };
        Verdict { wish, load: Some(0.5), reason: "the script says so".to_owned(), details: Value::Null }
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
        boot_limit: Duration::from_secs(20),
        join_limit: Duration::from_secs(20),
        drain_limit: Duration::from_secs(30),
        on_drain_limit: OnDrainLimit::Return,
        entry_ttl: Duration::from_secs(5),
        evict_per_second: 100,
        evict_after: Duration::from_secs(5),
    }
}
