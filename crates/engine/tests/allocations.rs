//! Once its buffers are there, an engine takes no heap memory for a small message at QoS 0 to subscribers of its shard.
//! To another shard of the process it takes some for a batch, and none for a message. A publisher that sends so much at
//! once that the rest waits for the next turn is not tested: waiting packets are copied.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise, and tells where it was")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::IoSlice;
use std::sync::Arc;

use tidegate_engine::{ConnectionKey, Engine, Event, ListenerId, Millis, Now, Settings, ShardId, ShardPosition};

/// Flags of CONNECT: a session that ends with its connection, and one that lasts.
const CLEAN: u8 = 2;
const LASTING: u8 = 0;
const NOW: Now = Now { monotonic: Millis(1_000), unix: 1_700_000_000_000 };

thread_local! {
    /// Pieces of memory that this thread has asked for.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "only an allocator sees allocations, and there is no safe way to be one")]
// SAFETY: all calls are handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// The shards of a process. What clients are sent is thrown away.
struct Shards(Vec<Engine>);

impl Shards {
    fn new(number: u16) -> Self {
        let settings = Arc::new(Settings::default());
        let place = |shard| ShardPosition { shard: ShardId(shard), shards: number };
        Self((0..number).map(|shard| Engine::new(Arc::clone(&settings), place(shard), 7, NOW)).collect())
    }

    /// Connects a client on the shard that is its home.
    fn connect(&mut self, name: &str) -> (usize, ConnectionKey) {
        self.connect_with(name, CLEAN)
    }

    fn connect_with(&mut self, name: &str, flags: u8) -> (usize, ConnectionKey) {
        let length = u8::try_from(name.len()).unwrap();
        let head = [0x10, 12 + length, 0, 4, b'M', b'Q', b'T', b'T', 4, flags, 0, 0, 0, length];
        let packet = [&head, name.as_bytes()].concat();
        let mut shard = 0;
        loop {
            let engine = &mut self.0[shard];
            let key = engine.open_connection(NOW, ListenerId(0)).unwrap();
            engine.handle_input(NOW, key, &packet);
            let events = std::iter::from_fn(|| engine.poll_event());
            let home = events.filter_map(|event| match event {
                Event::HandOver { home, .. } => Some(home),
                _ => None,
            });
            match home.last() {
                Some(home) => shard = usize::from(home.0),
                None => return (shard, key),
            }
        }
    }

    fn subscribe(&mut self, name: &str, filter: &str) {
        let connection = self.connect(name);
        self.subscribe_at(connection, filter, 0);
    }

    fn subscribe_at(&mut self, (shard, key): (usize, ConnectionKey), filter: &str, qos: u8) {
        let length = u8::try_from(filter.len()).unwrap();
        let packet = [&[0x82, 5 + length, 0, 1, 0, length], filter.as_bytes(), &[qos]].concat();
        self.0[shard].handle_input(NOW, key, &packet);
        self.settle();
    }

    /// Takes turns as a shell does, until there is nothing more to do.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            for from in 0..self.0.len() {
                let engine = &mut self.0[from];
                if engine.next_deadline() <= NOW.monotonic {
                    engine.handle_timers(NOW);
                    busy = true;
                }
                while engine.poll_event().is_some() {}
                for to in 0..self.0.len() {
                    if let Some(batch) = self.0[from].take_batch(ShardId(u16::try_from(to).unwrap())) {
                        self.0[to].cluster().begin_matching();
                        assert!(self.0[to].cluster().handle_batch(NOW, batch).is_ok_and(|rest| rest.is_none()));
                        busy = true;
                    }
                }
                let engine = &mut self.0[from];
                while let Some(key) = engine.outputs().pop_dirty() {
                    if let Some(output) = engine.output(key) {
                        output.advance(output.len());
                    }
                    engine.outputs().handle_written(NOW, key);
                }
            }
            if !busy {
                return;
            }
        }
    }

    /// Publishes `messages` in one piece and lets them arrive, `times` over; returns how many pieces of memory that
    /// took.
    fn taken(&mut self, (shard, key): (usize, ConnectionKey), topic: &str, messages: usize, times: usize) -> u64 {
        let length = u8::try_from(topic.len()).unwrap();
        let payload = [b'x'; 64];
        let packet = [&[0x30, 2 + length + 64, 0, length], topic.as_bytes(), &payload].concat().repeat(messages);
        let before = TAKEN.get();
        for _ in 0..times {
            self.0[shard].handle_input(NOW, key, &packet);
            self.settle();
        }
        TAKEN.get() - before
    }

    /// Publishes `messages` at QoS 1 to `a/b` in one piece, and acknowledges them, `times` over; returns how many pieces of
    /// memory that took.
    fn taken_at_qos_1(&mut self, from: ConnectionKey, to: ConnectionKey, messages: u16, times: usize) -> u64 {
        const LENGTH: u8 = 2 + 3 + 2 + 64;
        let packet = |id: u16| [&[0x32, LENGTH, 0, 3], &b"a/b"[..], &id.to_be_bytes(), &[b'x'; 64]].concat();
        let packets = (1..=messages).flat_map(packet).collect::<Vec<u8>>();
        let mut answers = Vec::with_capacity(4 * usize::from(messages));
        let before = TAKEN.get();
        for _ in 0..times {
            self.0[0].handle_input(NOW, from, &packets);
            let mut slices = [IoSlice::new(&[])];
            self.0[0].output(to).unwrap().slices(&mut slices);
            answers.clear();
            for packet in slices[0].chunks(2 + usize::from(LENGTH)) {
                answers.extend_from_slice(&[0x40, 2, packet[7], packet[8]]);
            }
            self.0[0].handle_input(NOW, to, &answers);
            self.settle();
        }
        TAKEN.get() - before
    }

    fn delivered(&self) -> u64 {
        self.delivered_at(0)
    }

    fn delivered_at(&self, qos: usize) -> u64 {
        self.0.iter().map(|engine| engine.questions().counters().messages_out[qos]).sum()
    }
}

