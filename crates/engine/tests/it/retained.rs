//! The last message of each topic, for later subscribers.

use tidegate_engine::{Millis, Reason};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode, RetainHandling, SubscriptionOptions};

use crate::harness::*;

fn handling(retain_handling: RetainHandling) -> SubscriptionOptions {
    SubscriptionOptions { retain_handling, ..SubscriptionOptions::new(AtLeastOnce) }
}

/// Topic and payload of all messages that have come, in the order of topics; all have to carry RETAIN.
fn retained(client: &Client) -> Vec<(String, String)> {
    let mut got: Vec<_> = client
        .messages()
        .into_iter()
        .map(|got| {
            assert!(got.retain, "{got:?}");
            (got.topic.clone(), got.text())
        })
        .collect();
    got.sort();
    got
}

#[test]
fn a_new_subscription_gets_the_last_value_with_retain_set() {
    everywhere(|world| {
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "old").qos1().retain());
        publisher.publish(message("t", "not retained").qos1());
        publisher.publish(message("t", "new").qos1().retain());
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            let subscriber = world.connect(v5("s"));
            subscriber.subscribe_with("t", SubscriptionOptions::new(qos), Some(4));
            let got = subscriber.expect_publish("t", "new");
            assert_eq!((got.retain, got.dup, got.qos), (true, false, qos.min(AtLeastOnce)));
            assert_eq!(got.subscription_ids, [4]);
            subscriber.expect_nothing();
        }
    });
}

#[test]
fn live_messages_carry_retain_only_where_it_is_asked_for() {
    everywhere(|world| {
        let plain = world.connect(v5("plain"));
        plain.subscribe("t", AtMostOnce);
        let old = world.connect(v311("old"));
        old.subscribe("t", AtMostOnce);
        let keeps = world.connect(v5("keeps"));
        let options = SubscriptionOptions { retain_as_published: true, ..SubscriptionOptions::new(AtMostOnce) };
        keeps.subscribe_with("t", options, None);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "1").retain());
        publisher.publish(message("t", "2"));
        for (client, retain) in [(&plain, false), (&old, false), (&keeps, true)] {
            assert_eq!(client.expect_publish("t", "1").retain, retain, "{}", client.id());
            assert!(!client.expect_publish("t", "2").retain);
        }
    });
}

#[test]
fn an_empty_payload_clears_the_value_and_is_delivered_live() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("t", AtMostOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "x").retain());
        assert_eq!(world.gauges().retained_messages, 1);
        publisher.publish(message("t", "").retain());
        publisher.publish(message("never", "").retain());
        assert_eq!(watcher.payloads(), ["x", ""]);
        assert_eq!((world.gauges().retained_messages, world.gauges().retained_bytes), (0, 0));
        let late = world.connect(v5("late"));
        late.subscribe("t", AtMostOnce);
        late.expect_nothing();
    });
}

#[test]
fn retained_values_carry_their_properties() {
    everywhere(|world| {
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "x").retain().user("a", "1").content_type("c").response("r", b"d").expiry(50));
        world.advance(seconds(20));
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtMostOnce);
        let got = subscriber.expect_publish("t", "x");
        assert_eq!(got.user_properties, [("a".to_owned(), "1".to_owned())]);
        assert_eq!((got.content_type.as_deref(), got.response_topic.as_deref()), (Some("c"), Some("r")));
        assert_eq!((got.correlation_data.as_deref(), got.expiry), (Some(&b"d"[..]), Some(30)));
    });
}

#[test]
fn retain_handling_says_when_values_are_sent() {
    everywhere(|world| {
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "x").retain());
        let always = world.connect(v5("always"));
        let new = world.connect(v5("new"));
        let never = world.connect(v5("never"));
        for round in 0..2 {
            always.subscribe_with("t", handling(RetainHandling::SendAtSubscribe), None);
            always.expect_publish("t", "x");
            new.subscribe_with("t", handling(RetainHandling::SendIfNew), None);
            assert_eq!(new.messages().len(), usize::from(round == 0));
            never.subscribe_with("t", handling(RetainHandling::DoNotSend), None);
            never.expect_nothing();
        }
        new.unsubscribe("t");
        new.subscribe_with("t", handling(RetainHandling::SendIfNew), None);
        new.expect_publish("t", "x");
    });
}

#[test]
fn a_shared_subscription_gets_no_retained_values() {
    everywhere(|world| {
        world.connect(v5("p")).publish(message("t", "x").retain());
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("$share/g/t", AtLeastOnce);
        subscriber.expect_nothing();
    });
}

