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
    ConnectionKey, Engine, Event, ListenerId, Millis, Now, OverflowPolicy, PriorityRule, PrioritySource, Settings,
    ShardId, ShardPosition,
};
use tidegate_mqtt::QoS;

const ROUNDS: usize = 9;
/// Packets handed in at once, as one read of a busy socket brings them.
const BURST: usize = 200;
const BURSTS: usize = 500;
const PAYLOAD: usize = 64;
const NOW: Now = Now { monotonic: Millis(1_000), unix: 1_700_000_000_000 };

struct Scenario {
    name: &'static str,
    shards: u16,
    publishers: usize,
    subscribers: usize,
    /// Topic of a publisher, filter of a subscriber, by their numbers.
    topic: fn(usize) -> String,
    filter: fn(usize) -> String,
    qos: QoS,
    /// The settings of the scenario.
    change: fn(&mut Settings),
}

/// The shards of one process, and whatever is under way between them.
struct World {
    engines: Vec<Engine>,
}

impl World {
    fn new(shards: u16, change: fn(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let settings = Arc::new(settings);
        let place = |shard| ShardPosition { shard: ShardId(shard), shards };
        let engines = (0..shards).map(|shard| Engine::new(Arc::clone(&settings), place(shard), 7, NOW)).collect();
        Self { engines }
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

    /// Passes batches on until no shard has any, and throws away or acknowledges the output to clients. Returns its
    /// number of bytes.
    fn settle(&mut self, acknowledge: QoS, ids: &mut Vec<u8>) -> usize {
        let mut written = 0;
        loop {
            let mut busy = false;
            for from in 0..self.engines.len() {
                for to in 0..self.engines.len() {
                    if let Some(batch) = self.engines[from].take_batch(ShardId(to as u16)) {
                        let whole = self.engines[to].cluster().handle_batch(NOW, batch);
                        assert!(whole.is_ok(), "a batch of this process");
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
        let engine = &mut self.engines[shard];
        let mut written = 0;
        while let Some(key) = engine.outputs().pop_dirty() {
            ids.clear();
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

fn publish(topic: &str, qos: QoS, first_id: u16) -> Vec<u8> {
    let mut burst = Vec::new();
    for n in 0..BURST {
        let id = usize::from(qos != QoS::AtMostOnce) * 2;
        burst.extend_from_slice(&[
            0x30 | qos.bits() << 1,
            (2 + topic.len() + id + PAYLOAD) as u8,
            0,
            topic.len() as u8,
        ]);
        burst.extend_from_slice(topic.as_bytes());
        if id > 0 {
            burst.extend_from_slice(&(first_id + n as u16).to_be_bytes());
        }
        burst.extend_from_slice(&[b'x'; PAYLOAD]);
    }
    burst
}

fn run(scenario: &Scenario) -> f64 {
    let mut world = World::new(scenario.shards, scenario.change);
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
        .map(|n| (world.connect(&format!("publisher-{n}")), publish(&(scenario.topic)(n), scenario.qos, 1)))
        .collect();
    world.settle(scenario.qos, &mut ids);
    let before: u64 =
        world.engines.iter().map(|engine| engine.questions().counters().messages_out.iter().sum::<u64>()).sum();
    let start = Instant::now();
    for _ in 0..BURSTS.div_ceil(scenario.publishers * scenario.subscribers.div_ceil(20)) {
        for ((shard, key), burst) in &publishers {
            world.engines[*shard].handle_input(NOW, *key, burst);
        }
        world.settle(scenario.qos, &mut ids);
    }
    let took = start.elapsed();
    let after: u64 =
        world.engines.iter().map(|engine| engine.questions().counters().messages_out.iter().sum::<u64>()).sum();
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds per message are shown with one place")]
    let each = took.as_nanos() as f64 / (after - before) as f64;
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
        shards,
        publishers,
        subscribers,
        topic,
        filter,
        qos,
        change: |_| {},
    };
    let with = |name, base: Scenario, change| Scenario { name, change, ..base };
    let scenarios = [
        scenario("one to one", 1, 1, 1, one, one, QoS::AtMostOnce),
        scenario("one to one hundred", 1, 1, 100, one, one, QoS::AtMostOnce),
        scenario("fifty pairs", 1, 50, 50, each, each, QoS::AtMostOnce),
        scenario("wildcard, 50 to 20", 1, 50, 20, each, |_| "bench/t/+".to_owned(), QoS::AtMostOnce),
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
    ];
    // `cargo bench -p tidegate-engine --bench messages -- NAME` runs one alone, to count its instructions.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    for scenario in scenarios.iter().filter(|scenario| only.as_ref().is_none_or(|only| only == scenario.name)) {
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| run(scenario)).collect();
        rounds.sort_by(f64::total_cmp);
        println!("{:37} {:7.1} ns per delivered message", scenario.name, rounds[ROUNDS / 2]);
    }
}
