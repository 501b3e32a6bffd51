//! The settlement of messages, and repeated sends.

use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

#[test]
fn a_wanted_message_is_settled_by_ack_and_return() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            a.now(|ways| ways.withholds_messages = true);
            client.publish(message("t", "1").qos(qos));
            let report = a.report();
            assert_eq!((report.in_flight, report.unreturned, report.counters.acknowledged), (0, 1, 1), "{report:?}");
            client.expect_nothing();
            a.now(|ways| ways.withholds_messages = false);
            client.expect_publish("t", "1");
            let report = a.report();
            assert_eq!((report.owed(), report.counters.returned, report.counters.resent), (0, 1, 0));
        });
    }
}

#[test]
fn a_returned_message_waits_for_its_acknowledgement() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            a.now(|ways| {
                ways.withholds_acknowledgements = true;
                ways.delivers_first = true;
            });
            client.publish(message("t", "1").qos(qos));
            client.expect_publish("t", "1");
            assert_eq!((a.report().in_flight, a.report().unreturned), (1, 0));
            a.now(|ways| ways.withholds_acknowledgements = false);
            assert_eq!(a.owed(), 0);
            client.expect_nothing();
        });
    }
}

#[test]
fn a_returned_message_stays_stored_until_all_shards_have_it() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let world = World::with(2, |settings| {
            fleet_settings(settings, tidegate_engine::RoutingPolicy::TopicHash);
            settings.durability = tidegate_engine::Durability::Commit;
        });
        let a = world.broker("a");
        let subscriber = world.connect(v5(&world.name_on(1, "s")).clean(false).expiry(u32::MAX));
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5(&world.name_on(0, "p")));
        // The receivers of further messages are known by the topic.
        publisher.publish(message("t", "0").qos(qos));
        subscriber.expect_publish("t", "0");
        world.hold(0, 1);
        publisher.publish(message("t", "1").qos(qos));
        world.run();
        assert_eq!(a.owed(), 0);
        a.forget();
        world.crash(Crash::now(2));
        world.release(0, 1);
        world.advance(seconds(1));
        let again = world.connect(v5(subscriber.id()).clean(false).expiry(u32::MAX));
        again.expect_publish("t", "1");
        again.expect_nothing();
        assert_eq!(world.owed(), 0);
    }
}

#[test]
fn a_message_keeps_its_place_when_its_packet_id_is_used_again() {
    let world = World::with(1, |settings| {
        fleet_settings(settings, tidegate_engine::RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let a = world.broker_with("a", fleet::lasting(), Ways::default());
    let subscriber = world.connect(v5("s").clean(false).expiry(u32::MAX));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5("p"));
    a.now(|ways| {
        ways.withholds_messages = true;
        ways.withholds_acknowledgements = true;
    });
    publisher.publish(message("t", "1").qos2());
    publisher.publish(message("t", "2").qos1());
    a.now(|ways| ways.withholds_acknowledgements = false);
    assert_eq!((a.report().in_flight, a.report().unreturned), (0, 2));
    // The progress of the first one was noted behind the second one: ids count on from the first.
    world.crash(Crash::now(1));
    world.run();
    assert_eq!((a.report().in_flight, a.report().unreturned), (0, 2));
    world.connect(v5("p")).publish(message("t", "3").qos1());
    assert_eq!((a.report().in_flight, a.report().unreturned), (0, 3));
    world.crash(Crash::now(1));
    a.now(|ways| ways.withholds_messages = false);
    world.advance(seconds(1));
    let again = world.connect(v5("s").clean(false).expiry(u32::MAX));
    assert_eq!(again.payloads(), ["1", "2", "3"]);
    assert_eq!(a.owed(), 0);
    world.crash(Crash::now(1));
    world.run();
    assert_eq!(a.owed(), 0);
}

#[test]
fn an_unwanted_message_is_settled_by_its_ack() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        a.now(|ways| ways.withholds_acknowledgements = true);
        client.publish(message("t", "1").qos2());
        assert_eq!(a.owed(), 1);
        a.now(|ways| ways.withholds_acknowledgements = false);
        assert_eq!(a.owed(), 0);
    });
}