#[test]
fn retained_values_come_after_suback() {
    everywhere(|world| {
        world.connect(v5("p")).publish(message("t", "x").retain());
        let subscriber = world.connect(v5("s"));
        subscriber.send_subscribe(&[("t", SubscriptionOptions::new(AtMostOnce))], None);
        subscriber.expect(PacketType::SubAck);
        subscriber.expect_publish("t", "x");
    });
}

#[test]
fn each_filter_of_a_packet_brings_its_own_values() {
    everywhere(|world| {
        let publisher = world.connect(v5("p"));
        for topic in ["a", "b"] {
            publisher.publish(message(topic, topic).retain());
        }
        let subscriber = world.connect(v5("s"));
        let options = SubscriptionOptions::new(AtMostOnce);
        let id = subscriber.send_subscribe(&[("a", options), ("+", options), ("c", options)], None);
        subscriber.expect_sub_ack(id);
        let pair = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(retained(&subscriber), [pair("a"), pair("a"), pair("b")]);
    });
}

#[test]
fn wildcard_delivery_of_many_retained_values_is_complete() {
    // A step looks at few topics, the client reads little at once and acknowledges slowly.
    everywhere_with(
        |settings| {
            settings.retained.step = 7;
            settings.limits.output_high_water = 2000;
            settings.queue.max_messages = 10;
        },
        |world| {
            let publisher = world.connect(v5("p"));
            let mut wanted = Vec::new();
            for number in 0..300 {
                let topic = format!("site/{}/{}", number % 10, number);
                let payload = format!("{number} {}", "x".repeat(number));
                publisher.publish(message(&topic, &payload).qos1().retain());
                wanted.push((topic, payload));
            }
            wanted.sort();
            let subscriber = world.connect(v5("s").receive_maximum(3));
            subscriber.subscribe("site/#", ExactlyOnce);
            assert_eq!(retained(&subscriber), wanted);
            let plus = world.connect(v311("plus"));
            plus.stop_reading();
            plus.send_subscribe(&[("site/+/+", SubscriptionOptions::new(AtMostOnce))], None);
            for _ in 0..400 {
                plus.read_bytes(100);
            }
            plus.read();
            plus.expect(PacketType::SubAck);
            assert_eq!(retained(&plus), wanted);
            assert_eq!(world.counters().dropped_total(), 0);
            assert_eq!(world.gauges().queued_messages, 0);
            publisher.publish(message("site/1/1", "live").qos1());
            assert_eq!(plus.payloads(), ["live"]);
        },
    );
}

#[test]
fn a_fetch_yields_to_messages_that_are_live() {
    let world = World::with(1, |settings| settings.retained.step = 1);
    let publisher = world.connect(v5("p"));
    for number in 0..50 {
        publisher.publish(message(&format!("r/{number:02}"), "old").retain());
    }
    let subscriber = world.connect(v5("s"));
    subscriber.send_subscribe(&[("#", SubscriptionOptions::new(AtMostOnce))], None);
    world.run_some(3);
    publisher.send_publish(message("r/49", "new").retain());
    let got: Vec<_> = {
        subscriber.expect(PacketType::SubAck);
        subscriber.messages().into_iter().filter(|got| got.topic == "r/49").map(|got| got.text()).collect()
    };
    assert_eq!(got.last().map(String::as_str), Some("new"));
}

#[test]
fn expired_values_are_not_delivered_and_are_cleaned_up() {
    everywhere(|world| {
        let publisher = world.connect(v5("p"));
        for number in 0..10 {
            publisher.publish(message(&format!("t/{number}"), "x").qos1().retain().expiry(10 + number));
        }
        publisher.publish(message("t/stays", "x").qos1().retain());
        world.advance(seconds(14));
        assert_eq!(world.gauges().retained_messages, 6);
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t/#", AtMostOnce);
        let expiries: Vec<_> = subscriber.messages().iter().filter_map(|got| got.expiry).collect();
        assert_eq!(expiries.len(), 5);
        assert!(expiries.iter().all(|seconds| (1..=5).contains(seconds)), "{expiries:?}");
        world.advance(seconds(10));
        assert_eq!(world.gauges().retained_messages, 1);
        assert_eq!(world.next_deadline(), Millis::NEVER);
    });
}

