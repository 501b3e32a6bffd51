//! SUBSCRIBE and UNSUBSCRIBE: filters, options, and when a subscription holds.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode, SubscriptionOptions};

use crate::harness::*;

fn no_local() -> SubscriptionOptions {
    SubscriptionOptions { no_local: true, ..SubscriptionOptions::new(AtLeastOnce) }
}

#[test]
fn overlapping_subscriptions_bring_one_message_with_all_ids() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe_with("a/+", SubscriptionOptions::new(AtMostOnce), Some(1));
        subscriber.subscribe_with("a/#", SubscriptionOptions::new(ExactlyOnce), Some(268_435_455));
        subscriber.subscribe_with("a/b", SubscriptionOptions::new(AtLeastOnce), None);
        subscriber.subscribe_with("other", SubscriptionOptions::new(AtLeastOnce), Some(9));
        world.connect(v5("p")).publish(message("a/b", "x").qos2());
        let mut got = subscriber.expect_publish("a/b", "x");
        got.subscription_ids.sort_unstable();
        assert_eq!((got.qos, got.subscription_ids), (ExactlyOnce, vec![1, 268_435_455]));
        subscriber.expect_nothing();
    });
}

#[test]
fn subscribing_again_replaces_quality_and_identifier() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        let publisher = world.connect(v5("p"));
        subscriber.subscribe_with("t", SubscriptionOptions::new(AtMostOnce), Some(1));
        subscriber.subscribe_with("t", SubscriptionOptions::new(ExactlyOnce), Some(2));
        publisher.publish(message("t", "x").qos2());
        let got = subscriber.expect_publish("t", "x");
        assert_eq!((got.qos, got.subscription_ids), (ExactlyOnce, vec![2]));
        subscriber.subscribe("t", AtLeastOnce);
        publisher.publish(message("t", "y").qos2());
        let got = subscriber.expect_publish("t", "y");
        assert_eq!((got.qos, got.subscription_ids), (AtLeastOnce, vec![]));
        assert_eq!(world.gauges().subscriptions, 1);
    });
}

#[test]
fn several_filters_in_one_packet_are_answered_each() {
    everywhere(|world| {
        let options = SubscriptionOptions::new;
        let subscriber = world.connect(v5("s"));
        let filters = [("a", options(AtMostOnce)), ("b/#", options(AtLeastOnce)), ("c/+", options(ExactlyOnce))];
        let id = subscriber.send_subscribe(&filters, Some(5));
        let wanted = [ReasonCode::GRANTED_QOS_0, ReasonCode::GrantedQos1, ReasonCode::GrantedQos2];
        assert_eq!(subscriber.expect_sub_ack(id), wanted);
        let publisher = world.connect(v5("p"));
        for topic in ["a", "b/1/2", "c/3"] {
            publisher.publish(message(topic, "x"));
            assert_eq!(subscriber.expect_publish(topic, "x").subscription_ids, [5]);
        }
    });
}

/// SUBSCRIBE (0x82) or UNSUBSCRIBE (0xA2) with these filters at QoS 1, as no encoder would write it.
fn raw_request(first_byte: u8, v5: bool, filters: &[&str]) -> Vec<u8> {
    let mut body = vec![0, 1];
    if v5 {
        body.push(0);
    }
    for filter in filters {
        body.extend([0, filter.len() as u8]);
        body.extend(filter.as_bytes());
        if first_byte == 0x82 {
            body.push(1);
        }
    }
    [vec![first_byte, body.len() as u8], body].concat()
}

#[test]
fn an_invalid_filter_ends_the_connection() {
    let invalid = ["", "a/#/b", "ab/+e", "a#", "$share", "$share/", "$share/g", "$share/g/", "$share//t", "$share/+/t"];
    everywhere(|world| {
        for filter in invalid {
            for first_byte in [0x82, 0xA2] {
                for (connecting, is_v5) in [(v5("new"), true), (v311("old"), false), (v31("older"), false)] {
                    let client = world.connect(connecting);
                    client.send_bytes(&raw_request(first_byte, is_v5, &["ok", filter]));
                    if is_v5 {
                        client.expect_disconnect(ReasonCode::MalformedPacket);
                    }
                    client.expect_closed();
                }
            }
        }
        assert_eq!(world.gauges().subscriptions, 0);
    });
}

