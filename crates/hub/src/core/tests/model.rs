//! Random steps of a pipeline between a broker and sinks, against the final content of each sink.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::super::*;
use super::{Token, message};
use crate::steps::StepSettings;

#[derive(Clone, Debug)]
enum Step {
    Publish {
        key: u64,
        is_kept: bool,
    },
    /// The broker delivers a message that is not acknowledged for one more filter.
    Again {
        which: usize,
    },
    Settle {
        which: usize,
        outcome: u8,
    },
    Wait {
        time: u64,
    },
    Pause {
        paused: bool,
    },
    /// Another process takes a part of the messages over.
    Forget {
        part: u64,
    },
    /// Such a message comes back.
    Return {
        which: usize,
    },
    Reconnect,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..4_u64, 0..8_u8).prop_map(|(key, qos)| Step::Publish { key, is_kept: qos > 0 }),
        2 => (0..8_usize).prop_map(|which| Step::Again { which }),
        12 => (0..8_usize, 0..6_u8).prop_map(|(which, outcome)| Step::Settle { which, outcome }),
        6 => (0..200_u64).prop_map(|time| Step::Wait { time }),
        1 => any::<bool>().prop_map(|paused| Step::Pause { paused }),
        2 => (0..PARTS).prop_map(|part| Step::Forget { part }),
        2 => (0..8_usize).prop_map(|which| Step::Return { which }),
        2 => Just(Step::Reconnect),
        2 => Just(Step::Crash),
    ]
}

/// Parts of the messages that other processes may take over.
const PARTS: u64 = 4;
/// sinks; the last one may be an archive.
const SINKS: usize = 2;

/// How a pipeline is made. An archive has one lane.
#[derive(Clone, Copy, Debug)]
struct Plan {
    lanes: usize,
    archives: bool,
    /// Whether WHERE leaves messages out.
    filters: bool,
}

impl Plan {
    /// A pipeline with memory for a few messages.
    fn core(self) -> Core<Token> {
        let sql = self.filters.then(|| "SELECT payload FROM 'k/#' WHERE payload % 5 <> 0".to_owned());
        let steps = Steps::new(&StepSettings { sql, ..StepSettings::default() }).unwrap();
        let mut settings = super::core(SINKS, self.lanes, 3, true, &StepSettings::default()).settings;
        (settings.archives, settings.max_held_bytes) = (self.archives, 1_000);
        if let Some(archive) = settings.sinks.last_mut().filter(|_| self.archives) {
            archive.lanes = 1;
        }
        Core::new(steps, settings)
    }

    /// Whether WHERE leaves a message out.
    fn leaves_out(self, number: u64) -> bool {
        self.filters && number.is_multiple_of(5)
    }

    /// Whether a sink never takes a message.
    fn is_poison(self, sink: usize, number: u64) -> bool {
        number % 7 == 3 && !self.is_archive(sink) && sink < SINKS
    }

    fn is_archive(self, sink: usize) -> bool {
        self.archives && sink + 1 == SINKS
    }

    /// Whether a sink has a message in the end.
    fn wants(self, sink: usize, number: u64) -> bool {
        self.is_archive(sink) || !self.leaves_out(number) && !self.is_poison(sink, number)
    }
}

/// A broker with a durable session, sinks that note their records, and a pipeline between them.
struct World {
    core: Core<Token>,
    plan: Plan,
    now: u64,
    connection: u64,
    published: u64,
    keys: HashMap<u64, u64>,
    /// Messages that the broker does not keep.
    unkept: BTreeSet<u64>,
    /// Messages that the broker keeps, with the deliveries that are not acknowledged.
    unacknowledged: BTreeMap<u64, usize>,
    /// Messages that another process has, and messages that it ever had.
    gone: BTreeSet<u64>,
    was_gone: BTreeSet<u64>,
    under_way: BTreeMap<usize, Vec<u64>>,
    /// The messages in each sink, in order, and dead letters last.
    kept: Vec<Vec<u64>>,
    crashed: bool,
}

