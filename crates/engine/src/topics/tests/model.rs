//! The index and the cache against a list of subscriptions.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidegate_mqtt::{TopicFilter, TopicName};

use super::super::*;
use super::*;

/// Subscriptions, groups and remote interest as plain lists.
#[derive(Default)]
struct Model {
    subscriptions: BTreeMap<(TenantId, String, u32), Subscriber>,
    groups: BTreeSet<(TenantId, String, GroupKey)>,
    remote: BTreeSet<(TenantId, String, u16)>,
}

/// A route in comparable form: by session the QoS, both flags and the identifiers; the groups; the shards.
type Comparable = (BTreeMap<u32, (QoS, bool, bool, Vec<u32>)>, Vec<GroupKey>, Vec<u16>);

impl Model {
    fn has_local(&self, tenant: TenantId, filter: &str) -> bool {
        self.subscriptions.keys().any(|key| key.0 == tenant && key.1 == filter)
            || self.groups.iter().any(|key| key.0 == tenant && key.1 == filter)
    }

    fn route(&self, tenant: TenantId, topic: &str) -> Comparable {
        let fits = |of: TenantId, filter: &str| of == tenant && matches(filter, topic);
        let mut targets = BTreeMap::new();
        for ((_, _, session), found) in self.subscriptions.iter().filter(|(key, _)| fits(key.0, &key.1)) {
            let merged = targets.entry(*session).or_insert((QoS::AtMostOnce, false, false, Vec::new()));
            merged.0 = merged.0.max(found.options.qos());
            merged.1 |= found.options.no_local();
            merged.2 |= found.options.retain_as_published();
            merged.3.extend(Some(found.subscription_id).filter(|id| *id != 0));
            merged.3.sort_unstable();
        }
        let mut groups: Vec<GroupKey> = self.groups.iter().filter(|key| fits(key.0, &key.1)).map(|key| key.2).collect();
        groups.sort_unstable();
        let shards: BTreeSet<u16> = self.remote.iter().filter(|key| fits(key.0, &key.1)).map(|key| key.2).collect();
        (targets, groups, shards.into_iter().collect())
    }

    /// The deliveries of a session's own message to itself.
    fn own(&self, tenant: TenantId, topic: &str, session: u32) -> Option<(QoS, bool, bool, Vec<u32>)> {
        let mut others = Self::default();
        let mine = self.subscriptions.iter().filter(|(key, found)| key.2 == session && !found.options.no_local());
        others.subscriptions = mine.map(|(key, found)| (key.clone(), *found)).collect();
        others.route(tenant, topic).0.remove(&session)
    }
}

fn matches(filter: &str, topic: &str) -> bool {
    TopicFilter::new(filter).unwrap().matches(TopicName::new(topic).unwrap())
}

fn comparable(route: &Route) -> Comparable {
    let mut targets = BTreeMap::new();
    for target in route.targets() {
        let mut ids = route.subscription_ids(target).to_vec();
        ids.sort_unstable();
        let options = target.options;
        let entry = (target.qos(), options.no_local(), options.retain_as_published(), ids);
        assert!(targets.insert(target.session.0, entry).is_none(), "{target:?} comes twice");
    }
    let mut groups = route.groups().to_vec();
    groups.sort_unstable();
    (targets, groups, route.remote_shards().map(|shard| shard.0).collect())
}

#[derive(Clone, Debug)]
enum Step {
    Subscribe(String, Subscriber),
    Unsubscribe(String, u32),
    Group(String, u32, bool),
    Remote(String, u16, bool),
    Publish(String),
}

fn topic() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just(""), 1 => Just("$x"), 1 => Just("é")];
    proptest::collection::vec(level, 1..5)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("a topic has a character", |topic| !topic.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just(""), 1 => Just("$x"), 4 => Just("+")];
    (proptest::collection::vec(level, 0..4), any::<bool>())
        .prop_map(|(mut levels, below)| {
            levels.extend(below.then_some("#"));
            levels.join("/")
        })
        .prop_filter("a filter has a character", |filter| !filter.is_empty())
}

fn step() -> impl Strategy<Value = Step> {
    let subscriber =
        (0..6_u32, 0..3_u8, any::<bool>(), any::<bool>(), 0..3_u32).prop_map(|(session, qos, no_local, retain, id)| {
            let options = SubscriberOptions::new(QoS::from_bits(qos).unwrap(), no_local, retain);
            Subscriber { session: SessionKey(session), options, subscription_id: id * 134_217_727 }
        });
    prop_oneof![
        4 => (filter(), subscriber).prop_map(|(filter, subscriber)| Step::Subscribe(filter, subscriber)),
        3 => (filter(), 0..6_u32).prop_map(|(filter, session)| Step::Unsubscribe(filter, session)),
        1 => (filter(), 0..3_u32, any::<bool>()).prop_map(|(filter, group, on)| Step::Group(filter, group, on)),
        1 => (filter(), 0..4_u16, any::<bool>()).prop_map(|(filter, shard, on)| Step::Remote(filter, shard, on)),
        4 => topic().prop_map(Step::Publish),
    ]
}

