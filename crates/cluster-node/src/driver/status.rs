//! The state of a node in its cluster: for both of its threads, and for the console.

mod links;
mod standpoint;

pub(super) use standpoint::Standpoint;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tidegate_placement::Placement;

use super::alike::{self, differing};
use super::behind::Behind;
use super::counters::Counters;
use super::inquiry::{Inquiries, write_served};
use super::shown::{lease_ms, load_of, weight_used};
use super::work::ahead::MovesToHere;
use super::work::inheriting::Inheriting;
use super::work::receiving::SharedReceiving;

use serde_json::{Value, json};
use tidegate_administration::{AHEAD, ClusterPart, FORMER_LIFE, INHERITED, Part, SERVED_QUESTION};
use tidegate_cluster::{PartitionDifference, Table};
use tidegate_console::{ClusterNumbers, Status};
use tidegate_engine::{Millis, PARTITIONS, PartitionId, Partitions};
use tidegate_node::NodeHandle;

/// The table that shards follow.
#[derive(Clone, Copy, Debug, Default)]
struct InForce {
    life: u64,
    epoch: u64,
    served: Partitions,
}

#[derive(Debug, Default)]
struct State {
    /// Until when this life is a member.
    lease: Option<(u64, Instant)>,
    in_force: InForce,
    standpoint: Standpoint,
    behind: Behind,
    /// The difference at the last look at the served partitions.
    watched: PartitionDifference,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeKind {
    /// Its messages cross by brokers.
    pub(super) is_orchestrator: bool,
    /// It is an orchestrator that exchanges messages on topics of addresses with others over links.
    pub(super) exchanges_addresses: bool,
}

/// State that both threads and the console share.
pub(super) struct Shared {
    name: String,
    node: NodeHandle,
    /// How long a node may be silent, as it is set here.
    lease: Duration,
    /// Whether messages cross by brokers, and not by links.
    pub(super) is_orchestrator: bool,
    /// Whether it is an orchestrator that exchanges messages on topics of addresses with others over links.
    pub(super) exchanges_addresses: bool,
    /// How long clients wait for the bus, milliseconds.
    pub(super) patience_ms: u64,
    pub(super) counters: Counters,
    pub(super) receiving: SharedReceiving,
    /// Messages of the brokers of dead orchestrators, which other members pass on.
    pub(super) inheriting: Inheriting,
    pub(super) moves_to_here: MovesToHere,
    pub(super) inquiries: Inquiries,
    /// The checksums of sections that all members have alike.
    pub(super) alike: alike::OwnChecksums,
    state: Mutex<State>,
    /// Whether the node is to have a share of the partitions.
    wants_share: AtomicBool,
    /// Whether the process ends, and so hands over all partitions whatever is wanted.
    ends: AtomicBool,
    /// Whether connections to brokers wait for the end of the last life's connections.
    waits_for_brokers: AtomicBool,
    /// See [`Shared::prepares_until`].
    prepares_until: OnceLock<Instant>,
    /// The life in which the node has had links to all homes.
    linked_life: AtomicU64,
    /// Whether nothing has hindered the node once.
    was_ready: AtomicBool,
    /// Why the process ends: it has served the wrong partitions for too long, or its tenants have other numbers.
    astray: OnceLock<String>,
}

impl State {
    /// Whether the node is a member for certain now.
    fn has_lease(&self) -> bool {
        self.lease.is_some_and(|(_, until)| until > Instant::now())
    }
}

impl Shared {
    pub(super) fn new(name: &str, node: NodeHandle, lease: Duration, patience: Duration, kind: NodeKind) -> Self {
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let (name, counters, state, was_ready) = (name.to_owned(), Counters::default(), Mutex::default(), false.into());
        let receiving = SharedReceiving::default();
        Self {
            name,
            node,
            lease,
            is_orchestrator: kind.is_orchestrator,
            exchanges_addresses: kind.exchanges_addresses,
            patience_ms,
            counters,
            receiving,
            inheriting: Inheriting::default(),
            moves_to_here: MovesToHere::default(),
            inquiries: Inquiries::default(),
            alike: alike::OwnChecksums::default(),
            state,
            wants_share: true.into(),
            ends: false.into(),
            waits_for_brokers: kind.is_orchestrator.into(),
            prepares_until: OnceLock::new(),
            linked_life: AtomicU64::new(u64::MAX),
            was_ready,
            astray: OnceLock::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An instant on the clock of the node's shards.
    pub(super) fn on_node_clock(&self, until: Instant) -> Millis {
        let left = until.saturating_duration_since(Instant::now());
        self.node.now().monotonic.plus(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// A life is a member until then, without a break since its lease began; shards that follow a table of this life
    /// are notified. Shards whose lease has ended meanwhile serve again: no other node can have taken its place.
    pub(super) fn renew(&self, life: u64, until: Instant) {
        let mut state = self.state();
        if state.lease == Some((life, until)) {
            return;
        }
        state.lease = Some((life, until));
        if state.in_force.life == life {
            self.node.renew_lease(self.on_node_clock(until));
        }
    }

    /// The membership was lost.
    pub(super) fn lapse(&self) {
        self.counters.lapses.fetch_add(1, Ordering::Relaxed);
        self.state().lease = None;
    }

    /// The lease of a life, while it has one.
    pub(super) fn lease_of(&self, life: u64) -> Option<Instant> {
        self.state().lease.filter(|(of, _)| *of == life).map(|(_, until)| until)
    }

    /// Shards follow a table on behalf of a life.
    pub(super) fn note_in_force(&self, life: u64, epoch: u64, served: Partitions) {
        let mut state = self.state();
        state.in_force = InForce { life, epoch, served };
        state.behind.note_in_force((life, epoch));
    }

    pub(super) fn set_standpoint(&self, standpoint: Standpoint) {
        let mut state = self.state();
        state.behind.note_newest((standpoint.life, standpoint.table.epoch), Instant::now());
        state.standpoint = standpoint;
    }

    /// The partitions that the node should serve: the table, and whether it is of this life, which has a lease. A life
    /// that waits for its first table has nothing to serve, and another one would wait as well.
    pub(super) fn meant(&self) -> (Table, bool) {
        let state = self.state();
        (state.standpoint.table.clone(), state.standpoint.member && state.has_lease())
    }

    pub(super) fn set_watched(&self, difference: PartitionDifference) {
        self.state().watched = difference;
    }

    /// The process ends for this. Says whether it was not said before.
    pub(super) fn ends_for(&self, why: String) -> bool {
        self.astray.set(why).is_ok()
    }

    /// Why the process ends on its own account, if it does.
    pub(super) fn astray(&self) -> Option<&str> {
        self.astray.get().map(String::as_str)
    }

    /// Whether the node takes no partitions and hands over its partitions; whether it stays a member meanwhile; and whether
    /// it takes none as long as another one does, since its connections to brokers wait. An orchestrator that begins does
    /// not know yet whether other members work off its last life's connections.
    pub(super) fn leaves(&self) -> (bool, bool, bool) {
        let (wants_share, ends) = (self.wants_share.load(Ordering::Relaxed), self.ends.load(Ordering::Relaxed));
        (ends || !wants_share, !ends && !wants_share, self.waits_for_brokers.load(Ordering::Relaxed))
    }

    /// All brokers may be connected to.
    pub(super) fn note_brokers_released(&self) {
        self.waits_for_brokers.store(false, Ordering::Relaxed);
    }

    /// Sets whether the node is to have a share of the partitions.
    pub(super) fn want_share(&self, wanted: bool) {
        self.wants_share.store(wanted, Ordering::Relaxed);
    }

    /// The process ends: it takes no share from now on.
    pub(super) fn begin_to_end(&self, limit: Duration) {
        // The other half is for the moves themselves.
        let _ = self.prepares_until.set(Instant::now() + limit / 2);
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Until when moves may be prepared, where the process ends.
    pub(super) fn prepares_until(&self) -> Option<Instant> {
        self.prepares_until.get().copied()
    }

    /// Whether a move that has begun here with this life and epoch is over, as far as the node knows.
    pub(super) fn has_called_off(&self, begun: (u64, u64), id: u64) -> bool {
        self.state().standpoint.has_called_off(begun, id)
    }

    /// Whether the process ends.
    pub(super) fn is_ending(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    pub(super) fn node(&self) -> &NodeHandle {
        &self.node
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The life of the node that is a member, or wants to be.
    pub(super) fn life(&self) -> u64 {
        self.state().standpoint.life
    }

    /// How long a node may be silent.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// How many partitions are served here.
    pub(super) fn served(&self) -> usize {
        self.state().in_force.served.iter().count()
    }

    /// Whether nothing is worked here any more that another node would take.
    pub(super) fn has_nothing_to_hand_over(&self) -> bool {
        self.state().standpoint.has_handed_over(&self.name, self.counters.passes())
    }

    /// Whether this node is a member and the table gives it no partition.
    pub(super) fn serves_nothing(&self) -> bool {
        let state = self.state();
        state.standpoint.member && state.standpoint.table.of(&self.name).is_empty()
    }

    /// Why the node is not ready, if it is not. Before it is ready for the first time, all partitions have to be served
    /// somewhere; later on it stays ready while some move, or are taken over from a node that died, since the clients
    /// of all others are served.
    pub(super) fn block_reason(&self) -> Option<String> {
        let block_reason =
            self.own_block_reason().or_else(|| self.link_block_reason()).or_else(|| self.reach_block_reason());
        let unsettled = || (!self.was_ready.load(Ordering::Relaxed)).then(|| self.unsettled()).flatten();
        let block_reason = block_reason.or_else(unsettled);
        self.was_ready.fetch_or(block_reason.is_none(), Ordering::Relaxed);
        block_reason
    }

    fn unsettled(&self) -> Option<String> {
        let state = self.state();
        let (table, served) = (&state.standpoint.table, state.in_force.served);
        let is_served = |partition: u16| {
            let here = table.home(partition).is_some_and(|home| home.node == self.name);
            table.is_settled(partition) && (!here || served.has(PartitionId(partition)))
        };
        let count = (0..PARTITIONS).filter(|partition| !is_served(*partition)).count();
        (count > 0).then(|| {
            format!("{count} of {PARTITIONS} partitions are not served by any node yet: they move, or are fetched")
        })
    }

    fn own_block_reason(&self) -> Option<String> {
        let state = self.state();
        if !state.standpoint.bus && !state.has_lease() {
            return Some("it is no member of its cluster, whose bus is away".to_owned());
        }
        if !state.standpoint.member || !state.has_lease() {
            return Some("it is no member of its cluster".to_owned());
        }
        if !state.behind.can_serve(self.was_ready.load(Ordering::Relaxed), Instant::now()) {
            return Some("it has yet to follow the table of its cluster".to_owned());
        }
        state.watched.lasts.then(|| describe(&state.watched))
    }
}

/// The partitions that a node serves and should not, or the other way round.
pub(super) fn describe(difference: &PartitionDifference) -> String {
    format!(
        "it does not serve {} partitions that the table of its cluster gives it, and serves {} that the table does not give it",
        difference.missing, difference.excess
    )
}

/// Answers for a node of a cluster.
#[derive(Clone)]
pub struct ClusterApi(pub(super) Arc<Shared>);

impl std::fmt::Debug for ClusterApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterApi").finish_non_exhaustive()
    }
}

impl ClusterApi {
    /// The work of this node: that of the partitions that it serves, as long as it is a member for certain.
    pub fn placement(&self) -> Placement {
        let shared = Arc::clone(&self.0);
        Placement::of(move |partition| {
            let state = shared.state();
            state.has_lease() && state.in_force.served.has(partition)
        })
    }

    /// The counters.
    fn numbers(&self) -> ClusterNumbers {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.0.counters;
        let links = self.0.node.cluster();
        let state = self.0.state();
        ClusterNumbers {
            member: state.standpoint.member && state.has_lease(),
            astray: if state.watched.lasts { (state.watched.missing + state.watched.excess) as u64 } else { 0 },
            leads: state.standpoint.leads,
            bus_connected: state.standpoint.bus,
            epoch: state.standpoint.table.epoch,
            nodes: state.standpoint.table.lives.len() as u64,
            weight: weight_used(&self.0.name, &state.standpoint.table, &state.standpoint.adverts),
            served: state.in_force.served.iter().count() as u64,
            moved_out: of(&counters.moved_out),
            moved_in: of(&counters.moved_in),
            failed: of(&counters.failed),
            mismatches: of(&counters.mismatches),
            taken_anew: of(&counters.taken_anew),
            lapses: of(&counters.lapses),
            indirect_links: links.peers.iter().filter(|peer| peer.through.is_some()).count() as u64,
            indirect_links_begun: links.total.indirect,
            carried_bytes: links.total.carried_bytes,
            restoring: of(&counters.restoring),
            restored: of(&counters.restored),
            failovers: of(&counters.failovers),
            failover_ms: of(&counters.failover_ms),
        }
    }
}

impl Part for ClusterApi {
    fn block_reason(&self) -> Option<String> {
        self.0.block_reason()
    }

    fn add_to(&self, status: &mut Status) {
        status.cluster = Some(self.numbers());
    }
}

impl ClusterPart for ClusterApi {
    fn take_piece(&self, from: &str, question: &[u8]) -> Vec<u8> {
        if question.first() == Some(&SERVED_QUESTION) {
            return write_served(if self.0.state().has_lease() { self.0.served() } else { 0 });
        }
        let InForce { epoch, served, .. } = self.0.state().in_force;
        match question.first() {
            Some(&FORMER_LIFE) => self.0.inheriting.answer_former_life(from, question, epoch),
            Some(&INHERITED) => {
                let moved_from = |of: &str| self.0.receiving.of_dead(of);
                self.0.inheriting.take(&self.0.node, &moved_from, from, question, served)
            }
            Some(&AHEAD) => self.0.moves_to_here.take(&self.0.node, from, question),
            _ => self.0.receiving.take(&self.0.node, &self.0.inheriting, from, question, served),
        }
    }

    fn want_share(&self, wanted: bool) {
        tracing::info!(wanted, "this node was asked to take a share of the partitions, or to hand over its own");
        self.0.want_share(wanted);
    }

    fn view(&self) -> Value {
        let standpoint = self.0.state().standpoint.clone();
        let Standpoint { member, leads, life, leaving, table, adverts, bus, leases, heard, unmeasured, .. } =
            standpoint;
        let in_force = self.0.state().in_force;
        let numbers = self.numbers();
        let (links, alike) = (self.0.node.cluster(), self.0.alike.get());
        let nodes = table.lives.iter().map(|(name, life)| {
            let advert = adverts.get(name);
            let link = links.peers.iter().find(|peer| peer.name.as_str() == name);
            json!({
                "name": name,
                "life": life.to_string(),
                "partitions": table.of(name).len(),
                "weight": advert.map(|advert| advert.weight),
                "factor": f64::from(table.factors.get(name).copied().unwrap_or_default().0) / 1_000.0,
                "load": heard.get(name).map(load_of),
                "leaving": advert.is_some_and(|advert| advert.leaving),
                "cluster": advert.map(|advert| &advert.addresses.cluster),
                "mqtt": advert.map(|advert| &advert.addresses.mqtt),
                "admin": advert.map(|advert| &advert.addresses.admin),
                "lease_ms": leases.get(name).map(lease_ms),
                "differs": advert.map(|advert| differing(&alike, &advert.alike)),
                "link": link.map(|link| link.state.label()),
                "link_through": link.and_then(|link| link.through.as_ref()).map(ToString::to_string),
                "link_failure": link.and_then(|link| link.last_failure.clone()),
            })
        });
        let homes = table.homes.iter().map(|home| home.map(|home| &home.node));
        let moves = table.open_moves().map(|it| json!({ "from": it.from, "to": it.to, "partitions": it.partitions }));
        json!({
            "name": self.0.name,
            "life": life.to_string(),
            "member": member,
            "leads": leads,
            "leaving": leaving,
            "passing": self.0.counters.passing.load(Ordering::Relaxed),
            "bus_connected": bus,
            "epoch": table.epoch,
            "epoch_in_force": in_force.epoch,
            "served": in_force.served.iter().count(),
            "lease_ms": lease_ms(&self.0.lease),
            "leases_differ": leases.values().any(|lease| *lease != self.0.lease),
            "nodes": nodes.collect::<Vec<_>>(),
            "homes": homes.collect::<Vec<_>>(),
            "moves": moves.collect::<Vec<_>>(),
            "unmeasured": unmeasured,
            "moved_out": numbers.moved_out,
            "moved_in": numbers.moved_in,
            "moves_failed": numbers.failed,
            "owed_mismatches": numbers.mismatches,
            "taken_anew": numbers.taken_anew,
            "restoring": numbers.restoring,
            "restored": numbers.restored,
            "failovers": numbers.failovers,
            "failover_ms": numbers.failover_ms,
            "memberships_lost": numbers.lapses,
            "astray": numbers.astray,
        })
    }
}