impl World {
    fn new(plan: Plan) -> Self {
        Self {
            core: plan.core(),
            plan,
            now: 0,
            connection: 0,
            published: 0,
            keys: HashMap::new(),
            unkept: BTreeSet::new(),
            unacknowledged: BTreeMap::new(),
            gone: BTreeSet::new(),
            was_gone: BTreeSet::new(),
            under_way: BTreeMap::new(),
            kept: vec![Vec::new(); SINKS + 1],
            crashed: false,
        }
    }

    fn sink_of(&self, lane: usize) -> usize {
        self.core.lanes().nth(lane).unwrap()
    }

    fn publish(&mut self, key: u64, is_kept: bool) {
        self.published += 1;
        let number = self.published;
        self.keys.insert(number, key);
        if is_kept {
            self.unacknowledged.insert(number, 1);
            self.deliver(number);
        } else {
            self.unkept.insert(number);
            self.core.take(self.now, 0, &message(number, key), None);
        }
    }

    fn deliver(&mut self, number: u64) {
        let message = message(number, self.keys[&number]);
        self.core.take(self.now, 0, &message, Some((number, self.connection)));
    }

    fn act(&mut self) {
        while let Some(action) = self.core.next_action(self.now) {
            match action {
                Action::Send { lane, batch } => {
                    assert!(!self.core.paused, "a batch of a paused pipeline");
                    let batch: Vec<u64> = batch.iter().map(|record| record.id().parse().unwrap()).collect();
                    let own = batch.iter().find(|number| self.gone.contains(number));
                    assert_eq!(own, None, "a batch with a message of another process");
                    assert!(self.under_way.insert(lane, batch).is_none(), "one batch of a lane at a time");
                }
                Action::Acknowledge((number, connection), _) => {
                    assert_eq!(connection, self.connection, "a token of an ended connection");
                    let has = |sink: usize| {
                        let is_dead = !self.plan.is_archive(sink) && self.kept[SINKS].contains(&number);
                        is_dead || self.kept[sink].contains(&number) || !self.plan.wants(sink, number)
                    };
                    assert!((0..SINKS).all(has), "{number} is acknowledged before all sinks have it");
                    let left = self.unacknowledged.get_mut(&number);
                    let left = left.unwrap_or_else(|| panic!("{number} is acknowledged too often"));
                    *left -= 1;
                    if *left == 0 {
                        self.unacknowledged.remove(&number);
                    }
                }
                Action::Tell(_) => {}
            }
        }
    }

    fn settle(&mut self, which: usize, outcome: u8) {
        let Some(lane) = self.under_way.keys().nth(which % self.under_way.len().max(1)).copied() else { return };
        let batch = self.under_way.remove(&lane).unwrap();
        let sink = self.sink_of(lane);
        let has_poison = batch.iter().any(|number| self.plan.is_poison(sink, *number));
        let outcome = match outcome {
            0 => Outcome::Away("away".into()),
            1 if has_poison => Outcome::Limited("full".into()),
            _ if has_poison => Outcome::Refused("poison".into()),
            _ => {
                self.kept[sink].extend(batch);
                Outcome::Done
            }
        };
        self.core.settle(self.now, lane, outcome);
    }

    fn reconnect(&mut self) {
        self.core.lose_connection();
        self.connection += 1;
        for (number, deliveries) in self.unacknowledged.clone() {
            (0..deliveries).for_each(|_| self.deliver(number));
        }
    }

