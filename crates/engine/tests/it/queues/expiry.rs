//! Expired messages take no room: they leave their queue before a policy decides about the next message.

use tidegate_engine::{DeadLetter, OverflowPolicy, Reason, SharedStrategy};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use super::{numbers, policy, stuck};
use crate::harness::*;

const POLICIES: [OverflowPolicy; 6] = [
    OverflowPolicy::DropNewest,
    OverflowPolicy::DropOldest,
    OverflowPolicy::KeepLast,
    OverflowPolicy::Disconnect,
    OverflowPolicy::Block,
    OverflowPolicy::Reject,
];

/// Milliseconds: the messages of [`fill`] have expired, and no timer has looked at them.
const EXPIRED: u64 = 2_100;
/// Milliseconds: a timer has looked at them.
const LOOKED_AT: u64 = 3_000;

/// Publishes a number of messages that expire, each with its own topic.
fn fill(world: &World, publisher: &Client, count: usize) {
    world.advance(500);
    for number in 0..count {
        let code = publisher.publish(message(&format!("t/{number}"), "old").qos1().expiry(2));
        assert_eq!(code, ReasonCode::Success);
    }
}

#[test]
fn expired_messages_make_room_under_every_policy() {
    for (overflow, after) in POLICIES.into_iter().flat_map(|it| [(it, EXPIRED), (it, LOOKED_AT)]) {
        everywhere_with(policy(overflow, 3), |world| {
            let away = world.connect(v5("away").lasting());
            away.subscribe("t/#", AtLeastOnce);
            away.lose();
            let publisher = world.connect(v5("p"));
            fill(world, &publisher, 3);
            world.advance(after);
            for number in numbers(1..=3) {
                let code = publisher.publish(message(&format!("t/new/{number}"), &number).qos1());
                assert_eq!(code, ReasonCode::Success, "{overflow:?}");
            }
            assert_eq!(world.dropped(Reason::MessageExpired), 3, "{overflow:?}");
            assert_eq!(world.counters().dropped_total(), 3, "{overflow:?}");
            assert_eq!(world.gauges().queued_messages, 3);
            assert_eq!(world.connect(v5("away").lasting()).payloads(), numbers(1..=3), "{overflow:?}");
        });
    }
}

#[test]
fn expired_messages_make_room_for_a_client_that_is_there() {
    for (overflow, after) in POLICIES.into_iter().flat_map(|it| [(it, EXPIRED), (it, LOOKED_AT)]) {
        everywhere_with(policy(overflow, 3), |world| {
            let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
            slow.subscribe("t/#", AtLeastOnce);
            let publisher = world.connect(v5("p"));
            publisher.publish(message("t/first", "first").qos1());
            fill(world, &publisher, 2);
            world.advance(after);
            for number in numbers(1..=2) {
                publisher.publish(message(&format!("t/new/{number}"), &number).qos1());
            }
            assert_eq!(slow.drain(), ["first", "1", "2"], "{overflow:?}");
            assert_eq!(world.dropped(Reason::MessageExpired), 2, "{overflow:?}");
            assert_eq!(world.counters().dropped_total(), 2, "{overflow:?}");
        });
    }
}

#[test]
fn expired_messages_make_room_in_bytes() {
    for overflow in POLICIES {
        let settings = move |settings: &mut tidegate_engine::Settings| {
            policy(overflow, 1000)(settings);
            settings.queue.max_bytes = 10_000;
        };
        everywhere_with(settings, |world| {
            world.absent_subscriber(v5("away").lasting(), "t/#", AtLeastOnce);
            let publisher = world.connect(v5("p"));
            world.advance(500);
            for number in 0..2 {
                publisher.publish(message(&format!("t/{number}"), vec![b'x'; 4_000]).qos1().expiry(2));
            }
            world.advance(EXPIRED);
            assert_eq!(publisher.publish(message("t/new", vec![b'y'; 9_000]).qos1()), ReasonCode::Success);
            assert_eq!(world.gauges().queued_messages, 1, "{overflow:?}");
            assert_eq!(world.dropped(Reason::MessageExpired), 2, "{overflow:?}");
        });
    }
}

#[test]
fn only_expired_messages_make_room() {
    everywhere_with(policy(OverflowPolicy::Reject, 4), |world| {
        stuck(world, "away").lose();
        let publisher = world.connect(v5("p"));
        world.advance(500);
        for (text, expiry) in [("a", 100), ("b", 2), ("c", 50), ("d", 1)] {
            publisher.publish(message("t", text).qos1().expiry(expiry));
        }
        world.advance(1_100);
        assert_eq!(publisher.publish(message("t", "e").qos2()), ReasonCode::Success);
        assert_eq!(publisher.publish(message("t", "f").qos2()), ReasonCode::QuotaExceeded);
        world.advance(1_000);
        assert_eq!(publisher.publish(message("t", "g").qos1()), ReasonCode::Success);
        assert_eq!(world.connect(v5("away").lasting().manual()).drain(), ["a", "c", "e", "g"]);
    });
}

