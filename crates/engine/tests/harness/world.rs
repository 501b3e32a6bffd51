//! The world that a test holds.

mod authentications;
mod books;
mod cluster;
mod everywhere;
mod moves;
mod peers;
mod places;
mod store;

use std::cell::RefCell;
use std::rc::Rc;

use tidegate_engine::{AddressSettings, Durability, Engine, ListenerId, Millis, Now, Reason, RoutingPolicy, Settings};
use tidegate_mqtt::QoS;

pub(crate) use self::books::principal;
pub(crate) use self::everywhere::{
    everywhere, everywhere_in_memory, everywhere_with, in_one_process, in_one_process_with,
};
use super::client::Client;
use super::fleet::fleet_settings;
use super::net::nodes::Nodes;
use super::net::{Net, Schedule};
use super::side::Side;
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

/// The settings of an orchestrator with addresses.
fn addressed() -> Settings {
    let mut settings = Settings::default();
    fleet_settings(&mut settings, RoutingPolicy::TopicHash);
    settings.addresses = Some(AddressSettings { guarded: false, ..AddressSettings::default() });
    settings
}

/// Engines, clients, links and a clock.
#[derive(Clone)]
pub(crate) struct World(pub(super) Rc<RefCell<Net>>);

impl World {
    fn build(shards: u16, settings: Settings, schedule: Schedule, causal: bool, title: &str) -> Self {
        Self::of_nodes(&Nodes::one(shards), settings, schedule, causal, title)
    }

    fn of_nodes(nodes: &Nodes, settings: Settings, schedule: Schedule, causal: bool, title: &str) -> Self {
        Self(Rc::new(RefCell::new(Net::new(nodes, settings, schedule, causal, title.to_owned()))))
    }

    /// A cluster of nodes with a number of shards each.
    pub(crate) fn cluster(nodes: u16, shards: u16, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let title = format!("{nodes} nodes of {shards} shards in turn");
        Self::of_nodes(&Nodes::new(nodes, shards), settings, Schedule::InTurn, false, &title)
    }

    /// A cluster of orchestrators with a number of shards each, which have addresses. Only the first has brokers.
    pub(crate) fn orchestrators(members: u16, shards: u16) -> Self {
        let title = format!("{members} orchestrators of {shards} shards in turn");
        Self::of_nodes(&Nodes::orchestrators(members, shards), addressed(), Schedule::InTurn, false, &title)
    }

    /// The same with stores on the bus.
    pub(crate) fn stored_orchestrators(members: u16, shards: u16) -> Self {
        let title = format!("{members} orchestrators of {shards} shards with stores in turn");
        let settings = Settings { durability: Durability::Commit, ..addressed() };
        Self::of_nodes(&Nodes::orchestrators(members, shards), settings, Schedule::InTurn, false, &title)
    }

    /// The same, in which the seed decides the next step.
    pub(crate) fn seeded_orchestrators(
        members: u16,
        shards: u16,
        seed: u64,
        title: &str,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = addressed();
        change(&mut settings);
        let schedule = Schedule::Seeded(Random::salted(seed, 1));
        Self::of_nodes(&Nodes::orchestrators(members, shards), settings, schedule, false, title)
    }

    /// A cluster of nodes in which the seed decides the next step.
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
        Self::of_nodes(&Nodes::new(nodes, shards), settings, schedule, false, title)
    }

    /// A world with this number of shards and default settings.
    pub(crate) fn new(shards: u16) -> Self {
        Self::with(shards, |_| {})
    }

    /// A world with other settings than the default ones.
    pub(crate) fn with(shards: u16, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::build(shards, settings, Schedule::InTurn, true, &format!("{shards} shards in turn"))
    }

    /// A world in which the seed decides the next step. Shards take the records sent to them in the order in which they
    /// were sent, as an inbox does.
    pub(crate) fn seeded(shards: u16, seed: u64, title: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::build(shards, settings, Schedule::Seeded(Random::salted(seed, 1)), true, title)
    }

    /// The same with less order than an inbox has: only the messages from one shard to one other keep their order.
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

    /// Connects a client that subscribes and then loses its connection.
    pub(crate) fn absent_subscriber(&self, connecting: Connecting, filter: &str, qos: QoS) {
        let client = self.connect(connecting);
        client.subscribe(filter, qos);
        client.lose();
    }

    // ---- what happens ----------------------------------------------------------------------------------------------

    /// Lets everything happen that can without time passing.
    pub(crate) fn run(&self) {
        self.0.borrow_mut().run();
    }

    /// Messages that were read from the store for queues.
    pub(crate) fn read_from_store(&self) -> usize {
        self.0.borrow().read_messages
    }

    /// Performs at most this number of steps.
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

    pub(crate) fn settings(&self) -> Settings {
        (*self.0.borrow().settings).clone()
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

    /// Calls the engine of a shard.
    pub(crate) fn engine<T>(&self, shard: u16, call: impl FnOnce(&mut Engine, Now) -> T) -> T {
        self.0.borrow_mut().with_engine(usize::from(shard), call)
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

    pub(crate) fn shut_down(&self) {
        let publish_wills = |engine: &mut Engine, now| engine.control().publish_last_wills(now);
        let begin_shutdown = |engine: &mut Engine, now| engine.control().begin_shutdown(now);
        for step in [publish_wills as fn(&mut Engine, Now), begin_shutdown] {
            for shard in 0..self.shards() {
                self.engine(shard, step);
            }
            self.run();
        }
    }
}
