//! QoS 2 messages between nodes when one node dies.

use tidegate_engine::{Reason, name_of_kind};
use tidegate_mqtt::QoS::ExactlyOnce;
use tidegate_mqtt::{PacketId, PacketType, ReasonCode};

use super::*;

/// How far a message has come at the node that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Come {
    /// It is under way to it.
    NotYet,
    /// It is there, and not in its store.
    Unwritten,
    /// It is in its store, and no other node knows.
    Written,
}

/// Subscribes clients to `t`, which leave and keep their sessions.
fn subscribe_and_leave(world: &World, subscribers: &[&Connecting]) {
    for subscriber in subscribers {
        world.absent_subscriber((*subscriber).clone(), "t", ExactlyOnce);
    }
}

/// The message of all these tests, as its publisher sends it again.
fn repeated(id: Option<PacketId>) -> Message {
    let mut again = message("t", "x").qos2();
    (again.dup, again.id) = (true, id);
    again
}

/// Expects a successful end of the exchange of a message.
fn expect_accepted(client: &Client, id: PacketId) {
    assert!(!client.expect_answer(PacketType::PubRec, id).is_error());
    assert_eq!(client.expect_answer(PacketType::PubComp, id), ReasonCode::Success);
}

/// A subscriber at node 1, which dies, one at node 2, and a publisher at node 0, whose message has come so far.
fn under_way(come: Come) -> (World, [Connecting; 3]) {
    let world = three();
    let there = steady(&world, 1, "there ");
    let survivor = steady(&world, 2, "survivor ");
    let publisher = steady(&world, 0, "publisher ");
    subscribe_and_leave(&world, &[&there, &survivor]);
    let client = world.connect(publisher.clone());
    if come == Come::NotYet {
        world.hold(0, 1);
    } else {
        world.hold(1, 0);
    }
    client.send_publish(message("t", "x").qos2());
    if come == Come::Unwritten {
        world.until_it_has(1, 0);
    } else {
        world.run();
    }
    assert!(client.answers().is_empty(), "a node has not confirmed it");
    world.fall(1, 0, 0);
    world.run();
    client.expect_disconnect(ReasonCode::ServerBusy);
    assert_eq!(client.expect_closed(), Reason::NodeLost);
    (world, [there, survivor, publisher])
}

/// The publisher sends its message again, and everybody returns.
fn all_return(world: &World, [there, survivor, publisher]: [Connecting; 3]) {
    let client = world.connect(publisher.accept_on(0));
    let id = client.next_id();
    client.send_publish(repeated(Some(id)));
    world.run();
    expect_accepted(&client, id);
    for subscriber in [there, survivor] {
        let name = subscriber.client_id.clone();
        let client = world.connect(subscriber.accept_on(2));
        assert_eq!(client.payloads(), ["x"], "{name}");
    }
}

#[test]
fn a_message_to_a_dead_node_comes_once_after_its_replacement() {
    for come in [Come::NotYet, Come::Unwritten, Come::Written] {
        let (world, clients) = under_way(come);
        world.note(format!("{come:?}"));
        world.take_over(1);
        all_return(&world, clients);
    }
}

#[test]
fn a_message_comes_once_when_the_node_of_its_publisher_dies() {
    // Node 1 dies with it, before anything has left, or when it has reached one of two others.
    for reached in [false, true] {
        let world = three();
        let subscribers = [0, 1, 2].map(|node| steady(&world, node, "subscriber "));
        subscribe_and_leave(&world, &subscribers.each_ref());
        let publisher = steady(&world, 1, "publisher ");
        let client = world.connect(publisher.clone());
        world.hold(1, 0);
        if !reached {
            world.hold(1, 2);
        }
        let id = client.send_publish(message("t", "x").qos2());
        world.run();
        client.expect_nothing();
        world.fall(1, 0, 0);
        world.run();
        world.take_over(1);
        let client = world.connect(publisher.accept_on(2));
        assert!(client.session_present());
        client.send_publish(repeated(id));
        expect_accepted(&client, id.expect("a packet id"));
        for subscriber in subscribers {
            let name = subscriber.client_id.clone();
            assert_eq!(world.connect(subscriber.accept_on(0)).payloads(), ["x"], "{name}, {reached}");
        }
    }
}

