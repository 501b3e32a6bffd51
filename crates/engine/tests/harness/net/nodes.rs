//! The nodes of a cluster, and how each of them numbers the shards of all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_engine::{
    Batch, Engine, Home, Homes, MAX_SHARDS, Millis, Now, PARTITIONS, PartitionId, Partitions, Reason, Roster, Settings,
    ShardId, ShardPosition,
};

use super::Net;
use super::socket::Stand;

/// No node has this number.
const NOT_GIVEN: u8 = u8::MAX;

/// The partitions of nodes: the nodes of a cluster read one table after the other, each in its own time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Nodes that are known to be dead, one bit each.
    dead: u64,
    /// Partitions without a serving node, since their node is dead and another one is to take its place.
    absent: Partitions,
    /// Partitions without a serving node, since they move.
    moving: Partitions,
    /// How many moves have begun.
    moves_begun: u64,
    /// The nodes that partitions have moved to, [`NOT_GIVEN`] for none.
    given: [u8; PARTITIONS as usize],
}

/// Nodes with a number of shards each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    count: u16,
    shards: u16,
    /// Nodes that are gone, whether the others know that they are dead or not, one bit each.
    gone: u64,
    /// Pairs of nodes that do not reach each other, a bit each.
    unlinked: u64,
    /// How often each pair of nodes was linked again.
    sessions: [u8; u64::BITS as usize],
    newest: Table,
    /// Whether they are orchestrators, which exchange messages on topics of addresses alone.
    orchestrators: bool,
    /// Whether their messages are on the bus, so that a partition without a link to its home is absent.
    are_kept: bool,
}

impl Nodes {
    /// A process that is no node of a cluster.
    pub(crate) fn one(shards: u16) -> Self {
        Self::new(1, shards)
    }

    pub(crate) fn new(nodes: u16, shards: u16) -> Self {
        let given = [NOT_GIVEN; PARTITIONS as usize];
        let newest = Table { dead: 0, absent: Partitions::NONE, moving: Partitions::NONE, moves_begun: 0, given };
        let sessions = [0; u64::BITS as usize];
        Self { count: nodes, shards, gone: 0, unlinked: 0, sessions, newest, orchestrators: false, are_kept: true }
    }

    /// Their messages are in no store of the bus.
    pub(crate) fn keep_nothing(&mut self) {
        self.are_kept = false;
    }

    /// Orchestrators with addresses.
    pub(crate) fn orchestrators(members: u16, shards: u16) -> Self {
        Self { orchestrators: true, ..Self::new(members, shards) }
    }

    pub(crate) fn are_several(self) -> bool {
        self.count > 1
    }

    /// How many there are.
    pub(crate) fn count(self) -> u16 {
        self.count
    }

    /// These move, and no others.
    pub(crate) fn begin_move(&mut self, id: u64, partitions: Partitions) {
        (self.newest.moves_begun, self.newest.moving) = (id, partitions);
    }

    /// Nothing moves any more.
    pub(crate) fn end_move(&mut self) {
        self.newest.moving = Partitions::NONE;
    }

    /// These are at home on a node from now on.
    pub(crate) fn give(&mut self, partitions: Partitions, node: usize) {
        partitions.iter().for_each(|partition| self.newest.given[usize::from(partition.0)] = node as u8);
    }

    /// A node lives again, and serves its former partitions.
    pub(crate) fn begin(&mut self, node: usize) {
        self.gone &= !(1 << node);
        self.newest.dead &= !(1 << node);
        self.newest.absent = Partitions::NONE;
    }

    /// A node is gone, and the table says nothing of it.
    fn lose(&mut self, node: usize) {
        self.gone |= 1 << node;
    }

    /// A node is gone, and the table says that it is dead: others are to succeed it.
    pub(super) fn bury(&mut self, node: usize) {
        self.newest.absent = self.at_home(node);
        self.lose(node);
        self.newest.dead |= 1 << node;
    }

    /// The successors of the dead nodes have taken their places.
    pub(super) fn end_absence(&mut self) -> Partitions {
        let absent = std::mem::take(&mut self.newest.absent);
        for partition in absent.iter() {
            let taker = self.node_of(self.home_of(partition));
            self.give(std::iter::once(partition).collect(), taker);
        }
        absent
    }

    /// The newest table.
    pub(super) fn newest(self) -> Table {
        self.newest
    }

    /// Whether a node lives.
    pub(crate) fn lives(self, node: usize) -> bool {
        self.gone >> node & 1 == 0
    }

