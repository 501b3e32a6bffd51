//! The cost of a message in the engine alone, without sockets: `cargo bench -p tidegate-engine`.
//!
//! Publishers' packets go in as bytes, subscribers' bytes are thrown away, acknowledgements are answered as a client
//! would. One line per scenario: nanoseconds per delivered message, the median of some rounds. The kernel adds its part
//! in a broker, which `docs/performance.md` shows.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results and stops at the first surprise"
)]

use std::sync::Arc;
use std::time::Instant;

use tidegate_engine::{
    BrokerLinkOptions, BrokerLinkSettings, ConnectionKey, Engine, Event, ListenerId, Millis, Now, OverflowPolicy,
    PriorityRule, PrioritySource, Settings, ShardId, ShardPosition,
};
use tidegate_mqtt::topic::matches;
use tidegate_mqtt::{QoS, Version};

const ROUNDS: usize = 9;
/// Packets handed in at once, as one read of a busy socket brings them.
const BURST: usize = 200;
/// Messages that subscribers get in a round, at least.
const DELIVERIES: usize = 40_000;
const PAYLOAD: usize = 64;
/// Bytes that an orchestrator and its broker read at once from each other.
const READ: usize = 1 << 16;
const NOW: Now = Now { monotonic: Millis(1_000), unix: 1_700_000_000_000 };

struct Scenario {
    name: &'static str,
    place: Place,
    publishers: usize,
    subscribers: usize,
    /// Topic of a publisher, filter of a subscriber, by their numbers.
    topic: fn(usize) -> String,
    filter: fn(usize) -> String,
    qos: QoS,
    /// Packets of a publisher that are handed in at once.
    burst: usize,
    /// The settings of the scenario.
    change: fn(&mut Settings),
}

/// The server of the clients.
#[derive(Clone, Copy)]
enum Place {
    /// A broker with this number of shards.
    Shards(u16),
    /// An orchestrator with this number of shards, before one broker of one shard.
    Orchestrator(u16),
}

/// The shards of one process, and whatever is under way between them. The last engine is the broker, if there is a link.
struct World {
    engines: Vec<Engine>,
    link: Option<Link>,
}

/// The connection between an orchestrator and its broker: the engine and the connection at each of them.
#[derive(Clone, Copy)]
struct Link([(usize, ConnectionKey); 2]);

impl Link {
    /// The other end of a connection of an engine, if it is this one.
    fn other_end(&self, engine: usize, key: ConnectionKey) -> Option<(usize, ConnectionKey)> {
        let [front, broker] = self.0;
        match (engine, key) {
            end if end == front => Some(broker),
            end if end == broker => Some(front),
            _ => None,
        }
    }
}

impl World {
    fn new(place: Place, change: fn(&mut Settings)) -> Self {
        match place {
            Place::Shards(shards) => Self::of_shards(shards, change),
            Place::Orchestrator(shards) => Self::of_orchestrator(shards, change),
        }
    }