#[test]
fn a_message_to_subscribers_of_its_shard_takes_no_memory() {
    let mut shards = Shards::new(1);
    for (name, filter) in [("exact", "a/b"), ("wild", "a/+"), ("all", "#")] {
        shards.subscribe(name, filter);
    }
    let publisher = shards.connect("publisher");
    for (messages, how) in [(1, "one after the other"), (10, "ten at once")] {
        // Buffers, routes and the like are made by the first messages.
        shards.taken(publisher, "a/b", messages, 20);
        assert_eq!(shards.taken(publisher, "a/b", messages, 100), 0, "{how}");
    }
    assert_eq!(shards.delivered(), 3 * 120 * 11);
}

#[test]
fn kept_messages_use_the_memory_of_earlier_ones() {
    const BURSTS: usize = 100;
    let mut shards = Shards::new(1);
    let (subscriber, publisher) = (shards.connect_with("subscriber", LASTING), shards.connect("publisher"));
    shards.subscribe_at(subscriber, "a/b", 1);
    shards.taken_at_qos_1(publisher.1, subscriber.1, 10, 20);
    let taken = shards.taken_at_qos_1(publisher.1, subscriber.1, 10, BURSTS);
    // The list of messages in flight is made for each burst.
    assert!(taken <= 2 * BURSTS as u64, "{taken} for {BURSTS} bursts of ten messages");
    assert_eq!(shards.delivered_at(1), 120 * 10);
}

#[test]
fn a_message_to_another_shard_allocates_only_for_its_batch() {
    const BATCHES: u64 = 100;
    let mut shards = Shards::new(2);
    let name_at = |shards: &mut Shards, at: usize| {
        (0..100)
            .map(|number| format!("client-{number}"))
            .map(|name| (shards.connect(&name), name))
            .find(|((shard, _), _)| *shard == at)
    };
    let (_, there) = name_at(&mut shards, 1).unwrap();
    let (publisher, _) = name_at(&mut shards, 0).unwrap();
    shards.subscribe(&there, "a/b");
    let mut taken = |messages| {
        shards.taken(publisher, "a/b", messages, 20);
        shards.taken(publisher, "a/b", messages, BATCHES as usize)
    };
    let (few, many) = (taken(10), taken(100));
    assert!(many < few + BATCHES, "{BATCHES} batches of ten messages took {few}, as many of a hundred {many}");
    assert_eq!(shards.delivered(), 120 * 110);
}
