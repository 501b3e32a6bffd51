//! Orchestrators of a cluster in front of the same brokers: partitions move, members die and come back, connections to
//! brokers break, and in the end each session has each message. A seed decides about everything.

use tidegate_engine::{
    Behind, Durability, OrchestratorMoves, Partitions, RoutingPolicy, Settling, Snapshot, TenantId, UplinkOptions,
    UplinkState, partition_of,
};
use tidegate_mqtt::{QoS, SubscriptionOptions, Version};

use crate::harness::*;

/// Seeds that are played.
const SEEDS: u64 = 200;
/// Things that happen in one run.
const ACTIONS: usize = 90;
const MEMBERS: usize = 3;
const BROKERS: [&str; 2] = ["a", "b"];
const READERS: usize = 4;

/// A member, and its connections to the brokers. Each broker gives every message to all members.
struct Member {
    world: World,
    brokers: Vec<Broker>,
    publisher: Device,
}

/// A session that moves.
struct Reader {
    name: String,
    home: usize,
}

/// A move whose old home forwards messages.
struct Forwarding {
    id: u64,
    reader: usize,
    from: usize,
    to: usize,
    settling: Option<Settling>,
    /// Whether the new home has lost all that it knew of the move.
    is_forgotten: bool,
}

struct Run {
    seed: u64,
    random: Random,
    members: Vec<Member>,
    readers: Vec<Reader>,
    forwarding: Vec<Forwarding>,
    published: Vec<(String, QoS)>,
    moves: u64,
    /// Members to which a session has moved.
    receivers: [bool; MEMBERS],
    /// Whether none of these has died: such a member forgets which messages sessions have from their last home, and a
    /// message may come twice.
    is_exact: bool,
}

fn partitions_of(client: &str) -> Partitions {
    std::iter::once(partition_of(TenantId::DEFAULT, client)).collect()
}

/// Names whose partitions differ.
fn names(count: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let all = (0..).map(|number| format!("client-{number}"));
    names.extend(
        all.scan(Partitions::NONE, |taken, name| {
            let is_new = !taken.has(partition_of(TenantId::DEFAULT, &name));
            *taken = taken.with(partitions_of(&name));
            Some(Some(name).filter(|_| is_new))
        })
        .flatten()
        .take(count),
    );
    names
}

impl Member {
    fn new(seed: u64, number: usize, publisher: &str) -> Self {
        let title = format!("member {number}, TIDEGATE_SEED={seed}");
        let world = World::seeded(1, seed + number as u64, &title, |settings| {
            fleet_settings(settings, RoutingPolicy::TopicHash);
            settings.durability = Durability::Commit;
            if let Some(uplinks) = &mut settings.uplinks {
                uplinks.orchestrator = format!("m{number}");
            }
        });
        world.become_process(100 * (number as u64 + 1));
        // A connection that breaks early could mean that the broker knows no MQTT 5, which has the ids of messages.
        let options = UplinkOptions { version: Some(Version::V5), ..fleet::lasting() };
        let brokers = BROKERS.map(|name| world.broker_with(name, options.clone(), Ways::default())).into();
        let publisher = Device::new(&world, publisher);
        Self { world, brokers, publisher }
    }

    fn connect(&mut self) {
        self.publisher.notice_close();
        if self.publisher.client().is_none() {
            self.publisher.connect(v5("").clean(false).expiry(u32::MAX));
        }
    }

    /// Whether the brokers hold all filters.
    fn brokers_know(&self) -> bool {
        let uplinks = self.world.engine(0, |engine, _| engine.questions().uplinks());
        uplinks.iter().all(|uplink| uplink.state == UplinkState::Serving && uplink.filters_pending == 0)
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::salted(seed, 23);
        let names = names(MEMBERS + READERS);
        let members = (0..MEMBERS).map(|number| Member::new(seed * 10, number, &names[number])).collect();
        let readers = names[MEMBERS..].iter().map(|name| Reader { name: name.clone(), home: random.below(MEMBERS) });
        let readers = readers.collect();
        let (forwarding, published) = (Vec::new(), Vec::new());
        let receivers = [false; MEMBERS];
        Self { seed, random, members, readers, forwarding, published, moves: 0, receivers, is_exact: true }
    }

    fn play(mut self) {
        for reader in &self.readers {
            let world = &self.members[reader.home].world;
            let mut device = Device::new(world, &reader.name);
            device.connect(v5("").clean(false).expiry(u32::MAX));
            settle(world, &mut device);
            device.subscribe("t/#", SubscriptionOptions::new(QoS::ExactlyOnce), None);
            settle(world, &mut device);
            assert_eq!(device.subscribed.len(), 1, "seed {}", self.seed);
            device.cut(usize::MAX);
        }
        for member in &mut self.members {
            member.connect();
        }
        self.run_all();
        for _ in 0..ACTIONS {
            self.act();
        }
        self.calm_down();
        self.check();
    }

