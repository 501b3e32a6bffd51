//! Subscribers without a socket, who take messages as far as they give credit.

use tidegate_engine::{
    Gauges, InnerError, InnerKey, InnerMessage, Millis, OverflowPolicy, Owed, Reason, TenantId, partition_of,
};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

struct Inner<'w> {
    world: &'w World,
    shard: u16,
    key: InnerKey,
}

impl<'w> Inner<'w> {
    fn open(world: &'w World, stem: &str, filters: &[(&str, QoS)]) -> Self {
        let shard = world.shards() - 1;
        let name = world.name_on(shard, stem);
        let key = world.engine(shard, |engine, now| engine.open_inner(now, TenantId::DEFAULT, &name, filters));
        world.run();
        Self { world, shard, key: key.expect("a free name at home") }
    }

    fn grant(&self, credit: u32) {
        self.world.engine(self.shard, |engine, _| engine.grant_inner(self.key, credit));
    }

    fn take(&self) -> Vec<InnerMessage> {
        self.world.run();
        let poll = || self.world.engine(self.shard, |engine, now| engine.poll_inner(now, self.key));
        std::iter::from_fn(poll).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.take().iter().map(|got| String::from_utf8_lossy(&got.payload).into_owned()).collect()
    }
}

#[test]
fn credit_says_how_many_messages_are_taken() {
    everywhere(|world| {
        let inner = Inner::open(world, "inner", &[("t/#", ExactlyOnce)]);
        let publisher = world.connect(v5("p"));
        for (number, qos) in [AtMostOnce, AtLeastOnce, ExactlyOnce].into_iter().enumerate() {
            publisher.publish(message("t/1", number.to_string()).qos(qos).retain().user("a", "b"));
        }
        assert!(inner.take().is_empty(), "no credit");
        inner.grant(2);
        let got = inner.take();
        assert_eq!(got.iter().map(|got| got.qos).collect::<Vec<_>>(), [AtMostOnce, AtLeastOnce]);
        assert!(got.iter().all(|got| got.topic == "t/1" && got.retain && !got.properties.is_empty()));
        inner.grant(10);
        assert_eq!(inner.texts(), ["2"]);
        publisher.publish(message("t/2", "3"));
        assert_eq!(inner.texts(), ["3"]);
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn an_inner_subscriber_is_one_for_publishers_of_all_shards() {
    everywhere(|world| {
        let inner = Inner::open(world, "inner", &[("t", AtMostOnce)]);
        inner.grant(100);
        for shard in 0..world.shards() {
            let publisher = world.connect(v5(&world.name_on(shard, "p")));
            assert_eq!(publisher.publish(message("t", "x").qos1()), ReasonCode::Success);
        }
        assert_eq!(inner.texts().len(), usize::from(world.shards()));
    });
}

#[test]
fn the_queue_of_an_inner_subscriber_is_bounded() {
    everywhere_with(
        |settings| settings.queue.max_messages = 3,
        |world| {
            let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
            let publisher = world.connect(v5("p"));
            for number in 0..5 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            assert_eq!(world.dropped(Reason::QueueFullNewest), 2);
            inner.grant(10);
            assert_eq!(inner.texts(), ["0", "1", "2"]);
        },
    );
}

#[test]
fn expired_messages_cost_no_credit() {
    everywhere(|world| {
        let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "old").qos1().expiry(5));
        publisher.publish(message("t", "new").qos1());
        world.advance(seconds(5));
        inner.grant(1);
        assert_eq!(inner.texts(), ["new"]);
        assert_eq!(world.dropped(Reason::MessageExpired), 1);
    });
}

#[test]
fn closing_counts_what_still_waits() {
    everywhere(|world| {
        let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "x").qos1());
        world.engine(inner.shard, |engine, now| engine.close_inner(now, inner.key));
        world.run();
        assert_eq!(publisher.publish(message("t", "y").qos1()), ReasonCode::NoMatchingSubscribers);
        assert_eq!(world.dropped(Reason::SessionDiscarded), 1);
        inner.grant(5);
        assert!(inner.take().is_empty());
    });
}

#[test]
fn a_client_may_not_take_the_name_of_an_inner_subscriber() {
    everywhere(|world| {
        let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
        let name = world.name_on(inner.shard, "inner");
        for connecting in [v5(&name), v5(&name).lasting(), v311(&name)] {
            world.try_connect(connecting).expect_refused(ReasonCode::ClientIdentifierNotValid);
        }
        inner.grant(1);
        world.connect(v5("p")).publish(message("t", "x").qos1());
        assert_eq!(inner.texts(), ["x"]);
    });
}

