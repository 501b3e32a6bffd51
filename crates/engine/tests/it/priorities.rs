//! Higher priorities go first where messages wait, and only where that is switched on.

use tidegate_engine::{OverflowPolicy, PriorityRule, PrioritySource, Reason, Settings};
use tidegate_mqtt::QoS::AtLeastOnce;

use crate::harness::*;

/// The topics `t/...` have the priority that their messages name, or 2.
fn by_property(lower_share: u16) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.priority = vec![PriorityRule { filter: "t/#".into(), source: PrioritySource::Property, default: 2 }];
        settings.queue.lower_priority_share = lower_share;
    }
}

/// A client that has one message in flight and takes no other before it acknowledges.
fn saturated(world: &World, publisher: &Client) -> Client {
    let client = world.connect(v5("s").lasting().receive_maximum(1).manual());
    client.subscribe("#", AtLeastOnce);
    publisher.publish(message("t/0", "first").qos1());
    client
}

/// Publishes messages of the given priorities, whose payload is the priority and their number.
fn publish(publisher: &Client, levels: &[u8]) {
    for (number, level) in levels.iter().enumerate() {
        let topic = format!("t/{}", number % 3);
        let payload = format!("{level}-{number:03}");
        publisher.publish(message(&topic, payload).qos1().user("priority", &level.to_string()));
    }
}

const LEVELS: [u8; 24] = [0, 2, 1, 9, 0, 2, 1, 5, 0, 2, 1, 9, 0, 2, 1, 7, 0, 2, 1, 9, 0, 2, 1, 3];

/// The test that a study of message-oriented middleware lacked: saturate the receiver, then look at every single
/// delivery.
#[test]
fn no_lower_priority_is_delivered_while_a_higher_one_waits() {
    everywhere_with(by_property(0), |world| {
        let publisher = world.connect(v5("p"));
        let subscriber = saturated(world, &publisher);
        publish(&publisher, &LEVELS);
        let got = subscriber.drain();
        assert_eq!(got.len(), LEVELS.len() + 1);
        let levels: Vec<&str> = got[1..].iter().map(|payload| &payload[..1]).collect();
        assert!(levels.is_sorted_by(|a, b| a >= b), "{got:?}");
        for level in ["0", "1", "2", "9"] {
            let of_level: Vec<&String> = got.iter().filter(|payload| payload.starts_with(level)).collect();
            assert!(of_level.is_sorted(), "first in, first out within a priority: {of_level:?}");
        }
    });
}

#[test]
fn without_rules_the_order_is_that_of_publishing() {
    everywhere(|world| {
        let publisher = world.connect(v5("p"));
        let subscriber = saturated(world, &publisher);
        publish(&publisher, &LEVELS);
        let got = subscriber.drain();
        assert!(got[1..].is_sorted_by_key(|payload| payload[2..].to_owned()), "{got:?}");
    });
}

#[test]
fn a_receiver_that_keeps_up_sees_the_order_of_publishing() {
    everywhere_with(by_property(0), |world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publish(&publisher, &LEVELS);
        let got = subscriber.payloads();
        assert_eq!(got.len(), LEVELS.len());
        assert!(got.is_sorted_by_key(|payload| payload[2..].to_owned()), "{got:?}");
    });
}

#[test]
fn the_lowest_priority_has_its_share_of_a_stream_of_higher_ones() {
    everywhere_with(by_property(4), |world| {
        let publisher = world.connect(v5("p"));
        let subscriber = saturated(world, &publisher);
        publish(&publisher, &[0, 0, 0]);
        let mut without = 0;
        let mut lowest = 0;
        for round in 0..40 {
            publish(&publisher, &[9]);
            world.run();
            let got = subscriber.expect_message();
            subscriber.puback(got.id.unwrap());
            if got.text().starts_with('0') {
                lowest += 1;
                without = 0;
            } else if round > 0 {
                without += 1;
            }
            assert!(lowest == 3 || without < 4, "the lowest starves in round {round}");
        }
        assert_eq!(lowest, 3);
    });
}

#[test]
fn a_topics_rule_and_the_default_give_priorities_too() {
    let rules = |settings: &mut Settings| {
        by_property(0)(settings);
        let alarm = PriorityRule { filter: "alarm".into(), source: PrioritySource::Fixed(8), default: 0 };
        settings.priority.push(alarm);
    };
    everywhere_with(rules, |world| {
        let publisher = world.connect(v311("p"));
        let subscriber = saturated(world, &publisher);
        for topic in ["other", "t/1", "alarm"] {
            publisher.publish(message(topic, topic).qos1());
        }
        assert_eq!(subscriber.drain(), ["first", "alarm", "t/1", "other"]);
    });
}

#[test]
fn priorities_survive_being_away() {
    everywhere_with(by_property(0), |world| {
        world.absent_subscriber(v5("s").lasting(), "#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publish(&publisher, &[1, 5, 3]);
        publish(&publisher, &[4, 0]);
        let subscriber = world.connect(v5("s").lasting().receive_maximum(1).manual());
        assert_eq!(subscriber.drain(), ["5-001", "4-000", "3-002", "1-000", "0-001"]);
    });
}

#[test]
fn only_the_lowest_priority_makes_room_for_others() {
    let full = |settings: &mut Settings| {
        by_property(0)(settings);
        settings.queue.max_messages = 2;
        settings.queue.overflow = OverflowPolicy::DropOldest;
    };
    everywhere_with(full, |world| {
        let publisher = world.connect(v5("p"));
        let subscriber = saturated(world, &publisher);
        publish(&publisher, &[5, 1, 7, 0, 5]);
        assert_eq!(world.dropped(Reason::QueueFullOldest), 2);
        assert_eq!(world.dropped(Reason::QueueFullNewest), 1);
        assert_eq!(subscriber.drain(), ["first", "7-002", "5-004"]);
    });
}
