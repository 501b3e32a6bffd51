//! Limits that change while clients are connected.

use tidegate_engine::{Reason, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

/// Puts other limits in force on every shard.
fn change(world: &World, change: impl Fn(&mut Settings)) {
    let mut settings = Settings::default();
    change(&mut settings);
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.control().set_limits(&settings));
    }
}

#[test]
fn a_shortened_queue_keeps_its_messages() {
    everywhere_with(
        |settings| settings.queue.max_messages = 4,
        |world| {
            world.absent_subscriber(v5("s").lasting(), "t", AtLeastOnce);
            let publisher = world.connect(v5("p"));
            let publish = |from: u32, to: u32| {
                for n in from..=to {
                    publisher.publish(message("t", n.to_string()).qos1());
                }
            };
            publish(1, 5);
            change(world, |settings| settings.queue.max_messages = 2);
            publish(6, 7);
            assert_eq!(world.dropped(Reason::QueueFullNewest), 3);
            change(world, |settings| settings.queue.max_messages = 6);
            publish(8, 10);
            let subscriber = world.connect(v5("s").lasting());
            assert_eq!(subscriber.payloads(), ["1", "2", "3", "4", "8", "9"]);
        },
    );
}

#[test]
fn new_limits_of_retained_and_subscriptions_hold_at_once() {
    everywhere(|world| {
        let client = world.connect(v5("c"));
        client.subscribe("a", AtMostOnce);
        client.publish(message("r", "1").qos1().retain());
        change(world, |settings| {
            settings.limits.max_subscriptions_per_client = 1;
            settings.retained.max_bytes = 1;
        });
        let asked = client.send_subscribe(&[("b", SubscriptionOptions::new(AtMostOnce))], None);
        let codes = client.expect_sub_ack(asked);
        assert_eq!(codes, [ReasonCode::QuotaExceeded]);
        client.publish(message("other", "2").qos1().retain());
        assert_eq!(world.dropped(Reason::RetainedBytesLimit), 1);
        change(world, |_| {});
        client.subscribe("b", AtMostOnce);
        client.publish(message("other", "2").qos1().retain());
        let reader = world.connect(v5("reader"));
        reader.subscribe("+", AtMostOnce);
        assert_eq!(reader.messages().len(), 2);
    });
}