#[test]
fn a_value_that_expires_between_shards_is_not_delivered() {
    let world = World::new(2);
    let topic = world.name_on(1, "t");
    let publisher = world.connect(v5(&world.name_on(1, "p")));
    publisher.publish(message(&topic, "x").qos1().retain().expiry(5));
    let subscriber = world.connect(v5(&world.name_on(0, "s")));
    world.hold(1, 0);
    subscriber.send_subscribe(&[("never/+", SubscriptionOptions::new(QoS::AtMostOnce))], None);
    world.release(1, 0);
    subscriber.expect(PacketType::SubAck);
    subscriber.subscribe_with(&topic, handling(RetainHandling::DoNotSend), None);
    // The interest is known by now, so only the fetch crosses.
    world.hold(1, 0);
    subscriber.send_subscribe(&[(topic.as_str(), SubscriptionOptions::new(QoS::AtMostOnce))], None);
    subscriber.expect(PacketType::SubAck);
    world.skip(seconds(5));
    world.release(1, 0);
    subscriber.expect_nothing();
}

#[test]
fn the_number_of_retained_values_has_a_limit() {
    let world = World::with(1, |settings| settings.retained.max_messages = 2);
    let publisher = world.connect(v5("p"));
    let watcher = world.connect(v5("watcher"));
    watcher.subscribe("#", AtMostOnce);
    for topic in ["a", "b"] {
        assert_eq!(publisher.publish(message(topic, "1").qos1().retain()), ReasonCode::Success);
    }
    assert_eq!(publisher.publish(message("c", "1").qos1().retain()), ReasonCode::QuotaExceeded);
    assert_eq!(publisher.publish(message("c", "1").qos2().retain()), ReasonCode::QuotaExceeded);
    assert_eq!(publisher.publish(message("a", "2").qos1().retain()), ReasonCode::Success);
    assert_eq!(world.dropped(Reason::RetainedCountLimit), 2);
    assert_eq!(publisher.publish(message("b", "").qos1().retain()), ReasonCode::Success);
    assert_eq!(publisher.publish(message("c", "2").qos1().retain()), ReasonCode::Success);
    assert_eq!(world.gauges().retained_messages, 2);
}

#[test]
fn the_bytes_of_retained_values_have_a_limit() {
    let world = World::with(1, |settings| settings.retained.max_bytes = 1000);
    let publisher = world.connect(v5("p"));
    assert_eq!(publisher.publish(message("a", vec![b'x'; 2000]).qos1().retain()), ReasonCode::QuotaExceeded);
    publisher.publish(message("a", "small").qos1().retain());
    assert_eq!(publisher.publish(message("a", vec![b'x'; 2000]).qos1().retain()), ReasonCode::QuotaExceeded);
    assert_eq!(world.dropped(Reason::RetainedBytesLimit), 2);
    let subscriber = world.connect(v5("s"));
    subscriber.subscribe("a", AtMostOnce);
    subscriber.expect_publish("a", "small");
}

#[test]
fn a_publisher_learns_that_another_shard_could_not_retain() {
    let world = World::with(2, |settings| settings.retained.max_messages = 1);
    let publisher = world.connect(v5(&world.name_on(0, "p")));
    let (first, second) = (world.name_on(1, "first"), world.name_on(1, "second"));
    assert_eq!(publisher.publish(message(&first, "x").qos1().retain()), ReasonCode::NoMatchingSubscribers);
    assert_eq!(publisher.publish(message(&second, "x").qos1().retain()), ReasonCode::QuotaExceeded);
    assert_eq!(publisher.publish(message(&second, "x").qos2().retain()), ReasonCode::QuotaExceeded);
    assert_eq!(world.dropped(Reason::RetainedCountLimit), 2);
}

#[test]
fn a_message_that_is_not_retained_comes_once() {
    for (version, code) in [(v5("p"), ReasonCode::QuotaExceeded), (v311("p"), ReasonCode::Success)] {
        let world = World::with(2, |settings| settings.retained.max_messages = 1);
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("#", ExactlyOnce);
        let filling = world.connect(v5("filling"));
        for shard in 0..2 {
            filling.publish(message(&world.name_on(shard, "first"), "x").qos1().retain());
            subscriber.payloads();
            let topic = world.name_on(shard, "second");
            let publisher = world.connect(version.clone().lasting());
            let id = publisher.send_publish(message(&topic, "x").qos2().retain()).expect("a packet id");
            assert_eq!(subscriber.payloads(), ["x"]);
            publisher.lose();
            let publisher = world.connect(version.clone().lasting());
            publisher.send_publish(message(&topic, "x").qos2().retain().id(id.get()).dup());
            assert_eq!(publisher.expect_answer(PacketType::PubRec, id), code);
            assert!(subscriber.payloads().is_empty(), "others have it");
            publisher.answers();
            publisher.disconnect();
        }
    }
}

