//! The shell of a process without a system: sockets, links between shards, the store, the clock, and who is next.

mod behind;
pub(crate) mod crash;
mod fleet;
pub(crate) mod moves;
pub(crate) mod nodes;
mod tables;
mod takeover;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

use tidegate_engine::{
    ApplicationMessage, AuthRequest, Batch, ConnectionKey, Counters, DialAttempt, Engine, Event, ListenerId,
    LoadedQueue, LogEvent, Millis, Now, Preset, Reason, Settings, UplinkOptions, Verdict, WantedQueue,
};

use self::nodes::Nodes;
use super::broker::FakeBroker;
use super::side::Side;
use super::store::Store;
use super::{Connecting, Random};

/// A socket by its number; numbers are not used again.
pub(crate) type SocketId = usize;

/// In which order things happen.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// As in the shell: each shard takes its turn and works off everything that waits.
    InTurn,
    /// Whatever can happen next happens in an order that the seed decides, and reads and writes are cut anywhere.
    Seeded(Random),
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Timers(usize),
    Deliver { from: usize, to: usize },
    Adopt(SocketId),
    ReadStore,
    Bring,
    Ship(usize),
    Dial,
    Read(SocketId),
    Write(SocketId),
    Finish(SocketId),
    Commit,
}

/// Where the server's end of a socket is.
#[derive(Debug)]
enum Stand {
    At { shard: usize, key: ConnectionKey },
    Moving { home: usize, bytes: Vec<u8> },
    Gone,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(crate) struct Socket {
    pub side: Side,
    /// The broker at the other end, where the engine is the client.
    pub broker: Option<String>,
    stand: Stand,
    listener: ListenerId,
    preset: Preset,
    /// Bytes that the client has sent and the server has not read.
    upstream: VecDeque<u8>,
    /// The client has closed its end: the server sees it behind `upstream`.
    hung_up: bool,
    /// The engine was told so; it may end the connection later.
    end_told: bool,
    /// The server was asked not to read.
    pub paused: bool,
    /// Bytes that the client's end still takes.
    window: usize,
    dirty: bool,
    /// The engine has asked for the end of the connection.
    closing: Option<Reason>,
    /// The end of the connection waits for a commit that gives the rest of its output free.
    awaits_commit: bool,
    /// Why the server's end is gone.
    pub closed: Option<Reason>,
}

/// A CONNECT that waits for its verdict.
#[derive(Debug)]
pub(crate) struct Asked {
    pub request: AuthRequest,
    shard: usize,
    key: ConnectionKey,
}

/// Everything beside the engines' own state.
pub(crate) struct Net {
    pub settings: Arc<Settings>,
    pub engines: Vec<Engine>,
    pub store: Store,
    /// What engines have counted that are gone.
    pub past: Counters,
    /// Connections of clients that were broken by crashes.
    pub broken: u64,
    /// Crashes so far.
    pub crashes: u64,
    pub now: Now,
    pub nodes: Nodes,
    /// The table that each node has read last.
    read: Vec<nodes::Table>,
    /// Tables that nodes have yet to read.
    unread: BTreeMap<usize, tables::Unread>,
    /// The move that is under way, and how many there were.
    pub moving: Option<moves::Move>,
    pub moves: u64,
    pub sockets: Vec<Socket>,
    /// Sockets whose server's end is not gone.
    live: BTreeSet<SocketId>,
    by_key: Vec<BTreeMap<ConnectionKey, SocketId>>,
    /// What waits for each shard, in the order in which it was sent, and by whom.
    inboxes: Vec<VecDeque<(usize, Batch)>>,
    /// Whether a shard takes what waits for it in that order. Otherwise only the order of each sender holds, which is
    /// less than the shell promises.
    causal: bool,
    /// Shards that have done something since they took their batches.
    unshipped: Vec<bool>,
    /// Shards that are taking their batches, and for whom the next one is.
    shipping: Vec<Option<usize>>,
    pub held: BTreeSet<(usize, usize)>,
    /// Batches for other nodes that wait for the store, and how much of it.
    behind: behind::Behind,
    schedule: Schedule,
    pub log: Vec<LogEvent>,
    pub asked: VecDeque<Asked>,
    /// Parts of queues that are wanted from the store, and by which shard.
    pub reading: VecDeque<(usize, WantedQueue)>,
    /// What the store has read for them.
    pub brought: VecDeque<(usize, LoadedQueue)>,
    /// Answers to challenges, by shard and connection.
    pub challenged: VecDeque<(usize, ConnectionKey, Vec<u8>)>,
    /// The brokers of a fleet.
    pub brokers: BTreeMap<String, FakeBroker>,
    /// What the engines were told of them.
    pub configured: BTreeMap<String, UplinkOptions>,
    /// Brokers that are to be dialed.
    pub dialing: VecDeque<(String, DialAttempt)>,
    /// Clients whose home is elsewhere.
    pub relaying: Vec<(usize, ConnectionKey, u16)>,
    /// Clients that have acknowledged a ping.
    pub pongs: Vec<String>,
    pub records: Vec<(usize, ApplicationMessage)>,
    pub reports: Vec<ApplicationMessage>,
    pub taken: Vec<(u64, bool)>,
    pub trace: Trace,
    /// Steps of the trace when the engines' books were looked at last.
    audited: u64,
    next_acceptor: usize,
}

/// What happened: a digest of everything and the last lines.
#[derive(Debug)]
pub(crate) struct Trace {
    pub title: String,
    pub digest: u64,
    pub steps: u64,
    tail: VecDeque<String>,
    /// How many lines are kept.
    lines: usize,
}

/// Lines shown when a test fails, unless `TIDEGATE_TRACE_LINES` says another number.
const TAIL_LINES: usize = 60;
/// Clients beyond which the books are not looked at after each thing that happens.
const MANY_CLIENTS: usize = 100;
/// Steps after which a world that does not come to rest is taken to go round in circles.
const STEPS_MAX: usize = 400_000;

impl Trace {
    pub(crate) fn note(&mut self, line: String) {
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.steps += 1;
        if self.tail.len() == self.lines {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }
}

impl Drop for Net {
    /// A test that fails tells how it came there.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {} · step {} · last steps:", self.trace.title, self.trace.steps);
            for line in &self.trace.tail {
                eprintln!("    {line}");
            }
        }
    }
}

