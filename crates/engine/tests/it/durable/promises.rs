//! A packet that promises durability leaves after the commit of its promise; no other packet waits.

use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{Disconnect, Packet, PacketType, ReasonCode, SubscriptionOptions};

use super::*;

/// Nothing reaches the client before the commit, and a packet of this kind does after it.
#[track_caller]
fn waits(world: &World, client: &Client, kind: PacketType) {
    client.expect_nothing();
    world.release_commits();
    client.expect(kind);
    world.hold_commits();
}

#[test]
fn connack_waits_for_a_session_that_lasts() {
    for shards in [1, 3] {
        for connecting in [v5("a").lasting(), v311("a").lasting(), v31("a").lasting()] {
            let world = stored(shards);
            world.hold_commits();
            let client = world.try_connect(connecting);
            waits(&world, &client, PacketType::ConnAck);
        }
    }
}

#[test]
fn connack_waits_until_an_earlier_session_is_forgotten() {
    let world = stored(1);
    world.connect(v5("a").lasting()).lose();
    world.hold_commits();
    let client = world.try_connect(v5("a"));
    waits(&world, &client, PacketType::ConnAck);
    world.release_commits();
    world.crash(Crash::now(1));
    assert!(!world.connect(v5("a").lasting()).session_present());
}

#[test]
fn a_disconnect_commits_the_end_of_a_stored_will_at_once() {
    let kept = message("w", "gone").qos1();
    let disconnected = |connecting: Connecting| {
        let world = stored(1);
        let client = world.connect(connecting);
        world.hold_commits();
        client.disconnect();
        world.run();
        (world.uncommitted() > 0, world.awaited())
    };
    for connecting in [v5("a"), v5("a").lasting(), v311("a"), v311("a").lasting()] {
        assert_eq!(disconnected(connecting.clone().will(kept.clone())), (true, 1), "{connecting:?}");
    }
    assert_eq!(disconnected(v5("a").lasting()), (true, 0), "there is no will");
    assert_eq!(disconnected(v5("a").will(message("w", "gone"))), (false, 0), "this will is not stored");
}

#[test]
fn answers_to_subscriptions_of_a_session_that_lasts_wait() {
    for shards in [1, 3] {
        for filter in ["t", "$share/g/t"] {
            let world = stored(shards);
            let client = world.connect(v5("a").lasting());
            world.hold_commits();
            client.send_subscribe(&[(filter, SubscriptionOptions::new(AtLeastOnce))], None);
            waits(&world, &client, PacketType::SubAck);
            client.send_unsubscribe(filter);
            waits(&world, &client, PacketType::UnsubAck);
        }
    }
}

#[test]
fn a_publisher_is_answered_when_its_message_is_kept() {
    for shards in [1, 3] {
        // With and without its own session, and for every place of the subscriber.
        for (place, connecting) in [(0, v5("p")), (1, v5("p")), (2, v311("p").lasting())] {
            let world = stored(shards);
            world.absent_subscriber(v5(&world.name_on(place, "s")).lasting(), "t", ExactlyOnce);
            let publisher = world.connect(connecting.manual());
            world.hold_commits();
            publisher.publish_later(message("t", "1").qos1().id(1));
            waits(&world, &publisher, PacketType::PubAck);
            publisher.publish_later(message("t", "2").qos2().id(2));
            waits(&world, &publisher, PacketType::PubRec);
        }
    }
}

#[test]
fn a_publisher_is_answered_when_its_retained_message_is_kept() {
    for shards in [1, 3] {
        for place in 0..shards {
            let world = stored(shards);
            let topic = world.name_on(place, "t");
            let publisher = world.connect(v5("p").manual());
            world.hold_commits();
            publisher.publish_later(message(&topic, "1").qos1().id(1).retain());
            waits(&world, &publisher, PacketType::PubAck);
            publisher.publish_later(message(&topic, "").qos1().id(1).retain());
            waits(&world, &publisher, PacketType::PubAck);
            publisher.publish_later(message(&topic, "").qos1().id(1).retain());
            publisher.expect(PacketType::PubAck);
        }
    }
}