#[test]
fn a_filter_that_is_shared_twice_is_refused_alone() {
    everywhere(|world| {
        for (connecting, is_v5) in [(v5("new"), true), (v311("old"), false)] {
            let subscriber = world.connect(connecting);
            subscriber.send_bytes(&raw_request(0x82, is_v5, &["$share/g/$share/h/t", "ok"]));
            let codes = subscriber.expect_sub_ack(tidegate_mqtt::PacketId::MIN);
            let refused = if is_v5 { ReasonCode::TopicFilterInvalid } else { ReasonCode::UnspecifiedError };
            assert_eq!(codes, [refused, ReasonCode::GrantedQos1]);
            world.connect(v5("p")).publish(message("ok", "x").qos1());
            subscriber.expect_publish("ok", "x");
        }
    });
}

#[test]
fn no_more_than_the_offered_quality_is_granted() {
    everywhere_with(
        |settings| settings.listeners[0].maximum_qos = AtMostOnce,
        |world| {
            let subscriber = world.connect(v5("s"));
            let id = subscriber.send_subscribe(&[("t", SubscriptionOptions::new(ExactlyOnce))], None);
            assert_eq!(subscriber.expect_sub_ack(id), [ReasonCode::GRANTED_QOS_0]);
        },
    );
}

#[test]
fn subscriptions_of_a_client_have_a_limit() {
    everywhere_with(
        |settings| settings.limits.max_subscriptions_per_client = 2,
        |world| {
            let subscriber = world.connect(v5("s"));
            subscriber.subscribe("a", AtLeastOnce);
            subscriber.subscribe("$share/g/b", AtLeastOnce);
            for filter in ["c", "$share/g/c"] {
                let id = subscriber.send_subscribe(&[(filter, SubscriptionOptions::new(AtLeastOnce))], None);
                assert_eq!(subscriber.expect_sub_ack(id), [ReasonCode::QuotaExceeded]);
            }
            assert_eq!(world.counters().requests_refused[Reason::TooManySubscriptions.number()], 2);
            subscriber.subscribe("a", ExactlyOnce);
            subscriber.subscribe("$share/g/b", ExactlyOnce);
            subscriber.unsubscribe("a");
            subscriber.subscribe("c", AtLeastOnce);
        },
    );
}

#[test]
fn a_filter_of_another_client_counts_towards_the_limit_too() {
    everywhere_with(
        |settings| settings.limits.max_subscriptions_per_client = 1,
        |world| {
            let other = world.connect(v5("other"));
            other.subscribe("b", AtLeastOnce);
            for shard in 0..world.shards() {
                let subscriber = world.connect(v5(&world.name_on(shard, "s")));
                subscriber.subscribe("a", AtLeastOnce);
                let id = subscriber.send_subscribe(&[("b", SubscriptionOptions::new(AtLeastOnce))], None);
                assert_eq!(subscriber.expect_sub_ack(id), [ReasonCode::QuotaExceeded]);
            }
        },
    );
}

#[test]
fn unsubscribing_ends_delivery_and_reports_each_filter() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("a/#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("a/1", "1").qos1());
        subscriber.expect_publish("a/1", "1");
        assert_eq!(subscriber.unsubscribe("a/+"), [ReasonCode::NoSubscriptionExisted]);
        assert_eq!(subscriber.unsubscribe("a/#"), [ReasonCode::Success]);
        assert_eq!(subscriber.unsubscribe("a/#"), [ReasonCode::NoSubscriptionExisted]);
        assert_eq!(subscriber.unsubscribe("$share/g/a"), [ReasonCode::NoSubscriptionExisted]);
        assert_eq!(publisher.publish(message("a/1", "2").qos1()), ReasonCode::NoMatchingSubscribers);
        subscriber.expect_nothing();
    });
}

#[test]
fn messages_queued_before_unsubscribing_are_still_delivered() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").receive_maximum(1).manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "1").qos1());
        publisher.publish(message("t", "2").qos1());
        let first = subscriber.expect_publish("t", "1").id.unwrap();
        subscriber.unsubscribe("t");
        subscriber.puback(first);
        subscriber.expect_publish("t", "2");
    });
}

// ---- topics that start with a dollar --------------------------------------------------------------------------------

