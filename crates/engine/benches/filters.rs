//! Costs that grow with a client's own subscriptions: `cargo bench -p tidegate-engine --bench filters`.
//!
//! One line per operation: the CPU time of the whole operation, and of its longest turn, which is how long others wait.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results and stops at the first surprise"
)]

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{ConnectionKey, Engine, Event, ListenerId, Millis, Now, Settings, ShardPosition};

const NOW: Now = Now { monotonic: Millis(1_000), unix: 1_700_000_000_000 };
const FILTERS: usize = 10_000;

/// The processor time of this thread, so that other processes do not count. Its resolution is the kernel's tick, some
/// milliseconds.
fn cpu_time() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

struct World {
    engine: Engine,
    longest: Duration,
}

impl World {
    fn new() -> Self {
        let mut settings = Settings::default();
        settings.limits.max_subscriptions_per_client = FILTERS as u32;
        for listener in &mut settings.listeners {
            listener.max_packet_size = 16 << 20;
        }
        Self { engine: Engine::new(Arc::new(settings), ShardPosition::ALONE, 7, NOW), longest: Duration::ZERO }
    }

    /// Input of one connection, and the turns that it takes.
    fn play(&mut self, name: &str, key: ConnectionKey, bytes: &[u8]) {
        self.longest = Duration::ZERO;
        let began = cpu_time();
        let mut turns = 0;
        for part in bytes.chunks(64 * 1024) {
            let turn = cpu_time();
            self.engine.handle_input(NOW, key, part);
            self.end_turn(turn);
            turns += 1;
        }
        while self.engine.next_deadline() <= NOW.monotonic {
            let turn = cpu_time();
            self.end_turn(turn);
            turns += 1;
        }
        let all = cpu_time().saturating_sub(began).as_micros();
        println!("{name:<44} {all:>8} us in {turns:>4} turns, longest {:>7} us", self.longest.as_micros());
    }

    fn end_turn(&mut self, turn: Duration) {
        if self.engine.next_deadline() <= NOW.monotonic {
            self.engine.handle_timers(NOW);
        }
        while let Some(event) = self.engine.poll_event() {
            if let Event::Close { key, .. } = event {
                self.engine.release_connection(key);
            }
        }
        while let Some(key) = self.engine.outputs().pop_dirty() {
            if let Some(output) = self.engine.output(key) {
                let len = output.len();
                output.advance(len);
            }
            self.engine.outputs().handle_written(NOW, key);
        }
        self.longest = self.longest.max(cpu_time().saturating_sub(turn));
    }

    fn connect(&mut self, flags: u8) -> ConnectionKey {
        let key = self.engine.open_connection(NOW, ListenerId(0)).unwrap();
        let connect = [&b"\x10\x0d\x00\x04MQTT\x04"[..], &[flags], b"\x00\x00\x00\x01a"].concat();
        self.play(
            if flags == 2 { "CONNECT, clean, session of the filters ends" } else { "CONNECT, resumes" },
            key,
            &connect,
        );
        key
    }
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let (mut out, mut left) = (vec![first], body.len());
    loop {
        let byte = (left % 128) as u8;
        left /= 128;
        out.push(byte | if left > 0 { 128 } else { 0 });
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(body);
    out
}

/// The filter of a number.
type FilterOf = fn(usize) -> String;

fn filters(of: FilterOf, options: Option<u8>) -> Vec<u8> {
    let mut body = vec![0, 1];
    for number in 0..FILTERS {
        let filter = of(number);
        body.extend_from_slice(&(filter.len() as u16).to_be_bytes());
        body.extend_from_slice(filter.as_bytes());
        body.extend(options);
    }
    body
}

fn main() {
    let kinds: [(&str, FilterOf); 3] = [
        ("short", |number| format!("s/{}/+/{number}", number % 1000)),
        ("100 levels", |number| format!("{}+/{number}", "l/".repeat(98))),
        ("shared", |number| format!("$share/g/s/{number}")),
    ];
    for (kind, of) in kinds {
        println!("{FILTERS} filters, {kind}");
        let (subscribe, unsubscribe) = (packet(0x82, &filters(of, Some(1))), packet(0xa2, &filters(of, None)));
        let mut world = World::new();
        let mut key = world.connect(0);
        world.play("SUBSCRIBE", key, &subscribe);
        world.play("SUBSCRIBE again", key, &subscribe);
        world.play("UNSUBSCRIBE", key, &unsubscribe);
        world.play("SUBSCRIBE", key, &subscribe);
        world.play("DISCONNECT, session stays", key, b"\xe0\x00");
        key = world.connect(0);
        let taken_over = world.connect(0);
        assert_ne!(key, taken_over);
        key = world.connect(2);
        world.play("SUBSCRIBE", key, &subscribe);
        world.play("DISCONNECT, session ends", key, b"\xe0\x00");
    }
}
