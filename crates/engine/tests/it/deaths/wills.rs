//! Wills of clients whose node dies.

use tidegate_mqtt::QoS::AtLeastOnce;

use super::*;

fn topics(client: &Client) -> Vec<String> {
    let mut topics: Vec<String> = client.messages().into_iter().map(|got| got.topic).collect();
    topics.sort_unstable();
    topics
}

/// Clients with wills at node 1, and somebody at node 0 who waits for them.
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
    // Who has said goodbye has none.
    world.connect(client("calm ").clean(false).expiry(3600).will(will("calm"))).disconnect();
    (world, watcher, back)
}

#[test]
fn wills_are_published_once_where_others_take_the_place_of_a_dead_node() {
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
fn wills_of_a_node_that_comes_back_with_its_data_are_published_once() {
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