#[test]
fn wildcards_at_the_start_do_not_match_dollar_topics() {
    everywhere(|world| {
        let all = world.connect(v5("all"));
        for filter in ["#", "+/x", "+/#"] {
            all.subscribe(filter, AtMostOnce);
        }
        let dollar = world.connect(v5("dollar"));
        dollar.subscribe("$own/#", AtMostOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("$own/x", "1").retain());
        dollar.expect_publish("$own/x", "1");
        publisher.publish(message("own/x", "2"));
        assert_eq!(all.payloads(), ["2"]);
        dollar.expect_nothing();
        let late = world.connect(v5("late"));
        for filter in ["#", "+/x"] {
            late.subscribe(filter, AtMostOnce);
            late.expect_nothing();
        }
        late.subscribe("$own/+", AtMostOnce);
        late.expect_publish("$own/x", "1");
    });
}

#[test]
fn a_number_sign_matches_its_parent_level() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("sport/#", AtMostOnce);
        let publisher = world.connect(v5("p"));
        for topic in ["sport", "sport/", "sport/tennis/x", "sports", "/sport"] {
            publisher.publish(message(topic, topic));
        }
        assert_eq!(subscriber.payloads(), ["sport", "sport/", "sport/tennis/x"]);
    });
}

// ---- no local -------------------------------------------------------------------------------------------------------

#[test]
fn no_local_keeps_a_clients_own_messages_from_it() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.subscribe_with("t", no_local(), None);
        let other = world.connect(v5("b"));
        client.publish(message("t", "own").qos1());
        other.publish(message("t", "other").qos1());
        assert_eq!(client.payloads(), ["other"]);
    });
}

#[test]
fn no_local_leaves_an_overlapping_subscription_alone() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        let options = SubscriptionOptions { no_local: true, ..SubscriptionOptions::new(ExactlyOnce) };
        client.subscribe_with("t/#", options, Some(1));
        client.subscribe_with("t/+", SubscriptionOptions::new(AtLeastOnce), Some(2));
        let other = world.connect(v5("b"));
        client.publish(message("t/1", "own").qos2());
        let own = client.expect_publish("t/1", "own");
        assert_eq!((own.qos, own.subscription_ids), (AtLeastOnce, vec![2]));
        other.publish(message("t/1", "other").qos2());
        let mut both = client.expect_publish("t/1", "other");
        both.subscription_ids.sort_unstable();
        assert_eq!((both.qos, both.subscription_ids), (ExactlyOnce, vec![1, 2]));
        client.expect_nothing();
    });
}

#[test]
fn a_will_is_a_clients_own_message_for_no_local() {
    everywhere(|world| {
        let connecting = v5("a").lasting().will(message("t", "will").qos1());
        let client = world.connect(connecting);
        client.subscribe_with("t", no_local(), None);
        client.lose();
        let client = world.connect(v5("a").lasting());
        client.expect_nothing();
    });
}

#[test]
fn no_local_on_a_shared_subscription_is_a_protocol_error() {
    // SUBSCRIBE to "$share/g/t" with No Local, as no encoder would write it.
    let mut bytes = vec![0x82, 16, 0, 1, 0, 0, 10];
    bytes.extend(b"$share/g/t");
    bytes.push(0b0101);
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.send_bytes(&bytes);
        client.expect_disconnect(ReasonCode::ProtocolError);
    });
}

// ---- when a subscription holds --------------------------------------------------------------------------------------

#[test]
fn suback_waits_until_every_shard_knows_of_the_interest() {
    let world = World::new(3);
    let subscriber = world.connect(v5(&world.name_on(0, "s")));
    let publishers: Vec<Client> = (1..3).map(|shard| world.connect(v5(&world.name_on(shard, "p")))).collect();
    world.hold(0, 2);
    let id = subscriber.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    subscriber.ping();
    subscriber.expect_nothing();
    world.release(0, 2);
    assert_eq!(subscriber.expect_sub_ack(id), [ReasonCode::GrantedQos1]);
    for publisher in &publishers {
        publisher.publish(message("t", publisher.id()).qos1());
        subscriber.expect_publish("t", publisher.id());
    }
}

