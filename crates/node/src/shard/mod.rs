//! A shard: one thread with one engine, its sockets and its inbox.

mod accepting;
mod ahead;
mod answers;
mod carrying;
mod close;
mod connections;
mod credential;
#[cfg(feature = "quic")]
mod datagrams;
#[cfg(not(feature = "quic"))]
#[path = "datagrams_absent.rs"]
mod datagrams;
mod dismissing;
mod facets;
mod fleet;
mod gate;
mod heard;
mod leaving;
mod moving;
mod nodes;
mod passing;
mod pieces;
mod presets;
mod relaying;
mod services;
mod steps;
mod storing;
mod strangers;
mod table;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::Sender;
use std::time::Duration;

use mio::{Events, Poll, Token};
use tidegate_engine::{Accepted, ConnectionKey, Engine, Millis, Now, Reason, Roster, Settings, ShardId, ShardPosition};

use crate::access::AccessFactory;
use crate::admission::{Admission, LoopLag};
use crate::broker_link::Dialer;
use crate::clock::{Clock, time_until};
use crate::cluster::LinksSender;
use crate::durable::{RestoreSeed, ShardJournal, take_in};
use crate::flight::{FlightSettings, Recorder};
use crate::limits::{EVENTS_PER_TURN, READ_BUFFER_BYTES};
use crate::listener::Acceptor;
use crate::listener::preset::Presets;
use crate::memory::TrimPolicy;
use crate::moves::Committing;
use crate::observer::Observer;
use crate::orders::{ShardInbox, ShardSender};
use crate::quic::QuicEndpoint;
use crate::relay::{NodeHomes, Relays, Ways};
use crate::report::ShellCounters;
use crate::secret::Secret;
use crate::service::Services;
use crate::shard::datagrams::QuicState;
use crate::shard::gate::Gate;
use crate::shard::heard::Heard;
use crate::shard::nodes::ClusterShard;
use crate::shard::strangers::Strangers;
use crate::shard::table::Table;
use crate::shortage::{Reserve, Shortage};
use crate::tls::TlsListeners;
use crate::tokens::RESERVED_INDEX;

/// The token of a shard's waker.
pub(crate) const WAKER: Token = Token(RESERVED_INDEX as usize);

/// The token of the poller of the links to other nodes, where the shard works them.
pub(crate) const LINKS: Token = Token(u32::MAX as usize);

/// The token of a shard's listener.
pub(crate) fn listener_token(position: usize) -> Token {
    Token(RESERVED_INDEX as usize + 1 + position)
}

/// State shared by all shards of a node.
pub(crate) struct Shared {
    /// Connections at once: the configured limit, or the limit of open files less its reserve.
    pub max_connections: u32,
    /// Number of connections over all shards, including connections in transit between two.
    pub connections: Arc<AtomicU32>,
    /// The TLS listeners.
    pub tls: Arc<TlsListeners>,
    /// The names of all listeners, by their numbers.
    pub listener_names: Box<[Box<str>]>,
    pub observer: Arc<dyn Observer>,
    /// Whether the observer decides about clients; otherwise every client that is not banned is admitted.
    pub asks_outside: bool,
    /// Determines facts about a client before its CONNECT.
    pub presets: Option<Presets>,
    /// The secret of the cluster, in one.
    pub cluster_secret: Option<Secret>,
    pub admission: Arc<Admission>,
    pub flight: FlightSettings,
    /// Connects to the brokers of a fleet.
    pub dialer: Arc<Dialer>,
}

/// The parts that a shard's thread is started with. The engine is created there and never leaves its thread.
pub(crate) struct ShardSeed {
    pub place: ShardPosition,
    pub clock: Clock,
    pub settings: Arc<Settings>,
    pub seed: u64,
    pub poll: Poll,
    pub inbox: ShardInbox,
    /// The inboxes of all shards, by their number.
    pub inboxes: Vec<ShardSender>,
    pub acceptors: Vec<Acceptor>,
    /// Its sockets for QUIC.
    pub quic: Vec<QuicEndpoint>,
    pub shared: Arc<Shared>,
    pub access: Option<AccessFactory>,
    /// Which partitions are served from the start.
    pub homes: Option<Arc<NodeHomes>>,
    /// The links to other nodes, where it is in a cluster.
    pub links: Option<LinksSender>,
    /// Its part in restoring the store, if there is one.
    pub restore: Option<RestoreSeed>,
}

