mod cache;
mod model;

use tidegate_mqtt::QoS;

use super::index::Unsubscribed;
use super::*;
use crate::ids::{SessionKey, ShardId, TenantId};

const TENANT: TenantId = TenantId::DEFAULT;

fn subscriber(session: u32, qos: QoS, subscription_id: u32) -> Subscriber {
    Subscriber { session: SessionKey(session), options: SubscriberOptions::new(qos, false, false), subscription_id }
}

fn sessions(index: &mut SubscriptionIndex, topic: &str) -> Vec<u32> {
    let mut route = Route::default();
    index.match_topic(TENANT, topic, &mut route);
    let mut found: Vec<u32> = route.targets().iter().map(|target| target.session.0).collect();
    found.sort_unstable();
    found
}

#[test]
fn the_work_of_a_search_is_counted() {
    let mut index = SubscriptionIndex::new();
    for number in 0..1 << 10 {
        let level = |at: usize| if number >> at & 1 == 0 { "a/" } else { "+/" };
        let filter = (0..10).map(level).collect::<String>() + "b";
        index.subscribe(TENANT, &filter, subscriber(1, QoS::AtMostOnce, 0));
    }
    assert_eq!(sessions(&mut index, "a/b"), []);
    let few = index.take_visited();
    assert!((1..10).contains(&few), "{few}");
    assert_eq!(sessions(&mut index, &("a/".repeat(10) + "c")), [], "none matches, and all are visited");
    // Each level has twice as many nodes; the filter without a wildcard adds no node.
    assert!(!index.has_visited(2_047) && index.has_visited(2_046));
    assert_eq!((index.take_visited(), index.take_visited()), (2_046, 0));
}

#[test]
fn filters_match_as_the_standard_says() {
    let filters = [
        "#", "+", "a", "/", "a/", "/a", "+/+", "a/+", "a/#", "+/b", "a/b/#", "a/+/c", "$SYS/#", "$SYS/+", "+/+/#",
        "//", "a//b",
    ];
    let mut index = SubscriptionIndex::new();
    for (session, filter) in filters.iter().enumerate() {
        index.subscribe(TENANT, filter, subscriber(session as u32, QoS::AtMostOnce, 0));
    }
    let cases: [(&str, &[&str]); 9] = [
        ("a", &["#", "+", "a", "a/#"]),
        ("/", &["#", "/", "+/+", "+/+/#"]),
        ("a/", &["#", "a/", "+/+", "a/+", "a/#", "+/+/#"]),
        ("a/b", &["#", "+/+", "a/+", "a/#", "+/b", "a/b/#", "+/+/#"]),
        ("a/x/c", &["#", "a/#", "a/+/c", "+/+/#"]),
        ("a//b", &["#", "a/#", "+/+/#", "a//b"]),
        ("$SYS", &["$SYS/#"]),
        ("$SYS/x", &["$SYS/#", "$SYS/+"]),
        ("B", &["#", "+"]),
    ];
    for (topic, expected) in cases {
        let found: Vec<&str> = sessions(&mut index, topic).iter().map(|at| filters[*at as usize]).collect();
        assert_eq!(found, expected, "{topic}");
    }
}

