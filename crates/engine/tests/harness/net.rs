//! The shell of a process without a system: sockets, links between shards, the store, the clock, and who is next.

mod ahead;
mod behind;
pub(crate) mod continuing;
pub(crate) mod crash;
mod events;
mod fleet;
mod journal;
pub(crate) mod moves;
pub(crate) mod nodes;
mod socket;
mod steps;
mod tables;
mod takeover;
mod trace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_engine::{
    Batch, BrokerLinkOptions, ConnectionKey, Counters, DialAttempt, Engine, LoadedQueue, LogEvent, Millis, Now,
    ObservedMessage, ObserverId, Reason, Settings, ShardId, WantedQueue,
};
use tidegate_mqtt::ReasonCode;

use self::events::Asked;
use self::nodes::Nodes;
use self::socket::Socket;
pub(crate) use self::socket::SocketId;
pub(crate) use self::steps::{Schedule, Step};
use self::trace::Trace;
use super::broker::FakeBroker;
use super::store::Store;

/// Everything beside the engines' own state.
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(crate) struct Net {
    pub settings: Arc<Settings>,
    pub engines: Vec<Engine>,
    pub store: Store,
    /// Counters of engines that have ended.
    pub past: Counters,
    /// Connections of clients that were broken by crashes.
    pub broken: u64,
    /// Crashes so far.
    pub crashes: u64,
    /// It is a member of a cluster: a process that begins serves nothing before it has a table.
    pub is_member: bool,
    pub now: Now,
    pub nodes: Nodes,
    /// The table that each node has read last.
    read: Vec<nodes::Table>,
    /// Tables that nodes have yet to read.
    unread: BTreeMap<usize, tables::Unread>,
    /// The move that is under way, and how many there were.
    pub moving: Option<moves::Move>,
    pub moves: u64,
    /// Messages that the last images of a move have waited for: they went ahead of these.
    pub awaited_by_images: usize,
    /// The number up to which the queue of a session has gone ahead, by the move and the session in its store.
    pub sent_ahead: BTreeMap<(u64, u64), u64>,
    /// The node that hands over all its partitions, and gets none.
    pub leaving: Option<usize>,
    pub sockets: Vec<Socket>,
    /// Sockets whose server's end is not gone.
    live: BTreeSet<SocketId>,
    by_key: Vec<BTreeMap<ConnectionKey, SocketId>>,
    /// The batches for each shard with their senders, in the order in which they were sent.
    inboxes: Vec<VecDeque<(usize, Batch)>>,
    /// True if a shard takes its batches in that order. Otherwise only the order of each sender holds, which is less
    /// than the shell promises.
    causal: bool,
    /// Shards that have done something since they took their batches.
    unshipped: Vec<bool>,
    /// Shards that are taking their batches, each with the receiver of the next one.
    shipping: Vec<Option<usize>>,
    pub held: BTreeSet<(usize, usize)>,
    /// Batches for other nodes that wait for the store, and how much of it.
    behind: behind::Behind,
    /// Shards of members in other worlds, and the batches for them.
    pub peers: Vec<ShardId>,
    pub for_peers: BTreeMap<ShardId, VecDeque<(u64, Batch)>>,
    schedule: Schedule,
    /// Whether a shard does other work between two pieces of a batch.
    pub interrupts_batches: bool,
    /// How often it did.
    pub pieces_interrupted: u64,
    pub log: Vec<LogEvent>,
    pub asked: VecDeque<Asked>,
    /// Parts of queues that are wanted from the store, and by which shard.
    pub reading: VecDeque<(usize, WantedQueue)>,
    /// Queues that the store has read for them.
    pub brought: VecDeque<(usize, LoadedQueue)>,
    /// Messages that were read from the store for queues.
    pub read_messages: usize,
    /// Answers to challenges, by shard and connection.
    pub challenged: VecDeque<(usize, ConnectionKey, Vec<u8>)>,
    /// The brokers of a fleet.
    pub brokers: BTreeMap<String, FakeBroker>,
    /// The configured brokers.
    pub configured: BTreeMap<String, BrokerLinkOptions>,
    /// Brokers that are to be dialed.
    pub dialing: VecDeque<(usize, String, DialAttempt)>,
    /// Clients whose home is elsewhere.
    pub relaying: Vec<(usize, ConnectionKey, u16)>,
    /// Images of connections that other nodes have brought, by shard and connection.
    pub continuing: Vec<(usize, ConnectionKey, Vec<u8>)>,
    /// Whether sockets stay when the homes of their clients move.
    pub sockets_stay: bool,
    /// Connections that have continued at a new home.
    pub continued: u64,
    /// Clients that have acknowledged a ping.
    pub pongs: Vec<String>,
    pub records: Vec<(usize, ObservedMessage)>,
    pub reports: Vec<(usize, ObservedMessage)>,
    pub observed: Vec<(usize, ObserverId, ObservedMessage)>,
    pub published: Vec<(u64, Result<ReasonCode, Reason>)>,
    pub trace: Trace,
    /// Steps of the trace when the engines' books were looked at last.
    audited: u64,
    next_acceptor: usize,
}