impl Net {
    pub(crate) fn new(nodes: Nodes, settings: Settings, schedule: Schedule, causal: bool, title: String) -> Self {
        let settings = Arc::new(settings);
        let lines = std::env::var("TIDEGATE_TRACE_LINES").ok().and_then(|text| text.parse().ok());
        let lines = lines.unwrap_or(TAIL_LINES);
        let now = Now { monotonic: Millis(1_000_000), unix: 1_700_000_000_000 };
        let engine = |at: u16| Engine::new(Arc::clone(&settings), nodes.place(at), 7 + u64::from(at), now);
        let count = usize::from(nodes.engines());
        let mut engines: Vec<Engine> = (0..nodes.engines()).map(engine).collect();
        let read = vec![nodes.newest(); usize::from(nodes.count())];
        nodes.introduce(&read, &mut engines, now);
        let mut net = Self {
            settings,
            nodes,
            read,
            unread: BTreeMap::new(),
            moving: None,
            moves: 0,
            engines,
            store: Store::default(),
            past: Counters::default(),
            broken: 0,
            crashes: 0,
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
            schedule,
            log: Vec::new(),
            asked: VecDeque::new(),
            reading: VecDeque::new(),
            brought: VecDeque::new(),
            challenged: VecDeque::new(),
            brokers: BTreeMap::new(),
            configured: BTreeMap::new(),
            dialing: VecDeque::new(),
            relaying: Vec::new(),
            pongs: Vec::new(),
            records: Vec::new(),
            reports: Vec::new(),
            taken: Vec::new(),
            trace: Trace { title, digest: 0xcbf2_9ce4_8422_2325, steps: 0, tail: VecDeque::new(), lines },
            audited: 0,
            next_acceptor: 0,
        };
        (0..count).for_each(|shard| net.gather(shard));
        net
    }

