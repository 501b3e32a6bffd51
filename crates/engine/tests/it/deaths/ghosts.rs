//! Topics that get a retained value at two nodes, since their home cannot be reached.

use std::collections::BTreeMap;

use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};

use super::*;

/// A publisher at each node.
fn publishers(world: &World) -> [Client; 3] {
    [0, 1, 2].map(|node| world.connect(steady(world, node, "publisher ")))
}

/// Two topics at home at each node.
fn topics(world: &World) -> Vec<String> {
    (0..6).map(|number| world.name_on(number % 3, &format!("r/{number} "))).collect()
}

/// Retains a value of a topic at QoS 0.
fn write(world: &World, publisher: &Client, topic: &str, value: &str) {
    world.advance(10);
    publisher.send_publish(message(topic, value).qos(AtMostOnce).retain());
    world.run();
}

/// All values of all topics, as a new subscription at each node sees them.
fn values(world: &World, nodes: &[u16]) -> BTreeMap<String, Vec<String>> {
    let mut seen = Vec::new();
    for node in nodes {
        let reader = world.connect(v5(&world.name_on(*node, "reader ")).accept_on(*node));
        reader.subscribe("r/#", AtLeastOnce);
        world.advance(10);
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for got in reader.messages() {
            values.entry(got.topic.clone()).or_default().push(got.text());
        }
        reader.disconnect();
        seen.push(values);
    }
    assert!(seen.windows(2).all(|two| two[0] == two[1]), "{seen:?}");
    seen.remove(0)
}

/// Each of these topics has this value and no other.
fn all(topics: &[String], value: &str) -> BTreeMap<String, Vec<String>> {
    topics.iter().map(|topic| (topic.clone(), vec![value.to_owned()])).collect()
}

#[test]
fn the_newest_of_two_values_wins_when_a_link_is_back() {
    // Whether a node that reaches all homes writes last, or one that does not.
    for order in [[0, 2], [2, 0]] {
        let world = three();
        let (publishers, topics) = (publishers(&world), topics(&world));
        for topic in &topics {
            publishers[1].publish(message(topic, "one").qos1().retain());
        }
        world.break_link(0, 2, 0);
        world.run();
        for writer in order {
            for topic in &topics {
                write(&world, &publishers[writer], topic, &format!("of {writer}"));
            }
        }
        world.mend_links();
        world.run();
        assert_eq!(values(&world, &[0, 1, 2]), all(&topics, &format!("of {}", order[1])));
        for topic in &topics {
            publishers[1].publish(message(topic, "").qos1().retain());
        }
        assert!(values(&world, &[0, 1, 2]).is_empty());
    }
}

#[test]
fn a_removal_is_a_value_when_a_link_is_back() {
    let world = three();
    let (publishers, topics) = (publishers(&world), topics(&world));
    for topic in &topics {
        publishers[1].publish(message(topic, "one").qos1().retain());
    }
    world.break_link(0, 2, 0);
    world.run();
    for (at, topic) in topics.iter().enumerate() {
        // One is removed behind a newer value at the other side, the other one before.
        let values = if at < 3 { ["two", ""] } else { ["", "two"] };
        write(&world, &publishers[0], topic, values[0]);
        write(&world, &publishers[2], topic, values[1]);
    }
    world.mend_links();
    world.run();
    assert_eq!(values(&world, &[0, 1, 2]), all(&topics[3..], "two"));
}

#[test]
fn a_removal_outlives_the_process_of_its_home() {
    let world = three();
    let (publishers, topics) = (publishers(&world), topics(&world));
    world.break_link(0, 2, 0);
    world.run();
    for topic in &topics {
        write(&world, &publishers[0], topic, "two");
        write(&world, &publishers[2], topic, "");
    }
    world.fall(2, usize::MAX, 0);
    world.run();
    world.revive(2);
    world.run();
    world.mend_links();
    world.run();
    // Node 2 has forgotten the values that it kept for topics of node 0.
    let expected = [&topics[0], &topics[3]].map(|topic| (topic.clone(), vec!["two".to_owned()]));
    assert_eq!(values(&world, &[0, 1, 2]), BTreeMap::from(expected));
}

#[test]
fn values_kept_for_a_dead_node_are_single_after_its_end() {
    // It has kept nothing: others start with the values that they have kept in its place.
    let world = World::cluster(3, 1, |_| {});
    let (publishers, topics) = (publishers(&world), topics(&world));
    world.fall_unnoticed(2, 0, 0);
    world.run();
    for writer in [1, 0] {
        for topic in &topics {
            write(&world, &publishers[writer], topic, &format!("of {writer}"));
        }
    }
    world.end_node(2);
    assert_eq!(values(&world, &[0, 1]), all(&topics, "of 0"));
    for topic in &topics {
        publishers[1].publish(message(topic, "").qos1().retain());
    }
    assert!(values(&world, &[0, 1]).is_empty());
}

#[test]
fn values_kept_for_another_node_are_gone_after_a_restart() {
    let world = three();
    let (publishers, topics) = (publishers(&world), topics(&world));
    for topic in &topics {
        publishers[1].publish(message(topic, "one").qos1().retain());
    }
    world.break_link(0, 2, 0);
    world.run();
    for (at, topic) in topics.iter().enumerate() {
        write(&world, &publishers[0], topic, if at < 3 { "two" } else { "" });
    }
    world.fall(0, usize::MAX, 0);
    world.run();
    world.revive(0);
    world.run();
    world.mend_links();
    world.run();
    // A node that starts again forgets values with another home.
    let mut expected = all(&topics[..2], "two");
    expected.extend([&topics[2], &topics[5]].map(|topic| (topic.clone(), vec!["one".to_owned()])));
    assert_eq!(values(&world, &[0, 1, 2]), expected);
}

#[test]
fn values_that_are_on_their_way_home_come_home_when_that_dies() {
    for arrived in [false, true] {
        let world = three();
        let (publishers, topics) = (publishers(&world), topics(&world));
        world.break_link(0, 2, 0);
        world.run();
        for topic in &topics {
            write(&world, &publishers[0], topic, "two");
        }
        world.mend_links();
        // The home has it and has not said so, or has not got it.
        world.hold(if arrived { 2 } else { 0 }, if arrived { 0 } else { 2 });
        world.run();
        world.fall(2, usize::MAX, 0);
        world.run();
        world.take_over(2);
        assert_eq!(values(&world, &[0, 1]), all(&topics, "two"), "arrived: {arrived}");
    }
}