#[test]
fn a_message_not_returned_in_time_goes_to_another_broker() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a", "b"], |world, [a, b]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            for broker in [&a, &b] {
                broker.now(|ways| ways.loses = true);
            }
            client.publish(message("t", "1").qos(qos));
            let (taken, other) = if a.report().unreturned == 1 { (&a, &b) } else { (&b, &a) };
            assert_eq!((taken.payloads().len(), other.payloads().len()), (1, 0));
            other.now(|ways| ways.loses = false);
            world.advance(seconds(9));
            assert_eq!(other.payloads().len(), 0);
            world.advance(seconds(3));
            assert_eq!((taken.payloads().len(), other.payloads().len()), (0, 1));
            client.expect_publish("t", "1");
            assert_eq!((world.owed(), taken.report().counters.resent), (0, 1));
        });
    }
}

#[test]
fn a_late_return_after_a_resend_is_delivered_once() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        for broker in [&a, &b] {
            broker.now(|ways| ways.withholds_messages = true);
        }
        client.publish(message("t", "1").qos1());
        world.advance(seconds(15));
        for broker in [&a, &b] {
            broker.now(|ways| ways.withholds_messages = false);
        }
        assert_eq!(client.payloads(), ["1"]);
        world.advance(seconds(30));
        client.expect_nothing();
        assert_eq!(world.owed(), 0);
        let duplicates: u64 = [&a, &b].iter().map(|broker| broker.report().counters.duplicates).sum();
        assert!(duplicates >= 1);
    });
}

#[test]
fn a_message_wanted_no_more_is_settled_without_return() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", AtLeastOnce);
        a.now(|ways| ways.loses = true);
        client.publish(message("t", "1").qos1());
        assert_eq!(a.owed(), 1);
        client.unsubscribe("t");
        world.advance(seconds(12));
        assert_eq!((a.owed(), a.report().counters.resent), (0, 0));
        assert_eq!(a.payloads(), ["1"]);
    });
}

#[test]
fn a_message_that_a_broker_has_no_room_for_goes_to_another() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a", "b"], |world, [a, b]| {
            let client = world.connect(v5("c"));
            client.subscribe("t/#", ExactlyOnce);
            a.now(|ways| ways.answers = ReasonCode::QuotaExceeded);
            for number in 0..20 {
                client.publish(message(&format!("t/{number}"), "x").qos(qos));
            }
            assert_eq!((a.taken().len(), b.taken().len()), (0, 20));
            assert_eq!(client.messages().len(), 20);
            assert_eq!(world.owed(), 0);
            assert!(a.report().counters.resent > 0);
        });
    }
}

#[test]
fn a_permanently_refused_message_is_dropped_and_counted() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.answers = ReasonCode::NotAuthorized);
        client.publish(message("t", "1").qos1());
        client.publish(message("other", "2").qos2());
        assert_eq!(world.owed(), 0);
        assert_eq!(world.dropped(tidegate_engine::Reason::RefusedByReceiver), 2);
        a.now(|ways| ways.answers = ReasonCode::Success);
        // The next one is refused, until the topic is tried again.
        assert_eq!(client.publish(message("t", "denied").qos2()), ReasonCode::NotAuthorized);
        assert_eq!(world.dropped(tidegate_engine::Reason::TopicDenied), 1);
        world.advance(60_000);
        client.publish(message("t", "3").qos2());
        assert_eq!(client.payloads(), ["3"]);
    });
}