/// A shard on its thread.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(crate) struct Shard {
    pub(crate) place: ShardPosition,
    pub(crate) clock: Clock,
    /// The time of this turn.
    pub(crate) now: Now,
    /// By when all input was taken that had arrived.
    pub(crate) heard: Heard,
    pub(crate) engine: Engine,
    pub(crate) poll: Poll,
    pub(crate) table: Table,
    /// The common read buffer of all connections.
    pub(crate) buffer: Box<[u8]>,
    /// Bytes that may still be read in this turn.
    pub(crate) read_budget: usize,
    /// Readable sockets that wait for their turn.
    pub(crate) ring: VecDeque<ConnectionKey>,
    /// Connections to be written in this or the next turn.
    pub(crate) dirty: Vec<ConnectionKey>,
    /// An empty list that is swapped with `dirty`, so that neither is allocated again.
    pub(crate) spare: Vec<ConnectionKey>,
    /// Connections that the engine has ended in this turn.
    pub(crate) ended: Vec<(ConnectionKey, Reason)>,
    /// Closing connections whose output must have left by then, in order of time.
    pub(crate) flushing: VecDeque<(Millis, ConnectionKey)>,
    /// Connections closed by us that are drained until then, in order of time.
    pub(crate) lingering: VecDeque<(Millis, ConnectionKey)>,
    /// Clients whose home is another orchestrator.
    pub(crate) relays: Relays,
    /// Clients that are to leave for another home, and have something under way.
    pub(crate) leaving: Vec<ConnectionKey>,
    /// The node stops, and hands its partitions over: clients with their sockets here are disconnected when their new
    /// homes serve them.
    pub(crate) hands_over: bool,
    /// Where other nodes take relayed clients.
    pub(crate) ways: Ways,
    /// Answers that wait for a commit.
    pub(crate) committing: Vec<Committing>,
    pub(crate) inbox: ShardInbox,
    pub(crate) inboxes: Vec<ShardSender>,
    pub(crate) acceptors: Vec<Acceptor>,
    pub(crate) quic: QuicState,
    pub(crate) reserve: Reserve,
    pub(crate) shortage: Shortage,
    pub(crate) full: Shortage,
    /// Connections that were accepted here and may not have sent a CONNECT.
    pub(crate) strangers: Strangers,
    /// Transports that ended by themselves before there was a client: a failed handshake, a header that is not right.
    pub(crate) unfit: Shortage,
    /// Connections refused at accept, for the log.
    pub(crate) refusing: Shortage,
    /// Overload, for the log.
    pub(crate) overloaded: Shortage,
    pub(crate) gate: Gate,
    /// The outcome for the client whose CONNECT is being processed.
    pub(crate) admitting: Option<Accepted>,
    pub(crate) lag: LoopLag,
    pub(crate) flight: Recorder,
    pub(crate) trim_policy: TrimPolicy,
    pub(crate) counters: ShellCounters,
    pub(crate) shared: Arc<Shared>,
    pub(crate) stage: Stage,
    /// Its writer to the store, if there is one.
    pub(crate) journal: Option<ShardJournal>,
    /// Its state of the other nodes of its cluster, if it is in one.
    pub(crate) cluster: Option<Box<ClusterShard>>,
    /// Whether the store takes no more.
    pub(crate) store_full: bool,
    /// Whether so much waits to be committed that clients are not read.
    pub(crate) stalled: bool,
    /// Whether connections are accepted.
    pub(crate) serving: bool,
    /// The subscriptions of services within the process.
    pub(crate) services: Services,
    /// The receiver that waits until the other shards know the restored state of this one.
    pub(crate) settled: Option<Sender<ShardId>>,
}

/// The stage of a shard's life.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It serves.
    Running,
    /// It closes its clients and reports here when the last one has disconnected.
    Draining(Sender<ShardId>),
    /// All have disconnected; other shards may still send messages caused by that.
    Drained,
    /// It leaves the loop.
    Exiting,
}