#[test]
fn the_first_and_the_last_local_interest_are_returned() {
    let mut index = SubscriptionIndex::new();
    for filter in ["a/b", "a/+"] {
        let one = index.subscribe(TENANT, filter, subscriber(1, QoS::AtMostOnce, 0));
        let two = index.subscribe(TENANT, filter, subscriber(2, QoS::AtMostOnce, 0));
        let group = index.add_group(TENANT, filter, GroupKey(7));
        let seen = (one.first_local, two.first_local, group.first_local);
        assert_eq!(seen, (true, false, false));
        assert!(index.set_remote(TENANT, filter, ShardId(5), true));

        let last = |gone: Option<Unsubscribed>| gone.map(|gone| gone.last_local);
        assert_eq!(last(index.unsubscribe(TENANT, filter, SessionKey(1))), Some(false));
        assert_eq!(last(index.unsubscribe(TENANT, filter, SessionKey(1))), None);
        assert_eq!(last(index.remove_group(TENANT, filter, GroupKey(7))), Some(false));
        assert_eq!(last(index.remove_group(TENANT, filter, GroupKey(7))), None);
        let mut told = None;
        let gone = index
            .unsubscribe_entry(two.entry, SessionKey(2), |tenant, filter| told = Some((tenant, filter.to_owned())));
        assert_eq!(last(gone), Some(true));
        assert_eq!(told, Some((TENANT, filter.to_owned())));
        let kept = filter.contains('+').then_some(filter);
        assert_eq!(index.filter(two.entry), kept, "another shard's interest in a wildcard needs the text");
        assert!(index.set_remote(TENANT, filter, ShardId(5), false));
        assert_eq!(index.filter(two.entry), None);
    }
    assert_eq!((index.filters(), index.trie_nodes(), index.subscriptions()), (0, 0, 0));
}

#[test]
fn subscribing_again_replaces() {
    let mut index = SubscriptionIndex::new();
    let first = index.subscribe(TENANT, "a", subscriber(1, QoS::AtMostOnce, 3));
    let epoch = index.epoch();
    let same = index.subscribe(TENANT, "a", subscriber(1, QoS::AtMostOnce, 3));
    assert_eq!((same.entry, index.epoch()), (first.entry, epoch), "nothing has changed");
    let again = index.subscribe(TENANT, "a", subscriber(1, QoS::ExactlyOnce, 9));
    assert_eq!(again.replaced.map(SubscriberOptions::qos), Some(QoS::AtMostOnce));
    assert!(index.epoch() > epoch);
    assert_eq!(index.subscriber(again.entry, SessionKey(1)), Some(subscriber(1, QoS::ExactlyOnce, 9)));
    assert_eq!(index.subscriptions(), 1);
}

#[test]
fn overlapping_subscriptions_become_one_target() {
    let mut index = SubscriptionIndex::new();
    let options = SubscriberOptions::new(QoS::AtMostOnce, false, true);
    index.subscribe(TENANT, "a/#", Subscriber { session: SessionKey(1), options, subscription_id: 0 });
    index.subscribe(TENANT, "a/b", subscriber(1, QoS::AtLeastOnce, 5));
    index.subscribe(TENANT, "a/b", subscriber(2, QoS::ExactlyOnce, 0));
    let mut route = Route::default();
    index.match_topic(TENANT, "a/b", &mut route);
    let [one, two] = route.targets() else { panic!("{route:?}") };
    assert_eq!((one.qos(), one.options.retain_as_published()), (QoS::AtLeastOnce, true));
    assert_eq!(route.subscription_ids(one), [5]);
    assert_eq!((two.qos(), two.options.retain_as_published()), (QoS::ExactlyOnce, false));
    assert!(route.subscription_ids(two).is_empty());

    index.subscribe(TENANT, "+/b", subscriber(1, QoS::AtMostOnce, 5));
    index.match_topic(TENANT, "a/b", &mut route);
    assert_eq!(route.subscription_ids(&route.targets()[0]), [5, 5], "the same identifier twice is sent twice");
}

#[test]
fn no_local_keeps_only_its_own_subscription_silent() {
    let mut index = SubscriptionIndex::new();
    let silent = SubscriberOptions::new(QoS::ExactlyOnce, true, true);
    index.subscribe(TENANT, "a/b", Subscriber { session: SessionKey(1), options: silent, subscription_id: 4 });
    index.subscribe(TENANT, "#", subscriber(2, QoS::AtMostOnce, 0));
    let mut route = Route::default();
    index.match_topic(TENANT, "a/b", &mut route);
    assert!(route.has_no_local() && route.targets()[0].options.no_local());
    assert!(index.match_for_session(TENANT, "a/b", SessionKey(1), &mut route).is_none());
    index.subscribe(TENANT, "a/+", subscriber(1, QoS::AtLeastOnce, 6));
    let own = index.match_for_session(TENANT, "a/b", SessionKey(1), &mut route).unwrap();
    assert_eq!((own.qos(), own.options.retain_as_published()), (QoS::AtLeastOnce, false));
    assert_eq!(route.subscription_ids(&own), [6]);
    index.match_topic(TENANT, "other", &mut route);
    assert!(!route.has_no_local());
}

