//! Dead letters: a dropped message is published once below its own topic.

use tidegate_engine::{DeadLetter, Reason, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};

use super::stuck;
use crate::harness::*;

fn dead_letters(max_rate: u32) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.queue.max_messages = 1;
        let reasons = vec![Reason::QueueFullNewest, Reason::MessageExpired, Reason::RefusedByReceiver];
        settings.dead_letter = Some(DeadLetter { prefix: "$DEAD".into(), max_rate, reasons });
    }
}

/// The dead letters of a client: reasons and payloads.
fn letters(reader: &Client) -> Vec<(String, String)> {
    let got = reader.messages();
    got.iter().map(|got| (got.topic.trim_start_matches("$DEAD/").to_owned(), got.text())).collect()
}

fn wants(reasons: &[Reason]) -> impl Fn(&mut Settings) {
    let letters = DeadLetter { prefix: "$DEAD".into(), max_rate: 100, reasons: reasons.to_vec() };
    move |settings| settings.dead_letter = Some(letters.clone())
}

#[test]
fn a_dropped_message_makes_one_dead_letter() {
    everywhere_with(dead_letters(100), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtLeastOnce);
        let _slow: Vec<Client> = (0..3).map(|n| stuck(world, &world.name_on(0, &format!("s{n}-")), "t/#")).collect();
        let publisher = world.connect(v5("p"));
        for n in 1..=3 {
            publisher.publish(message("t/x", n.to_string()).qos1().user("mine", "yes"));
        }
        let got = reader.messages();
        assert_eq!(got.len(), 1, "three subscribers of one shard lost the same message");
        assert_eq!((got[0].topic.as_str(), got[0].text().as_str()), ("$DEAD/queue_full_drop_newest", "3"));
        let property = |name: &str| {
            let found = got[0].user_properties.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(property("dead-letter-topic").as_deref(), Some("t/x"));
        assert_eq!(property("dead-letter-reason").as_deref(), Some("queue_full_drop_newest"));
        assert_eq!(property("mine").as_deref(), Some("yes"));
        assert_eq!(world.counters().dead_letters, 1);
    });
}

#[test]
fn a_message_above_the_packet_limit_becomes_a_dead_letter() {
    everywhere_with(wants(&[Reason::SubscriberPacketLimit]), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        let subscriber = world.connect(v5("s").lasting().receive_maximum(1).manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for payload in ["a", "b"] {
            publisher.publish(message("t", payload.repeat(100)).qos1());
        }
        subscriber.lose();
        // One was in flight, one waits, and one comes while the client has the smaller limit.
        let _subscriber = world.connect(v5("s").lasting().max_packet(50).manual());
        publisher.publish(message("t", "c".repeat(100)).qos1());
        let got: Vec<(String, String)> =
            letters(&reader).into_iter().map(|(why, text)| (why, text[..1].into())).collect();
        let expected = ["a", "b", "c"].map(|text| ("subscriber_packet_limit".to_owned(), text.to_owned()));
        assert_eq!(got, expected);
        assert_eq!(world.dropped(Reason::SubscriberPacketLimit), 3);
    });
}

#[test]
fn qos_0_for_offline_clients_become_dead_letters_on_request() {
    everywhere_with(wants(&[Reason::OfflineQos0]), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        world.absent_subscriber(v5("s").lasting(), "t", AtLeastOnce);
        world.connect(v5("p")).publish(message("t", "gone"));
        assert_eq!(letters(&reader), [("offline_qos0".to_owned(), "gone".to_owned())]);
        assert_eq!(world.dropped(Reason::OfflineQos0), 1);
    });
}

#[test]
fn a_dead_letter_that_is_dropped_is_only_counted() {
    everywhere_with(dead_letters(100), |world| {
        let _slow = stuck(world, "s", "t");
        let _full = stuck(world, "reader", "$DEAD/#");
        let publisher = world.connect(v5("p"));
        for n in 1..=8 {
            publisher.publish(message("t", n.to_string()).qos1());
        }
        assert_eq!(world.counters().dead_letters, 6);
        assert_eq!(world.dropped(Reason::QueueFullNewest), 6 + 4);
    });
}

#[test]
fn dead_letters_are_bounded_by_the_second() {
    everywhere_with(dead_letters(2), |world| {
        let _slow = stuck(world, "s", "t");
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        let publisher = world.connect(v5("p"));
        for n in 1..=7 {
            publisher.publish(message("t", n.to_string()).qos1());
        }
        assert_eq!(reader.payloads(), ["3", "4"]);
        assert_eq!((world.counters().dead_letters, world.counters().dead_letters_lost), (2, 3));
        world.advance(seconds(1));
        publisher.publish(message("t", "8").qos1());
        assert_eq!(reader.payloads(), ["8"]);
    });
}

#[test]
fn expired_messages_become_dead_letters() {
    everywhere_with(dead_letters(100), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        let slow = stuck(world, "s", "t");
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "1").qos1());
        publisher.publish(message("t", "2").qos1().expiry(5));
        world.advance(seconds(6));
        assert_eq!(slow.drain(), ["1"]);
        let got = reader.messages();
        assert_eq!((got[0].topic.as_str(), got[0].text().as_str()), ("$DEAD/message_expired", "2"));
    });
}