    fn forget(&mut self, part: u64) {
        let gone = self.unacknowledged.extract_if(.., |number, _| number % PARTS == part);
        let gone: BTreeSet<u64> = gone.map(|(number, _)| number).collect();
        self.core.forget(|(number, _)| number % PARTS == part);
        self.gone.extend(&gone);
        self.was_gone.extend(gone);
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Publish { key, is_kept } => self.publish(key, is_kept),
            Step::Again { which } => {
                let kept = self.unacknowledged.len().max(1);
                if let Some((&number, deliveries)) = self.unacknowledged.iter_mut().nth(which % kept) {
                    *deliveries += 1;
                    self.deliver(number);
                }
            }
            Step::Settle { which, outcome } => self.settle(which, outcome),
            Step::Wait { time } => self.now += time,
            Step::Pause { paused } => self.core.pause(paused),
            Step::Forget { part } => self.forget(part),
            Step::Return { which } => {
                let gone = self.gone.len().max(1);
                if let Some(number) = self.gone.iter().nth(which % gone).copied() {
                    self.gone.remove(&number);
                    self.unacknowledged.insert(number, 1);
                    self.deliver(number);
                }
            }
            Step::Reconnect => self.reconnect(),
            Step::Crash => {
                // A batch that was under way may have come through.
                for (lane, batch) in std::mem::take(&mut self.under_way) {
                    let sink = self.sink_of(lane);
                    if lane.is_multiple_of(2) && !batch.iter().any(|number| self.plan.is_poison(sink, *number)) {
                        self.kept[sink].extend(batch);
                    }
                }
                self.crashed = true;
                self.core = self.plan.core();
                self.reconnect();
            }
        }
        self.act();
    }

    fn finish(&mut self) {
        self.core.pause(false);
        for _ in 0..10_000 {
            self.act();
            if self.unacknowledged.is_empty() && self.core.held() == 0 && self.under_way.is_empty() {
                break;
            }
            self.now = self.core.deadline().unwrap_or(self.now).max(self.now);
            self.act();
            self.settle(0, 1);
        }
    }

    fn check(&self) {
        assert!(self.unacknowledged.is_empty(), "not acknowledged: {:?}", self.unacknowledged);
        assert_eq!((self.core.held(), self.core.ledger.bytes(), self.core.under_way()), (0, 0, 0));
        for (at, sink) in self.kept[..SINKS].iter().enumerate() {
            let got: BTreeSet<u64> = sink.iter().copied().collect();
            for number in (1..=self.published).filter(|number| !self.gone.contains(number)) {
                let may_lack = self.unkept.contains(&number);
                let (has, wants) = (got.contains(&number), self.plan.wants(at, number));
                assert!(has == wants || wants && may_lack, "sink {at}, message {number}: {sink:?}");
            }
            let own = || sink.iter().filter(|number| !self.was_gone.contains(number));
            let own_set: BTreeSet<&u64> = own().collect();
            assert!(self.crashed || own_set.len() == own().count(), "twice without a crash: {sink:?}");
            let (mut seen, mut last) = (BTreeSet::new(), HashMap::new());
            for number in own().filter(|number| !self.unkept.contains(number) && seen.insert(**number)) {
                let before = last.insert(self.keys[number], *number);
                assert!(before.is_none_or(|before| before < *number), "order of a key: {sink:?}");
            }
        }
        let letters: BTreeSet<u64> = self.kept[SINKS].iter().copied().collect();
        let is_dead =
            |number: &u64| !self.plan.leaves_out(*number) && (0..SINKS).any(|sink| self.plan.is_poison(sink, *number));
        assert!(letters.iter().all(is_dead), "dead letters: {letters:?}");
        let mut own =
            (1..=self.published).filter(|number| !self.gone.contains(number) && !self.unkept.contains(number));
        assert!(own.all(|number| letters.contains(&number) || !is_dead(&number)), "dead letters: {letters:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_acknowledged_too_early(
        (lanes, archives, filters) in (1..4_usize, any::<bool>(), any::<bool>()),
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut world = World::new(Plan { lanes, archives, filters });
        for step in &steps {
            world.apply(step);
        }
        world.finish();
        world.check();
    }
}