impl Shard {
    /// Builds a shard on its own thread.
    pub(crate) fn new(seed: ShardSeed, serving: bool) -> Self {
        let now = seed.clock.now();
        let durability = seed.settings.durability;
        let alone = || Roster::alone(seed.place);
        let cluster = seed.links.map(|links| Box::new(ClusterShard::new(links, alone(), durability)));
        let mut engine = Engine::new(seed.settings, seed.place, seed.seed, now);
        // Before the first connection, so that none is admitted without rules.
        if let Some(access) = seed.access {
            engine.control().set_access(Some(access.make(seed.place.shard)));
        }
        let mut shard = Self {
            place: seed.place,
            clock: seed.clock,
            now,
            heard: Heard::new(now.monotonic),
            engine,
            poll: seed.poll,
            table: Table::default(),
            buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
            read_budget: 0,
            ring: VecDeque::new(),
            dirty: Vec::new(),
            spare: Vec::new(),
            ended: Vec::new(),
            flushing: VecDeque::new(),
            lingering: VecDeque::new(),
            relays: Relays::default(),
            leaving: Vec::new(),
            hands_over: false,
            ways: Ways::default(),
            committing: Vec::new(),
            inbox: seed.inbox,
            inboxes: seed.inboxes,
            acceptors: seed.acceptors,
            quic: QuicState::new(seed.quic),
            reserve: Reserve::new(),
            shortage: Shortage::default(),
            full: Shortage::default(),
            strangers: Strangers::default(),
            unfit: Shortage::default(),
            refusing: Shortage::default(),
            overloaded: Shortage::default(),
            gate: Gate::default(),
            admitting: None,
            lag: LoopLag::new(now.monotonic),
            flight: Recorder::new(seed.shared.flight),
            trim_policy: TrimPolicy::default(),
            counters: ShellCounters::default(),
            shared: seed.shared,
            stage: Stage::Running,
            journal: None,
            cluster,
            store_full: false,
            stalled: false,
            serving,
            services: Services::default(),
            settled: None,
        };
        if let Some(homes) = seed.homes {
            shard.relaying().set_homes(Some(&homes));
        }
        shard
    }

    /// Restores its part of a store, if there is one, then serves until the exit order.
    pub(crate) fn run(mut self, restore: Option<RestoreSeed>) {
        if let Some(seed) = restore {
            if !take_in(&mut self.engine, self.now, self.place.shard, &seed) {
                return;
            }
            self.settled = Some(seed.settled);
            self.send_batches();
            self.storing().tell_settled();
        }
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        while !matches!(self.stage, Stage::Exiting) {
            let timeout = self.timeout();
            // The clock was read at the end of the turn before, which is early enough.
            let asked = self.lag.ended();
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => self.heard.note_poll(asked, events.iter().count() < EVENTS_PER_TURN),
                // A signal such as SIGCONT is not an event.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Impossible for a valid poller. The turn below still serves sockets known to be ready.
                Err(error) => tracing::error!(shard = self.place.shard.0, %error, "polling failed"),
            }
            self.inbox.awake();
            self.turn(&events);
            self.admission().note_turn();
        }
        self.sockets().close_all();
    }

    /// How long to wait for events: not at all while there is work, without end when only an event can cause some. Once
    /// this is not zero, a sender of the inbox wakes the shard.
    fn timeout(&mut self) -> Option<Duration> {
        let deadline = self.deadline();
        let busy = (!self.ring.is_empty() && !self.stalled)
            || !self.dirty.is_empty()
            || !self.relays.ring.is_empty()
            || self.engine.outputs().in_line() > 0
            || self.accepting().wants_to_accept()
            || self.quic.is_busy(self.serving)
            || deadline <= self.now.monotonic;
        if busy {
            return Some(Duration::ZERO);
        }
        let deadline = deadline.min(self.peering().rest_links());
        if deadline <= self.now.monotonic || !self.inbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        time_until(deadline, self.now.monotonic)
    }

    /// The next deadline.
    fn deadline(&self) -> Millis {
        let front = |queue: &VecDeque<(Millis, ConnectionKey)>| queue.front().map_or(Millis::NEVER, |(at, _)| *at);
        self.engine
            .next_deadline()
            .min(self.engine.questions().next_silence())
            .min(front(&self.flushing))
            .min(front(&self.lingering))
            .min(self.shortage.deadline())
            .min(self.trim_policy.deadline())
            .min(self.relays.next_deadline())
            .min(self.quic.deadline())
            .min(self.engine.questions().lease_deadline())
    }
}
