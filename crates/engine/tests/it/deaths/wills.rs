//! Wills of clients whose node dies.

use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use super::*;

fn topics(client: &Client) -> Vec<String> {
    let mut topics: Vec<String> = client.messages().into_iter().map(|got| got.topic).collect();
    topics.sort_unstable();
    topics
}

/// Clients with wills at node 1, and a watcher at node 0.
fn with_wills() -> (World, Client, Connecting) {
    let world = three();
    let watcher = world.connect(steady(&world, 0, "watcher "));
    watcher.subscribe("wills/#", AtLeastOnce);
    let will = |name: &str| message(&format!("wills/{name}"), "gone").qos1();
    let client = |stem: &str| v5(&world.name_on(1, stem)).accept_on(1);
    // One whose session ends with its connection, one whose session stays, and two with a delay.
    world.connect(client("ends ").will(will("ends")));
    world.connect(client("stays ").clean(false).expiry(3600).will(will("stays")));
    world.connect(client("late ").clean(false).expiry(3600).will(will("late").delay(60)));
    let back = client("back ").clean(false).expiry(3600);
    world.connect(back.clone().will(will("back").delay(60)));
    // A client that has sent DISCONNECT has none.
    world.connect(client("calm ").clean(false).expiry(3600).will(will("calm"))).disconnect();
    (world, watcher, back)
}

#[test]
fn wills_of_a_replaced_node_are_published_once() {
    let (world, watcher, back) = with_wills();
    world.fall(1, 0, 0);
    world.run();
    world.advance(seconds(10));
    watcher.expect_nothing();
    world.take_over(1);
    world.advance(seconds(15));
    assert_eq!(topics(&watcher), ["wills/ends", "wills/stays"]);
    assert!(world.connect(back.accept_on(2)).session_present());
    world.advance(seconds(60));
    assert_eq!(topics(&watcher), ["wills/late"]);
    world.advance(minutes(120));
    watcher.expect_nothing();
}

#[test]
fn wills_of_a_returning_node_are_published_once() {
    let (world, watcher, _) = with_wills();
    world.fall(1, 0, 0);
    world.run();
    world.revive(1);
    world.run();
    world.advance(seconds(70));
    assert_eq!(topics(&watcher), ["wills/back", "wills/ends", "wills/late", "wills/stays"]);
    world.advance(minutes(120));
    watcher.expect_nothing();
}

#[test]
fn wills_of_a_node_that_keeps_nothing_die_with_it() {
    let world = World::cluster(3, 1, |_| {});
    let watcher = world.connect(steady(&world, 0, "watcher "));
    watcher.subscribe("wills/#", AtLeastOnce);
    world.connect(steady(&world, 1, "there ").will(message("wills/x", "gone").qos1()));
    world.end_node(1);
    world.advance(minutes(120));
    watcher.expect_nothing();
}

/// Watchers of all nodes, and clients at node 1 with wills that are retained at all nodes. Some sessions end with their
/// connection and some stay.
fn with_retained_wills(world: &World) -> [Connecting; 3] {
    let watchers = [0, 1, 2].map(|node| steady(world, node, "watcher "));
    for watcher in &watchers {
        world.absent_subscriber(watcher.clone(), "wills/#", ExactlyOnce);
    }
    for node in 0..3 {
        let will = |kind: &str| message(&world.name_on(node, &format!("wills/{kind} ")), "gone").qos2().retain();
        let client = |stem: &str| v5(&world.name_on(1, &format!("{stem} {node} "))).accept_on(1);
        world.connect(client("ends").will(will("ends")));
        world.connect(client("stays").clean(false).expiry(3600).will(will("stays")));
    }
    watchers
}

/// Each watcher gets each will once, and each will is retained, as readers at nodes see.
fn all_get_all(world: &World, watchers: &[Connecting], nodes: &[u16]) {
    let mut all: Vec<String> = Vec::new();
    for watcher in watchers {
        let client = world.connect(watcher.clone().accept_on(nodes[0]));
        assert!(client.session_present(), "{}", watcher.client_id);
        let got = topics(&client);
        assert_eq!(got.len(), 6, "{}: {got:?}", watcher.client_id);
        all = got;
    }
    for node in nodes {
        let reader = world.connect(v5(&world.name_on(*node, "reader ")).accept_on(*node));
        reader.subscribe("wills/#", AtLeastOnce);
        assert_eq!(topics(&reader), all, "at node {node}");
    }
    assert!(all.windows(2).all(|two| two[0] != two[1]), "{all:?}");
}

#[test]
fn wills_of_a_restarted_node_wait_until_it_has_all_its_links() {
    let world = three();
    let watchers = with_retained_wills(&world);
    world.fall(1, usize::MAX, 0);
    world.break_link(1, 0, 0);
    world.break_link(1, 2, 0);
    world.revive(1);
    world.advance(seconds(1));
    world.mend_links();
    world.advance(seconds(1));
    all_get_all(&world, &watchers, &[0, 1, 2]);
}

#[test]
fn wills_come_once_when_their_node_dies_before_others_have_them() {
    for (arrive, returns) in [(0, true), (1, true), (0, false), (1, false)] {
        let world = three();
        world.note(format!("{arrive} batches arrive, it returns: {returns}"));
        let watchers = with_retained_wills(&world);
        world.hold(1, 2);
        world.fall(1, usize::MAX, 0);
        world.revive(1);
        world.hold(1, 2);
        world.run();
        world.fall(1, usize::MAX, arrive);
        world.run();
        if returns {
            world.revive(1);
            world.run();
        } else {
            world.take_over(1);
        }
        world.advance(seconds(1));
        all_get_all(&world, &watchers, if returns { &[0, 1, 2] } else { &[0, 2] });
    }
}

#[test]
fn wills_come_once_when_the_node_of_a_watcher_dies_first() {
    for written in [false, true] {
        let world = three();
        let watchers = with_retained_wills(&world);
        world.hold(if written { 2 } else { 1 }, if written { 1 } else { 2 });
        world.fall(1, usize::MAX, 0);
        world.revive(1);
        world.hold(if written { 2 } else { 1 }, if written { 1 } else { 2 });
        world.run();
        world.fall(2, usize::MAX, 0);
        world.run();
        world.take_over(2);
        world.advance(seconds(1));
        all_get_all(&world, &watchers, &[0, 1]);
    }
}

#[test]
fn a_will_at_a_living_node_waits_for_the_place_of_a_dead_one() {
    let world = three();
    let watchers = [0, 1, 2].map(|node| steady(&world, node, "watcher "));
    for watcher in &watchers {
        world.absent_subscriber(watcher.clone(), "wills/#", ExactlyOnce);
    }
    let topic = world.name_on(1, "wills/x ");
    let client = world.connect(v5(&world.name_on(0, "client ")).will(message(&topic, "gone").qos2().retain()));
    world.fall(1, usize::MAX, 0);
    world.run();
    client.lose();
    world.advance(seconds(3));
    world.take_over(1);
    for watcher in &watchers {
        assert_eq!(topics(&world.connect(watcher.clone().accept_on(0))), [topic.as_str()], "{}", watcher.client_id);
    }
    let reader = world.connect(v5("reader").accept_on(2));
    reader.subscribe("wills/#", AtLeastOnce);
    assert_eq!(topics(&reader), [topic]);
}
