//! A gateway: reports of a node to the services, and its execution of their requests.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{Position, Tally};

use super::answer::{ClientAdvertisement, NodeContext};
use super::courier::{Courier, Following, key_of};
use super::left_out::{MAX_NODE_BYTES, check_context, read_advertisement};
use super::{Bell, Course, LeftOut, Running, new_life, wall_ms};
use crate::groups::{AdvertisementRefused, MembershipChange, Memberships};
use crate::latency::{PingRound, PingWindow};
use crate::messages::{
    ConnectionReport, GWList, GroupAdvertisement, Handover, HelloPoA, LoadReport, NodeLink, Payload, PingConfig,
};
use crate::register::Topic;

/// Nodes in one part of a connection report, and pings and changes of groups made at once.
const AT_ONCE: usize = 1_000;
/// Records and messages that are taken at once.
const TAKEN_AT_ONCE: usize = 1_024;

/// The name of a gateway, and how often it reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The address of the node in server references: `host:port`.
    pub address: String,
    /// Time between two load reports.
    pub load_period: Duration,
    /// Time between two connection reports.
    pub connection_period: Duration,
    /// Most connections that it takes; 0 for no limit. Rankings use it.
    pub max_connections: u64,
    /// Whether it is a node of a cluster, which decides by client ids who is at home where.
    pub clustered: bool,
}

/// The load of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// Busy share of the processors that it may use, 0 to 1.
    pub cpu: f64,
    /// Memory of the machine, or the limit of the process, bytes.
    pub memory_total: u64,
    /// Of that free for use, bytes.
    pub memory_available: u64,
    /// Length of the mean turn of the slowest event loop, milliseconds.
    pub loop_lag_ms: u64,
    /// Event loops.
    pub shards: u64,
    /// Connections now.
    pub connections: u64,
    /// Bytes that wait in queues.
    pub queue_bytes: u64,
    /// Whether it is about to go.
    pub draining: bool,
}

/// A node that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNode {
    /// Its client id.
    pub id: String,
    /// Round trip of its transport, microseconds.
    pub rtt_us: Option<u64>,
}

/// The requests of a gateway to its node. Calls may take milliseconds; none waits for the bus.
pub trait Host: Send {
    /// Its load; `None` when it does not answer.
    fn load(&mut self) -> Option<HostLoad>;
    /// The connected nodes; with `rtt` also their round-trip times.
    fn nodes(&mut self, rtt: bool) -> Option<Vec<HostNode>>;
    /// Pings nodes; returns when each was sent its ping.
    fn ping(&mut self, nodes: &[Arc<str>], window: Duration) -> Vec<Option<Instant>>;
    /// Begins a round of pings: pongs of earlier ones are of no interest.
    fn forget_pings(&mut self);
    /// A pong that has come: whose and when.
    fn pong(&mut self) -> Option<(String, Instant)>;
    /// Advertisements of definers that are clients, at most `max`.
    fn advertisements(&mut self, max: usize) -> Vec<ClientAdvertisement>;
    /// Received contexts, at most `max`.
    fn contexts(&mut self, max: usize) -> Vec<NodeContext>;
    /// Tells all nodes the list of gateways, now and when they come.
    fn tell_list(&mut self, list: &[u8]);
    /// Sends a node elsewhere.
    fn hand_over(&mut self, node: &str, address: &str);
    /// Changes groups of nodes; returns the nodes that would be in too many groups, which stay unchanged.
    fn set_groups(&mut self, changes: Vec<MembershipChange>) -> Vec<String>;
}

/// Starts the thread of a gateway.
///
/// # Errors
/// When the thread cannot be started.
pub fn start_gateway(
    courier: Courier,
    settings: GatewaySettings,
    host: Box<dyn Host>,
    bell: Bell,
) -> std::io::Result<Running> {
    Running::start("gateway", bell, move |bell, course| {
        if let Some(mut gateway) = Gateway::new(courier, settings, host, bell, course) {
            gateway.run(bell, course);
        }
    })
}

struct Gateway {
    courier: Courier,
    settings: GatewaySettings,
    host: Box<dyn Host>,
    began: Instant,
    own_hello: HelloPoA,
    hellos: Following,
    /// Reports other gateways with this one's name.
    namesakes: Tally,
    config: Following,
    lists: Following,
    handovers: Following,
    advertisements: Vec<Following>,
    members: Memberships,
    /// Nodes whose last change of groups was refused.
    refused: HashSet<Box<str>>,
    /// The nodes that were connected at the last look.
    known: HashSet<Arc<str>>,
    pings: PingWindow,
    round: u64,
    pinged_at_ms: u64,
    interval: Duration,
    window: Duration,
    last_round: Option<PingRound>,
    next_ping: Option<Instant>,
    next_load: Instant,
    next_connections: Instant,
    next_look: Instant,
    load_number: u64,
    connection_number: u64,
}

