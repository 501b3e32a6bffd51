//! The world that a test holds.

use std::cell::RefCell;
use std::rc::Rc;

use tidegate_engine::{
    ApplicationMessage, AuthRequest, Counters, Durability, Engine, Gauges, ListenerId, LogEvent, Millis, Now, Reason,
    Settings, TenantId, Verdict, partition_of,
};

use super::client::Client;
use super::net::crash::Crash;
use super::net::nodes::Nodes;
use super::net::{Net, Schedule, Step};
use super::side::Side;
use super::store::Pairs;
use super::{Connecting, Random};

/// Milliseconds, for saying which unit a number is in.
pub(crate) const fn millis(count: u64) -> u64 {
    count
}

/// Seconds in milliseconds.
pub(crate) const fn seconds(count: u64) -> u64 {
    count * 1000
}

/// Minutes in milliseconds.
pub(crate) const fn minutes(count: u64) -> u64 {
    count * 60_000
}

/// Engines, clients, links and a clock.
#[derive(Clone)]
pub(crate) struct World(pub(super) Rc<RefCell<Net>>);

/// Plays a story in a world of one shard, in one of three, in some of three in which everything that happens at once
/// happens in another order and is cut elsewhere, and in clusters.
pub(crate) fn everywhere(story: impl Fn(&World)) {
    everywhere_with(|_| {}, story);
}

/// The same with other settings than the default ones. Each place is played with a store as well, whose commits come as
/// late as they can or, with a seed, whenever they want.
pub(crate) fn everywhere_with(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    in_one_process_with(&change, &story);
    in_clusters(change, story);
}

/// The same for what each node of a cluster has for itself.
pub(crate) fn in_one_process(story: impl Fn(&World)) {
    in_one_process_with(|_| {}, story);
}

/// The same with other settings than the default ones.
pub(crate) fn in_one_process_with(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    let stored = || Settings { durability: Durability::Commit, ..changed(&change) };
    story(&World::build(1, stored(), Schedule::InTurn, true, "1 shard in turn, with a store"));
    let schedule = Schedule::Seeded(Random::new(5));
    story(&World::build(3, stored(), schedule, false, "3 shards, seed 5, with a store"));
    in_one_process_in_memory(change, story);
}

/// The same without a store, for what holds only where memory is all that there is.
pub(crate) fn everywhere_in_memory(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    in_one_process_in_memory(&change, &story);
    in_clusters(change, story);
}

/// In clusters of three nodes with a shard, and of two with two of them.
fn in_clusters(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    if changed(&change).uplinks.is_some() {
        // An orchestrator is no node of a cluster: what enters at one comes to the others by the brokers.
        return;
    }
    story(&World::cluster(3, 1, &change));
    for seed in 1..=2 {
        story(&World::seeded_cluster(2, 2, seed, &format!("2 nodes of 2 shards, seed {seed}"), &change));
    }
}

fn in_one_process_in_memory(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    let settings = || changed(&change);
    story(&World::build(1, settings(), Schedule::InTurn, true, "1 shard in turn"));
    story(&World::build(3, settings(), Schedule::InTurn, true, "3 shards in turn"));
    for seed in 1..=4 {
        let schedule = Schedule::Seeded(Random::new(seed));
        story(&World::build(3, settings(), schedule, seed % 2 == 0, &format!("3 shards, seed {seed}")));
    }
}