impl Drop for Net {
    /// A test that fails tells how it came there.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.trace.show();
        }
    }
}

impl Net {
    pub(crate) fn new(nodes: &Nodes, settings: Settings, schedule: Schedule, causal: bool, title: String) -> Self {
        let settings = Arc::new(settings);
        let now = Now { monotonic: Millis(1_000_000), unix: 1_700_000_000_000 };
        let engine = |at: u16| {
            let settings = nodes.settings_of(usize::from(at), &settings);
            let mut engine = Engine::new(settings, nodes.place(at), 7 + u64::from(at), now);
            events::open_windows(&mut engine, now);
            engine
        };
        let count = usize::from(nodes.engines());
        let mut engines: Vec<Engine> = (0..nodes.engines()).map(engine).collect();
        let read = vec![nodes.newest(); usize::from(nodes.count())];
        nodes.introduce(&read, &mut engines, now);
        let mut net = Self {
            settings,
            nodes: *nodes,
            read,
            unread: BTreeMap::new(),
            moving: None,
            awaited_by_images: 0,
            sent_ahead: BTreeMap::new(),
            moves: 0,
            leaving: None,
            engines,
            store: Store::default(),
            past: Counters::default(),
            broken: 0,
            crashes: 0,
            is_member: false,
            now,
            sockets: Vec::new(),
            live: BTreeSet::new(),
            by_key: vec![BTreeMap::new(); count],
            inboxes: (0..count).map(|_| VecDeque::new()).collect(),
            causal,
            unshipped: vec![false; count],
            shipping: vec![None; count],
            held: BTreeSet::new(),
            behind: behind::Behind::default(),
            peers: Vec::new(),
            for_peers: BTreeMap::new(),
            schedule,
            interrupts_batches: false,
            pieces_interrupted: 0,
            log: Vec::new(),
            asked: VecDeque::new(),
            reading: VecDeque::new(),
            brought: VecDeque::new(),
            read_messages: 0,
            challenged: VecDeque::new(),
            brokers: BTreeMap::new(),
            configured: BTreeMap::new(),
            dialing: VecDeque::new(),
            relaying: Vec::new(),
            continuing: Vec::new(),
            sockets_stay: false,
            continued: 0,
            pongs: Vec::new(),
            records: Vec::new(),
            reports: Vec::new(),
            observed: Vec::new(),
            published: Vec::new(),
            trace: Trace::new(title),
            audited: 0,
            next_acceptor: 0,
        };
        (0..count).for_each(|shard| net.gather(shard));
        net
    }

    /// Moves the clock without letting anything happen.
    pub(crate) fn move_clock(&mut self, milliseconds: u64) {
        self.now.monotonic = self.now.monotonic.plus(milliseconds);
        self.now.unix += milliseconds;
    }

    /// The earliest deadline of any shard.
    pub(crate) fn next_deadline(&self) -> Millis {
        self.engines
            .iter()
            .map(|engine| engine.next_deadline().min(engine.questions().next_silence()))
            .min()
            .unwrap_or(Millis::NEVER)
            .min(self.store.next_due())
    }

    /// Batches under way on all links.
    pub(crate) fn batches_under_way(&self) -> usize {
        self.inboxes.iter().map(VecDeque::len).sum()
    }
}
