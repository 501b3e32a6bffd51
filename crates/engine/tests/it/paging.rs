//! Queues that are moved out of memory while their client is away.

use tidegate_engine::{PageError, PagedQueue, Reason, TenantId};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};

use crate::harness::*;

const T: TenantId = TenantId::DEFAULT;

fn page_out(world: &World, client_id: &str) -> Option<PagedQueue> {
    world.engine(world.home_of(client_id), |engine, now| engine.page_out(now, T, client_id))
}

fn load(world: &World, queue: &PagedQueue) -> Result<(), PageError> {
    let loaded = world.engine(world.home_of(&queue.client_id), |engine, now| engine.handle_loaded(now, queue));
    world.run();
    loaded
}

/// Publishes messages that a client is owed, by their numbers.
fn publish(world: &World, numbers: std::ops::RangeInclusive<u32>, qos: QoS) {
    let publisher = world.connect(v5("publisher"));
    for number in numbers {
        publisher.publish(message("t", number.to_string()).qos(qos));
    }
    publisher.disconnect();
}

/// A client that is away.
fn away(world: &World, client_id: &str) {
    let client = world.connect(v5(client_id).lasting());
    client.subscribe("t", ExactlyOnce);
    client.lose();
}

fn texts(numbers: std::ops::RangeInclusive<u32>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

#[test]
fn what_was_moved_out_comes_before_what_was_queued_since() {
    everywhere(|world| {
        away(world, "a");
        publish(world, 1..=3, ExactlyOnce);
        let queue = page_out(world, "a").expect("a queue");
        assert_eq!((queue.messages, world.gauges().queued_messages, world.gauges().queued_bytes), (3, 0, 0));
        publish(world, 4..=5, AtLeastOnce);
        let client = world.connect(v5("a").lasting());
        assert!(client.session_present());
        publish(world, 6..=6, AtMostOnce);
        client.expect_nothing();
        client.ping();
        assert_eq!(world.take_asked_back(), ["a"]);
        assert_eq!(load(world, &queue), Ok(()));
        let got = client.messages();
        assert_eq!(got.iter().map(Delivered::text).collect::<Vec<_>>(), texts(1..=6));
        assert!(got.iter().all(|got| !got.dup));
        publish(world, 7..=7, AtLeastOnce);
        assert_eq!(client.payloads(), ["7"]);
        let gauges = world.gauges();
        assert_eq!((gauges.queued_messages, gauges.queued_bytes, world.counters().dropped_total()), (0, 0, 0));
    });
}

#[test]
fn what_was_in_flight_is_sent_again_before_the_queue_is_back() {
    everywhere(|world| {
        let client = world.connect(v5("a").lasting().manual().receive_maximum(2));
        client.subscribe("t", AtLeastOnce);
        publish(world, 1..=4, AtLeastOnce);
        assert_eq!(client.payloads(), texts(1..=2));
        client.lose();
        let queue = page_out(world, "a").expect("a queue");
        assert_eq!(queue.messages, 2);
        let client = world.connect(v5("a").lasting().receive_maximum(2));
        let again = client.messages();
        assert!(again.iter().all(|got| got.dup));
        assert_eq!(again.iter().map(Delivered::text).collect::<Vec<_>>(), texts(1..=2));
        load(world, &queue).unwrap();
        assert_eq!(client.payloads(), texts(3..=4));
    });
}

#[test]
fn a_queue_is_asked_for_once_whoever_comes_and_goes() {
    everywhere(|world| {
        away(world, "a");
        publish(world, 1..=2, AtLeastOnce);
        let queue = page_out(world, "a").expect("a queue");
        for _ in 0..3 {
            let client = world.connect(v5("a").lasting());
            client.expect_nothing();
            client.lose();
        }
        assert_eq!(world.take_asked_back(), ["a"], "the shell is at it since the first time");
        // It comes while nobody is there, and waits in memory.
        assert_eq!(load(world, &queue), Ok(()));
        assert_eq!(world.gauges().queued_messages, 2);
        let client = world.connect(v5("a").lasting());
        assert_eq!(client.payloads(), texts(1..=2));
        assert!(world.take_asked_back().is_empty());
    });
}

#[test]
fn a_client_that_leaves_while_its_queue_is_loading_loses_nothing() {
    everywhere(|world| {
        away(world, "a");
        publish(world, 1..=2, AtLeastOnce);
        let queue = page_out(world, "a").expect("a queue");
        let client = world.connect(v5("a").lasting());
        publish(world, 3..=3, AtLeastOnce);
        client.lose();
        publish(world, 4..=4, AtLeastOnce);
        assert_eq!(page_out(world, "a"), None, "a queue leaves and returns as one");
        load(world, &queue).unwrap();
        let queue = page_out(world, "a").expect("it may leave again");
        assert_eq!(queue.messages, 4);
        let client = world.connect(v5("a").lasting());
        load(world, &queue).unwrap();
        assert_eq!(client.payloads(), texts(1..=4));
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn nothing_is_moved_out_of_a_connected_empty_or_unknown_session() {
    everywhere(|world| {
        let client = world.connect(v5("a").lasting().manual().receive_maximum(1));
        client.subscribe("t", AtLeastOnce);
        publish(world, 1..=3, AtLeastOnce);
        assert_eq!(page_out(world, "a"), None, "connected");
        client.lose();
        assert_eq!(page_out(world, "b"), None, "unknown");
        assert_eq!(page_out(world, "a").map(|queue| queue.messages), Some(2));
        world.connect(v5("c").lasting()).lose();
        assert_eq!(page_out(world, "c"), None, "empty");
    });
}

#[test]
fn messages_of_a_shared_group_stay_where_they_can_go_to_another_member() {
    everywhere(|world| {
        let member = world.connect(v5("a").lasting());
        member.subscribe("$share/g/t", AtLeastOnce);
        member.lose();
        publish(world, 1..=2, AtLeastOnce);
        assert_eq!(page_out(world, "a"), None);
        let other = world.connect(v5("b"));
        other.subscribe("$share/g/t", AtLeastOnce);
        world.connect(v5("a"));
        assert_eq!(other.payloads(), texts(1..=2));
    });
}

#[test]
fn a_session_that_ends_meanwhile_counts_what_it_gave_up() {
    everywhere(|world| {
        let client = world.connect(v5("a").expiry(60));
        client.subscribe("t", AtLeastOnce);
        client.lose();
        publish(world, 1..=3, AtLeastOnce);
        let queue = page_out(world, "a").expect("a queue");
        publish(world, 4..=4, AtLeastOnce);
        world.advance(seconds(60));
        assert_eq!(world.dropped(Reason::SessionExpired), 4);
        assert_eq!(load(world, &queue), Err(PageError::NoSession));

        away(world, "a");
        publish(world, 5..=6, AtLeastOnce);
        let queue = page_out(world, "a").expect("a queue");
        let client = world.connect(v5("a").expiry(60));
        assert_eq!(world.dropped(Reason::SessionDiscarded), 2);
        assert_eq!(load(world, &queue), Err(PageError::NothingMissing), "it belonged to another session");
        client.expect_nothing();
        assert!(world.take_asked_back().is_empty());
    });
}

#[test]
fn a_queue_is_taken_back_once_and_undamaged() {
    everywhere(|world| {
        away(world, "a");
        publish(world, 1..=3, AtLeastOnce);
        let first = page_out(world, "a").expect("a queue");
        load(world, &first).unwrap();
        assert_eq!(load(world, &first), Err(PageError::NothingMissing));
        publish(world, 4..=4, AtLeastOnce);
        let queue = page_out(world, "a").expect("a queue");
        let mut damaged = queue.clone();
        damaged.bytes.truncate(10);
        let client = world.connect(v5("a").lasting());
        for wrong in [&first, &damaged, &PagedQueue { bytes: Vec::new(), ..queue.clone() }] {
            assert_eq!(load(world, wrong), Err(PageError::Damaged));
        }
        client.expect_nothing();
        load(world, &queue).unwrap();
        assert_eq!(client.payloads(), texts(1..=4));
    });
}

#[test]
fn a_queue_that_is_lost_is_counted_and_the_session_goes_on() {
    everywhere(|world| {
        away(world, "a");
        publish(world, 1..=3, AtLeastOnce);
        let queue = page_out(world, "a").expect("a queue");
        let client = world.connect(v5("a").lasting());
        publish(world, 4..=5, AtLeastOnce);
        client.expect_nothing();
        let give_up = |id: &str| world.engine(world.home_of(id), |engine, now| engine.give_up_paged(now, T, id));
        assert!(give_up("a") && !give_up("a") && !give_up("nobody"));
        world.run();
        assert_eq!(client.payloads(), texts(4..=5));
        assert_eq!(world.dropped(Reason::QueueLost), 3);
        assert_eq!(load(world, &queue), Err(PageError::NothingMissing));
    });
}

#[test]
fn messages_expire_outside_memory_as_within() {
    everywhere(|world| {
        away(world, "a");
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("t", "short").qos1().expiry(10));
        publisher.publish(message("t", "long").qos1().expiry(100));
        let queue = page_out(world, "a").expect("a queue");
        world.advance(seconds(30));
        let client = world.connect(v5("a").lasting());
        load(world, &queue).unwrap();
        let got = client.messages();
        assert_eq!(got.iter().map(|got| (got.text(), got.expiry)).collect::<Vec<_>>(), [("long".into(), Some(70))]);
        assert_eq!(world.dropped(Reason::MessageExpired), 1);
    });
}

#[test]
fn the_limit_of_a_queue_holds_for_what_is_in_memory() {
    everywhere_with(
        |settings| settings.queue.max_messages = 3,
        |world| {
            away(world, "a");
            publish(world, 1..=3, AtLeastOnce);
            let queue = page_out(world, "a").expect("a queue");
            publish(world, 4..=7, AtLeastOnce);
            assert_eq!(world.dropped(Reason::QueueFullNewest), 1);
            let client = world.connect(v5("a").lasting());
            load(world, &queue).unwrap();
            assert_eq!(client.payloads(), texts(1..=6));
        },
    );
}