    fn act(&mut self) {
        let member = self.random.below(MEMBERS);
        match self.random.below(100) {
            0..=34 => {
                let steps = 1 + self.random.below(12);
                self.members[member].world.run_some(steps);
            }
            35..=59 => self.publish(member),
            60..=77 => self.forward(),
            78..=84 => self.begin_move(),
            85..=88 => self.restart(member),
            89..=92 => {
                let (broker, survives) = (self.random.pick(&BROKERS), self.random.pick(&[0, 5, 40, usize::MAX]));
                self.members[member].world.cut_broker(broker, survives);
            }
            93..=95 => {
                let milliseconds = self.random.pick(&[50, 400, 1500]);
                self.members[member].world.advance(milliseconds);
            }
            _ => {
                self.members[member].connect();
                self.members[member].publisher.process();
            }
        }
        self.spread();
    }

    /// A broker gives the messages that it has taken from one member to all others, before anything else happens.
    fn spread(&self) {
        for (at, member) in self.members.iter().enumerate() {
            for (broker, own) in member.brokers.iter().enumerate() {
                for carried in own.with(|own| std::mem::take(&mut own.taken)) {
                    let others = self.members.iter().enumerate().filter(|(other, _)| *other != at);
                    others.for_each(|(_, other)| other.brokers[broker].with(|broker| broker.route(&carried)));
                }
            }
        }
    }

    fn run(&self, member: usize) {
        self.members[member].world.run();
        self.spread();
    }

    fn run_all(&mut self) {
        for member in 0..MEMBERS {
            while self.members[member].publisher.process() {
                self.run(member);
            }
            self.run(member);
        }
    }