#[test]
fn a_topic_that_one_broker_denies_goes_to_another() {
    for closes in [false, true] {
        for qos in [AtLeastOnce, ExactlyOnce] {
            in_front_of(["a", "b"], |world, [a, b]| {
                let client = world.connect(v5("c"));
                client.subscribe("t/#", ExactlyOnce);
                a.now(|ways| {
                    if closes {
                        (ways.closes_on, ways.closes_with) = (Some("t/"), Some(ReasonCode::NotAuthorized));
                    } else {
                        ways.answers = ReasonCode::NotAuthorized;
                    }
                });
                for round in 0..3 {
                    for number in 0..10 {
                        let sent = message(&format!("t/{number}"), format!("{round}/{number}"));
                        client.publish_later(Message { qos, ..sent });
                    }
                    world.advance(seconds(20));
                }
                assert_eq!(client.messages().len(), 30, "{closes} {qos:?}");
                assert_eq!(world.owed(), 0);
                assert_eq!(world.dropped(tidegate_engine::Reason::TopicDenied), 0);
                // The second broker denies it, too.
                b.now(|ways| ways.answers = ReasonCode::NotAuthorized);
                client.publish_later(Message { qos, ..message("t/0", "denied") });
                world.advance(seconds(20));
                client.publish_later(Message { qos, ..message("t/0", "denied") });
                world.advance(seconds(20));
                assert_eq!((client.messages().len(), world.owed()), (0, 0));
            });
        }
    }
}

#[test]
fn an_expired_message_is_not_sent_again() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", AtLeastOnce);
        a.now(|ways| ways.loses = true);
        client.publish(message("t", "1").qos1().expiry(5));
        a.taken();
        world.advance(seconds(12));
        assert_eq!(a.payloads(), Vec::<String>::new());
        assert_eq!(a.owed(), 0);
        assert_eq!(world.dropped(tidegate_engine::Reason::MessageExpired), 1);
    });
}

#[test]
fn an_older_value_sent_again_late_replaces_no_newer_one() {
    // The home of the topic is the shard with the connections to brokers, or another one.
    for (newer_returns, shards) in [(true, 1), (false, 1), (true, 2), (false, 2)] {
        let policy = tidegate_engine::RoutingPolicy::TopicHash;
        let world = World::with(shards, |settings| fleet_settings(settings, policy));
        let topic = world.name_on(shards - 1, "t");
        let a = world.broker("a");
        let client = world.connect(v5("c"));
        client.subscribe(&topic, AtLeastOnce);
        a.now(|ways| ways.loses = true);
        client.publish(message(&topic, "older").qos1().retain());
        a.now(|ways| ways.loses = false);
        world.advance(seconds(6));
        a.now(|ways| ways.withholds_messages = !newer_returns);
        client.publish(message(&topic, "newer").qos1().retain());
        world.advance(seconds(6));
        assert_eq!(a.payloads(), ["older", "newer", "older"], "it did not come back in time");
        assert_eq!(a.kept(&topic).as_deref(), Some("newer"), "{shards} shards");
        a.now(|ways| ways.withholds_messages = false);
        assert_eq!(client.payloads(), ["newer", "older"]);
        assert_eq!(a.owed(), 0);
    }
}

#[test]
fn the_window_bounds_messages_in_flight_and_unreturned() {
    in_front_of([], |world, []| {
        let ways = Ways { receive_maximum: Some(3), ..Ways::default() };
        let a = world.broker_with("a", fleet::lasting(), ways);
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.withholds_messages = true);
        for number in 0..10 {
            client.publish_later(message("t", number.to_string()).qos(if number % 2 == 0 {
                AtLeastOnce
            } else {
                ExactlyOnce
            }));
        }
        let report = a.report();
        assert_eq!((report.queued, report.in_flight, report.unreturned), (7, 0, 3), "{report:?}");
        a.now(|ways| ways.withholds_messages = false);
        assert_eq!(client.payloads(), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(a.owed(), 0);
    });
}

#[test]
fn returned_and_qos_0_messages_are_counted() {
    for delivers_first in [false, true] {
        in_front_of(["a"], |world, [a]| {
            a.now(|ways| ways.delivers_first = delivers_first);
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                client.publish(message("t", "x").qos(qos));
            }
            client.publish(message("unwanted", "x").qos1());
            assert_eq!(client.messages().len(), 3);
            let counters = a.report().counters;
            assert_eq!((counters.sent, counters.acknowledged, counters.returned), (4, 3, 2), "{counters:?}");
        });
    }
}
