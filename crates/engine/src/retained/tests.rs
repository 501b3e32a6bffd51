use crate::retained::Retained;
use crate::settings::Settings;
use proptest::prelude::*;
use std::sync::Arc;
use tidegate_mqtt::{TopicFilter, TopicName};

use super::*;

const TENANT: TenantId = TenantId::DEFAULT;
const NOW: Millis = Millis(1000);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    number: u64,
    size: u64,
    expires_at: Millis,
}

impl Retainable for Note {
    fn bytes(&self) -> u64 {
        self.size
    }

    fn expires_at(&self) -> Millis {
        self.expires_at
    }
}

fn note(number: u64, size: u64) -> Note {
    Note { number, size, expires_at: Millis::NEVER }
}

fn with_topics<T: AsRef<str>>(topics: impl IntoIterator<Item = T>) -> Retained<Note> {
    let mut retained = Retained::new(0, 0);
    for (number, topic) in topics.into_iter().enumerate() {
        retained.set(TENANT, topic.as_ref(), note(number as u64, 1), NOW).unwrap();
    }
    retained
}

/// All topics that a filter matches, and the number of steps of `budget` topics that it took.
fn scan_all(retained: &Retained<Note>, filter: &str, budget: u32) -> (Vec<String>, u32) {
    let mut found = Vec::new();
    let mut cursor = None;
    for step in 1.. {
        match retained
            .scan(TENANT, filter, cursor.as_deref(), budget, NOW, &mut |topic, _| found.push(topic.to_owned()))
        {
            ScanEnd::Done => return (found, step),
            ScanEnd::More(last) => cursor = Some(last),
        }
    }
    unreachable!("the steps end")
}

#[test]
fn filters_find_their_matches_in_order() {
    let topics = ["$SYS/a", "/", "/a", "a", "a!", "a!/b", "a/", "a/b", "a/b/c", "a/b!", "a0", "b/b", "b/c/b", "é/b"];
    let retained = with_topics(topics);
    let cases: [(&str, &[&str]); 9] = [
        ("#", &["/", "/a", "a", "a!", "a!/b", "a/", "a/b", "a/b!", "a/b/c", "a0", "b/b", "b/c/b", "é/b"]),
        ("+", &["a", "a!", "a0"]),
        ("+/b", &["a!/b", "a/b", "b/b", "é/b"]),
        ("+/b/#", &["a!/b", "a/b", "a/b/c", "b/b", "é/b"]),
        ("a/#", &["a", "a/", "a/b", "a/b!", "a/b/c"]),
        ("a/+", &["a/", "a/b", "a/b!"]),
        ("$SYS/#", &["$SYS/a"]),
        ("a/b", &["a/b"]),
        ("a/x", &[]),
    ];
    for (filter, expected) in cases {
        for budget in [1, 2, 5, 100] {
            assert_eq!(scan_all(&retained, filter, budget).0, expected, "{filter} in steps of {budget}");
        }
    }
}

#[test]
fn what_cannot_match_is_skipped() {
    let names = (0..300).flat_map(|site| (0..100).map(move |n| format!("site/{site}/v{n:02}/x")));
    let retained = with_topics(names.chain((0..300).map(|site| format!("site/{site}/temp"))));
    let (found, steps) = scan_all(&retained, "site/+/temp", 100);
    assert_eq!(found.len(), 300);
    assert!(steps <= 10, "three looks at each of 300 sites, not 30,000 topics: {steps} steps");
    let (found, steps) = scan_all(&retained, "site/+/v42/+", 100);
    assert_eq!(found.len(), 300);
    assert!(steps <= 13, "{steps} steps");
    let (found, steps) = scan_all(&retained, "site/17/+/x", 200);
    assert_eq!((found.len(), steps), (100, 1));
    let (found, steps) = scan_all(&retained, "other/#", 100);
    assert_eq!((found.len(), steps), (0, 1));
}

#[test]
fn limits_refuse_new_topics_and_let_kept_ones_change() {
    let mut retained = Retained::new(2, 20);
    let a = note(1, 9);
    assert_eq!(retained.set(TENANT, "a", a.clone(), NOW), Ok(None));
    assert_eq!(retained.set(TENANT, "b", note(2, 9), NOW), Ok(None));
    assert_eq!((retained.len(), retained.bytes()), (2, 20));
    assert_eq!(retained.set(TENANT, "c", note(3, 0), NOW), Err(Reason::RetainedCountLimit));
    assert_eq!(retained.set(TENANT, "a", note(4, 10), NOW), Err(Reason::RetainedBytesLimit));
    assert_eq!(retained.get(TENANT, "a", NOW), Some(&a), "the old message stays");
    assert_eq!(retained.set(TENANT, "a", note(5, 8), NOW), Ok(Some(a)));
    assert_eq!(retained.clear(TENANT, "b").map(|note| note.number), Some(2));
    assert_eq!(retained.set(TENANT, "c", note(6, 11), NOW), Err(Reason::RetainedBytesLimit));
    assert_eq!(retained.set(TENANT, "c", note(6, 10), NOW), Ok(None));
    assert_eq!((retained.len(), retained.bytes()), (2, 20));
}