/// Applies a change to both and compares their results.
fn change(index: &mut SubscriptionIndex, model: &mut Model, tenant: TenantId, step: &Step) {
    match step {
        Step::Subscribe(filter, new) => {
            let first = !model.has_local(tenant, filter);
            let old = model.subscriptions.insert((tenant, filter.clone(), new.session.0), *new);
            let done = index.subscribe(tenant, filter, *new);
            assert_eq!((done.first_local, done.replaced), (first, old.map(|old| old.options)));
            assert_eq!(index.filter(done.entry), Some(filter.as_str()));
            assert_eq!(index.subscriber(done.entry, new.session), Some(*new));
        }
        Step::Unsubscribe(filter, session) => {
            let was = model.subscriptions.remove(&(tenant, filter.clone(), *session)).is_some();
            let last = was.then(|| !model.has_local(tenant, filter));
            let done = index.unsubscribe(tenant, filter, SessionKey(*session));
            assert_eq!(done.map(|done| done.last_local), last);
        }
        Step::Group(filter, group, true) => {
            let first = !model.has_local(tenant, filter);
            model.groups.insert((tenant, filter.clone(), GroupKey(*group)));
            assert_eq!(index.add_group(tenant, filter, GroupKey(*group)).first_local, first);
        }
        Step::Group(filter, group, false) => {
            let was = model.groups.remove(&(tenant, filter.clone(), GroupKey(*group)));
            let last = was.then(|| !model.has_local(tenant, filter));
            let done = index.remove_group(tenant, filter, GroupKey(*group));
            assert_eq!(done.map(|done| done.last_local), last);
        }
        Step::Remote(filter, shard, on) => {
            let key = (tenant, filter.clone(), *shard);
            let changed = if *on { model.remote.insert(key) } else { model.remote.remove(&key) };
            if changed {
                assert!(index.set_remote(tenant, filter, ShardId(*shard), *on));
            }
        }
        Step::Publish(_) => {}
    }
    assert_eq!(index.subscriptions(), model.subscriptions.len() as u64);
}

fn check_topic(index: &mut SubscriptionIndex, cache: &mut RouteCache, model: &Model, tenant: TenantId, topic: &str) {
    let expected = model.route(tenant, topic);
    let mut route = Route::default();
    index.match_topic(tenant, topic, &mut route);
    assert_eq!(comparable(&route), expected, "matching {topic}");
    let found = cache.lookup(index.epoch(), tenant, topic.as_bytes());
    let slot = found.unwrap_or_else(|| cache.fill(index, tenant, topic, |_| {}));
    let (name, cached) = cache.get(slot);
    assert_eq!((name, comparable(cached)), (topic, expected), "cached ({found:?})");
    for session in 0..6 {
        let own = index.match_for_session(tenant, topic, SessionKey(session), &mut route);
        let own = own.map(|_| comparable(&route).0.remove(&session).unwrap());
        assert_eq!(own, model.own(tenant, topic, session), "own message of {session} to {topic}");
    }
}

/// Takes everything out again, after which nothing may be left.
fn empty(index: &mut SubscriptionIndex, model: Model) {
    for (tenant, filter, session) in model.subscriptions.into_keys() {
        let key = index.find(tenant, &filter).unwrap();
        index.unsubscribe_entry(key, SessionKey(session), |_, _| {}).unwrap();
    }
    for (tenant, filter, group) in model.groups {
        index.remove_group(tenant, &filter, group).unwrap();
    }
    for (tenant, filter, shard) in model.remote {
        assert!(index.set_remote(tenant, &filter, ShardId(shard), false));
    }
    assert_eq!((index.filters(), index.trie_nodes(), index.subscriptions()), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_index_and_the_cache_agree_with_a_list(steps in proptest::collection::vec((0..2_u16, step()), 1..250)) {
        let mut index = SubscriptionIndex::new();
        let mut cache = RouteCache::default();
        let mut model = Model::default();
        for (tenant, step) in &steps {
            let tenant = TenantId(*tenant);
            change(&mut index, &mut model, tenant, step);
            if let Step::Publish(topic) = step {
                check_topic(&mut index, &mut cache, &model, tenant, topic);
            }
        }
        empty(&mut index, model);
    }
}