#[test]
fn a_lasting_qos_2_publisher_waits_for_its_stored_packet_id() {
    let world = stored(1);
    let publisher = world.connect(v311("p").lasting().manual());
    world.hold_commits();
    publisher.publish_later(message("t", "x").qos2().id(7));
    publisher.expect_nothing();
    publisher.publish_later(message("t", "x").qos2().id(7).dup());
    waits(&world, &publisher, PacketType::PubRec);
    publisher.expect(PacketType::PubRec);
    publisher.pubrel(id(7));
    waits(&world, &publisher, PacketType::PubComp);
    publisher.end_exchange(id(7));
}

#[test]
fn the_first_qos_2_publish_waits_and_so_does_pubrel() {
    for shards in [1, 3] {
        let world = stored(shards);
        let client = world.connect(v5("a").lasting().manual().receive_maximum(1));
        client.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        world.hold_commits();
        publisher.publish_later(message("t", "at once").qos2());
        publisher.publish_later(message("t", "out of the queue").qos2());
        waits(&world, &client, PacketType::Publish);
        client.pubrec(id(1));
        waits(&world, &client, PacketType::PubRel);
        client.pubcomp(id(1));
        waits(&world, &client, PacketType::Publish);
    }
}

#[test]
fn nothing_waits_where_nothing_is_promised() {
    for shards in [1, 3] {
        let world = stored(shards);
        world.hold_commits();
        let a = world.connect(v5("a"));
        let b = world.connect(v311("b").manual());
        for client in [&a, &b] {
            client.subscribe("t", ExactlyOnce);
            client.subscribe("$share/g/s", AtLeastOnce);
        }
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            assert_eq!(a.publish(message("t", "x").qos(qos)), ReasonCode::Success);
            assert_eq!((a.messages().len(), b.messages().len()), (1, 1), "{qos:?}");
        }
        assert_eq!(a.publish(message("s", "x").qos2()), ReasonCode::Success);
        a.unsubscribe_whatever_comes("t");
        a.disconnect();
        assert_eq!(world.uncommitted(), 0);
        assert!(world.pairs().is_empty());
    }
}

#[test]
fn qos_0_and_1_reach_a_session_that_lasts_at_once() {
    let world = stored(1);
    let client = world.connect(v5("a").lasting());
    client.subscribe("t", AtLeastOnce);
    world.hold_commits();
    let publisher = world.connect(v5("p"));
    publisher.publish_later(message("t", "1").qos1());
    publisher.publish_later(message("t", "0"));
    assert_eq!(client.payloads(), ["1", "0"]);
    client.ping();
    assert!(publisher.answers().is_empty());
    world.release_commits();
    assert_eq!(publisher.answers().len(), 1);
}

#[test]
fn an_answer_waits_only_for_the_other_shards_batch() {
    let world = stored(2);
    world.absent_subscriber(v5(&world.name_on(1, "s")).lasting(), "t", AtLeastOnce);
    let publisher = world.connect(v5(&world.name_on(0, "p")));
    world.hold_commits();
    publisher.publish_later(message("t", "x").qos1());
    assert_eq!(world.uncommitted(), 2, "the message, and the place of the answer behind it");
    world.commit(1);
    assert!(publisher.answers().is_empty());
    world.commit(1);
    assert_eq!(publisher.answers().len(), 1);
}

#[test]
fn several_answers_of_one_output_leave_with_their_commits() {
    let world = stored(1);
    let client = world.connect(v5("a").lasting());
    world.hold_commits();
    for filter in ["t/1", "t/2", "t/3"] {
        client.subscribe_later(filter);
    }
    // A packet without a promise does not wait.
    client.ping();
    client.expect_nothing();
    for left in [2, 1, 0] {
        world.commit(1);
        client.expect(PacketType::SubAck);
        assert_eq!(world.uncommitted(), left);
    }
}