#[test]
fn messages_that_return_are_not_refused() {
    let mut retained = Retained::new(1, 10);
    for number in 1..=3 {
        assert_eq!(retained.take_back(TENANT, &format!("t{number}"), note(number, 20)), None);
    }
    assert_eq!(retained.take_back(TENANT, "t3", note(4, 30)).map(|old| old.number), Some(3));
    assert_eq!((retained.len(), retained.bytes()), (3, 20 + 20 + 30 + 6));
    retained.audit(&mut |wrong| panic!("{wrong}"));
    assert_eq!(retained.set(TENANT, "t4", note(5, 1), NOW), Err(Reason::RetainedCountLimit));
    assert!(retained.set(TENANT, "t3", note(6, 30), NOW).is_ok(), "a value may be replaced by one that is no larger");
}

#[test]
fn expired_messages_are_not_given_out_and_make_room() {
    let mut retained = Retained::new(2, 0);
    let brief = Note { expires_at: Millis(2000), ..note(1, 1) };
    retained.set(TENANT, "a", brief.clone(), NOW).unwrap();
    retained.set(TENANT, "b", Note { expires_at: Millis(3000), ..note(2, 1) }, NOW).unwrap();
    assert_eq!(retained.next_expiry(), Millis(2000));
    assert_eq!(retained.get(TENANT, "a", Millis(1999)), Some(&brief));
    assert_eq!(retained.get(TENANT, "a", Millis(2000)), None);
    let mut found = Vec::new();
    retained.scan(TENANT, "#", None, 10, Millis(2000), &mut |topic, _| found.push(topic.to_owned()));
    retained.scan(TENANT, "a", None, 10, Millis(2000), &mut |topic, _| found.push(topic.to_owned()));
    assert_eq!(found, ["b"]);
    assert_eq!(retained.set(TENANT, "c", note(3, 1), Millis(2000)), Ok(None), "the expired one made room");
    assert_eq!((retained.len(), retained.next_expiry()), (2, Millis(3000)));
    retained.set(TENANT, "b", note(4, 1), NOW).unwrap();
    assert_eq!((retained.expire(Millis(9000), 10), retained.len()), (0, 2));
    assert_eq!(retained.next_expiry(), Millis::NEVER);
}

fn topic() -> impl Strategy<Value = String> {
    let level = prop_oneof![
        3 => Just("a"), 2 => Just("b"), 1 => Just(""), 1 => Just("$x"), 1 => Just("a!"), 1 => Just("a0"), 1 => Just("é")
    ];
    proptest::collection::vec(level, 1..5)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("a topic has a character", |topic| !topic.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => Just("a"), 1 => Just("b"), 1 => Just(""), 1 => Just("a!"), 5 => Just("+")];
    (proptest::collection::vec(level, 0..4), any::<bool>())
        .prop_map(|(mut levels, below)| {
            levels.extend(below.then_some("#"));
            levels.join("/")
        })
        .prop_filter("a filter has a character", |filter| !filter.is_empty())
}

#[derive(Clone, Debug)]
enum Step {
    Set(String, u64, Option<u64>),
    Clear(String),
    Expire(u64, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (topic(), 0..50_u64, proptest::option::of(0..100_u64)).prop_map(|(topic, size, expiry)| Step::Set(topic, size, expiry)),
        2 => topic().prop_map(Step::Clear),
        1 => (0..3_u64, 1..4_u32).prop_map(|(later, budget)| Step::Expire(later, budget)),
    ]
}

/// A table and the map that it must be like.
struct Pair {
    retained: Retained<Note>,
    model: BTreeMap<String, Note>,
    now: Millis,
    limits: (u64, u64),
    number: u64,
}

impl Pair {
    fn new(limits: (u64, u64)) -> Self {
        Self { retained: Retained::new(limits.0, limits.1), model: BTreeMap::new(), now: NOW, limits, number: 0 }
    }

    fn bytes(&self) -> u64 {
        self.model.iter().map(|(topic, note)| topic.len() as u64 + note.size).sum()
    }

    fn fits(&self, topic: &str, size: u64) -> bool {
        let old = self.model.get(topic).map(|old| topic.len() as u64 + old.size);
        let new = topic.len() as u64 + size;
        (old.is_some() || (self.model.len() as u64) < self.limits.0)
            && (old.is_some_and(|old| new <= old) || self.bytes() - old.unwrap_or(0) + new <= self.limits.1)
    }