#[test]
fn a_name_is_opened_once_and_at_its_home() {
    in_one_process(|world| {
        let inner = Inner::open(world, "inner", &[]);
        let name = world.name_on(inner.shard, "inner");
        let open = |shard: u16, name: &str| {
            world.engine(shard, |engine, now| engine.open_inner(now, TenantId::DEFAULT, name, &[])).is_ok()
        };
        assert!(!open(inner.shard, &name));
        if world.shards() > 1 {
            assert!(!open(0, &world.name_on(1, "elsewhere")));
        }
    });
}

#[test]
fn nothing_is_opened_with_a_filter_that_is_none() {
    in_one_process(|world| {
        let shard = world.shards() - 1;
        let name = world.name_on(shard, "inner");
        for wrong in ["a/#/b", "", "$share/g/t"] {
            let filters = [("t", AtLeastOnce), (wrong, AtLeastOnce)];
            let opened = world.engine(shard, |engine, now| engine.open_inner(now, TenantId::DEFAULT, &name, &filters));
            assert_eq!(opened, Err(InnerError::InvalidFilter(wrong.to_owned())));
        }
        assert_eq!(world.gauges(), Gauges::default());
        assert!(!world.connect(v5(&name).lasting()).session_present());
    });
}

#[test]
fn the_key_of_a_closed_one_reaches_no_other() {
    everywhere(|world| {
        let closed = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
        world.engine(closed.shard, |engine, now| engine.close_inner(now, closed.key));
        let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
        world.connect(v5("p")).publish(message("t", "x").qos1());
        closed.grant(5);
        assert!(closed.take().is_empty() && inner.take().is_empty());
        world.engine(closed.shard, |engine, now| engine.close_inner(now, closed.key));
        inner.grant(1);
        assert_eq!(inner.texts(), ["x"]);
    });
}

#[test]
fn a_full_queue_that_blocks_holds_publishers_up_until_messages_are_taken() {
    everywhere_with(
        |settings| {
            settings.queue.max_messages = 4;
            settings.queue.overflow = OverflowPolicy::Block;
        },
        |world| {
            let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
            let publisher = world.connect(v5("p"));
            for number in 0..50 {
                publisher.send_publish(message("t", number.to_string()).qos1());
            }
            world.run();
            assert_eq!(world.counters().publishers_parked, 1);
            let queued = world.gauges().queued_messages;
            // What is under way from another shard by then still enters.
            assert!(queued == 5 || world.shards() > 1, "{queued}");
            inner.grant(100);
            let mut got = Vec::new();
            loop {
                let more = inner.texts();
                if more.is_empty() {
                    break;
                }
                got.extend(more);
            }
            assert_eq!(got, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
            assert_eq!(world.counters().dropped_total(), 0);
        },
    );
}

#[test]
fn a_message_says_when_it_expires() {
    everywhere(|world| {
        let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
        inner.grant(2);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "x").qos1().expiry(60));
        publisher.publish(message("t", "y").qos1());
        let end = world.now().monotonic.plus_seconds(60);
        world.advance(seconds(5));
        let expiries: Vec<Millis> = inner.take().iter().map(|message| message.expires_at).collect();
        assert_eq!(expiries, [end, Millis::NEVER]);
    });
}

#[test]
fn it_is_no_client() {
    everywhere(|world| {
        let inner = Inner::open(world, "inner", &[("t", AtLeastOnce)]);
        let name = world.name_on(inner.shard, "inner");
        world.connect(v5("p")).publish(message("t", "x").qos1());
        let gauges = world.gauges();
        assert_eq!((gauges.sessions_connected, gauges.sessions_disconnected, gauges.subscriptions), (1, 0, 1));
        let paged = world.engine(inner.shard, |engine, now| engine.page_out(now, TenantId::DEFAULT, &name));
        assert_eq!(paged, None);
        let partition = partition_of(TenantId::DEFAULT, &name);
        assert_eq!(world.engine(inner.shard, |engine, _| engine.owed(partition)), Owed::default());
        world.engine(inner.shard, |engine, now| engine.export_partition(now, partition)).unwrap();
        inner.grant(1);
        assert_eq!(inner.texts(), ["x"], "it belongs to the process and does not move");
    });
}