    fn publish(&mut self, member: usize) {
        let qos = self.random.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::ExactlyOnce]);
        let topic = self.random.pick(&["t/1", "t/2", "t/3"]);
        let payload = format!("{member}-{}", self.published.len());
        self.members[member].publisher.publish(message(topic, &payload).qos(qos));
        self.published.push((payload, qos));
    }

    /// A session moves, unless its last move is not over.
    fn begin_move(&mut self) {
        let reader = self.random.below(READERS);
        let (from, partitions) = (self.readers[reader].home, partitions_of(&self.readers[reader].name));
        let to = (from + 1 + self.random.below(MEMBERS - 1)) % MEMBERS;
        if self.forwarding.iter().any(|it| it.reader == reader) {
            return;
        }
        self.moves += 1;
        let id = self.moves;
        self.run(from);
        let images = self.members[from].world.engine(0, |engine, now| {
            engine.moves().hold_partitions(now, partitions, None);
            let Ok(Snapshot::Taken(images)) = engine.moves().snapshot_partitions(now, partitions, u64::MAX) else {
                panic!("all of it is in memory");
            };
            OrchestratorMoves::of(engine).begin_forwarding(id, partitions);
            images
        });
        let had = self.members[from].world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_had(id));
        for member in 0..MEMBERS {
            let steps = self.random.below(20);
            self.members[member].world.run_some(steps);
            self.spread();
        }
        self.members[to].world.engine(0, |engine, now| {
            engine.moves().arrive(now, &images).expect("images as they were given out");
            OrchestratorMoves::of(engine).begin_awaiting(now, id, partitions, Some(&had)).expect("messages");
            engine.moves().release_partitions(now, partitions);
        });
        self.run(to);
        for member in [from, to] {
            self.members[member].world.note(format!("{} moves from {from} to {to}", self.readers[reader].name));
        }
        self.readers[reader].home = to;
        self.receivers[to] = true;
        self.forwarding.push(Forwarding { id, reader, from, to, settling: None, is_forgotten: false });
        self.serve_elsewhere(from);
    }

    /// The members to which partitions have moved serve them.
    fn serve_elsewhere(&self, from: usize) {
        for it in self.forwarding.iter().filter(|it| it.from == from) {
            self.members[from].world.engine(0, |engine, _| OrchestratorMoves::of(engine).note_served_elsewhere(it.id));
        }
    }

    /// The old home of a move forwards the next piece.
    fn forward(&mut self) {
        if self.forwarding.is_empty() {
            return;
        }
        let at = self.random.below(self.forwarding.len());
        let mut it = self.forwarding.swap_remove(at);
        if !self.forward_piece(&mut it) {
            self.forwarding.push(it);
        }
    }

    /// Says whether it was the last one.
    fn forward_piece(&self, it: &mut Forwarding) -> bool {
        let (from, to) = (&self.members[it.from].world, &self.members[it.to]);
        let partitions = partitions_of(&self.readers[it.reader].name);
        let is_settled = if to.brokers_know() {
            let settling = it.settling.take();
            let (settling, is_settled) = from.engine(0, |engine, now| {
                let is_new = settling.is_none();
                let mut settling = settling.unwrap_or_else(|| OrchestratorMoves::of(engine).begin_settling(now));
                let is_settled = !is_new && engine.fleet().settle(now, &mut settling);
                (settling, is_settled)
            });
            it.settling = Some(settling);
            is_settled
        } else {
            it.settling = None;
            false
        };
        let taken = from.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(it.id)).unwrap_or_default();
        to.world.engine(0, |engine, now| {
            let mut moves = OrchestratorMoves::of(engine);
            if std::mem::take(&mut it.is_forgotten) {
                moves.resume_awaiting(it.id, partitions);
            }
            let behind = if is_settled { Behind::Nothing } else { Behind::Pieces };
            moves.take_piece(now, it.id, partitions, &taken.messages, behind).expect("a piece");
        });
        for world in [from, &to.world] {
            world.note(format!("a piece of move {}, the last one: {is_settled}", it.id));
        }
        self.run(it.to);
        from.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).confirm_forwarded(now, it.id, taken.unanswered);
            if is_settled {
                OrchestratorMoves::of(engine).end_forwarding(now, it.id, partitions);
                engine.moves().forget_partitions(now, partitions);
                engine.moves().release_partitions(now, partitions);
            }
        });
        self.run(it.from);
        is_settled
    }

    /// A member is killed, and continues as its next life.
    fn restart(&mut self, member: usize) {
        // Every second run is an exact one.
        if self.receivers[member] && self.seed.is_multiple_of(2) {
            return;
        }
        self.is_exact &= !self.receivers[member];
        let world = &self.members[member].world;
        let waiting = world.uncommitted();
        let kept = self.random.pick(&[0, self.random.clone().below(waiting + 1), waiting]);
        let (away, swept) = (self.random.pick(&[0, 700, 3000]), self.random.percent(50));
        world.crash(Crash { kept, shards: 1, away, stepped: 0, swept });
        for it in self.forwarding.iter_mut().filter(|it| it.from == member) {
            let partitions = partitions_of(&self.readers[it.reader].name);
            world.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(it.id, partitions));
            it.settling = None;
        }
        for it in self.forwarding.iter_mut().filter(|it| it.to == member) {
            it.is_forgotten = true;
        }
        self.serve_elsewhere(member);
        self.members[member].connect();
    }

    /// Nothing breaks any more, until nothing is owed to anyone.
    fn calm_down(&mut self) {
        for _ in 0..200 {
            for member in 0..MEMBERS {
                self.members[member].connect();
                self.members[member].world.advance(1_000);
                self.spread();
            }
            self.run_all();
            self.forward();
            self.run_all();
            let is_done = |member: &Member| {
                let uplinks = member.world.engine(0, |engine, _| engine.questions().uplinks());
                let owe: usize = member.brokers.iter().map(|broker| broker.with(|broker| broker.owes())).sum();
                let serves = uplinks.iter().all(|it| it.state == UplinkState::Serving && it.owed() == 0);
                member.publisher.is_done() && serves && owe == 0
            };
            if self.forwarding.is_empty() && self.members.iter().all(is_done) {
                return;
            }
        }
        panic!("seed {}: something is owed for ever, {} moves", self.seed, self.forwarding.len());
    }

    fn check(&self) {
        for reader in &self.readers {
            let world = &self.members[reader.home].world;
            let mut device = Device::new(world, &reader.name);
            device.connect(v5("").clean(false).expiry(u32::MAX));
            settle(world, &mut device);
            assert!(device.session_present, "seed {}", self.seed);
            for (payload, qos) in &self.published {
                let times = device.inbox.iter().filter(|it| it.message.text() == *payload).count();
                let what = format!("seed {}: {payload} came {times} times to {} at {qos:?}", self.seed, reader.name);
                assert!(times >= 1, "{what}");
                assert!(times == 1 || *qos != QoS::ExactlyOnce || !self.is_exact, "{what}");
            }
        }
    }
}

fn settle(world: &World, device: &mut Device) {
    world.run();
    while device.process() {
        world.run();
    }
}

#[test]
fn moves_and_deaths_of_members_cost_no_message() {
    let only = std::env::var("TIDEGATE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    for seed in only.map_or(0..SEEDS, |seed| seed..seed + 1) {
        Run::new(seed).play();
    }
}