    fn forget_expired(&mut self, budget: u32) {
        let mut due: Vec<_> = self.model.iter().map(|(topic, note)| (note.expires_at, topic.clone())).collect();
        due.sort();
        for (_, topic) in due.into_iter().take_while(|due| due.0 <= self.now).take(budget as usize) {
            self.model.remove(&topic);
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Set(topic, size, expiry) => {
                self.number += 1;
                let expires_at = expiry.map_or(Millis::NEVER, |after| self.now.plus(after));
                let note = Note { number: self.number, size: *size, expires_at };
                let done = self.retained.set(TENANT, topic, note.clone(), self.now);
                if !self.fits(topic, *size) {
                    self.forget_expired(RECLAIMED_MAX);
                }
                if self.fits(topic, *size) {
                    assert_eq!(done, Ok(self.model.insert(topic.clone(), note)));
                } else {
                    assert!(done.is_err());
                }
            }
            Step::Clear(topic) => assert_eq!(self.retained.clear(TENANT, topic), self.model.remove(topic)),
            Step::Expire(later, budget) => {
                self.now = self.now.plus(*later);
                self.retained.expire(self.now, *budget);
                self.forget_expired(*budget);
            }
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!((self.retained.len(), self.retained.bytes()), (self.model.len() as u64, self.bytes()));
        let next = self.model.values().map(|note| note.expires_at).min();
        assert_eq!(self.retained.next_expiry(), next.unwrap_or(Millis::NEVER));
        assert!(
            self.retained
                .iter()
                .map(|(_, topic, note)| (topic, note))
                .eq(self.model.iter().map(|(t, n)| (t.as_str(), n)))
        );
    }

    fn matching(&self, filter: &str) -> BTreeMap<String, u64> {
        let filter = TopicFilter::new(filter).unwrap();
        let alive = self.model.iter().filter(|(_, note)| note.expires_at > self.now);
        let found = alive.filter(|(topic, _)| filter.matches(TopicName::new(topic).unwrap()));
        found.map(|(topic, note)| (topic.clone(), note.number)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn behaves_like_a_map(
        limits in (1..30_u64, 50..800_u64),
        steps in proptest::collection::vec(step(), 0..150),
        filters in proptest::collection::vec((filter(), 1..9_u32), 10),
    ) {
        let mut pair = Pair::new(limits);
        for step in &steps {
            pair.apply(step);
        }
        for (filter, budget) in &filters {
            let mut found = Vec::new();
            let mut cursor = None;
            while let ScanEnd::More(last) = pair.retained.scan(
                TENANT, filter, cursor.as_deref(), *budget, pair.now, &mut |topic, note| found.push((topic.to_owned(), note.number)),
            ) {
                cursor = Some(last);
            }
            prop_assert!(found.iter().cloned().eq(pair.matching(filter)), "{} found {:?}", filter, found);
        }
    }

    /// A topic that exists during the whole scan is visited exactly once, whatever else changes.
    #[test]
    fn a_scan_survives_changes_between_its_steps(
        before in proptest::collection::vec(step(), 0..150),
        between in proptest::collection::vec(proptest::collection::vec(step(), 0..4), 0..60),
        filter in filter(),
        budget in 1..4_u32,
    ) {
        let mut pair = Pair::new((10_000, 1_000_000));
        for step in &before {
            pair.apply(step);
        }
        let mut always = pair.matching(&filter);
        let mut found = BTreeMap::new();
        let mut cursor = None;
        let mut changes = between.iter();
        loop {
            let now = pair.matching(&filter);
            always.retain(|topic, number| now.get(topic) == Some(number));
            let end = pair.retained.scan(TENANT, &filter, cursor.as_deref(), budget, pair.now, &mut |topic, note| {
                assert_eq!(now.get(topic), Some(&note.number), "{topic} is there and matches");
                assert!(found.insert(topic.to_owned(), note.number).is_none(), "{topic} comes twice");
            });
            let ScanEnd::More(last) = end else { break };
            cursor = Some(last);
            changes.next().into_iter().flatten().for_each(|step| pair.apply(step));
        }
        for (topic, number) in always {
            prop_assert_eq!(found.get(&topic), Some(&number), "{} was there all the time", topic);
        }
    }
}

/// Counts for all tenants and kinds together.
#[derive(Debug, Default)]
struct Sum(std::sync::atomic::AtomicU64);

impl TenantLedger for Sum {
    fn claim(&self, tenant: TenantId, holding: Holding) -> bool {
        self.add(tenant, holding, 1);
        true
    }

    fn add(&self, _: TenantId, _: Holding, count: u64) {
        self.0.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
    }

    fn release(&self, _: TenantId, _: Holding, count: u64) {
        self.0.fetch_sub(count, std::sync::atomic::Ordering::Relaxed);
    }

    fn limits_rates(&self) -> bool {
        false
    }

    fn take_message(&self, _: TenantId, _: u64) -> Option<u64> {
        None
    }
}

#[test]
fn a_dropped_engine_returns_its_share_to_the_ledger() {
    let ledger = Arc::new(Sum::default());
    let counted = || ledger.0.load(std::sync::atomic::Ordering::Relaxed);
    let settings = Settings { tenant_ledger: Some(Arc::clone(&ledger) as _), ..Settings::default() };
    let mut retained = Retained::new(0, 0);
    retained.limit_tenants(&settings);
    for (tenant, topic) in [(1, "a"), (1, "b"), (2, "a")] {
        retained.set(TenantId(tenant), topic, note(1, 1), NOW).unwrap();
    }
    retained.clear(TenantId(1), "b");
    assert_eq!(counted(), 2);
    drop(retained);
    assert_eq!(counted(), 0);
}