    /// The nodes that live.
    pub(crate) fn living(self) -> impl Iterator<Item = usize> {
        (0..usize::from(self.count)).filter(move |node| self.lives(*node))
    }

    /// The engines of a node.
    pub(crate) fn engines_of(self, node: usize) -> std::ops::Range<usize> {
        let shards = usize::from(self.shards);
        node * shards..(node + 1) * shards
    }

    /// Number of engines.
    pub(crate) fn engines(self) -> u16 {
        self.count * self.shards
    }

    pub(crate) fn node_of(self, engine: usize) -> usize {
        engine / usize::from(self.shards)
    }

    /// The settings of an engine: a name that ends in `-` gets the number of the node.
    pub(crate) fn settings_of(self, engine: usize, settings: &Arc<Settings>) -> Arc<Settings> {
        let node = self.node_of(engine);
        let mut changed = Settings::clone(settings);
        if settings.node_name.ends_with('-') {
            changed.node_name = format!("{}{node}", settings.node_name);
        } else if !self.orchestrators || node == 0 {
            return Arc::clone(settings);
        }
        if let Some(broker_links) = changed.broker_links.as_mut().filter(|_| self.orchestrators && node > 0) {
            broker_links.orchestrator = format!("member-{node}");
        }
        Arc::new(changed)
    }

    /// The place of an engine in its process.
    pub(crate) fn place(self, engine: u16) -> ShardPosition {
        ShardPosition { shard: ShardId(engine % self.shards), shards: self.shards }
    }

    /// The number that one engine's process has for another engine. A node that is linked again has other numbers, and has the
    /// first ones again after all that there are.
    pub(crate) fn number(self, of: usize, other: usize) -> ShardId {
        let (here, there) = (self.node_of(of), self.node_of(other));
        let (shards, peers) = (usize::from(self.shards), usize::from(self.count) - 1);
        if there == here {
            return ShardId((other % shards) as u16);
        }
        let sessions = (usize::from(MAX_SHARDS) - shards) / (shards * peers);
        let session = usize::from(self.sessions[place_of_pair(here, there)]) % sessions;
        let row = 1 + session * peers + there - usize::from(there > here);
        ShardId((row * shards + other % shards) as u16)
    }

    /// A batch as it arrives: over the wire where that is another node.
    pub(crate) fn carry(self, batch: Batch, from: usize, to: usize) -> Batch {
        if self.node_of(from) == self.node_of(to) {
            return batch;
        }
        let mut bytes = Vec::new();
        batch.write_to(&mut bytes);
        Batch::read_from(&bytes, self.number(to, from), 0).expect("a batch as it was written")
    }

    /// The engine that works a partition by the newest table.
    pub(crate) fn home_of(self, partition: PartitionId) -> usize {
        self.home_by(&self.newest, partition)
    }

    fn home_by(self, table: &Table, partition: PartitionId) -> usize {
        let engines = usize::from(self.engines());
        let first = usize::from(partition.0 % tidegate_engine::EARLIER_PARTITIONS) % engines;
        let given = table.given[usize::from(partition.0)];
        let first = match given {
            NOT_GIVEN => first,
            node => usize::from(node) * usize::from(self.shards) + first % usize::from(self.shards),
        };
        // The partitions of a dead node go to the shard of the same number on the next node.
        let on_nodes = (0..usize::from(self.count)).map(|step| (first + step * usize::from(self.shards)) % engines);
        let is_alive = |engine: &usize| table.dead >> self.node_of(*engine) & 1 == 0;
        on_nodes.into_iter().find(is_alive).expect("a node that is not dead")
    }

    /// Partitions that a node works.
    pub(crate) fn at_home(self, node: usize) -> Partitions {
        let all = (0..PARTITIONS).map(PartitionId);
        all.filter(|partition| self.node_of(self.home_of(*partition)) == node).collect()
    }

    /// Partitions without a serving node until another one has taken the place of theirs.
    pub(crate) fn absent(self) -> Partitions {
        self.newest.absent
    }

    /// Whether a node has a session with another one, or is that.
    fn reaches(self, node: usize, other: usize) -> bool {
        self.lives(other) && self.unlinked & pair(node, other) == 0
    }

    /// Tells the engines of the nodes that live who else does, and who works what by the tables that they have read.
    pub(super) fn introduce(self, read: &[Table], engines: &mut [Engine], now: Now) {
        if !self.are_several() {
            return;
        }
        for node in self.living() {
            self.introduce_to(node, &read[node], engines, now);
        }
    }