fn changed(change: impl Fn(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

impl World {
    fn build(shards: u16, settings: Settings, schedule: Schedule, causal: bool, title: &str) -> Self {
        Self::of_nodes(Nodes::one(shards), settings, schedule, causal, title)
    }

    fn of_nodes(nodes: Nodes, settings: Settings, schedule: Schedule, causal: bool, title: &str) -> Self {
        Self(Rc::new(RefCell::new(Net::new(nodes, settings, schedule, causal, title.to_owned()))))
    }

    /// A cluster of so many nodes with so many shards each.
    pub(crate) fn cluster(nodes: u16, shards: u16, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let title = format!("{nodes} nodes of {shards} shards in turn");
        Self::of_nodes(Nodes::new(nodes, shards), settings, Schedule::InTurn, false, &title)
    }

    /// The same, in which the seed decides what happens next.
    pub(crate) fn seeded_cluster(
        nodes: u16,
        shards: u16,
        seed: u64,
        title: &str,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let schedule = Schedule::Seeded(Random::salted(seed, 1));
        Self::of_nodes(Nodes::new(nodes, shards), settings, schedule, false, title)
    }

    /// A world of so many shards with default settings.
    pub(crate) fn new(shards: u16) -> Self {
        Self::with(shards, |_| {})
    }

    /// A world with other settings than the default ones.
    pub(crate) fn with(shards: u16, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::build(shards, settings, Schedule::InTurn, true, &format!("{shards} shards in turn"))
    }

    /// A world in which the seed decides what happens next. Shards take what was sent to them in the order in which it
    /// was sent, as an inbox does.
    pub(crate) fn seeded(shards: u16, seed: u64, title: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::build(shards, settings, Schedule::Seeded(Random::salted(seed, 1)), true, title)
    }

    /// The same with less order than an inbox has: only what one shard sends to one other keeps its order.
    pub(crate) fn seeded_links(shards: u16, seed: u64, title: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::build(shards, settings, Schedule::Seeded(Random::salted(seed, 1)), false, title)
    }

    // ---- clients ---------------------------------------------------------------------------------------------------

    /// Opens a socket and sends nothing.
    pub(crate) fn open(&self, connecting: &Connecting) -> Client {
        let mut net = self.0.borrow_mut();
        let socket = net.open(Side::new(connecting), connecting);
        drop(net);
        Client::new(self.clone(), socket, connecting.clone())
    }

    /// Opens a socket and sends CONNECT, whatever comes of it.
    #[expect(clippy::needless_pass_by_value, reason = "a connection is described where it is made")]
    pub(crate) fn try_connect(&self, connecting: Connecting) -> Client {
        let client = self.open(&connecting);
        client.send_bytes(&connecting.encode());
        self.run();
        client
    }

    /// Connects; the server has to accept.
    pub(crate) fn connect(&self, connecting: Connecting) -> Client {
        let mut client = self.try_connect(connecting);
        client.expect_accepted();
        client
    }

    // ---- what happens ----------------------------------------------------------------------------------------------

    /// Lets everything happen that can without time passing.
    pub(crate) fn run(&self) {
        self.0.borrow_mut().run();
    }

    /// Lets at most so many things happen.
    pub(crate) fn run_some(&self, steps: usize) {
        let mut net = self.0.borrow_mut();
        for _ in 0..steps {
            if !net.run_one() {
                break;
            }
        }
    }

    /// Lets each shard take one turn.
    pub(crate) fn turns(&self) {
        let mut net = self.0.borrow_mut();
        for shard in 0..net.engines.len() {
            net.turn(shard);
        }
    }

    /// Lets time pass, and everything happen that falls due on the way.
    pub(crate) fn advance(&self, milliseconds: u64) {
        self.run();
        let end = self.now().monotonic.plus(milliseconds);
        loop {
            let now = self.now().monotonic;
            let next = self.0.borrow().next_deadline().max(now);
            if next > end {
                break;
            }
            self.0.borrow_mut().move_clock(next.since(now));
            self.run();
            assert!(next > now || self.0.borrow().next_deadline() > now, "a deadline stays due at {}", now.0);
        }
        let rest = end.since(self.now().monotonic);
        self.0.borrow_mut().move_clock(rest);
        self.run();
    }

    /// Lets time pass without anything happening.
    pub(crate) fn skip(&self, milliseconds: u64) {
        self.0.borrow_mut().move_clock(milliseconds);
    }

    /// Sets the wall clock forward or back, as an operator does; the monotonic clock does not notice.
    pub(crate) fn step_wall_clock(&self, milliseconds: i64) {
        let mut net = self.0.borrow_mut();
        net.now.unix = net.now.unix.saturating_add_signed(milliseconds);
    }

    pub(crate) fn now(&self) -> Now {
        self.0.borrow().now
    }

    pub(crate) fn next_deadline(&self) -> Millis {
        self.0.borrow().next_deadline()
    }

    /// Keeps batches from one shard to another back until [`World::release`].
    pub(crate) fn hold(&self, from: u16, to: u16) {
        self.0.borrow_mut().held.insert((usize::from(from), usize::from(to)));
    }

    /// Lets batches through again, and everything happen that follows.
    pub(crate) fn release(&self, from: u16, to: u16) {
        self.0.borrow_mut().held.remove(&(usize::from(from), usize::from(to)));
        self.run();
    }

    // ---- the store -------------------------------------------------------------------------------------------------

    /// Nothing is committed until [`World::commit`].
    pub(crate) fn hold_commits(&self) {
        self.0.borrow_mut().store.held = true;
    }

    /// Commits so many of the batches that wait, and lets everything happen that follows.
    pub(crate) fn commit(&self, count: usize) {
        self.run();
        self.0.borrow_mut().commit(count);
        self.run();
    }

    /// Commits whatever waits, again and again until nothing does, and goes on committing.
    pub(crate) fn release_commits(&self) {
        self.0.borrow_mut().store.held = false;
        self.run();
    }

    /// Commits again from now on.
    pub(crate) fn release_commits_later(&self) {
        self.0.borrow_mut().store.held = false;
    }

    /// Batches on their way to the store.
    pub(crate) fn uncommitted(&self) -> usize {
        self.0.borrow().store.waiting.len()
    }

    /// Batches so far that were committed and said something.
    pub(crate) fn written(&self) -> u64 {
        self.0.borrow().store.written
    }

    /// What the store holds.
    pub(crate) fn pairs(&self) -> Pairs {
        self.0.borrow().store.pairs.clone()
    }

    /// What of that is somebody's.
    pub(crate) fn swept(&self) -> Pairs {
        self.0.borrow().store.swept()
    }

    /// A node of the cluster dies, and the others hear of it.
    pub(crate) fn end_node(&self, node: usize) {
        self.0.borrow_mut().end_node(node);
        self.run();
    }

    /// The same, and of what was under way from it only so many batches of each shard still arrive. Nothing else happens yet.
    pub(crate) fn kill_node(&self, node: usize, arrive: usize) {
        let mut net = self.0.borrow_mut();
        net.lose_batches_of(node, arrive);
        net.end_node(node);
    }

    /// A node of the cluster dies, and others will go on with what it owed.
    pub(crate) fn await_node(&self, node: usize) {
        self.0.borrow_mut().await_node(node);
        self.run();
    }

    /// The same of a node whose store is on the bus, with so many of the batches that it has not committed; of what was under way from it
    /// so many batches of each shard still arrive. Nothing else happens yet.
    pub(crate) fn fall(&self, node: usize, kept: usize, arrive: usize) {
        self.0.borrow_mut().fall(node, kept, arrive);
    }

    /// The same, and the others know no more than that they do not reach it.
    pub(crate) fn fall_unnoticed(&self, node: usize, kept: usize, arrive: usize) {
        self.0.borrow_mut().fall_unnoticed(node, kept, arrive);
    }

    /// A table says that it is dead.
    pub(crate) fn bury(&self, node: usize) {
        self.0.borrow_mut().bury(node);
    }

    /// A table says that those who have taken in what it had serve it.
    pub(crate) fn serve_by_table(&self) {
        self.0.borrow_mut().serve_by_table();
    }

    /// Whether some node has yet to read a table.
    pub(crate) fn has_unread_tables(&self) -> bool {
        self.0.borrow().has_unread()
    }

    /// A node reads the next table.
    pub(crate) fn read_table(&self, node: usize) {
        assert!(self.0.borrow_mut().read_table(node), "node {node} has a table to read");
        self.run();
    }

    /// All nodes read all tables.
    pub(crate) fn read_all_tables(&self) {
        self.0.borrow_mut().read_all_tables();
    }

    /// Others take in what it had, and do not serve it yet.
    pub(crate) fn fetch_of(&self, node: usize) {
        self.0.borrow_mut().fetch_of(node);
    }

    /// They serve it.
    pub(crate) fn serve_for(&self, node: usize) {
        self.0.borrow_mut().serve_for(node);
    }

    /// It comes back with its data before they do.
    pub(crate) fn revive(&self, node: usize) {
        self.0.borrow_mut().revive(node);
    }

    /// Batches of a node on their way to its store.
    pub(crate) fn uncommitted_of(&self, node: usize) -> usize {
        self.0.borrow().store.waiting_of(node)
    }

    /// It joins with nothing.
    pub(crate) fn rejoin(&self, node: usize) {
        self.0.borrow_mut().begin_node(node);
    }

    /// Half of the partitions that the first node works are a node's from now on; nothing is in them.
    pub(crate) fn give_some(&self, node: usize) {
        self.0.borrow_mut().give_some(node);
        self.run();
    }

    /// How many nodes there are, and of how many shards.
    pub(crate) fn nodes(&self) -> (usize, u16) {
        let nodes = self.0.borrow().nodes;
        (usize::from(nodes.count()), nodes.engines() / nodes.count())
    }

    /// All of that.
    pub(crate) fn take_over(&self, node: usize) {
        self.fetch_of(node);
        self.run();
        self.serve_for(node);
        self.run();
    }

    /// Lets things happen until a shard has worked off a batch of another one, and what it wrote for that is not committed.
    pub(crate) fn until_it_has(&self, to: u16, from: u16) {
        let mut net = self.0.borrow_mut();
        while let Some(step) = net.steps().first().copied() {
            net.take(step);
            if step == (Step::Deliver { from: usize::from(from), to: usize::from(to) }) {
                return;
            }
        }
        panic!("nothing comes from shard {from} to shard {to}");
    }

    /// What the store of a node holds.
    pub(crate) fn pairs_of(&self, node: usize) -> Pairs {
        self.0.borrow_mut().store.pairs_of_mut(node).clone()
    }

    /// They do.
    pub(crate) fn replace_node(&self, node: usize) {
        self.0.borrow_mut().replace_node(node);
        self.run();
    }

    /// A node dies as [`World::kill_node`] says, and others will go on with what it owed. Nothing else happens yet.
    pub(crate) fn kill_awaited_node(&self, node: usize, arrive: usize) {
        let mut net = self.0.borrow_mut();
        net.lose_batches_of(node, arrive);
        net.await_node(node);
    }

    /// Two nodes lose their link, and of what was under way only so many batches of each shard to each still arrive. Nothing else happens yet.
    pub(crate) fn break_link(&self, one: usize, other: usize, arrive: usize) {
        self.0.borrow_mut().break_link(one, other, arrive);
    }

    /// All nodes have their links again.
    pub(crate) fn mend_links(&self) {
        self.0.borrow_mut().mend_links();
    }

    /// It comes back with nothing.
    pub(crate) fn begin_node(&self, node: usize) {
        self.0.borrow_mut().begin_node(node);
        self.run();
    }

    /// Begins a move of partitions from node to node, or takes the next step of the one that is under way.
    pub(crate) fn step_move(&self, random: &mut Random) {
        self.0.borrow_mut().step_move(random);
    }

    /// Begins a move of the partition of a name.
    pub(crate) fn begin_move(&self, from: usize, to: usize, name: &str) {
        let partitions = std::iter::once(partition_of(TenantId::DEFAULT, name)).collect();
        self.0.borrow_mut().begin_move(from, to, partitions);
    }

    /// Takes the next step of the move that is under way.
    pub(crate) fn advance_move(&self) {
        self.0.borrow_mut().advance_move();
        self.run();
    }

    /// A table says that the move is called off.
    pub(crate) fn call_off_move(&self) {
        self.0.borrow_mut().end_of_move(false);
    }

    /// Brings the move that is under way to its end.
    pub(crate) fn end_move(&self) {
        while !self.0.borrow_mut().end_move() {
            self.run();
        }
    }

    /// Moves of partitions so far.
    pub(crate) fn moves(&self) -> u64 {
        self.0.borrow().moves
    }

    /// The process dies, and another one goes on.
    pub(crate) fn crash(&self, crash: Crash) {
        self.0.borrow_mut().crash(crash);
    }

    /// Connections of clients that crashes have broken.
    pub(crate) fn broken(&self) -> u64 {
        self.0.borrow().broken
    }

    // ---- places ----------------------------------------------------------------------------------------------------

    pub(crate) fn shards(&self) -> u16 {
        self.0.borrow().engines.len() as u16
    }

    /// The home of a client id, a retained topic, or (`share/filter`) a shared group.
    pub(crate) fn home_of(&self, name: &str) -> u16 {
        self.0.borrow().nodes.home_of(partition_of(TenantId::DEFAULT, name)) as u16
    }

    /// Whether a shard works any partition.
    pub(crate) fn works_something(&self, shard: u16) -> bool {
        let nodes = self.0.borrow().nodes;
        (0..tidegate_engine::PARTITIONS).any(|at| nodes.home_of(tidegate_engine::PartitionId(at)) == usize::from(shard))
    }

    /// A name that starts with `stem` and whose home is the given shard.
    pub(crate) fn name_on(&self, shard: u16, stem: &str) -> String {
        let shard = shard % self.shards();
        let absent = self.0.borrow().nodes.absent();
        let is_there =
            |name: &String| self.home_of(name) == shard && !absent.has(partition_of(TenantId::DEFAULT, name));
        let name = (0..100_000).map(|number| format!("{stem}{number}")).find(is_there);
        name.expect("one of many names")
    }

    // ---- the control plane -----------------------------------------------------------------------------------------

    /// The credentials of the CONNECT that has waited longest for a verdict.
    pub(crate) fn asked(&self) -> AuthRequest {
        self.0.borrow().asked.front().expect("a CONNECT that waits").request.clone()
    }

    /// How many CONNECT packets wait for a verdict.
    pub(crate) fn waiting_for_verdict(&self) -> usize {
        self.0.borrow().asked.len()
    }

    /// Decides about the CONNECT that has waited longest.
    pub(crate) fn decide(&self, verdict: Verdict) {
        let mut net = self.0.borrow_mut();
        let asked = net.asked.pop_front().expect("a CONNECT that waits");
        net.answer(&asked, verdict);
        net.run();
    }

    /// Decides about the answer to a challenge that has waited longest, and returns it.
    pub(crate) fn decide_challenge(&self, verdict: Verdict) -> Vec<u8> {
        let mut net = self.0.borrow_mut();
        let (shard, key, data) = net.challenged.pop_front().expect("an answer to a challenge");
        net.with_engine(shard, |engine, now| engine.handle_verdict(now, key, verdict));
        net.run();
        data
    }

    /// Calls the engine of a shard.
    pub(crate) fn engine<T>(&self, shard: u16, call: impl FnOnce(&mut Engine, Now) -> T) -> T {
        self.0.borrow_mut().with_engine(usize::from(shard), call)
    }

    pub(crate) fn shut_down(&self) {
        for step in [Engine::publish_last_wills, Engine::begin_shutdown] {
            for shard in 0..self.shards() {
                self.engine(shard, step);
            }
            self.run();
        }
    }

    /// All shards' counters, also of processes that have died.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = self.0.borrow().past.clone();
        for engine in &self.0.borrow().engines {
            sum.add(engine.counters());
        }
        sum
    }

    /// All shards' gauges.
    pub(crate) fn gauges(&self) -> Gauges {
        let mut sum = Gauges::default();
        for engine in &self.0.borrow().engines {
            sum.add(&engine.gauges());
        }
        sum
    }

    /// Messages that were not delivered for this reason.
    pub(crate) fn dropped(&self, reason: Reason) -> u64 {
        self.counters().dropped[reason.number()]
    }

    /// Runs, and takes the names of the clients that have acknowledged a ping.
    pub(crate) fn take_pongs(&self) -> Vec<String> {
        self.run();
        std::mem::take(&mut self.0.borrow_mut().pongs)
    }

    /// Runs, and takes what nodes have said of themselves.
    pub(crate) fn take_reports(&self) -> Vec<ApplicationMessage> {
        self.run();
        std::mem::take(&mut self.0.borrow_mut().reports)
    }

    /// Runs, and takes the messages for applications, each with its shard.
    pub(crate) fn take_records(&self) -> Vec<(u16, ApplicationMessage)> {
        self.run();
        let records = std::mem::take(&mut self.0.borrow_mut().records);
        records.into_iter().map(|(shard, message)| (shard as u16, message)).collect()
    }

    /// Runs, and takes the numbers of what was published and taken.
    pub(crate) fn take_taken(&self) -> Vec<(u64, bool)> {
        self.run();
        std::mem::take(&mut self.0.borrow_mut().taken)
    }

    /// Takes what was told to the log.
    pub(crate) fn take_log(&self) -> Vec<LogEvent> {
        std::mem::take(&mut self.0.borrow_mut().log)
    }

    /// Refuses to accept sockets of a listener that does not exist: for tests of limits.
    pub(crate) fn refuses(&self, listener: u16) -> Option<Reason> {
        let result = self.engine(0, |engine, now| engine.open_connection(now, ListenerId(listener)));
        match result {
            Ok(key) => {
                self.engine(0, |engine, _| engine.release_connection(key));
                None
            }
            Err(reason) => Some(reason),
        }
    }

    // ---- for simulations -------------------------------------------------------------------------------------------

    /// A digest of everything that happened so far.
    pub(crate) fn digest(&self) -> u64 {
        self.0.borrow().trace.digest
    }

    pub(crate) fn note(&self, line: String) {
        self.0.borrow_mut().trace.note(line);
    }

    pub(crate) fn batches_under_way(&self) -> usize {
        self.0.borrow().batches_under_way()
    }
}
