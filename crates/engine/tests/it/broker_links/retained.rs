//! Retained messages are kept here and there, and the later one wins.

use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::SubscriptionOptions;

use super::copies::renumber;
use crate::harness::fleet::lasting;
use crate::harness::*;

/// The retained message that a new subscriber gets.
pub(super) fn kept(world: &World, topic: &str) -> Option<String> {
    let reader = world.connect(v5("reader"));
    reader.send_subscribe(&[(topic, SubscriptionOptions::new(AtLeastOnce))], None);
    world.run();
    let got = reader.messages_among_others();
    assert!(got.len() <= 1 && got.iter().all(|got| got.retain), "{got:?}");
    reader.disconnect();
    got.first().map(Delivered::text)
}

#[test]
fn an_own_retained_message_is_kept_twice_and_comes_once() {
    in_front_of(["a", "b"], |world, brokers| {
        let client = world.connect(v5("c"));
        client.publish(message("t", "1").qos1().retain());
        client.publish(message("t", "2").qos1().retain());
        assert_eq!(kept(world, "t").as_deref(), Some("2"));
        let taken: Vec<Carried> = brokers.iter().flat_map(Broker::taken).collect();
        assert!(taken.len() == 2 && taken.iter().all(|taken| taken.retain));
        let live = world.connect(v5("live"));
        let options = SubscriptionOptions { retain_as_published: true, ..SubscriptionOptions::new(AtLeastOnce) };
        live.subscribe_with("#", options, None);
        assert_eq!(live.payloads(), ["2"], "kept by both, delivered once");
        client.publish(message("t", "3").qos1().retain());
        let got = live.expect_publish("t", "3");
        assert!(got.retain, "as it was published");
        live.expect_nothing();
        client.publish(message("t", "").qos1().retain());
        assert_eq!(kept(world, "t"), None);
    });
}

/// Mosquitto closes the connection over RETAIN then, and messages behind it would be set aside.
#[test]
fn a_broker_that_retains_nothing_gets_no_retain() {
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        in_front_of([], |world, []| {
            let a = world.broker_with("a", lasting(), Ways { retains: false, ..Ways::default() });
            let client = world.connect(v5("c"));
            let options = SubscriptionOptions { retain_as_published: true, ..SubscriptionOptions::new(ExactlyOnce) };
            client.subscribe_with("t", options, None);
            client.publish(message("t", "1").qos(qos).retain());
            assert!(client.expect_publish("t", "1").retain, "as it was published");
            // Sent again on another connection, and queued.
            a.now(|ways| ways.hangs = true);
            let other = world.connect(v5("other"));
            other.publish_later(message("t", "2").qos(qos).retain());
            a.cut();
            other.publish_later(message("t", "3").qos(qos).retain());
            a.now(|ways| ways.hangs = false);
            world.advance(seconds(2));
            assert_eq!((kept(world, "t").as_deref(), world.owed()), (Some("3"), 0));
            assert!(a.taken().iter().all(|taken| !taken.retain));
            client.publish(message("t", "").qos(qos).retain());
            assert_eq!(kept(world, "t"), None);
        });
    }
}

#[test]
fn a_live_message_has_retain_clear_unless_asked_for() {
    in_front_of(["a"], |world, [_a]| {
        let live = world.connect(v5("live"));
        live.subscribe("t", ExactlyOnce);
        world.connect(v5("p")).publish(message("t", "1").qos2().retain());
        assert!(!live.expect_publish("t", "1").retain);
    });
}

#[test]
fn a_brokers_retained_value_is_taken_over_on_demand() {
    in_front_of(["a"], |world, [a]| {
        a.publish(&message("t", "there before").qos1().retain());
        let client = world.connect(v5("c"));
        client.subscribe_later("t");
        let got = client.messages_among_others();
        assert_eq!(got.len(), 1);
        assert!(got[0].retain && got[0].text() == "there before");
        assert_eq!(kept(world, "t").as_deref(), Some("there before"));
        client.expect_nothing();
    });
}

#[test]
fn the_later_value_of_two_orchestrators_wins() {
    in_front_of(["a"], |world, [a]| {
        let reader = world.connect(v5("r"));
        reader.subscribe("t", AtLeastOnce);
        let client = world.connect(v5("c"));
        client.publish(message("t", "own 1").qos1().retain());
        let mut others = a.taken().remove(0);
        renumber(&mut others, 5);
        others.payload = b"other's, older".to_vec();
        world.advance(seconds(1));
        client.publish(message("t", "own 2").qos1().retain());
        a.carry(&others);
        assert_eq!(kept(world, "t").as_deref(), Some("own 2"));
        world.advance(seconds(1));
        client.publish(message("elsewhere", "x").qos1().retain());
        let mut newer = a.taken().into_iter().find(|taken| taken.topic == "elsewhere").unwrap();
        renumber(&mut newer, 6);
        newer.topic = "t".into();
        newer.payload = b"other's, newer".to_vec();
        a.carry(&newer);
        assert_eq!(kept(world, "t").as_deref(), Some("other's, newer"));
        newer.payload.clear();
        renumber(&mut newer, 7);
        assert!(reader.payloads().len() >= 4);
    });
}