#[test]
fn a_message_to_a_shard_that_takes_over_comes_once() {
    // The dead node had it, or had not.
    for reached in [true, false] {
        let world = World::cluster(2, 2, |settings| settings.durability = Durability::Commit);
        let there = steady(&world, 1, "there ");
        let beside = steady(&world, 3, "beside ");
        subscribe_and_leave(&world, &[&there, &beside]);
        let publisher = steady(&world, 2, "publisher ");
        let client = world.connect(publisher.clone());
        world.hold(2, 3);
        if !reached {
            world.hold(2, 1);
        }
        let id = client.send_publish(message("t", "x").qos2());
        world.run();
        world.fall(0, 0, 0);
        world.run();
        world.take_over(0);
        world.release(2, 3);
        if !reached {
            let client = world.connect(publisher);
            client.send_publish(repeated(id));
            world.run();
        }
        for subscriber in [there, beside] {
            let name = subscriber.client_id.clone();
            assert_eq!(world.connect(subscriber.accept_on(2)).payloads(), ["x"], "{name}, {reached}");
        }
    }
}

/// A message that waits between two shards of node 1, which take the place of node 0 meanwhile, where it had come or
/// had not. Its publisher and both of its subscribers.
fn between_shards(reached: bool) -> (World, [Connecting; 3]) {
    let world = World::cluster(3, 2, |settings| settings.durability = Durability::Commit);
    let there = steady(&world, 1, "there ");
    let beside = steady(&world, 3, "beside ");
    subscribe_and_leave(&world, &[&there, &beside]);
    let publisher = steady(&world, 2, "publisher ");
    let client = world.connect(publisher.clone());
    world.hold(2, 3);
    if !reached {
        world.hold(2, 1);
    }
    client.send_publish(message("t", "x").qos2());
    world.run();
    world.fall(0, 0, 0);
    world.run();
    world.take_over(0);
    (world, [there, beside, publisher])
}

#[test]
fn a_crossing_comes_once_if_its_node_dies_after_a_takeover() {
    for (reached, returns) in [(true, true), (true, false), (false, true), (false, false)] {
        let (world, [there, beside, publisher]) = between_shards(reached);
        world.fall(1, usize::MAX, 0);
        if returns {
            world.revive(1);
            world.run();
        } else {
            world.take_over(1);
        }
        let client = world.connect(publisher.accept_on(4));
        let id = client.next_id();
        client.send_publish(repeated(Some(id)));
        expect_accepted(&client, id);
        for subscriber in [there, beside] {
            let name = subscriber.client_id.clone();
            let got = world.connect(subscriber.accept_on(4)).payloads();
            assert_eq!(got, ["x"], "{name}, reached {reached}, returns {returns}");
        }
    }
}

/// How a node with two shards comes back after its death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    /// With its data, before others have taken its place.
    Early,
    /// Not at all: others have its place.
    Never,
    /// With its data, when others have its place.
    Late,
}

#[test]
fn a_message_between_two_shards_comes_once_if_their_node_dies() {
    for back in [Back::Early, Back::Never, Back::Late] {
        for (kept, held, beside) in (0..5)
            .flat_map(|kept| [(kept, false), (kept, true)])
            .flat_map(|(kept, held)| [(kept, held, false), (kept, held, true)])
        {
            let world = World::cluster(3, 2, |settings| settings.durability = Durability::Commit);
            let there = steady(&world, 3, "there ");
            let elsewhere = steady(&world, 5, "elsewhere ");
            let subscribers = if beside { vec![&there, &elsewhere] } else { vec![&there] };
            subscribe_and_leave(&world, &subscribers);
            let publisher = steady(&world, 2, "publisher ");
            let client = world.connect(publisher.clone());
            world.run();
            world.hold_commits();
            if held {
                world.hold(2, 3);
            }
            let id = client.send_publish(message("t", "x").qos2());
            world.run();
            let is_answered = !client.answers().is_empty();
            world.fall(1, kept, 0);
            world.release_commits();
            world.run();
            match back {
                Back::Early => world.revive(1),
                Back::Never => world.take_over(1),
                Back::Late => {
                    world.take_over(1);
                    world.revive(1);
                }
            }
            world.run();
            let told = format!("{back:?}, {kept} batches, held {held}, beside {beside}, answered {is_answered}");
            let client = world.connect(publisher.accept_on(0));
            client.send_publish(repeated(id));
            world.run();
            expect_accepted(&client, id.expect("a packet id"));
            for subscriber in subscribers {
                let got = world.connect(subscriber.clone().accept_on(0)).payloads();
                assert_eq!(got, ["x"], "{}: {told}", subscriber.client_id);
            }
        }
    }
}

