//! Events of messages in the log: client, message and reason, within a bound.

use tidegate_engine::{Attempt, Delay, LogEvent, OverflowPolicy, Reason, TenantId};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};

use crate::harness::*;

/// The logged drops: client, topic, reason, publisher.
fn dropped(world: &World) -> Vec<(String, String, Reason, Option<String>)> {
    let told = world.take_log().into_iter().filter_map(|event| match event {
        LogEvent::Dropped { client_id, topic, reason, publisher, .. } => Some((client_id, topic, reason, publisher)),
        _ => None,
    });
    told.collect()
}

fn delayed(world: &World) -> Vec<(String, Delay)> {
    let told = world.take_log().into_iter().filter_map(|event| match event {
        LogEvent::Delayed { client_id, delay, .. } => Some((client_id, delay)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_dropped_message_is_logged_with_receiver_and_reason() {
    everywhere_with(
        |settings| {
            settings.queue.max_messages = 1;
            settings.queue.overflow = OverflowPolicy::DropOldest;
        },
        |world| {
            let away = world.connect(v5("away").lasting());
            away.subscribe("t/#", AtLeastOnce);
            away.lose();
            let publisher = world.connect(v5("p"));
            world.take_log();
            publisher.publish(message("t/0", "x"));
            publisher.publish(message("t/1", "x").qos1().expiry(5));
            publisher.publish(message("t/2", "x").qos1().expiry(5));
            let named = |topic: &str, reason| ("away".to_owned(), topic.to_owned(), reason, None);
            assert_eq!(dropped(world), [named("t/0", Reason::OfflineQos0), named("t/1", Reason::QueueFullOldest)]);
            world.advance(seconds(6));
            world.connect(v5("away").lasting());
            assert_eq!(dropped(world), [named("t/2", Reason::MessageExpired)]);
        },
    );
}

#[test]
fn the_publisher_is_named_where_it_is_known() {
    let world = World::with(1, |settings| settings.queue.max_messages = 1);
    let away = world.connect(v5("away").lasting());
    away.subscribe("t", AtLeastOnce);
    away.lose();
    let publisher = world.connect(v5("p"));
    for _ in 0..2 {
        publisher.publish(message("t", "x").qos1());
    }
    let told = ("away".to_owned(), "t".to_owned(), Reason::QueueFullNewest, Some("p".to_owned()));
    assert_eq!(dropped(&world), [told]);
}

#[test]
fn messages_dropped_by_an_ending_session_are_logged() {
    everywhere(|world| {
        let away = world.connect(v5("away").lasting());
        away.subscribe("t", AtLeastOnce);
        away.lose();
        world.connect(v5("p")).publish(message("t", "x").qos1());
        world.connect(v5("away").clean(true));
        assert_eq!(dropped(world), [("away".to_owned(), "t".to_owned(), Reason::SessionDiscarded, None)]);
    });
}

#[test]
fn delivered_messages_are_not_logged() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        world.take_log();
        for _ in 0..100 {
            publisher.publish(message("t", "x").qos1());
        }
        assert_eq!(subscriber.payloads().len(), 100);
        assert_eq!(world.take_log(), []);
    });
}

#[test]
fn few_of_many_drops_are_logged_and_the_rest_counted() {
    everywhere(|world| {
        let away = world.connect(v5("away").lasting());
        away.subscribe("t", AtMostOnce);
        away.lose();
        let publisher = world.connect(v5("p"));
        for _ in 0..1000 {
            publisher.publish_later(message("t", "x"));
        }
        world.run();
        assert_eq!(world.dropped(Reason::OfflineQos0), 1000);
        let told = dropped(world).len() as u64;
        assert!(told <= 20, "{told}");
        let home = world.home_of("away");
        assert_eq!(world.engine(home, |engine, _| engine.questions().omitted(None, "away")), 1000 - told);
        world.advance(seconds(1));
        publisher.publish(message("t", "x"));
        let log = world.take_log();
        assert!(
            log.iter().any(|event| matches!(event, LogEvent::Dropped { omitted, .. } if *omitted == 1000 - told)),
            "{log:?}"
        );
        assert_eq!(world.engine(home, |engine, _| engine.questions().omitted(None, "away")), 0);
    });
}

#[test]
fn denied_actions_of_a_client_are_logged() {
    everywhere_with(
        |settings| settings.limits.max_subscriptions_per_client = 1,
        |world| {
            let client = world.connect(v5("a"));
            client.subscribe("one", AtLeastOnce);
            client.send_subscribe(&[("two", tidegate_mqtt::SubscriptionOptions::new(AtLeastOnce))], None);
            client.publish(message("$SYS/mine", "x").qos1());
            let told: Vec<_> =
                world.take_log().into_iter().filter(|event| matches!(event, LogEvent::Denied { .. })).collect();
            let denied = |attempt, topic: &str, reason| {
                let (client_id, tenant, topic) = ("a".to_owned(), TenantId::DEFAULT, topic.to_owned());
                LogEvent::Denied { client_id, tenant, attempt, topic, reason, held_up_by: None, omitted: 0 }
            };
            assert_eq!(
                told,
                [
                    denied(Attempt::Subscribe, "two", Reason::TooManySubscriptions),
                    denied(Attempt::Publish, "$SYS/mine", Reason::NotAuthorized),
                ]
            );
        },
    );
}

#[test]
fn the_log_names_the_cause_of_a_delay() {
    for shards in [1, 3] {
        let world = World::with(shards, |settings| {
            settings.queue.max_messages = 1;
            settings.queue.overflow = OverflowPolicy::Block;
        });
        let slow = world.connect(v5("slow").receive_maximum(1).manual());
        slow.subscribe("t", AtLeastOnce);
        let name = world.name_on(shards - 1, "p");
        let publisher = world.connect(v5(&name));
        for _ in 0..4 {
            publisher.send_publish(message("t", "x").qos1());
        }
        world.run();
        let same = world.home_of("slow") == world.home_of(&name);
        let delay = Delay::Queue(same.then(|| "slow".to_owned()));
        assert_eq!(delayed(&world), [(name, delay)]);
    }
}

#[test]
fn a_publisher_above_its_rate_is_logged() {
    everywhere_with(
        |settings| {
            settings.listeners[0].max_message_rate = 2;
        },
        |world| {
            let publisher = world.connect(v5("p"));
            for _ in 0..5 {
                publisher.send_publish(message("t", "x").qos1());
            }
            world.run();
            assert_eq!(delayed(world).first(), Some(&("p".to_owned(), Delay::Rate)));
        },
    );
}
