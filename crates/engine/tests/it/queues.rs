//! Queues are bounded, and the policy at the bound is a choice.

use tidegate_engine::{LogEvent, OverflowPolicy, Reason, Settings};
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

mod blocking;
mod ceiling;
mod expiry;
mod slow_sockets;
mod window;

fn policy(overflow: OverflowPolicy, max_messages: u32) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.queue.overflow = overflow;
        settings.queue.max_messages = max_messages;
        settings.limits.block_timeout_ms = seconds(30);
    }
}

/// A client that has one message in flight and takes no other before it acknowledges.
fn stuck(world: &World, name: &str) -> Client {
    let client = world.connect(v5(name).lasting().receive_maximum(1).manual());
    client.subscribe("t", AtLeastOnce);
    client
}

fn numbers(range: std::ops::RangeInclusive<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn drop_newest_keeps_the_first_messages() {
    everywhere_with(policy(OverflowPolicy::DropNewest, 3), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=8) {
            publisher.publish(message("t", number).qos1());
        }
        assert_eq!(world.dropped(Reason::QueueFullNewest), 4);
        assert_eq!(subscriber.drain(), numbers(1..=4));
    });
}

#[test]
fn drop_oldest_keeps_the_last_messages() {
    everywhere_with(policy(OverflowPolicy::DropOldest, 3), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=8) {
            publisher.publish(message("t", number).qos1());
        }
        assert_eq!(world.dropped(Reason::QueueFullOldest), 4);
        assert_eq!(subscriber.drain(), ["1", "6", "7", "8"]);
    });
}

#[test]
fn disconnect_ends_the_slow_connection_and_keeps_its_queue() {
    everywhere_with(policy(OverflowPolicy::Disconnect, 3), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=5) {
            publisher.publish(message("t", number).qos1());
        }
        subscriber.expect_publish("t", "1");
        subscriber.expect_disconnect(ReasonCode::QuotaExceeded);
        assert_eq!(world.dropped(Reason::QueueFullDisconnect), 1);
        assert_eq!(world.counters().disconnects[Reason::QueueFullDisconnect.number()], 1);
        let subscriber = world.connect(v5("s").lasting().manual());
        assert_eq!(subscriber.drain(), numbers(1..=4));
    });
}

#[test]
fn an_offline_clients_queue_is_bounded_under_every_policy() {
    for overflow in
        [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest, OverflowPolicy::Disconnect, OverflowPolicy::Block]
    {
        everywhere_with(policy(overflow, 3), |world| {
            stuck(world, "s").lose();
            let publisher = world.connect(v5("p"));
            for number in numbers(1..=8) {
                publisher.publish(message("t", number).qos1());
            }
            assert_eq!(world.counters().dropped_total(), 5, "{overflow:?}");
            assert_eq!(world.gauges().queued_messages, 3);
            let subscriber = world.connect(v5("s").lasting().manual());
            let wanted = if overflow == OverflowPolicy::DropOldest { numbers(6..=8) } else { numbers(1..=3) };
            assert_eq!(subscriber.drain(), wanted, "{overflow:?}");
        });
    }
}

#[test]
fn bytes_fill_a_queue_as_well() {
    everywhere_with(
        |settings| settings.queue.max_bytes = 10_000,
        |world| {
            let subscriber = stuck(world, "s");
            let publisher = world.connect(v5("p"));
            for _ in 0..10 {
                publisher.publish(message("t", vec![b'x'; 3000]).qos1());
            }
            let gauges = world.gauges();
            assert!((1..=3).contains(&gauges.queued_messages), "{gauges:?}");
            assert!(gauges.queued_bytes <= 10_000, "{gauges:?}");
            assert_eq!(world.dropped(Reason::QueueFullNewest), 9 - gauges.queued_messages);
            assert_eq!(subscriber.drain().len() as u64, 1 + gauges.queued_messages);
            assert_eq!(world.gauges().queued_bytes, 0);
        },
    );
}

// ---- saying who -----------------------------------------------------------------------------------------------------

#[test]
fn the_log_names_a_client_that_stopped_acknowledging() {
    for overflow in [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest] {
        everywhere_with(policy(overflow, 1), |world| {
            let subscriber = stuck(world, "sleepy");
            let publisher = world.connect(v5("p"));
            publisher.publish(message("t", "1").qos1());
            let stuck_id = subscriber.expect_publish("t", "1").id.unwrap();
            world.advance(seconds(90));
            world.take_log();
            for number in 2..=6 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            let told: Vec<_> = world
                .take_log()
                .into_iter()
                .filter_map(|event| match event {
                    LogEvent::QueueFull {
                        client_id, connected, unacknowledged, oldest_packet_id, waiting_ms, ..
                    } => Some((client_id, connected, unacknowledged, oldest_packet_id, waiting_ms)),
                    _ => None,
                })
                .collect();
            assert_eq!(told, [("sleepy".to_owned(), true, 1, Some(stuck_id.get()), 90_000)], "{overflow:?}");
            subscriber.drain();
            subscriber.puback(stuck_id);
            subscriber.drain();
            publisher.publish(message("t", "7").qos1());
            for number in 8..=12 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            let again = world.take_log().iter().filter(|event| matches!(event, LogEvent::QueueFull { .. })).count();
            assert_eq!(again, 1, "told again after there was room");
        });
    }
}

// ---- subscribers' packet limits -------------------------------------------------------------------------------------

#[test]
fn a_message_above_one_packet_limit_goes_to_the_others() {
    everywhere(|world| {
        let small = world.connect(v5("small").max_packet(60).aliases(5));
        let large = world.connect(v5("large"));
        for client in [&small, &large] {
            client.subscribe("topic/of/some/length", AtLeastOnce);
        }
        let publisher = world.connect(v5("p"));
        for len in [10, 30, 31, 32, 33, 34, 35, 36, 40, 100] {
            publisher.publish(message("topic/of/some/length", vec![b'x'; len]).qos1());
        }
        assert_eq!(large.messages().len(), 10);
        let lens: Vec<usize> = small.messages().iter().map(|got| got.payload.len()).collect();
        assert_eq!(lens.len() as u64 + world.dropped(Reason::SubscriberPacketLimit), 10);
        assert!(lens.len() >= 4, "{lens:?}");
    });
}

#[test]
fn a_message_that_fits_no_queue_drives_nothing_out() {
    everywhere_with(
        |settings| {
            settings.queue.overflow = OverflowPolicy::DropOldest;
            settings.queue.max_bytes = 2000;
        },
        |world| {
            let subscriber = stuck(world, "s");
            let publisher = world.connect(v5("p"));
            for number in numbers(1..=4) {
                publisher.publish(message("t", number).qos1());
            }
            publisher.publish(message("t", vec![b'x'; 3000]).qos1());
            assert_eq!(subscriber.drain(), numbers(1..=4));
            assert_eq!(world.dropped(Reason::QueueFullNewest), 1);
        },
    );
}

#[test]
fn a_queue_of_length_0_drops_unsendable_messages_with_reason() {
    for overflow in [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest] {
        everywhere_with(policy(overflow, 0), |world| {
            let subscriber = stuck(world, "s");
            let publisher = world.connect(v5("p"));
            for number in numbers(1..=3) {
                publisher.publish(message("t", number).qos1());
            }
            assert_eq!(subscriber.drain(), ["1"]);
            assert_eq!(world.dropped(Reason::QueueFullNewest), 2);
            publisher.publish(message("t", "4").qos1());
            assert_eq!(subscriber.drain(), ["4"]);
        });
    }
}