#[test]
fn a_message_on_a_broken_link_of_living_nodes_comes_once() {
    for come in [Come::NotYet, Come::Written] {
        let world = three();
        let subscriber = world.connect(steady(&world, 1, "there "));
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = steady(&world, 0, "publisher ");
        let client = world.connect(publisher.clone());
        if come == Come::NotYet {
            world.hold(0, 1);
        } else {
            world.hold(1, 0);
        }
        let id = client.send_publish(message("t", "x").qos2());
        world.run();
        world.break_link(0, 1, 0);
        world.run();
        client.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(client.expect_closed(), Reason::NodeLost);
        world.mend_links();
        world.run();
        let client = world.connect(publisher);
        client.send_publish(repeated(id));
        expect_accepted(&client, id.expect("a packet id"));
        assert_eq!(subscriber.payloads(), ["x"], "{come:?}");
    }
}

#[test]
fn a_returning_publisher_waits_for_unconfirmed_nodes() {
    for come in [Come::NotYet, Come::Written] {
        let world = three();
        let there = steady(&world, 1, "there ");
        let survivor = steady(&world, 2, "survivor ");
        subscribe_and_leave(&world, &[&there, &survivor]);
        let publisher = steady(&world, 0, "publisher ");
        let client = world.connect(publisher.clone());
        if come == Come::NotYet {
            world.hold(0, 1);
        } else {
            world.hold(1, 0);
        }
        let id = client.send_publish(message("t", "x").qos2());
        world.run();
        // It returns twice, and its message again.
        let again = repeated(id);
        client.lose();
        for _ in 0..2 {
            let client = world.connect(publisher.clone());
            client.send_publish(again.clone());
            client.send_publish(again.clone());
            world.run();
            assert!(client.answers().is_empty(), "{come:?}: a node has not confirmed it");
            client.lose();
        }
        let client = world.connect(publisher.clone());
        client.send_publish(again.clone());
        world.run();
        assert!(client.answers().is_empty(), "{come:?}");
        world.fall(1, 0, 0);
        world.run();
        client.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(client.expect_closed(), Reason::NodeLost);
        world.take_over(1);
        all_return(&world, [there, survivor, publisher]);
    }
}

#[test]
fn a_publisher_that_returns_is_answered_when_nodes_confirm() {
    let world = three();
    let subscriber = world.connect(steady(&world, 1, "there "));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = steady(&world, 0, "publisher ");
    let client = world.connect(publisher.clone());
    world.hold(1, 0);
    let id = client.send_publish(message("t", "x").qos2());
    world.run();
    client.lose();
    let client = world.connect(publisher);
    client.send_publish(repeated(id));
    world.run();
    assert!(client.answers().is_empty());
    world.release(1, 0);
    expect_accepted(&client, id.expect("a packet id"));
    assert_eq!(subscriber.payloads(), ["x"]);
}

#[test]
fn notes_of_messages_end_when_their_publishers_release_them() {
    let world = three();
    let subscriber = world.connect(steady(&world, 1, "there "));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = world.connect(steady(&world, 0, "publisher "));
    for _ in 0..20 {
        publisher.publish(message("t", "x").qos2());
        subscriber.expect_publish("t", "x");
    }
    let noted = world.pairs_of(1).into_keys().filter(|key| name_of_kind(key) == Some(NOTED)).count();
    assert_eq!(noted, 1, "the last one");
}

/// The kind of notes of messages of other nodes.
const NOTED: &str = "QoS 2 messages of other nodes that were taken";
