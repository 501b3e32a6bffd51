//! The end of a process without a goodbye, and the next one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_engine::{
    Engine, Millis, Now, Reason, RestoreError, RestoreRoute, SecondReading, ShardId, ShardPosition, Takers,
    session_of_queue,
};

use super::Net;
use super::nodes::Nodes;
use super::socket::Stand;
use super::steps::{Schedule, Step};
use crate::harness::store::Pairs;

/// How a process ends and the next one begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    /// How many of the batches that were on their way to the store have still been written.
    pub kept: usize,
    /// Shards of the next process.
    pub shards: u16,
    /// Milliseconds until it begins.
    pub away: u64,
    /// By how much the wall clock was set in between, beyond that, milliseconds.
    pub stepped: i64,
    /// True if the store has deleted records without an owner.
    pub swept: bool,
}

impl Crash {
    /// At once, with everything that was handed in, and as many shards as before.
    pub(crate) fn now(shards: u16) -> Self {
        Self { kept: usize::MAX, shards, away: 0, stepped: 0, swept: false }
    }
}

/// Engines that have restored the state of a store.
pub(crate) fn restore(engines: &mut [Engine], now: Now, pairs: &Pairs) -> Result<(), RestoreError> {
    let mut route = RestoreRoute::new(engines.len() as u16);
    for (key, value) in pairs {
        match route.takers(key, value)? {
            Takers::One(shard) => engines[usize::from(shard.0)].store().restore(now, key, value)?,
            Takers::All => {
                for engine in &mut *engines {
                    engine.store().restore(now, key, value)?;
                }
            }
            Takers::None => {}
        }
    }
    for engine in engines {
        let mut reading = SecondReading::of(engine);
        let again = reading.sessions()?;
        for (key, value) in pairs {
            if session_of_queue(key).is_some_and(|session| again.contains(&session)) {
                reading.restore(now, key, value)?;
            }
        }
        engine.store().finish_restore(now)?;
    }
    Ok(())
}

impl Net {
    /// The process dies and another one continues with the state of the store. Clients see their connections break.
    pub(crate) fn crash(&mut self, crash: Crash) {
        let kept = crash.kept.min(self.store.waiting.len());
        self.trace.note(format!("crash: {crash:?}, {kept} of {} batches survive", self.store.waiting.len()));
        self.crashes += 1;
        for engine in &self.engines {
            self.past.add(engine.questions().counters());
            self.broken += engine.questions().gauges().sessions_connected;
        }
        for socket in &mut self.sockets {
            if !matches!(socket.stand, Stand::Gone) {
                socket.stand = Stand::Gone;
                socket.closed = Some(Reason::ConnectionLost);
            }
        }
        self.live.clear();
        self.break_from_brokers();
        let nodes = self.nodes;
        self.store.crash(&nodes, 0, kept);
        if crash.swept {
            self.store.pairs = self.store.swept();
        }
        self.now = Now {
            // The monotonic clock starts again with the machine, at any value.
            monotonic: Millis(1_000 + 77_777 * (self.crashes % 7)),
            unix: (self.now.unix + crash.away).saturating_add_signed(crash.stepped),
        };
        self.begin(crash.shards);
    }

    /// Engines restored from the store.
    fn begin(&mut self, shards: u16) {
        let count = usize::from(shards);
        let (now, crashes) = (self.now, self.crashes);
        self.nodes = Nodes::one(shards);
        let place = |shard| ShardPosition { shard: ShardId(shard), shards };
        let seed = |shard| 7 + u64::from(shard) + crashes * 1000;
        let engine = |shard| {
            let mut engine = Engine::new(Arc::clone(&self.settings), place(shard), seed(shard), now);
            super::events::open_windows(&mut engine, now);
            if self.is_member {
                engine.homes().set_homes(now, Some(super::nodes::served_nowhere()));
            }
            engine
        };
        self.engines = (0..shards).map(engine).collect();
        self.by_key = vec![BTreeMap::new(); count];
        self.inboxes = (0..count).map(|_| VecDeque::new()).collect();
        self.unshipped = vec![true; count];
        self.shipping = vec![None; count];
        self.held.clear();
        self.behind.clear();
        self.peers.clear();
        self.for_peers.clear();
        self.asked.clear();
        self.challenged.clear();
        self.reading.clear();
        self.brought.clear();
        let pairs = self.store.swept();
        restore(&mut self.engines, now, &pairs).expect("what the engines wrote can be taken in");
        self.settle();
        self.configure_fleet();
    }

    /// No client is served before all shards know of each other.
    fn settle(&mut self) {
        while !self.engines.iter().all(|engine| engine.questions().is_settled()) {
            let between = |step: &Step| matches!(step, Step::Ship(_) | Step::Deliver { .. } | Step::Timers(_));
            let steps: Vec<Step> = self.steps().into_iter().filter(between).collect();
            let step = match &mut self.schedule {
                Schedule::InTurn => steps.first().copied(),
                Schedule::Seeded(random) => (!steps.is_empty()).then(|| random.pick(&steps)),
            };
            match step {
                Some(step) => self.take(step),
                None if self.engines.iter().any(|engine| engine.next_deadline() == Millis(0)) => {
                    // A shard has more to hand over, now that everything before has been.
                    self.unshipped.fill(true);
                }
                None => panic!("a restored broker waits for nothing"),
            }
        }
    }
}