#[test]
fn another_orchestrator_clears_a_value_too() {
    in_front_of(["a"], |world, [a]| {
        let reader = world.connect(v5("r"));
        reader.subscribe("t", AtLeastOnce);
        let client = world.connect(v5("c"));
        client.publish(message("t", "kept").qos1().retain());
        world.advance(seconds(1));
        client.publish(message("u", "").qos1().retain());
        let mut cleared = a.taken().into_iter().find(|taken| taken.topic == "u").unwrap();
        renumber(&mut cleared, 5);
        cleared.topic = "t".into();
        a.carry(&cleared);
        assert_eq!(kept(world, "t"), None);
    });
}

#[test]
fn a_direct_publishers_value_overwrites_no_known_one() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.publish(message("t", "own").qos1().retain());
        a.publish(&message("t", "direct").qos1().retain());
        assert_eq!(kept(world, "t").as_deref(), Some("own"));
    });
}

#[test]
fn an_outdated_brokers_value_reaches_no_subscriber() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        for number in 0..6 {
            client.publish(message(&format!("t/{number}"), "older").qos1().retain());
        }
        a.die();
        a.forget();
        world.broker("b");
        world.advance(seconds(3));
        for number in 0..6 {
            client.publish(message(&format!("t/{number}"), "newer").qos1().retain());
        }
        let live = world.connect(v5("live"));
        live.subscribe("t/#", AtLeastOnce);
        assert_eq!(live.payloads(), ["newer"; 6]);
        a.come_back();
        live.expect_nothing();
        for number in 0..6 {
            assert_eq!(kept(world, &format!("t/{number}")).as_deref(), Some("newer"));
        }
    });
}

#[test]
fn retained_values_with_their_versions_outlive_a_restart() {
    let world = World::with(3, |settings| {
        fleet_settings(settings, tidegate_engine::RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let a = world.broker("a");
    let client = world.connect(v5("c"));
    client.publish(message("t", "older").qos1().retain());
    let older = a.taken().remove(0);
    world.advance(seconds(1));
    client.publish(message("t", "newer").qos1().retain());
    world.crash(Crash::now(2));
    world.advance(seconds(1));
    let reader = world.connect(v5("s"));
    reader.subscribe("t", AtLeastOnce);
    assert_eq!(reader.payloads(), ["newer"]);
    let mut older = older;
    renumber(&mut older, 3);
    a.carry(&older);
    assert_eq!(kept(&world, "t").as_deref(), Some("newer"));
}

#[test]
fn a_late_broker_brings_back_no_older_retained_value() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", AtLeastOnce);
        client.publish(message("t", "older").qos1().retain());
        a.die();
        a.forget();
        world.broker("b");
        world.advance(seconds(3));
        client.publish(message("t", "newer").qos1().retain());
        assert_eq!(client.payloads(), ["older", "newer"]);
        a.come_back();
        client.expect_nothing();
        assert_eq!(kept(world, "t").as_deref(), Some("newer"));
    });
}

#[test]
fn a_late_older_message_hides_no_newer_kept_value() {
    let world = World::with(2, |settings| fleet_settings(settings, tidegate_engine::RoutingPolicy::TopicHash));
    let (topic, a) = (world.name_on(1, "t"), world.broker("a"));
    let client = world.connect(v5(&world.name_on(0, "c")));
    client.subscribe(&topic, AtLeastOnce);
    client.publish(message(&topic, "older").qos1().retain());
    let mut late = a.taken().remove(0);
    // As another member has sent it, which comes back from the broker only now.
    renumber(&mut late, 5);
    world.advance(seconds(1));
    client.publish(message(&topic, "newer").qos1().retain());
    let reader = world.connect(v5(&world.name_on(0, "r")));
    world.hold(1, 0);
    reader.send_subscribe(&[(&topic, SubscriptionOptions::new(AtLeastOnce))], None);
    world.run();
    a.carry(&late);
    world.release(1, 0);
    world.run();
    let got = reader.messages_among_others();
    let got: Vec<_> = got.iter().map(|got| (got.text(), got.retain)).collect();
    assert_eq!(got, [("older".to_owned(), false), ("newer".to_owned(), true)]);
}