/// Shortest time between two rounds of pings: each ends with a report on all nodes. Who asks for a shorter one gets
/// this.
const MIN_PING_INTERVAL: Duration = Duration::from_millis(100);
/// Characters of another gateway's address that a line of the log shows.
const SHOWN_CHARACTERS: usize = 64;
/// Interval of checks for new nodes, so that these get their groups.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

impl Gateway {
    fn new(
        courier: Courier,
        settings: GatewaySettings,
        host: Box<dyn Host>,
        bell: &Bell,
        course: &Course,
    ) -> Option<Self> {
        courier.prepare(&Topic::ALL, course)?;
        // Handovers of before are done, or their nodes have gone anyway; and who came before may be gone, too.
        let from = courier.bounds(Topic::Handover, 0, course)?.next;
        let hellos_from = courier.bounds(Topic::HelloPoA, 0, course)?.next;
        let follow = |topic, partition, from| Following::new(&courier, topic, partition, from, bell);
        let partitions = 0..courier.partitions();
        let advertisements =
            partitions.map(|partition| follow(Topic::GroupAdvertisement, partition, Position::START)).collect();
        let (config, lists) =
            (follow(Topic::PingConfig, 0, Position::START), follow(Topic::GWList, 0, Position::START));
        let handovers = follow(Topic::Handover, 0, from);
        let hellos = follow(Topic::HelloPoA, 0, hellos_from);
        let began = Instant::now();
        let own_hello =
            HelloPoA { gateway: settings.name.clone(), address: settings.address.clone(), life: new_life() };
        courier.tell(Topic::HelloPoA, None, &settings.name, own_hello.write());
        Some(Self {
            hellos,
            namesakes: Tally::default(),
            config,
            lists,
            handovers,
            advertisements,
            members: Memberships::default(),
            refused: HashSet::new(),
            known: HashSet::new(),
            pings: PingWindow::default(),
            round: 0,
            pinged_at_ms: 0,
            interval: Duration::ZERO,
            window: Duration::ZERO,
            last_round: None,
            next_ping: None,
            next_load: began,
            next_connections: began,
            next_look: began,
            load_number: 0,
            connection_number: 0,
            courier,
            settings,
            host,
            began,
            own_hello,
        })
    }

    fn run(&mut self, bell: &Bell, course: &Course) {
        course.stands(true);
        while !course.is_over() {
            self.take_contexts(bell);
            self.take_definers(bell);
            self.take_pongs();
            self.take_hellos(bell);
            self.take_config(bell);
            self.take_lists(bell);
            self.take_handovers(bell);
            self.take_advertisements(bell);
            let now = Instant::now();
            if self.next_look <= now {
                self.next_look = now + LOOK_PERIOD;
                self.look();
            }
            self.work_pings(now);
            if self.next_load <= now {
                self.next_load = now + self.settings.load_period;
                self.report_load();
            }
            if self.next_connections <= now {
                self.next_connections = now + self.settings.connection_period;
                self.report_connections();
            }
            bell.wait_until(self.deadline());
        }
    }

    fn deadline(&self) -> Instant {
        let closes = self.pings.closes_at().map(|at| self.began + at);
        let fixed = self.next_look.min(self.next_load).min(self.next_connections);
        closes.into_iter().chain(self.next_ping.filter(|_| closes.is_none())).fold(fixed, Instant::min)
    }

    fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }

    fn take_contexts(&mut self, bell: &Bell) {
        let contexts = self.host.contexts(TAKEN_AT_ONCE);
        if contexts.len() == TAKEN_AT_ONCE {
            bell.ring();
        }
        // Only the last one of a node counts, and a log keeps no more than that.
        for NodeContext { node, context, answer } in contexts {
            if let Err(why) = check_context(&node, &context) {
                self.courier.leave_out(why, &node);
                // Its publisher cannot learn the fault: it would send the same again.
                answer.done();
                continue;
            }
            self.courier.counters().context_reports.add(1);
            self.courier.keep_context(&node, context, answer);
        }
    }

    /// Clients that are definers: their messages are stored where all gateways read them.
    fn take_definers(&mut self, bell: &Bell) {
        let said = self.host.advertisements(TAKEN_AT_ONCE);
        if said.len() == TAKEN_AT_ONCE {
            bell.ring();
        }
        for ClientAdvertisement { definer, payload, answer } in said {
            match read_advertisement(&definer, &payload) {
                Ok(advertisement) => {
                    // Records that a report on all nodes replaces have to come before it, and only a partition keeps an
                    // order.
                    let node = advertisement.node.filter(|_| advertisement.members.is_none());
                    let key = node.map_or_else(|| definer.clone(), |node| format!("{definer}/{node}"));
                    self.courier.keep(Topic::GroupAdvertisement, &definer, &key, payload, answer);
                }
                Err(why) => {
                    self.courier.leave_out(why, &definer);
                    answer.done();
                }
            }
        }
    }

    fn take_pongs(&mut self) {
        while let Some((node, at)) = self.host.pong() {
            self.pings.pong(self.since(at), self.round, &node);
        }
    }

    /// Two gateways of one name are taken for two lives of one: the manager reads only the newer one. Only they can
    /// warn the operator.
    fn take_hellos(&mut self, bell: &Bell) {
        for record in self.hellos.take(&self.courier, bell, TAKEN_AT_ONCE) {
            let Some(hello) = self.courier.read_as::<HelloPoA>(&record) else { continue };
            if hello.is_namesake_of(&self.own_hello) && self.namesakes.note().is_some() {
                let (name, todo) = (&self.settings.name, "give each gateway a name of its own: context.name");
                let other: String = hello.address.chars().take(SHOWN_CHARACTERS).collect();
                tracing::warn!(
                    name,
                    other,
                    todo,
                    "another gateway on the bus uses the name of this gateway; choose a distinct name"
                );
            }
        }
    }

    fn take_config(&mut self, bell: &Bell) {
        for record in self.config.take(&self.courier, bell, TAKEN_AT_ONCE) {
            let Some(config) = self.courier.read_as::<PingConfig>(&record) else { continue };
            if config.gateway == self.settings.name {
                let asked = Duration::from_millis(config.interval_ms);
                let interval = if asked.is_zero() { asked } else { asked.max(MIN_PING_INTERVAL) };
                if interval != self.interval {
                    self.interval = interval;
                    // An hour that was begun is not waited for when it is seconds now.
                    let first = Instant::now() + interval / 2;
                    let next = self.next_ping.map_or(first, |next| next.min(first));
                    self.next_ping = (!interval.is_zero()).then_some(next);
                }
                self.window = Duration::from_millis(config.window_ms).min(self.interval);
            }
        }
    }

    fn take_lists(&mut self, bell: &Bell) {
        let records = self.lists.take(&self.courier, bell, TAKEN_AT_ONCE);
        let newest = records.iter().rev().find_map(|record| {
            self.courier.read_as::<GWList>(record).map(|list| (list.write(), list.gateways.len() as u64))
        });
        if let Some((list, gateways)) = newest {
            self.courier.counters().gateways.set(gateways);
            self.host.tell_list(&list);
        }
    }

    fn take_handovers(&mut self, bell: &Bell) {
        for record in self.handovers.take(&self.courier, bell, TAKEN_AT_ONCE) {
            let Some(handover) = self.courier.read_as::<Handover>(&record) else { continue };
            if handover.from == self.settings.name && handover.to != handover.from {
                self.courier.counters().handovers.add(1);
                self.host.hand_over(&handover.node, &handover.address);
            }
        }
    }

    fn take_advertisements(&mut self, bell: &Bell) {
        let mut changes = Vec::new();
        for log in &mut self.advertisements {
            for record in log.take(&self.courier, bell, TAKEN_AT_ONCE) {
                if record.payload.is_empty() {
                    continue;
                }
                let Ok(advertisement) = GroupAdvertisement::read(&record.payload) else {
                    let whose = key_of(&record).unwrap_or_default();
                    self.courier.leave_out(LeftOut::Advertisement, whose);
                    continue;
                };
                match self.members.apply(&advertisement) {
                    Ok(made) => changes.extend(made),
                    // Its node has sent another context since.
                    Err(AdvertisementRefused::Outdated) => {}
                    Err(refused) => {
                        self.courier.leave_out(refused.into(), &advertisement.definer);
                    }
                }
            }
        }
        self.set_groups(changes);
    }

    fn set_groups(&mut self, mut changes: Vec<MembershipChange>) {
        self.courier.counters().group_changes.add(changes.len() as u64);
        for change in &mut changes {
            if self.refused.remove(change.node.as_str()) {
                // Its groups at the broker are not the base of this change.
                (change.add, change.remove) = self.members.standing(&change.node);
            }
        }
        while !changes.is_empty() {
            let rest = changes.split_off(changes.len().min(AT_ONCE));
            for node in self.host.set_groups(std::mem::replace(&mut changes, rest)) {
                self.courier.leave_out(LeftOut::Groups, &node);
                self.refused.insert(node.into());
            }
        }
    }

    /// Looks for new nodes. A new node gets its groups: earlier changes found no node.
    fn look(&mut self) {
        let Some(nodes) = self.host.nodes(false) else { return };
        let nodes: HashSet<Arc<str>> = nodes.into_iter().map(|node| node.id.into()).collect();
        let come = nodes.iter().filter(|node| !self.known.contains(*node));
        // A session that is older than this process may also be in groups that its node has left.
        let groups = |node: &Arc<str>| {
            let (add, remove) = self.members.standing(node);
            (!add.is_empty() || !remove.is_empty()).then(|| MembershipChange { node: node.to_string(), add, remove })
        };
        let changes = come.filter_map(groups).collect();
        self.refused.retain(|node| nodes.contains(&**node));
        self.known = nodes;
        self.set_groups(changes);
    }

    fn work_pings(&mut self, now: Instant) {
        if let Some(round) = self.pings.close(self.since(now)) {
            let counters = self.courier.counters();
            counters.pings.add(round.pinged);
            counters.pongs.add(round.answers.len() as u64);
            counters.late_pongs.add(round.late);
            self.last_round = Some(round);
            self.next_connections = now;
        }
        if self.pings.closes_at().is_none() && self.next_ping.is_some_and(|at| at <= now) {
            self.next_ping = Some(now + self.interval);
            self.open_round(now);
        }
    }

    fn open_round(&mut self, now: Instant) {
        self.host.forget_pings();
        self.pinged_at_ms = wall_ms();
        self.round = self.pings.open(self.since(now), self.window);
        let nodes: Vec<Arc<str>> = self.known.iter().filter(|node| node.len() <= MAX_NODE_BYTES).cloned().collect();
        for part in nodes.chunks(AT_ONCE) {
            let sent = self.host.ping(part, self.window);
            for (node, at) in part.iter().zip(sent) {
                if let Some(at) = at {
                    self.pings.sent(self.since(at), node);
                }
            }
            self.take_pongs();
        }
    }

    fn report_load(&mut self) {
        let Some(load) = self.host.load() else { return };
        self.load_number += 1;
        let report = LoadReport {
            gateway: self.settings.name.clone(),
            address: self.settings.address.clone(),
            life: self.own_hello.life,
            number: self.load_number,
            period_ms: u64::try_from(self.settings.load_period.as_millis()).unwrap_or(u64::MAX),
            cpu: load.cpu,
            memory_total: load.memory_total,
            memory_available: load.memory_available,
            loop_lag_ms: load.loop_lag_ms,
            shards: load.shards,
            connections: load.connections,
            max_connections: self.settings.max_connections,
            queue_bytes: load.queue_bytes,
            draining: load.draining,
            clustered: self.settings.clustered,
        };
        self.courier.counters().load_reports.add(1);
        self.courier.tell(Topic::LoadReport, None, &self.settings.name, report.write());
    }

    fn report_connections(&mut self) {
        let Some(nodes) = self.host.nodes(true) else { return };
        self.connection_number += 1;
        self.courier.counters().connection_reports.add(1);
        let round = self.last_round.as_ref();
        let pongs: HashMap<&str, Duration> =
            round.iter().flat_map(|round| &round.answers).map(|(node, took)| (&**node, *took)).collect();
        let link = |node: HostNode| {
            let pong = pongs.get(node.id.as_str());
            let pong_us = pong.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            NodeLink { pong_us, id: node.id, transport_us: node.rtt_us }
        };
        let links = nodes.into_iter().filter(|node| node.id.len() <= MAX_NODE_BYTES).map(link);
        let mut links: Vec<NodeLink> = links.collect();
        let parts = u32::try_from(links.len().div_ceil(AT_ONCE).max(1)).unwrap_or(u32::MAX);
        for part in 0..parts {
            let rest = links.split_off(links.len().min(AT_ONCE));
            let report = ConnectionReport {
                gateway: self.settings.name.clone(),
                number: self.connection_number,
                part,
                parts,
                pinged_at_ms: round.map_or(0, |_| self.pinged_at_ms),
                window_ms: round.map_or(0, |round| u64::try_from(round.window.as_millis()).unwrap_or(u64::MAX)),
                pinged: round.map_or(0, |round| round.pinged),
                late: round.map_or(0, |round| round.late),
                nodes: std::mem::replace(&mut links, rest),
            };
            let key = format!("{}/{part}", self.settings.name);
            self.courier.tell(Topic::ConnectionReport, None, &key, report.write());
        }
    }
}