#[test]
fn output_before_a_promise_leaves_first_in_order() {
    for size in [10, 16 * 1024, 100_000] {
        let world = stored(1);
        let client = world.connect(v5("a").lasting().manual());
        client.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        world.hold_commits();
        let payload = |letter: &str| letter.repeat(size);
        let send = |letter: &str, qos| publisher.send_publish(message("t", payload(letter)).qos(qos));
        send("a", AtMostOnce);
        send("b", ExactlyOnce);
        send("c", AtMostOnce);
        world.run();
        let first = |got: Vec<String>| got.iter().map(|got| got[..1].to_owned()).collect::<String>();
        assert_eq!(first(client.payloads()), "a");
        send("d", ExactlyOnce);
        send("e", AtMostOnce);
        world.run();
        client.expect_nothing();
        world.commit(1);
        let got = client.payloads();
        assert!(got.iter().all(|got| got.len() == size));
        assert_eq!(first(got), "bc");
        client.expect_nothing();
        world.release_commits();
        let got = client.payloads();
        assert!(got.iter().all(|got| got.len() == size));
        assert_eq!(first(got), "de");
    }
}

#[test]
fn a_slow_reader_with_held_output_loses_nothing() {
    // With all of its queue in memory, so that QoS 0 overtakes nothing.
    let world = stored_with(1, |settings| settings.queue.memory_bytes = u64::MAX);
    let client = world.connect(v5("a").lasting());
    client.subscribe("t", ExactlyOnce);
    client.stop_reading();
    let publisher = world.connect(v5("p"));
    world.hold_commits();
    for number in 0..40 {
        let qos = [AtMostOnce, ExactlyOnce, AtLeastOnce][number % 3];
        publisher.publish_later(message("t", format!("{number:2}").repeat(4_000 + number * 400)).qos(qos));
    }
    let mut got = Vec::new();
    for step in 0..400 {
        client.read_bytes(3_000);
        got.extend(client.messages_among_others().iter().map(|got| got.text()[..2].trim().to_owned()));
        if step % 10 == 0 {
            world.commit(1);
        }
    }
    world.release_commits();
    client.read();
    got.extend(client.messages_among_others().iter().map(|got| got.text()[..2].trim().to_owned()));
    assert_eq!(got, (0..40).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn an_ending_connection_waits_for_its_promises() {
    let world = stored(1);
    let client = world.connect(v5("a").lasting());
    world.hold_commits();
    client.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    client.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    client.expect_nothing();
    client.expect_open();
    world.release_commits();
    client.expect(PacketType::SubAck);
    client.expect_closed();
    assert_eq!(world.gauges().connections, 0);
}

#[test]
fn a_refusal_follows_earlier_promises() {
    let world = stored(1);
    let client = world.connect(v5("a").lasting());
    world.hold_commits();
    client.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    // A second CONNECT is a protocol error.
    client.send_bytes(&v5("a").encode());
    client.expect_nothing();
    world.release_commits();
    client.expect(PacketType::SubAck);
    client.expect_disconnect(ReasonCode::ProtocolError);
}

#[test]
fn a_client_that_is_gone_leaves_nothing_behind_that_waits() {
    let world = stored(1);
    let client = world.connect(v5("a").lasting());
    world.hold_commits();
    client.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    client.lose();
    assert_eq!(world.gauges().connections, 0);
    world.release_commits();
    assert_eq!(world.uncommitted(), 0);
}

#[test]
fn relaxed_durability_answers_at_once() {
    let world = World::with(3, |settings| settings.durability = Durability::Relaxed);
    world.hold_commits();
    let client = world.connect(v5("a").lasting());
    client.subscribe("t", QoS::ExactlyOnce);
    assert_eq!(client.publish(message("t", "x").qos2().retain()), ReasonCode::Success);
    assert_eq!(client.payloads(), ["x"]);
    world.release_commits();
    world.crash(Crash::now(3));
    assert!(world.connect(v5("a").lasting()).session_present());
}