#[test]
fn a_client_leaving_during_a_fetch_leaves_nothing_behind() {
    everywhere_with(
        |settings| settings.retained.step = 1,
        |world| {
            let publisher = world.connect(v5("p"));
            for number in 0..30 {
                publisher.publish(message(&format!("r/{number}"), "x").qos1().retain());
            }
            let subscriber = world.connect(v5("s").receive_maximum(1).manual());
            subscriber.send_subscribe(&[("#", SubscriptionOptions::new(AtLeastOnce))], None);
            world.run_some(12);
            subscriber.lose();
            assert_eq!(world.gauges().queued_messages, 0);
            assert_eq!(world.next_deadline(), Millis::NEVER);
        },
    );
}

#[test]
fn a_resumed_session_gets_the_rest_of_its_retained_values() {
    everywhere_with(
        |settings| settings.retained.step = 2,
        |world| {
            let publisher = world.connect(v5("p"));
            for number in 10..40 {
                publisher.publish(message(&format!("r/{number}"), "x").qos1().retain());
            }
            let subscriber = world.connect(v5("s").lasting().receive_maximum(1).manual());
            subscriber.send_subscribe(&[("r/#", SubscriptionOptions::new(AtLeastOnce))], None);
            subscriber.expect(PacketType::SubAck);
            let first = subscriber.expect_message();
            subscriber.lose();
            let subscriber = world.connect(v5("s").lasting());
            let mut topics: Vec<String> = subscriber.messages().into_iter().map(|got| got.topic).collect();
            topics.push(first.topic);
            topics.sort();
            topics.dedup();
            assert_eq!(topics.len(), 30, "{topics:?}");
        },
    );
}

#[test]
fn large_retained_values_cross_shards_whole() {
    everywhere(|world| {
        let payload: Vec<u8> = (0..30_000_u32).flat_map(u32::to_le_bytes).collect();
        let publisher = world.connect(v5("p"));
        for shard in 0..world.shards() {
            publisher.publish(message(&world.name_on(shard, "big/"), &payload).qos1().retain());
        }
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("big/+", AtLeastOnce);
        let got = subscriber.messages();
        assert_eq!(got.len(), usize::from(world.shards()).min(got.len().max(1)));
        assert!(got.iter().all(|got| got.payload == payload && got.retain));
    });
}

#[test]
fn unsubscribing_ends_the_delivery_of_retained_values() {
    everywhere_with(
        |settings| settings.retained.step = 1,
        |world| {
            let publisher = world.connect(v5("p"));
            for number in 0..20 {
                publisher.publish(message(&format!("r/{number}"), "x").qos1().retain());
            }
            let subscriber = world.connect(v5("s").receive_maximum(1).manual());
            subscriber.send_subscribe(&[("r/#", SubscriptionOptions::new(AtLeastOnce))], None);
            subscriber.expect(PacketType::SubAck);
            let first = subscriber.expect_message().id.unwrap();
            assert_eq!(subscriber.unsubscribe("r/#"), [ReasonCode::Success]);
            subscriber.puback(first);
            let mut rest = 0;
            while let Some(got) = subscriber.messages().first() {
                rest += 1;
                subscriber.puback(got.id.unwrap());
            }
            assert!(rest <= 2, "only messages that were already queued: {rest}");
        },
    );
}

#[test]
fn repeated_subscribes_fetch_once_at_a_time() {
    everywhere_with(
        |settings| settings.retained.step = 1,
        |world| {
            let publisher = world.connect(v5("p"));
            for number in 0..10 {
                publisher.publish(message(&format!("r/{number}"), "x").qos1().retain());
            }
            let subscriber = world.connect(v5("s").receive_maximum(1).manual());
            for _ in 0..20 {
                subscriber.send_subscribe(&[("r/#", SubscriptionOptions::new(AtLeastOnce))], None);
            }
            let mut rest = 0;
            world.run();
            while let Some(arrival) = subscriber.take_arrival() {
                if let Some(got) = arrival.delivered() {
                    rest += 1;
                    subscriber.puback(got.id.unwrap());
                }
                world.run();
            }
            assert!(rest < 50, "{rest}");
            assert_eq!(world.gauges().queued_messages, 0);
        },
    );
}