#[test]
fn a_blocked_publisher_continues_when_the_queue_expires() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let slow = stuck(world, "slow");
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "first").qos1());
        for number in 0..6 {
            publisher.send_publish(message("t", "old").qos1().expiry(2).id(100 + number));
        }
        publisher.send_publish(message("t", "new").qos1().id(200));
        world.run();
        let mut answered = publisher.answers().len();
        // The waiting messages enter the queue then, and expire there in their turn.
        for _ in 0..6 {
            world.advance(LOOKED_AT);
            answered += publisher.answers().len();
        }
        assert_eq!(answered, 7);
        assert_eq!(slow.drain().last().map(String::as_str), Some("new"));
    });
}

#[test]
fn a_rejected_mqtt_3_publisher_continues_after_expiry() {
    everywhere_with(policy(OverflowPolicy::Reject, 2), |world| {
        let slow = stuck(world, "slow");
        let first = world.connect(v5("first"));
        first.publish(message("t", "first").qos1());
        for _ in 0..2 {
            first.publish(message("t", "old").qos1().expiry(2));
        }
        let publisher = world.connect(v311("p"));
        publisher.send_publish(message("t", "new").qos1().id(7));
        world.run();
        assert_eq!(publisher.answers().len(), 0);
        world.advance(LOOKED_AT);
        assert_eq!(publisher.answers().len(), 1);
        assert_eq!(slow.drain(), ["first", "new"]);
    });
}

#[test]
fn a_member_whose_queue_has_expired_gets_its_share() {
    for strategy in [SharedStrategy::RoundRobin, SharedStrategy::Sticky, SharedStrategy::HashTopic] {
        let settings = move |settings: &mut tidegate_engine::Settings| {
            policy(OverflowPolicy::DropNewest, 3)(settings);
            settings.shared.strategy = strategy;
        };
        everywhere_with(settings, |world| {
            let worker = world.connect(v5("worker").lasting());
            worker.subscribe("$share/g/t/#", ExactlyOnce);
            worker.lose();
            let publisher = world.connect(v5("p"));
            fill(world, &publisher, 3);
            world.advance(LOOKED_AT);
            for number in numbers(1..=3) {
                publisher.publish(message("t/new", &number).qos1());
            }
            assert_eq!(world.connect(v5("worker").lasting()).payloads(), numbers(1..=3), "{strategy:?}");
        });
    }
}

#[test]
fn expired_messages_are_dead_letters_while_the_client_is_away() {
    let settings = |settings: &mut tidegate_engine::Settings| {
        let reasons = vec![Reason::MessageExpired];
        settings.dead_letter = Some(DeadLetter { prefix: "$DEAD".into(), max_rate: 100, reasons });
    };
    everywhere_with(settings, |world| {
        stuck(world, "away").lose();
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "stays").qos1());
        publisher.publish(message("t", "old").qos1().expiry(2));
        assert_eq!(reader.payloads(), Vec::<String>::new());
        world.advance(LOOKED_AT);
        assert_eq!(reader.payloads(), ["old"]);
    });
}

#[test]
fn what_expired_counts_for_no_memory() {
    let settings = |settings: &mut tidegate_engine::Settings| {
        settings.limits.memory_ceiling = 40_000;
    };
    let world = World::with(1, settings);
    stuck(&world, "away").lose();
    let publisher = world.connect(v5("p"));
    world.advance(500);
    for _ in 0..20 {
        publisher.publish(message("t", vec![b'x'; 4_000]).qos1().expiry(2));
    }
    assert!(world.dropped(Reason::MemoryCeiling) > 0);
    let dropped = world.dropped(Reason::MemoryCeiling);
    world.advance(EXPIRED);
    for _ in 0..8 {
        publisher.publish(message("t", vec![b'y'; 4_000]).qos1());
    }
    assert_eq!(world.dropped(Reason::MemoryCeiling), dropped);
}

#[test]
fn no_timer_is_left_for_an_expired_queue() {
    let world = World::with(1, |_| {});
    stuck(&world, "away").lose();
    let publisher = world.connect(v5("p"));
    for expiry in 1..=50 {
        publisher.publish(message("t", "old").qos1().expiry(expiry));
    }
    for left in (0..50).rev() {
        world.advance(seconds(1));
        assert_eq!(world.gauges().queued_messages, left);
    }
    assert_eq!(world.dropped(Reason::MessageExpired), 50);
}