#[test]
fn a_crowd_comes_and_goes() {
    let mut index = SubscriptionIndex::new();
    let crowd = 1000;
    let mixed = |n: u32| n * 619 % crowd;
    for n in 0..crowd {
        index.subscribe(TENANT, "news", subscriber(mixed(n), QoS::AtMostOnce, 0));
    }
    assert!(index.subscribe(TENANT, "news", subscriber(500, QoS::AtLeastOnce, 0)).replaced.is_some());
    assert!(sessions(&mut index, "news").into_iter().eq(0..crowd));
    for n in 0..crowd {
        let gone = index.unsubscribe(TENANT, "news", SessionKey(mixed(crowd - 1 - n))).unwrap();
        assert_eq!(gone.last_local, n == crowd - 1);
        assert_eq!(sessions(&mut index, "news").len() as u32, crowd - 1 - n);
    }
    assert_eq!(index.filters(), 0);
}

#[test]
fn many_filters_stay_found_while_tables_grow_and_shrink() {
    let mut index = SubscriptionIndex::new();
    let names: Vec<String> =
        (0..20_000).map(|n| format!("site/{n}/{}", if n % 2 == 0 { "temp" } else { "+" })).collect();
    for (session, name) in names.iter().enumerate() {
        index.subscribe(TENANT, name, subscriber(session as u32, QoS::AtMostOnce, 0));
    }
    assert_eq!(sessions(&mut index, "site/19998/temp"), [19_998]);
    assert_eq!(sessions(&mut index, "site/19999/temp"), [19_999]);
    for (session, name) in names.iter().enumerate().skip(10) {
        assert!(index.unsubscribe(TENANT, name, SessionKey(session as u32)).unwrap().last_local);
    }
    for session in 0..10 {
        assert_eq!(sessions(&mut index, &format!("site/{session}/temp")), [session]);
    }
    assert_eq!((index.filters(), index.trie_nodes()), (10, 2 + 5 * 2));
    assert_eq!(index.local_filters().count(), 10);
}

#[test]
fn a_filter_of_thousands_of_levels_overflows_no_stack() {
    let mut index = SubscriptionIndex::new();
    let deep = "/".repeat(60_000);
    let filter = format!("{deep}+");
    index.subscribe(TENANT, &filter, subscriber(1, QoS::AtMostOnce, 0));
    assert_eq!(sessions(&mut index, &deep), [1]);
    assert!(sessions(&mut index, &deep[1..]).is_empty());
    index.unsubscribe(TENANT, &filter, SessionKey(1)).unwrap();
    assert_eq!(index.trie_nodes(), 0);
}

#[test]
fn route_names_the_other_shards() {
    let mut index = SubscriptionIndex::new();
    index.set_remote(TENANT, "a", ShardId(63), true);
    index.set_remote(TENANT, "+", ShardId(0), true);
    index.set_remote(TENANT, "+", ShardId(9), true);
    index.set_remote(TenantId(1), "#", ShardId(2), true);
    let mut route = Route::default();
    index.match_topic(TENANT, "a", &mut route);
    let shards: Vec<u16> = route.remote_shards().map(|shard| shard.0).collect();
    assert_eq!(shards, [0, 9, 63]);
    assert!(!route.is_empty() && route.targets().is_empty());
    index.match_topic(TENANT, "b/c", &mut route);
    assert!(route.is_empty());
    assert_eq!(index.local_filters().count(), 0);
}
