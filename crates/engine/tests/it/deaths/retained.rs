//! Retained values at nodes that are dead.

use std::collections::BTreeMap;

use tidegate_mqtt::QoS::AtLeastOnce;

use super::*;

/// Topics of values that are at home at each of three nodes.
fn with_values(world: &World) -> Vec<String> {
    let publisher = world.connect(v5(&world.name_on(0, "publisher ")));
    let topic = |number: u16| world.name_on(number % 3, &format!("r/{number} "));
    let topics: Vec<String> = (0..9).map(topic).collect();
    for topic in &topics {
        publisher.publish(message(topic, "x").qos1().retain());
    }
    publisher.disconnect();
    topics
}

/// How often a client has got a value of each topic.
fn times(client: &Client) -> BTreeMap<String, u32> {
    let mut times = BTreeMap::new();
    for got in client.messages() {
        assert!(got.retain && got.text() == "x");
        *times.entry(got.topic).or_default() += 1;
    }
    times
}

/// All of these topics once.
fn once<'a>(topics: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, u32> {
    topics.into_iter().map(|topic| (topic.clone(), 1)).collect()
}

#[test]
fn a_subscription_while_a_node_is_dead_gets_its_values_later() {
    for returns in [true, false] {
        let world = three();
        let topics = with_values(&world);
        world.fall(1, usize::MAX, 0);
        world.run();
        let subscriber = world.connect(steady(&world, 0, "subscriber "));
        subscriber.subscribe("r/+", AtLeastOnce);
        let of_one = world.connect(steady(&world, 2, "of one "));
        of_one.subscribe(&topics[1], AtLeastOnce);
        let first = times(&subscriber);
        assert_eq!(first, once(topics.iter().enumerate().filter(|(at, _)| at % 3 != 1).map(|(_, topic)| topic)));
        of_one.expect_nothing();
        if returns {
            world.revive(1);
            world.run();
        } else {
            world.take_over(1);
        }
        world.advance(seconds(1));
        let later = times(&subscriber);
        assert_eq!(later, once(topics.iter().skip(1).step_by(3)), "it returns: {returns}");
        assert_eq!(times(&of_one), once([&topics[1]]));
    }
}

#[test]
fn a_subscription_made_as_a_node_dies_gets_its_values_later() {
    // The node is asked, or not yet, when it dies.
    for asked in [true, false] {
        let world = three();
        let topics = with_values(&world);
        let subscriber = world.connect(steady(&world, 0, "subscriber "));
        let of_one = world.connect(steady(&world, 0, "of one "));
        if asked {
            world.hold(1, 0);
        }
        subscriber.send_subscribe(&[("r/+", tidegate_mqtt::SubscriptionOptions::new(AtLeastOnce))], None);
        of_one.send_subscribe(&[(&topics[1], tidegate_mqtt::SubscriptionOptions::new(AtLeastOnce))], None);
        if asked {
            world.run();
        }
        world.fall(1, usize::MAX, 0);
        world.run();
        world.take_over(1);
        world.advance(seconds(1));
        let mut got = subscriber.messages_among_others();
        got.sort_by(|one, other| one.topic.cmp(&other.topic));
        assert_eq!(got.iter().map(|got| got.topic.clone()).collect::<Vec<_>>(), topics, "asked: {asked}");
        assert_eq!(of_one.messages_among_others().len(), 1, "asked: {asked}");
    }
}