    // ---- the clients' end ------------------------------------------------------------------------------------------

    /// Opens a socket to the given shard, or to the next in turn.
    pub(crate) fn open(&mut self, side: Side, connecting: &Connecting) -> SocketId {
        let asked = connecting.accept_on.map_or(self.next_acceptor % self.engines.len(), usize::from);
        let mut those = (asked..self.engines.len()).chain(0..asked);
        let lives = |shard: &usize| self.nodes.lives(self.nodes.node_of(*shard));
        let shard = those.find(lives).expect("a node that lives");
        self.next_acceptor += 1;
        let id = self.sockets.len();
        self.trace.note(format!("{} opens socket {id} at shard {shard}", side.client_id));
        self.sockets.push(Socket {
            side,
            broker: None,
            stand: Stand::Gone,
            listener: connecting.listener,
            preset: connecting.preset.clone(),
            upstream: VecDeque::new(),
            hung_up: false,
            end_told: false,
            paused: false,
            window: usize::MAX,
            dirty: false,
            closing: None,
            awaits_commit: false,
            closed: None,
        });
        self.accept(id, shard, &[]);
        id
    }

    fn accept(&mut self, id: SocketId, shard: usize, bytes: &[u8]) {
        let listener = self.sockets[id].listener;
        match self.engines[shard].open_connection(self.now, listener) {
            Ok(key) => {
                self.sockets[id].stand = Stand::At { shard, key };
                self.live.insert(id);
                self.by_key[shard].insert(key, id);
                self.engines[shard].preset_connection(key, self.sockets[id].preset.clone());
                if !bytes.is_empty() {
                    self.engines[shard].handle_input(self.now, key, bytes);
                }
                self.gather(shard);
            }
            Err(reason) => {
                self.trace.note(format!("shard {shard}: refuses socket {id}: {reason:?}"));
                self.sockets[id].stand = Stand::Gone;
                self.live.remove(&id);
                self.sockets[id].closed = Some(reason);
            }
        }
    }

    pub(crate) fn send(&mut self, id: SocketId, bytes: &[u8]) {
        let socket = &mut self.sockets[id];
        if !socket.hung_up {
            socket.upstream.extend(bytes);
        }
    }

    /// The client closes its end; the server may still read what was sent.
    pub(crate) fn hang_up(&mut self, id: SocketId) {
        let socket = &mut self.sockets[id];
        socket.hung_up = true;
        let name = socket.side.client_id.clone();
        self.trace.note(format!("{name} hangs up socket {id}"));
    }

    /// The network breaks: of what the client sent, only `survives` bytes still arrive.
    pub(crate) fn cut(&mut self, id: SocketId, survives: usize) {
        self.sockets[id].upstream.truncate(survives);
        self.hang_up(id);
    }

    /// Bytes that the server has not read yet.
    pub(crate) fn upstream_len(&self, id: SocketId) -> usize {
        self.sockets[id].upstream.len()
    }

    /// How many bytes the client's end takes from now on.
    pub(crate) fn set_window(&mut self, id: SocketId, bytes: usize) {
        self.sockets[id].window = bytes;
    }

    pub(crate) fn add_window(&mut self, id: SocketId, bytes: usize) {
        let window = &mut self.sockets[id].window;
        *window = window.saturating_add(bytes);
    }

    /// The shard where a socket's connection is at present.
    pub(crate) fn shard_of(&self, id: SocketId) -> Option<usize> {
        match self.sockets[id].stand {
            Stand::At { shard, .. } => Some(shard),
            Stand::Moving { .. } | Stand::Gone => None,
        }
    }

    /// Bytes that wait in the engine for a socket.
    pub(crate) fn output_len(&mut self, id: SocketId) -> usize {
        let Stand::At { shard, key } = self.sockets[id].stand else { return 0 };
        self.engines[shard].output(key).map_or(0, |output| output.len())
    }