#[test]
fn a_second_subscriber_waits_for_the_first_ones_interest() {
    let world = World::new(2);
    let first = world.connect(v5(&world.name_on(0, "first")));
    let second = world.connect(v5(&world.name_on(0, "second")));
    let publisher = world.connect(v5(&world.name_on(1, "p")));
    world.hold(0, 1);
    let first_id = first.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    world.run();
    let second_id = second.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    second.expect_nothing();
    world.release(0, 1);
    first.expect_sub_ack(first_id);
    second.expect_sub_ack(second_id);
    assert_eq!(publisher.publish(message("t", "x").qos1()), ReasonCode::Success);
    first.expect_publish("t", "x");
    second.expect_publish("t", "x");
}

#[test]
fn a_shared_subscription_waits_for_its_home_and_all_others() {
    let world = World::new(3);
    let filter = world.name_on(1, "g/t");
    let shared = format!("$share/{filter}");
    let topic = filter.strip_prefix("g/").unwrap();
    let subscriber = world.connect(v5(&world.name_on(0, "s")));
    let publisher = world.connect(v5(&world.name_on(2, "p")));
    world.hold(1, 2);
    let id = subscriber.send_subscribe(&[(shared.as_str(), SubscriptionOptions::new(AtLeastOnce))], None);
    subscriber.expect_nothing();
    world.release(1, 2);
    assert_eq!(subscriber.expect_sub_ack(id), [ReasonCode::GrantedQos1]);
    publisher.publish(message(topic, "x").qos1());
    subscriber.expect_publish(topic, "x");
}

#[test]
fn an_early_leaving_subscriber_leaves_no_interest() {
    let world = World::new(2);
    let subscriber = world.connect(v5(&world.name_on(0, "s")));
    let publisher = world.connect(v5(&world.name_on(1, "p")));
    world.hold(0, 1);
    subscriber.send_subscribe(&[("t/#", SubscriptionOptions::new(AtLeastOnce))], None);
    world.run();
    subscriber.lose();
    world.release(0, 1);
    assert_eq!(publisher.publish(message("t/1", "x").qos1()), ReasonCode::NoMatchingSubscribers);
    assert_eq!(world.gauges().subscriptions, 0);
}

#[test]
fn one_that_leaves_does_not_take_the_interest_of_others_along() {
    everywhere(|world| {
        let (first, second) = (world.connect(v5("first")), world.connect(v5("second")));
        first.subscribe("t", AtLeastOnce);
        second.subscribe("t", AtLeastOnce);
        first.subscribe("$share/g/t", AtLeastOnce);
        second.subscribe("$share/g/t", AtLeastOnce);
        first.lose();
        for shard in 0..world.shards() {
            let publisher = world.connect(v5(&world.name_on(shard, "p")));
            publisher.publish(message("t", "x").qos1());
            assert_eq!(second.payloads(), ["x", "x"]);
        }
        second.unsubscribe("t");
        world.connect(v5("q")).publish(message("t", "y").qos1());
        assert_eq!(second.payloads(), ["y"]);
    });
}

#[test]
fn a_subscription_is_answered_in_the_order_of_packets() {
    let world = World::new(2);
    let client = world.connect(v5(&world.name_on(0, "s")));
    world.hold(1, 0);
    client.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    client.send_publish(message("t", "x").qos1().id(900));
    client.expect_publish("t", "x");
    assert!(client.answers().is_empty(), "PUBACK waits behind SUBACK");
    world.release(1, 0);
    client.expect(PacketType::SubAck);
    assert_eq!(client.answers().len(), 1);
}

#[test]
fn a_subscription_is_answered_soon_however_busy_the_shards_are() {
    let world = World::new(3);
    let watchers: Vec<Client> = (0..3).map(|shard| world.connect(v5(&world.name_on(shard, "watcher")))).collect();
    let publishers: Vec<Client> = (0..3).map(|shard| world.connect(v5(&world.name_on(shard, "p")))).collect();
    for watcher in &watchers {
        watcher.subscribe("busy/#", AtMostOnce);
    }
    for shard in 0..3 {
        let subscriber = world.connect(v5(&world.name_on(shard, "s")));
        subscriber.send_subscribe(&[("quiet", SubscriptionOptions::new(AtLeastOnce))], None);
        let mut rounds = 0;
        while !subscriber.has_arrived(PacketType::SubAck) {
            rounds += 1;
            assert!(rounds < 20, "SUBACK has not come after {rounds} turns of each shard");
            for publisher in &publishers {
                publisher.send_publish(message("busy/1", "x"));
            }
            world.turns();
        }
    }
}
