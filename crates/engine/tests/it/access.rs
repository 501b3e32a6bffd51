//! Rules that are made elsewhere and asked here.

use tidegate_engine::{Access, Reason, Subject};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce};
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

/// Forbids whatever holds a word.
#[derive(Debug)]
struct Forbids(u16, &'static str);

impl Access for Forbids {
    fn epoch(&self) -> u16 {
        self.0
    }

    fn may_publish(&self, subject: Subject<'_>, topic: &str, _: QoS, _: bool) -> bool {
        subject.client_id == "admin" || !topic.contains(self.1)
    }

    fn may_subscribe(&self, subject: Subject<'_>, filter: &str, _: QoS) -> bool {
        subject.client_id == "admin" || !filter.contains(self.1)
    }
}

fn forbid(world: &World, epoch: u16, word: &'static str) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.set_access(Some(Box::new(Forbids(epoch, word)))));
    }
    world.run();
}

#[test]
fn what_is_not_allowed_is_refused_and_counted() {
    everywhere(|world| {
        forbid(world, 1, "secret");
        let admin = world.connect(v5("admin"));
        admin.subscribe("secret/#", AtLeastOnce);
        let client = world.connect(v5("a"));
        assert_eq!(client.publish(message("secret/1", "x").qos1()), ReasonCode::NotAuthorized);
        assert_eq!(client.publish(message("secret/1", "x").qos2()), ReasonCode::NotAuthorized);
        client.publish(message("secret/1", "x").retain());
        assert_eq!(world.dropped(Reason::NotAuthorized), 3);
        for filter in ["secret/1", "$share/g/secret/1"] {
            let id = client.send_subscribe(&[(filter, SubscriptionOptions::new(AtMostOnce))], None);
            assert_eq!(client.expect_sub_ack(id), [ReasonCode::NotAuthorized]);
        }
        admin.expect_nothing();
        admin.publish(message("secret/1", "y").qos1());
        admin.expect_publish("secret/1", "y");
    });
}

#[test]
fn new_rules_end_subscriptions_that_they_do_not_allow() {
    everywhere(|world| {
        let client = world.connect(v5("a").lasting());
        client.subscribe("secret/#", AtLeastOnce);
        client.subscribe("$share/g/secret/+", AtLeastOnce);
        client.subscribe("open/#", AtLeastOnce);
        let publisher = world.connect(v5("admin"));
        forbid(world, 1, "secret");
        publisher.publish(message("secret/1", "x").qos1());
        publisher.publish(message("open/1", "y").qos1());
        client.expect_publish("open/1", "y");
        client.expect_nothing();
        assert_eq!(world.counters().requests_refused[Reason::NotAuthorized.number()], 2);
        assert_eq!((world.gauges().subscriptions, world.gauges().shared_subscriptions), (1, 0));
    });
}

#[test]
fn a_will_is_published_by_the_rules_of_its_time() {
    everywhere(|world| {
        let watcher = world.connect(v5("admin"));
        watcher.subscribe("#", AtMostOnce);
        let client = world.connect(v5("a").will(message("secret/will", "gone")));
        let admin = world.connect(v5("b").will(message("open/will", "gone")));
        forbid(world, 1, "secret");
        client.lose();
        watcher.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 1);
        admin.lose();
        watcher.expect_publish("open/will", "gone");
    });
}