    fn of_orchestrator(shards: u16, change: fn(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let front = Arc::new(Settings { broker_links: Some(BrokerLinkSettings::default()), ..settings.clone() });
        let place = |shard| ShardPosition { shard: ShardId(shard), shards };
        let mut engines: Vec<_> =
            (0..shards).map(|shard| Engine::new(Arc::clone(&front), place(shard), 7 + u64::from(shard), NOW)).collect();
        engines.push(Engine::new(Arc::new(settings), ShardPosition::ALONE, 6, NOW));
        let at_broker = engines.last_mut().unwrap().open_connection(NOW, ListenerId(0)).unwrap();
        let front = &mut engines[0];
        let options = BrokerLinkOptions { version: Some(Version::V5), user_name: None, password: None, lasting: false };
        front.fleet().set_broker_link(NOW, "broker", options).unwrap();
        let mut dial = std::iter::from_fn(|| front.poll_event());
        let (name, attempt) = dial
            .find_map(|event| match event {
                Event::Dial { broker_link, attempt } => Some((broker_link, attempt)),
                _ => None,
            })
            .unwrap();
        let at_front = front.fleet().open_broker_link(NOW, &name, attempt).unwrap();
        let link = Link([(0, at_front), (usize::from(shards), at_broker)]);
        let mut world = Self { engines, link: Some(link) };
        world.settle(QoS::AtMostOnce, &mut Vec::new());
        world
    }

    fn of_shards(shards: u16, change: fn(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let settings = Arc::new(settings);
        let place = |shard| ShardPosition { shard: ShardId(shard), shards };
        let engines = (0..shards).map(|shard| Engine::new(Arc::clone(&settings), place(shard), 7, NOW)).collect();
        Self { engines, link: None }
    }

    /// Connects a client on the shard that is its home.
    fn connect(&mut self, name: &str) -> (usize, ConnectionKey) {
        let mut packet = vec![0x10, 12 + name.len() as u8, 0, 4];
        packet.extend_from_slice(b"MQTT\x04\x02\x00\x00\x00");
        packet.push(name.len() as u8);
        packet.extend_from_slice(name.as_bytes());
        let mut shard = 0;
        loop {
            let key = self.engines[shard].open_connection(NOW, ListenerId(0)).unwrap();
            self.engines[shard].handle_input(NOW, key, &packet);
            let mut moved = None;
            while let Some(event) = self.engines[shard].poll_event() {
                if let Event::HandOver { home, .. } = event {
                    moved = Some(usize::from(home.0));
                }
            }
            match moved {
                Some(home) => shard = home,
                None => return (shard, key),
            }
        }
    }

    /// Messages that clients have sent, and messages that clients were sent.
    fn messages(&self) -> (u64, u64) {
        let count = |engine: &Engine| {
            let counters = engine.questions().counters();
            (counters.messages_in.iter().sum::<u64>(), counters.messages_out.iter().sum::<u64>())
        };
        let (sum_in, sum_out) = self.shards().iter().map(count).fold((0, 0), |(a, b), (i, o)| (a + i, b + o));
        // Of messages that a broker brings back none counts as sent by a client.
        let to_brokers: u64 = self.engines[self.shards().len()..].iter().map(|broker| count(broker).0).sum();
        (sum_in, sum_out - to_brokers)
    }

    /// The shards that serve the clients.
    fn shards(&self) -> &[Engine] {
        &self.engines[..self.engines.len() - usize::from(self.link.is_some())]
    }

    /// Takes turns until nothing is left to do, and throws away or acknowledges the output to clients. Returns its number
    /// of bytes.
    fn settle(&mut self, acknowledge: QoS, ids: &mut Vec<u8>) -> usize {
        let mut written = 0;
        loop {
            let mut busy = false;
            for from in 0..self.engines.len() {
                // A publisher waits when a turn has no room for its next message.
                if self.engines[from].next_deadline() <= NOW.monotonic {
                    self.engines[from].handle_timers(NOW);
                    busy = true;
                }
                let shards = self.shards().len();
                for to in 0..if from < shards { shards } else { 0 } {
                    if let Some(batch) = self.engines[from].take_batch(ShardId(to as u16)) {
                        self.engines[to].cluster().begin_matching();
                        let taken = self.engines[to].cluster().handle_batch(NOW, batch);
                        self.engines[to].cluster().begin_matching();
                        assert!(matches!(taken, Ok(None)), "a batch of this process, for few filters");
                        busy = true;
                    }
                }
                written += self.drain(from, acknowledge, ids, &mut busy);
            }
            if !busy {
                return written;
            }
        }
    }

    fn drain(&mut self, shard: usize, acknowledge: QoS, ids: &mut Vec<u8>, busy: &mut bool) -> usize {
        let mut written = 0;
        while let Some(key) = self.engines[shard].outputs().pop_dirty() {
            ids.clear();
            if let Some(to) = self.link.and_then(|link| link.other_end(shard, key)) {
                self.carry((shard, key), to, ids);
                *busy = true;
                continue;
            }
            let engine = &mut self.engines[shard];
            if let Some(output) = engine.output(key) {
                let mut slices = [std::io::IoSlice::new(&[])];
                output.slices(&mut slices);
                if acknowledge != QoS::AtMostOnce {
                    answer(&slices[0], ids);
                }
                let len = output.len();
                written += len;
                output.advance(len);
            }
            engine.outputs().handle_written(NOW, key);
            if !ids.is_empty() {
                engine.handle_input(NOW, key, ids);
                *busy = true;
            }
        }
        written
    }
}

impl World {
    /// Carries the bytes of one end of the connection between orchestrator and broker to the other end.
    fn carry(&mut self, (from, key): (usize, ConnectionKey), (to, other): (usize, ConnectionKey), bytes: &mut Vec<u8>) {
        let engine = &mut self.engines[from];
        while let Some(output) = engine.output(key).filter(|output| !output.is_empty()) {
            let mut slices = [std::io::IoSlice::new(&[]); 16];
            let count = output.slices(&mut slices);
            let before = bytes.len();
            for slice in &slices[..count] {
                bytes.extend_from_slice(slice);
            }
            let taken = bytes.len() - before;
            output.advance(taken);
            engine.outputs().handle_written(NOW, key);
        }
        for part in bytes.chunks(READ) {
            self.engines[to].handle_input(NOW, other, part);
        }
    }
}

/// The answers of a client to its packets: all have lengths of one or two bytes here.
fn answer(mut packets: &[u8], answers: &mut Vec<u8>) {
    while packets.len() >= 2 {
        let (len, head) = match packets[1] {
            low if low < 128 => (usize::from(low), 2),
            low => (usize::from(low & 127) | usize::from(packets[2]) << 7, 3),
        };
        let body = &packets[head..head + len];
        match packets[0] >> 4 {
            3 if packets[0] & 0b110 != 0 => {
                let topic = usize::from(body[0]) << 8 | usize::from(body[1]);
                let kind = if packets[0] & 0b100 != 0 { 0x50 } else { 0x40 };
                answers.extend_from_slice(&[kind, 2, body[topic + 2], body[topic + 3]]);
            }
            5 => answers.extend_from_slice(&[0x62, 2, body[0], body[1]]),
            6 => answers.extend_from_slice(&[0x70, 2, body[0], body[1]]),
            _ => {}
        }
        packets = &packets[head + len..];
    }
}

fn publish(topic: &str, qos: QoS, packets: usize) -> Vec<u8> {
    let mut burst = Vec::new();
    for n in 0..packets {
        let id = usize::from(qos != QoS::AtMostOnce) * 2;
        burst.extend_from_slice(&[
            0x30 | qos.bits() << 1,
            (2 + topic.len() + id + PAYLOAD) as u8,
            0,
            topic.len() as u8,
        ]);
        burst.extend_from_slice(topic.as_bytes());
        if id > 0 {
            burst.extend_from_slice(&(1 + n as u16).to_be_bytes());
        }
        burst.extend_from_slice(&[b'x'; PAYLOAD]);
    }
    burst
}

fn run(scenario: &Scenario) -> f64 {
    let mut world = World::new(scenario.place, scenario.change);
    let mut ids = Vec::new();
    for n in 0..scenario.subscribers {
        let (shard, key) = world.connect(&format!("subscriber-{n}"));
        let filter = (scenario.filter)(n);
        let mut packet = vec![0x82, 5 + filter.len() as u8, 0, 1, 0, filter.len() as u8];
        packet.extend_from_slice(filter.as_bytes());
        packet.push(scenario.qos.bits());
        world.engines[shard].handle_input(NOW, key, &packet);
    }
    let publishers: Vec<_> = (0..scenario.publishers)
        .map(|n| {
            (world.connect(&format!("publisher-{n}")), publish(&(scenario.topic)(n), scenario.qos, scenario.burst))
        })
        .collect();
    world.settle(scenario.qos, &mut ids);
    let (in_before, out_before) = world.messages();
    let start = Instant::now();
    let topic = (scenario.topic)(0);
    let copies = (0..scenario.subscribers).filter(|n| matches(&(scenario.filter)(*n), &topic)).count();
    let rounds = DELIVERIES.div_ceil(scenario.publishers * scenario.burst * copies);
    for _ in 0..rounds {
        for ((shard, key), burst) in &publishers {
            world.engines[*shard].handle_input(NOW, *key, burst);
        }
        world.settle(scenario.qos, &mut ids);
    }
    let took = start.elapsed();
    let (in_after, out_after) = world.messages();
    let sent = rounds * scenario.publishers * scenario.burst;
    assert_eq!(in_after - in_before, sent as u64, "{}: the engine has taken every message", scenario.name);
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds per message are shown with one place")]
    let each = took.as_nanos() as f64 / (out_after - out_before) as f64;
    each
}

/// Messages of every topic have a priority of their own.
fn priorities(settings: &mut Settings) {
    let source = PrioritySource::Fixed(5);
    settings.priority = vec![PriorityRule { filter: "bench/#".to_owned(), source, default: 0 }];
}

/// Nine of ten messages of a burst have to wait.
fn small_window(settings: &mut Settings) {
    settings.limits.max_inflight = (BURST / 10) as u16;
}

fn main() {
    let one = |_: usize| "bench/one".to_owned();
    let each = |n: usize| format!("bench/t/{n}");
    let scenario = |name, shards, publishers, subscribers, topic, filter, qos| Scenario {
        name,
        place: Place::Shards(shards),
        publishers,
        subscribers,
        topic,
        filter,
        qos,
        burst: BURST,
        change: |_| {},
    };
    let through_shards = |name, shards, topic, clients, burst, qos| Scenario {
        place: Place::Orchestrator(shards),
        burst,
        ..scenario(name, 1, clients, clients, topic, topic, qos)
    };
    let through_to = |name, topic, clients, burst, qos| through_shards(name, 1, topic, clients, burst, qos);
    let through = |name, burst, qos| through_to(name, each, 50, burst, qos);
    let with = |name, base: Scenario, change| Scenario { name, change, ..base };
    let scenarios = [
        scenario("one to one", 1, 1, 1, one, one, QoS::AtMostOnce),
        scenario("one to one hundred", 1, 1, 100, one, one, QoS::AtMostOnce),
        scenario("fifty pairs", 1, 50, 50, each, each, QoS::AtMostOnce),
        scenario("wildcard, 50 to 20", 1, 50, 20, each, |_| "bench/t/+".to_owned(), QoS::AtMostOnce),
        scenario("one to one, QoS 1", 1, 1, 1, one, one, QoS::AtLeastOnce),
        scenario("fifty pairs, QoS 1", 1, 50, 50, each, each, QoS::AtLeastOnce),
        scenario("fifty pairs, QoS 2", 1, 50, 50, each, each, QoS::ExactlyOnce),
        scenario("fifty pairs, 2 shards", 2, 50, 50, each, each, QoS::AtMostOnce),
        scenario("fifty pairs, QoS 1, 2 shards", 2, 50, 50, each, each, QoS::AtLeastOnce),
        with("fifty pairs, priorities", scenario("", 1, 50, 50, each, each, QoS::AtMostOnce), priorities),
        with("fifty pairs, QoS 1, priorities", scenario("", 1, 50, 50, each, each, QoS::AtLeastOnce), priorities),
        with("fifty pairs, 2 shards, priorities", scenario("", 2, 50, 50, each, each, QoS::AtMostOnce), priorities),
        with("queued, QoS 1", scenario("", 1, 50, 50, each, each, QoS::AtLeastOnce), small_window),
        with("queued, QoS 1, priorities", scenario("", 1, 50, 50, each, each, QoS::AtLeastOnce), |settings| {
            small_window(settings);
            priorities(settings);
        }),
        with("queued, QoS 1, keep last", scenario("", 1, 50, 50, each, each, QoS::AtLeastOnce), |settings| {
            small_window(settings);
            settings.queue.overflow = OverflowPolicy::KeepLast;
        }),
        with("fifty pairs, QoS 1, reject", scenario("", 1, 50, 50, each, each, QoS::AtLeastOnce), |settings| {
            settings.queue.overflow = OverflowPolicy::Reject;
        }),
        with(
            "fifty pairs, 2 shards, QoS 1, reject",
            scenario("", 2, 50, 50, each, each, QoS::AtLeastOnce),
            |settings| {
                settings.queue.overflow = OverflowPolicy::Reject;
            },
        ),
        through_to("orchestrator, one to one", one, 1, 1000, QoS::AtMostOnce),
        through_to("orchestrator, one to one, QoS 1", one, 1, 1000, QoS::AtLeastOnce),
        through("orchestrator, fifty pairs", 20, QoS::AtMostOnce),
        through("orchestrator, fifty pairs, QoS 1", 20, QoS::AtLeastOnce),
        through("orchestrator, fifty pairs, QoS 2", 20, QoS::ExactlyOnce),
        through("orchestrator, 50 bursts", 1000, QoS::AtMostOnce),
        through("orchestrator, 50 bursts, QoS 1", 1000, QoS::AtLeastOnce),
        through_shards("orchestrator, 2 shards, fifty pairs", 2, each, 50, 20, QoS::AtMostOnce),
        through_shards("orchestrator, 2 shards, fifty pairs, QoS 1", 2, each, 50, 20, QoS::AtLeastOnce),
        through_shards("orchestrator, 2 shards, 50 bursts", 2, each, 50, 1000, QoS::AtMostOnce),
        through_shards("orchestrator, 2 shards, 50 bursts, QoS 1", 2, each, 50, 1000, QoS::AtLeastOnce),
    ];
    // `cargo bench -p tidegate-engine --bench messages -- NAME` runs one alone, to count its instructions.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    for scenario in scenarios.iter().filter(|scenario| only.as_ref().is_none_or(|only| only == scenario.name)) {
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| run(scenario)).collect();
        rounds.sort_by(f64::total_cmp);
        println!("{:42} {:7.1} ns per delivered message", scenario.name, rounds[ROUNDS / 2]);
    }
}
