//! Moves that are called off, at a node that runs: it serves the partitions again with the same table.

use std::sync::mpsc::Receiver;

use tidegate_administration::BrokerStatus;
use tidegate_cluster::{Advert, Follower, Home, Move, Table};
use tidegate_config::Config;
use tidegate_config::sections::cluster::Redirect;
use tidegate_node::{ClusterSettings, Node, NodeSettings, Secret};

use super::*;
use crate::driver::first_table::first_table;
use crate::driver::status::{NodeKind, Standpoint};
use crate::driver::view::tell;

const LEASE: Duration = Duration::from_secs(3_600);
const MOVE: u64 = 300;

/// The orchestrator "a" of a cluster with "b", and its thread that follows tables.
struct Orchestrator {
    node: Node,
    worker: Worker,
    follower: Follower,
    life: u64,
    adverts: BTreeMap<String, Advert>,
    table: Table,
    _events: Receiver<Event>,
}

impl Orchestrator {
    fn new() -> Self {
        let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
        settings.shards = 2;
        let (name, secret) = (NodeName::new("a").unwrap(), Secret::new(&[7; 64]).unwrap());
        settings.cluster = Some(ClusterSettings::new(name, 1, "127.0.0.1:0".parse().unwrap(), secret));
        let node = Node::start(settings).unwrap();
        let mut config = Config::default();
        config.cluster.bus = Some("embedded".to_owned());
        let Ok(logs) = Logs::open(&config, &BrokerStatus::starting(), &mut || false) else { panic!("no bus") };
        let kind = NodeKind { is_orchestrator: true, exchanges_addresses: false };
        let shared = Arc::new(Shared::new("a", node.handle(), LEASE, Duration::ZERO, kind));
        let (events, inbox) = channel();
        let restorer =
            Restorer::new("a".to_owned(), node.handle(), logs.bus.clone(), tidegate_engine::Settings::default(), None);
        let memory = MemoryFile::of(None, None);
        let mut worker = new_worker("a".to_owned(), node.handle(), logs, memory, restorer, shared, events);
        worker.resume();
        let adverts: BTreeMap<_, _> =
            ["a", "b"].map(|name| (name.to_owned(), Advert { life: 1, ..Advert::default() })).into();
        let table = Table { epoch: 0, ..first_table(&adverts) };
        let follower = Follower::new("a", 1, BTreeMap::new());
        let mut orchestrator = Self { node, worker, follower, life: 1, adverts, table, _events: inbox };
        orchestrator.begin_life(1);
        orchestrator
    }

    fn begin_life(&mut self, life: u64) {
        self.worker.shared.renew(life, Instant::now() + LEASE);
        self.follower = Follower::new("a", life, self.follower.holdings());
        self.life = life;
        self.table.lives.insert("a".to_owned(), life);
        self.follow(|_| {});
    }

    /// Follows the next table.
    fn follow(&mut self, change: impl FnOnce(&mut Table)) {
        change(&mut self.table);
        self.table.epoch += 1;
        let steps = self.follower.take(&self.table);
        let told = tell("a", &self.table, &self.follower, &self.adverts, Redirect::Off);
        let node =
            FollowingNode { name: "a", life: self.life, place: None, follower: &self.follower, known: &self.table };
        let standpoint = Standpoint { life: self.life, table: self.table.clone(), ..Standpoint::default() };
        self.worker.shared.set_standpoint(standpoint);
        self.worker.follow(&TableWork::new(&node, &self.table, steps, told));
    }

    /// Begins to move all partitions to "b".
    fn begin_move(&mut self) {
        let partitions = self.table.of("a");
        let it = Move { id: MOVE, partitions, from: "a".into(), to: "b".into() };
        self.follow(|table| table.moves.push(it));
        assert_eq!(self.worker.departing.len(), 1, "the images are sent");
        assert_eq!(self.node.handle().served().unwrap(), Partitions::NONE);
    }

    /// All partitions are at home at this node now, without a move of the table.
    fn give(&mut self, partitions: &[u16], to: &str) {
        let since = self.table.epoch + 1;
        let home = Home { node: to.to_owned(), since, by: None, first: false, former: Vec::new() };
        self.follow(|table| {
            table.moves.clear();
            let homes = Arc::make_mut(&mut table.homes);
            for partition in partitions {
                homes.set(*partition, Some(home.clone()));
            }
        });
    }

    #[track_caller]
    fn serves_its_own(&self) {
        let own = self.table.of("a");
        assert!(!own.is_empty());
        assert_eq!(self.node.handle().served().unwrap(), set_of(&own));
        assert_eq!((self.worker.departing.len(), self.worker.passing.len()), (0, 0), "nothing of the move is left");
    }
}

#[test]
fn partitions_of_a_move_that_others_call_off_are_served() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.serves_its_own();
    orchestrator.begin_move();
    // The new home has refused, or is another life.
    orchestrator.follow(|table| table.moves.clear());
    orchestrator.serves_its_own();
}

#[test]
fn partitions_of_a_move_are_served_by_the_next_life() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.begin_move();
    orchestrator.table.moves.clear();
    orchestrator.begin_life(2);
    orchestrator.serves_its_own();
}

#[test]
fn partitions_that_return_early_are_served() {
    let mut orchestrator = Orchestrator::new();
    let partitions = orchestrator.table.of("a");
    orchestrator.begin_move();
    orchestrator.give(&partitions, "b");
    assert_eq!(orchestrator.worker.passing.len(), 1, "messages of brokers still come here");
    assert_eq!(orchestrator.node.handle().served().unwrap(), Partitions::NONE);
    orchestrator.give(&partitions, "a");
    orchestrator.serves_its_own();
}

#[test]
fn a_move_that_begins_again_has_one_stream() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.begin_move();
    orchestrator.follow(|table| table.moves[0].id = MOVE + 1);
    let worker = &orchestrator.worker;
    assert_eq!(worker.departing.keys().collect::<Vec<_>>(), [&(MOVE + 1)]);
    assert_eq!(worker.passing.to_remember().into_keys().collect::<Vec<_>>(), [MOVE + 1]);
}
