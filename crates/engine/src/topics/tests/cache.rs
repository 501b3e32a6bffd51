//! Entries of the route cache, and their lifetime.

use super::super::*;
use super::*;

fn with_subscribers(filters: &[(&str, u32)]) -> SubscriptionIndex {
    let mut index = SubscriptionIndex::new();
    for (filter, subscribers) in filters {
        for session in 0..*subscribers {
            index.subscribe(TENANT, filter, subscriber(session, QoS::AtMostOnce, 0));
        }
    }
    index
}

fn is_cached(cache: &mut RouteCache, index: &SubscriptionIndex, topic: &str) -> bool {
    cache.lookup(index.epoch(), TENANT, topic.as_bytes()).is_some()
}

#[test]
fn a_route_holds_until_a_subscription_changes() {
    let mut index = with_subscribers(&[("a", 1)]);
    let mut cache = RouteCache::default();
    assert!(!is_cached(&mut cache, &index, "a"));
    cache.fill(&mut index, TENANT, "a", |_| {});
    cache.fill(&mut index, TENANT, "none", |_| {});
    assert!(is_cached(&mut cache, &index, "a"));
    assert!(is_cached(&mut cache, &index, "none"), "an empty route is kept");
    assert!(cache.lookup(index.epoch(), TenantId(1), b"a").is_none());
    index.subscribe(TENANT, "b", subscriber(9, QoS::AtMostOnce, 0));
    assert!(!is_cached(&mut cache, &index, "a"));
    let slot = cache.fill(&mut index, TENANT, "a", |_| {});
    assert_eq!(cache.get(slot).1.targets().len(), 1);
}

#[test]
fn a_stream_of_unique_topics_drives_no_hot_topic_out() {
    let mut index = with_subscribers(&[("#", 1)]);
    let mut cache = RouteCache::default();
    let hot: Vec<String> = (0..50).map(|n| format!("hot/{n}")).collect();
    for round in 0..3 {
        for topic in &hot {
            if cache.lookup(index.epoch(), TENANT, topic.as_bytes()).is_none() {
                assert_eq!(round, 0, "{topic}");
                cache.fill(&mut index, TENANT, topic, |_| {});
            }
        }
    }
    let held = |cache: &mut RouteCache, index: &SubscriptionIndex| {
        hot.iter().filter(|topic| is_cached(cache, index, topic)).count()
    };
    let before = held(&mut cache, &index);
    for n in 0..20_000 {
        cache.fill(&mut index, TENANT, &format!("once/{n}"), |_| {});
    }
    // Two hot topics may share a set; none of them came again meanwhile, and one had to go.
    let after = held(&mut cache, &index);
    assert!(before == 50 && after >= 45, "{before} before, {after} after");
}

#[test]
fn two_topics_of_a_set_both_stay() {
    let mut index = with_subscribers(&[("#", 1)]);
    let mut cache = RouteCache::default();
    let topics: Vec<String> = (0..600).map(|n| format!("t/{n}")).collect();
    for topic in &topics {
        cache.fill(&mut index, TENANT, topic, |_| {});
    }
    let kept: Vec<&String> = topics.iter().filter(|topic| is_cached(&mut cache, &index, topic)).collect();
    assert!(kept.len() > 400, "{}", kept.len());
    for _ in 0..5 {
        assert!(kept.iter().all(|topic| is_cached(&mut cache, &index, topic)));
        assert!(kept.iter().rev().all(|topic| is_cached(&mut cache, &index, topic)));
    }
}

#[test]
fn few_large_routes_are_kept() {
    let mut index = with_subscribers(&[("#", 10_001)]);
    let mut cache = RouteCache::default();
    let topics: Vec<String> = (0..8).map(|n| format!("t/{n}")).collect();
    let kept = |cache: &mut RouteCache, index: &mut SubscriptionIndex| {
        for topic in &topics {
            let slot = cache.fill(index, TENANT, topic, |_| {});
            let (name, route) = cache.get(slot);
            assert_eq!((name, route.targets().len()), (topic.as_str(), index.subscriptions() as usize));
        }
        topics.iter().filter(|topic| is_cached(cache, index, topic)).count()
    };
    assert_eq!(kept(&mut cache, &mut index), 4);
    index.subscribe(TENANT, "#", subscriber(90_000, QoS::AtMostOnce, 0));
    assert_eq!(kept(&mut cache, &mut index), 4, "outdated routes make room");
}

#[test]
fn the_sum_of_targets_is_bounded() {
    let mut index = with_subscribers(&[("#", 9_000)]);
    let mut cache = RouteCache::default();
    let topics: Vec<String> = (0..300).map(|n| format!("t/{n}")).collect();
    for topic in &topics {
        cache.fill(&mut index, TENANT, topic, |_| {});
    }
    let kept = topics.iter().filter(|topic| is_cached(&mut cache, &index, topic)).count();
    assert!((90..=116).contains(&kept), "{kept} routes of 9,000 targets within a million");
}

#[test]
fn very_long_topics_are_matched_each_time() {
    let mut index = with_subscribers(&[("#", 1)]);
    let mut cache = RouteCache::default();
    let long = "x".repeat(5000);
    let slot = cache.fill(&mut index, TENANT, &long, |_| {});
    assert_eq!(cache.get(slot).1.targets().len(), 1);
    assert!(!is_cached(&mut cache, &index, &long));
}

#[test]
fn a_place_stays_good_while_others_are_looked_up() {
    let mut index = with_subscribers(&[("#", 1)]);
    let mut cache = RouteCache::default();
    let topics: Vec<String> = (0..600).map(|n| format!("t/{n}")).collect();
    for topic in &topics {
        cache.fill(&mut index, TENANT, topic, |_| {});
    }
    let places: Vec<_> = topics
        .iter()
        .filter_map(|topic| Some((topic, cache.lookup(index.epoch(), TENANT, topic.as_bytes())?)))
        .collect();
    assert!(places.iter().all(|(topic, place)| cache.get(*place).0 == topic.as_str()));
}

#[test]
fn topics_that_come_again_stay_under_a_stream_of_others() {
    let mut index = with_subscribers(&[("#", 1)]);
    let mut cache = RouteCache::default();
    let hot: Vec<String> = (0..300).map(|n| format!("hot/{n}")).collect();
    let mut missed = 0;
    for n in 0..100 {
        for topic in &hot {
            if !is_cached(&mut cache, &index, topic) {
                missed += 1;
                cache.fill(&mut index, TENANT, topic, |_| {});
            }
        }
        for other in 0..100 {
            cache.fill(&mut index, TENANT, &format!("once/{n}/{other}"), |_| {});
        }
    }
    // By chance some 35 of the topics share a set of two with two or more others.
    assert!(missed < 300 + 100 * 35, "{missed} of 30,000");
}