    pub(crate) fn answer(&mut self, asked: &Asked, verdict: Verdict) {
        self.trace.note(format!("verdict on {}: {verdict:?}", asked.request.client_id));
        self.engines[asked.shard].handle_verdict(self.now, asked.key, verdict);
        self.gather(asked.shard);
    }

    // ---- what happens ----------------------------------------------------------------------------------------------

    /// Lets everything happen that can, until nothing can.
    pub(crate) fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            let Some(step) = self.next_step() else {
                self.audit();
                return;
            };
            self.take(step);
        }
        panic!("the world does not come to rest");
    }

    /// The books of all engines have to be right.
    fn audit(&mut self) {
        // With very many clients that takes long, so it is done less often.
        let often = if self.live.len() > MANY_CLIENTS { self.live.len() as u64 } else { 1 };
        if self.trace.steps - self.audited < often {
            return;
        }
        self.audited = self.trace.steps;
        for (shard, engine) in self.engines.iter().enumerate() {
            let wrong = engine.audit();
            assert!(wrong.is_empty(), "shard {shard}: {}", wrong.join("; "));
        }
    }

    /// Lets one thing happen; says whether there was one.
    pub(crate) fn run_one(&mut self) -> bool {
        let Some(step) = self.next_step() else { return false };
        self.take(step);
        true
    }

    /// Lets one shard take one turn, as the shell does: each socket is read once, everything that waits is worked off
    /// once, batches leave, and each output is written once.
    pub(crate) fn turn(&mut self, shard: usize) {
        let here = |net: &Self, step: &Step| match *step {
            Step::Timers(at) | Step::Ship(at) | Step::Deliver { to: at, .. } => at == shard,
            Step::Adopt(id) => matches!(net.sockets[id].stand, Stand::Moving { home, .. } if home == shard),
            Step::Read(id) | Step::Write(id) | Step::Finish(id) => net.shard_of(id) == Some(shard),
            Step::ReadStore | Step::Bring | Step::Dial | Step::Commit => false,
        };
        let kinds: [fn(&Step) -> bool; 7] = [
            |step| matches!(step, Step::Read(_)),
            |step| matches!(step, Step::Adopt(_)),
            |step| matches!(step, Step::Deliver { .. }),
            |step| matches!(step, Step::Timers(_)),
            |step| matches!(step, Step::Ship(_)),
            |step| matches!(step, Step::Write(_)),
            |step| matches!(step, Step::Finish(_)),
        ];
        for kind in kinds {
            let steps: Vec<Step> = self.steps().into_iter().filter(|step| kind(step) && here(self, step)).collect();
            for step in steps {
                self.take(step);
                // Shipping goes on for as many steps as there are shards.
                while self.shipping[shard].is_some() {
                    self.take(Step::Ship(shard));
                }
            }
        }
    }

    fn next_step(&mut self) -> Option<Step> {
        let steps = self.steps();
        match &mut self.schedule {
            Schedule::InTurn => steps.first().copied(),
            Schedule::Seeded(random) => (!steps.is_empty()).then(|| random.pick(&steps)),
        }
    }

    /// Everything that can happen now, in the order of a shard's turn.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        // A shard that is taking its batches does nothing else before it has taken all.
        let free = |shard: usize| self.shipping[shard].is_none();
        let at = |id: SocketId| match self.sockets[id].stand {
            Stand::At { shard, .. } => free(shard).then_some(shard),
            Stand::Moving { .. } | Stand::Gone => None,
        };
        let ids = || self.live.iter().copied();
        let readable = |id: &SocketId| {
            let socket = &self.sockets[*id];
            let something = !socket.upstream.is_empty() || (socket.hung_up && !socket.end_told);
            at(*id).is_some() && something && !socket.paused && socket.closing.is_none()
        };
        steps.extend(ids().filter(readable).map(Step::Read));
        let moving = |id: &SocketId| match self.sockets[*id].stand {
            Stand::Moving { home, .. } => free(home),
            Stand::At { .. } | Stand::Gone => false,
        };
        steps.extend(ids().filter(moving).map(Step::Adopt));
        let shards = || (0..self.engines.len()).filter(|shard| free(*shard));
        for to in shards() {
            self.deliveries(to, &mut steps);
        }
        if !self.reading.is_empty() {
            steps.push(Step::ReadStore);
        }
        if !self.brought.is_empty() {
            steps.push(Step::Bring);
        }
        if !self.dialing.is_empty() && free(0) {
            steps.push(Step::Dial);
        }
        let to_ship = |shard: &usize| self.unshipped[*shard] || self.shipping[*shard].is_some();
        steps.extend((0..self.engines.len()).filter(to_ship).map(Step::Ship));
        let due = |shard: &usize| self.engines[*shard].next_deadline() <= self.now.monotonic;
        steps.extend(shards().filter(due).map(Step::Timers));
        // What an output acknowledges has to be under way before it is written.
        let shipped =
            |id: &SocketId| at(*id).is_some_and(|shard| !self.unshipped[shard] && self.shipping[shard].is_none());
        let writable = |id: &SocketId| {
            let socket = &self.sockets[*id];
            // To a client that has hung up a write fails, which matters where nothing is read.
            shipped(id) && socket.dirty && if socket.hung_up { socket.paused } else { socket.window > 0 }
        };
        steps.extend(ids().filter(writable).map(Step::Write));
        let waits = |id: &SocketId| self.sockets[*id].awaits_commit && !self.sockets[*id].hung_up;
        let ending = |id: &SocketId| shipped(id) && self.sockets[*id].closing.is_some() && !waits(id);
        steps.extend(ids().filter(ending).map(Step::Finish));
        if !self.store.held && !self.store.waiting.is_empty() {
            steps.push(Step::Commit);
        }
        steps
    }

    /// The batches that a shard may take next: the first one, or the first one of each sender.
    fn deliveries(&self, to: usize, steps: &mut Vec<Step>) {
        let mut senders = BTreeSet::new();
        for (from, _) in &self.inboxes[to] {
            if !self.held.contains(&(*from, to)) && senders.insert(*from) {
                steps.push(Step::Deliver { from: *from, to });
                if self.causal {
                    break;
                }
            }
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Timers(shard) => {
                self.trace.note(format!("{} shard {shard}: timers", self.now.monotonic.0));
                self.engines[shard].handle_timers(self.now);
                self.gather(shard);
            }
            Step::Deliver { from, to } => {
                let Some(first) = self.inboxes[to].iter().position(|(sender, _)| *sender == from) else { return };
                let Some((_, batch)) = self.inboxes[to].remove(first) else { return };
                self.trace.note(format!("shard {to}: {} bytes from shard {from}", batch.bytes_len()));
                self.engines[to].handle_batch(self.now, batch).expect("a batch that can be read");
                self.gather(to);
            }
            Step::Adopt(id) => self.adopt(id),
            Step::ReadStore => self.read_store(),
            Step::Bring => self.bring(),
            Step::Dial => self.dial(),
            Step::Ship(shard) => self.ship(shard),
            Step::Read(id) => self.read(id),
            Step::Write(id) => {
                let part = self.part(self.output_bound(id));
                self.write(id, part);
            }
            Step::Finish(id) => self.finish(id),
            Step::Commit => self.commit_some(),
        }
    }

    /// All of what waits, or a part of it; in a cluster of what one of its stores is given.
    fn commit_some(&mut self) {
        let nodes = self.nodes;
        let first = |net: &Self, at: usize| net.store.waiting.get(at).map(|(shard, _)| nodes.node_of(*shard));
        let of = match &mut self.schedule {
            Schedule::Seeded(random) if nodes.are_several() => {
                let at = random.below(self.store.waiting.len());
                first(self, at)
            }
            _ => None,
        };
        let all = of.map_or(self.store.waiting.len(), |node| self.store.waiting_of(node));
        let count = match &mut self.schedule {
            Schedule::InTurn => all,
            Schedule::Seeded(random) => 1 + random.below(all),
        };
        self.commit_of(of, count);
    }

    /// Commits so many of the batches that wait, and tells their shards.
    pub(crate) fn commit(&mut self, count: usize) {
        self.commit_of(None, count);
    }

    fn commit_of(&mut self, node: Option<usize>, count: usize) {
        let mut committed = BTreeMap::new();
        for _ in 0..count {
            let Some((shard, sequence)) = self.store.commit_one(self.nodes, node) else { break };
            committed.insert(shard, sequence);
        }
        self.trace.note(format!("committed: {committed:?}"));
        for (shard, sequence) in committed {
            self.engines[shard].handle_committed(sequence);
            for id in self.by_key[shard].values() {
                self.sockets[*id].awaits_commit = false;
            }
            self.gather(shard);
        }
        self.release_behind();
    }

    /// All or, with a seed, a part of what could be read or written.
    fn part(&mut self, all: usize) -> usize {
        match &mut self.schedule {
            Schedule::InTurn => all,
            Schedule::Seeded(random) => {
                if random.percent(40) {
                    1 + random.below(all.min(64))
                } else {
                    all
                }
            }
        }
    }

    fn output_bound(&self, id: SocketId) -> usize {
        self.sockets[id].window
    }

    fn adopt(&mut self, id: SocketId) {
        let Stand::Moving { home, bytes } = std::mem::replace(&mut self.sockets[id].stand, Stand::Gone) else { return };
        self.trace.note(format!("shard {home}: adopts socket {id} with {} bytes", bytes.len()));
        self.accept(id, home, &bytes);
    }

    /// The store brings the part of a queue that was asked for first, as far as it is committed.
    fn read_store(&mut self) {
        let Some((shard, wanted)) = self.reading.pop_front() else { return };
        let mut bytes = 0;
        let mut entries = Vec::new();
        let node = self.nodes.node_of(shard);
        for (key, value) in self.store.pairs_of_mut(node).range(wanted.from..wanted.to) {
            bytes += key.len() + value.len();
            if !entries.is_empty() && bytes > wanted.max_bytes {
                break;
            }
            entries.push((key.clone(), value.clone()));
        }
        self.trace.note(format!("shard {shard}: reads {} messages of {}", entries.len(), wanted.client_id));
        let (tenant, client_id, session) = (wanted.tenant, wanted.client_id, wanted.session);
        // What it has seen is on its way while other things happen, commits among them.
        self.brought.push_back((shard, LoadedQueue { tenant, client_id, session, entries }));
    }

    fn bring(&mut self) {
        let Some((shard, loaded)) = self.brought.pop_front() else { return };
        self.trace.note(format!("shard {shard}: takes {} messages of {}", loaded.entries.len(), loaded.client_id));
        self.engines[shard].handle_read(self.now, &loaded);
        self.gather(shard);
    }

    fn read(&mut self, id: SocketId) {
        let Stand::At { shard, key } = self.sockets[id].stand else { return };
        let all = self.sockets[id].upstream.len();
        let name = self.sockets[id].side.client_id.clone();
        if all == 0 {
            self.trace.note(format!("shard {shard}: {name} is gone (socket {id})"));
            self.sockets[id].end_told = true;
            self.engines[shard].handle_transport_closed(self.now, key);
        } else {
            let part = self.part(all).min(all);
            let bytes: Vec<u8> = self.sockets[id].upstream.drain(..part).collect();
            self.trace.note(format!("shard {shard}: reads {part} bytes of {name} (socket {id}): {}", kinds(&bytes)));
            self.engines[shard].handle_input(self.now, key, &bytes);
        }
        self.gather(shard);
    }

    /// Writes up to `bound` bytes of a connection's output.
    fn write(&mut self, id: SocketId, bound: usize) {
        let Stand::At { shard, key } = self.sockets[id].stand else { return };
        if self.sockets[id].hung_up {
            self.sockets[id].dirty = false;
            self.trace.note(format!("shard {shard}: cannot write to socket {id}"));
            self.engines[shard].handle_transport_closed(self.now, key);
            self.gather(shard);
            return;
        }
        let bound = bound.min(self.sockets[id].window);
        let mut bytes = Vec::new();
        let mut left = false;
        if let Some(output) = self.engines[shard].output(key) {
            while bytes.len() < bound && output.is_writable() {
                let mut slices = [IoSlice::new(&[]); 4];
                let filled = output.slices(&mut slices);
                let room = bound - bytes.len();
                let part: Vec<u8> =
                    slices[..filled].iter().flat_map(|slice| slice.iter().copied()).take(room).collect();
                output.advance(part.len());
                bytes.extend(part);
            }
            left = output.is_writable();
        }
        let socket = &mut self.sockets[id];
        socket.dirty = left;
        if socket.window != usize::MAX {
            socket.window -= bytes.len();
        }
        let name = socket.side.client_id.clone();
        let what = if socket.broker.is_some() { kinds(&bytes) } else { String::new() };
        self.trace.note(format!("shard {shard}: writes {} bytes to {name} (socket {id}) {what}", bytes.len()));
        if self.sockets[id].broker.is_some() {
            self.give_to_broker(id, &bytes);
        } else {
            let replies = self.sockets[id].side.receive(&bytes);
            self.sockets[id].upstream.extend(replies);
        }
        self.engines[shard].handle_written(self.now, key);
        self.gather(shard);
    }

    fn finish(&mut self, id: SocketId) {
        let Stand::At { shard, key } = self.sockets[id].stand else { return };
        if !self.sockets[id].hung_up {
            self.write(id, usize::MAX);
            if self.output_len(id) > 0 && self.sockets[id].window > 0 {
                // What is left waits for a commit; the shell waits with it for a while.
                self.sockets[id].awaits_commit = true;
                return;
            }
        }
        let socket = &mut self.sockets[id];
        socket.closed = socket.closing;
        socket.stand = Stand::Gone;
        self.live.remove(&id);
        let line = format!("shard {shard}: closes socket {id} of {}: {:?}", socket.side.client_id, socket.closed);
        self.trace.note(line);
        self.tell_broker_of_end(id);
        self.by_key[shard].remove(&key);
        self.engines[shard].release_connection(key);
        self.gather(shard);
    }

    /// Takes the batch for one other shard; in turn all shards are served before anything else happens here.
    fn ship(&mut self, shard: usize) {
        if self.shipping[shard].is_none() {
            // Before anyone else can know of what it says.
            self.write_journal(shard);
            // A commit that comes in between may let something leave for those who were served before it.
            self.unshipped[shard] = false;
        }
        let to = self.shipping[shard].unwrap_or(0);
        let taken = self.engines[shard].take_batch(self.nodes.number(shard, to));
        if let Some(batch) = taken {
            self.send_batch(shard, to, batch);
        }
        let last = to + 1 == self.engines.len();
        self.shipping[shard] = (!last).then_some(to + 1);
    }

    /// Hands in what a shard has written for the store.
    fn write_journal(&mut self, shard: usize) {
        if let Some(batch) = self.engines[shard].take_journal() {
            self.trace.note(format!("shard {shard}: writes batch {} for the store", batch.sequence));
            self.store.hand_in(self.nodes, shard, batch);
        }
    }

    /// Carries out what a shard asks for.
    fn gather(&mut self, shard: usize) {
        self.unshipped[shard] = true;
        while let Some(event) = self.engines[shard].poll_event() {
            self.carry_out(shard, event);
        }
        while let Some(key) = self.engines[shard].pop_dirty() {
            if let Some(id) = self.by_key[shard].get(&key) {
                self.sockets[*id].dirty = true;
            }
        }
    }

    /// A client's bytes go on at its home on another node.
    fn relay(&mut self, shard: usize, key: ConnectionKey, home: usize) {
        let id = self.by_key[shard].remove(&key).expect("Relay names a connection that the shell has");
        self.sockets[id].dirty = false;
        self.sockets[id].paused = false;
        let Some(bytes) = self.engines[shard].leave_for_home(key) else { return };
        if !self.nodes.lives(self.nodes.node_of(home)) {
            self.sockets[id].stand = Stand::Gone;
            self.sockets[id].closed = Some(Reason::HomeUnreachable);
            self.live.remove(&id);
            return;
        }
        self.sockets[id].stand = Stand::Moving { home, bytes };
    }

    fn carry_out(&mut self, shard: usize, event: Event) {
        let socket_of = |net: &mut Self, key: ConnectionKey| net.by_key[shard].get(&key).copied();
        match event {
            Event::Close { key, reason } => {
                let id = socket_of(self, key).expect("Close names a connection that the shell has");
                assert!(self.sockets[id].closing.is_none(), "Close came twice for socket {id}");
                self.sockets[id].closing = Some(reason);
            }
            Event::HandOver { key, home, listener, bytes } => {
                let id = self.by_key[shard].remove(&key).expect("HandOver names a connection that the shell has");
                assert_eq!(self.sockets[id].listener, listener, "the listener of socket {id}");
                let first = self.nodes.engines_of(self.nodes.node_of(shard)).start;
                self.sockets[id].stand = Stand::Moving { home: first + usize::from(home.0), bytes };
                self.sockets[id].dirty = false;
            }
            Event::PauseReading { key } => {
                if let Some(id) = socket_of(self, key) {
                    self.sockets[id].paused = true;
                }
            }
            Event::ResumeReading { key } => {
                if let Some(id) = socket_of(self, key) {
                    self.sockets[id].paused = false;
                }
            }
            Event::Authenticate { key, request } => self.asked.push_back(Asked { request, shard, key }),
            Event::AnswerChallenge { key, data } => self.challenged.push_back((shard, key, data)),
            Event::ReadQueue(wanted) => self.reading.push_back((shard, wanted)),
            Event::Dial { uplink, attempt } => self.dialing.push_back((uplink, attempt)),
            Event::Relay { key, place } if self.nodes.are_several() => self.relay(shard, key, usize::from(place)),
            Event::Relay { key, place } => self.relaying.push((shard, key, place)),
            Event::Pong { client_id, .. } => self.pongs.push(client_id),
            Event::Record(message) => self.records.push((shard, *message)),
            Event::Report(message) => self.reports.push(*message),
            Event::Taken { number, taken } => self.taken.push((number, taken)),
            Event::Log(event) => {
                self.trace.note(format!("shard {shard}: {event:?}"));
                self.log.push(event);
            }
        }
    }

    /// Calls an engine from outside, and carries out what follows from it.
    pub(crate) fn with_engine<T>(&mut self, shard: usize, call: impl FnOnce(&mut Engine, Now) -> T) -> T {
        let result = call(&mut self.engines[shard], self.now);
        self.gather(shard);
        result
    }

    // ---- time ------------------------------------------------------------------------------------------------------

    /// Moves the clock without letting anything happen.
    pub(crate) fn move_clock(&mut self, milliseconds: u64) {
        self.now.monotonic = self.now.monotonic.plus(milliseconds);
        self.now.unix += milliseconds;
    }

    /// The earliest deadline of any shard.
    pub(crate) fn next_deadline(&self) -> Millis {
        self.engines.iter().map(Engine::next_deadline).min().unwrap_or(Millis::NEVER)
    }

    /// Batches under way on all links.
    pub(crate) fn batches_under_way(&self) -> usize {
        self.inboxes.iter().map(VecDeque::len).sum()
    }
}

/// The packet types in a piece of a stream, as far as it starts with a packet: for reading a trace.
fn kinds(bytes: &[u8]) -> String {
    let mut names = Vec::new();
    let mut rest = bytes;
    while names.len() < 8
        && let Ok(Some(frame)) = tidegate_mqtt::split_frame(rest, tidegate_mqtt::MAX_PACKET_SIZE)
    {
        names.push(frame.packet_type().name());
        rest = &rest[frame.total_len..];
    }
    if !rest.is_empty() {
        names.push("...");
    }
    names.join(" ")
}