    /// Tells the engines of one node, by the table that it has read.
    pub(super) fn introduce_to(self, node: usize, table: &Table, engines: &mut [Engine], now: Now) {
        for of in self.engines_of(node) {
            let mut roster = Roster::alone(self.place(of as u16));
            for other in (0..engines.len()).filter(|other| self.reaches(node, self.node_of(*other))) {
                roster = roster.with_peer(self.number(of, other));
            }
            let others = (0..usize::from(self.count)).filter(|other| *other != node && table.dead >> other & 1 == 0);
            if others.into_iter().any(|other| !self.reaches(node, other)) {
                roster = roster.with_nodes_lacking();
            }
            let mut homes = [Home::Here; PARTITIONS as usize];
            for partition in (0..PARTITIONS).map(PartitionId) {
                let home = self.home_by(table, partition);
                let at = self.node_of(home);
                if table.absent.has(partition) {
                    roster = roster.with_absent(partition);
                }
                if self.reaches(node, at) {
                    roster = roster.with_home(partition, self.number(of, home));
                } else {
                    roster = roster.with_stand_in(partition);
                    if self.are_kept {
                        roster = roster.with_absent(partition);
                    }
                }
                if table.moving.has(partition) || table.absent.has(partition) {
                    homes[usize::from(partition.0)] = Home::Nowhere;
                } else if self.node_of(home) != self.node_of(of) {
                    homes[usize::from(partition.0)] = Home::At(home as u16);
                }
            }
            let open = if table.moving.is_empty() { Vec::new() } else { vec![table.moves_begun] };
            let mut roster = roster.with_moves(table.moves_begun, &open);
            if self.orchestrators {
                roster = roster.with_topics_below("ctx");
            }
            let references = Vec::new();
            let table = Homes { homes, references, redirect: false, lease_until: Millis::NEVER, patience_ms: 0 };
            engines[of].cluster().set_roster(now, roster);
            engines[of].homes().set_homes(now, Some(table));
        }
    }
}

/// A table by which nothing is served.
pub(super) fn served_nowhere() -> Homes {
    let (homes, lease_until) = ([Home::Nowhere; PARTITIONS as usize], Millis::NEVER);
    Homes { homes, references: Vec::new(), redirect: false, lease_until, patience_ms: 0 }
}

/// The place of two of at most eight nodes.
fn place_of_pair(one: usize, other: usize) -> usize {
    one.min(other) * 8 + one.max(other)
}

/// A bit for them.
fn pair(one: usize, other: usize) -> u64 {
    1 << place_of_pair(one, other)
}

impl Net {
    /// A node dies: its state in memory is lost, and its records in transit arrive before the others know of its end.
    /// It was the server of its partitions until then, unless a store keeps them.
    pub(crate) fn end_node(&mut self, node: usize) {
        self.nodes.lose(node);
        self.nodes.newest.dead |= 1 << node;
        self.read = vec![self.nodes.newest; self.read.len()];
        self.end_process(node);
    }

    /// A node dies, and the others know no more than that they do not reach it.
    pub(crate) fn lose_node(&mut self, node: usize) {
        self.nodes.lose(node);
        self.unread.remove(&node);
        self.end_process(node);
    }

    fn end_process(&mut self, node: usize) {
        self.trace.note(format!("node {node} dies"));
        for engine in self.nodes.engines_of(node) {
            self.past.add(self.engines[engine].questions().counters());
            self.broken += self.engines[engine].questions().gauges().sessions_connected;
            let place = self.nodes.place(engine as u16);
            let settings = self.nodes.settings_of(engine, &self.settings);
            self.engines[engine] = Engine::new(settings, place, 1000 + self.trace.steps, self.now);
            super::events::open_windows(&mut self.engines[engine], self.now);
            // A node serves nothing before it has a table.
            self.engines[engine].homes().set_homes(self.now, Some(served_nowhere()));
            self.by_key[engine] = BTreeMap::new();
            self.inboxes[engine] = VecDeque::new();
            self.shipping[engine] = None;
            self.unshipped[engine] = false;
        }
        let of_node = |stand: &Stand| match stand {
            Stand::At { shard, .. } | Stand::Moving { home: shard, .. } => self.nodes.node_of(*shard) == node,
            Stand::Departed(_) | Stand::Gone => false,
        };
        for (id, socket) in self.sockets.iter_mut().enumerate().filter(|(_, socket)| of_node(&socket.stand)) {
            socket.stand = Stand::Gone;
            socket.closed = Some(Reason::ConnectionLost);
            self.live.remove(&id);
        }
        for to in 0..self.inboxes.len() {
            let inbox = std::mem::take(&mut self.inboxes[to]);
            let (of_dead, rest): (VecDeque<_>, VecDeque<_>) =
                inbox.into_iter().partition(|(from, _)| self.nodes.node_of(*from) == node);
            self.inboxes[to] = rest;
            for (_, batch) in of_dead {
                self.take_batch(to, batch);
            }
        }
        self.held.retain(|(from, to)| self.nodes.node_of(*from) != node && self.nodes.node_of(*to) != node);
        self.forget_behind(node);
        self.store.crash(&self.nodes, node, 0);
        self.nodes.introduce(&self.read, &mut self.engines, self.now);
        (0..self.engines.len()).for_each(|shard| self.gather(shard));
    }

    /// Of the batches of each shard of a node to each other shard only the first `arrive` arrive.
    pub(crate) fn lose_batches_of(&mut self, node: usize, arrive: usize) {
        let nodes = self.nodes;
        for inbox in &mut self.inboxes {
            let mut counts = BTreeMap::new();
            inbox.retain(|(from, _)| {
                let count = counts.entry(*from).or_insert(0);
                *count += 1;
                nodes.node_of(*from) != node || *count <= arrive
            });
        }
    }

    /// A node dies, and others will succeed it.
    pub(crate) fn await_node(&mut self, node: usize) {
        self.nodes.bury(node);
        self.end_node(node);
    }

    /// Others succeed a dead node.
    pub(crate) fn replace_node(&mut self, node: usize) {
        self.trace.note(format!("node {node} is replaced"));
        self.nodes.end_absence();
        self.introduce_all();
    }

    /// Two nodes do not reach each other any more, and both live. Of the batches between shards of theirs only the
    /// first `arrive` ones arrive.
    pub(crate) fn break_link(&mut self, one: usize, other: usize, arrive: usize) {
        self.trace.note(format!("nodes {one} and {other} lose their link"));
        let nodes = self.nodes;
        let between = |from: usize, to: usize| {
            let ends = (nodes.node_of(from), nodes.node_of(to));
            ends == (one, other) || ends == (other, one)
        };
        for to in 0..self.inboxes.len() {
            let (lost, rest) = self.inboxes[to].drain(..).partition(|(from, _): &(usize, Batch)| between(*from, to));
            let lost: VecDeque<(usize, Batch)> = lost;
            self.inboxes[to] = rest;
            let mut counts = BTreeMap::new();
            for (from, batch) in lost {
                let count = counts.entry(from).or_insert(0);
                *count += 1;
                if *count <= arrive {
                    self.take_batch(to, batch);
                }
            }
        }
        self.behind.retain(|(_, from, to, _)| !between(*from, *to));
        self.held.retain(|(from, to)| !between(*from, *to));
        self.nodes.unlinked |= pair(one, other);
        self.introduce_by_tables_read();
    }

    /// All nodes reach each other again.
    pub(crate) fn mend_links(&mut self) {
        self.trace.note("all nodes have links again".to_owned());
        let unlinked = std::mem::take(&mut self.nodes.unlinked);
        for (place, sessions) in self.nodes.sessions.iter_mut().enumerate() {
            *sessions += u8::from(unlinked >> place & 1 != 0);
        }
        self.introduce_by_tables_read();
    }

    /// All nodes that live learn which others they reach, by the tables that they have read.
    fn introduce_by_tables_read(&mut self) {
        self.nodes.introduce(&self.read, &mut self.engines, self.now);
        (0..self.engines.len()).for_each(|shard| self.gather(shard));
    }

    /// A node that was dead joins with nothing.
    pub(crate) fn begin_node(&mut self, node: usize) {
        self.trace.note(format!("node {node} joins"));
        self.store.forget_pairs(node);
        self.nodes.gone &= !(1 << node);
        self.nodes.newest.dead &= !(1 << node);
        self.introduce_all();
    }

    /// All nodes that live read the newest table, and learn who else does.
    pub(super) fn introduce_all(&mut self) {
        self.read = vec![self.nodes.newest; self.read.len()];
        self.nodes.introduce(&self.read, &mut self.engines, self.now);
        (0..self.engines.len()).for_each(|shard| self.gather(shard));
    }
}
