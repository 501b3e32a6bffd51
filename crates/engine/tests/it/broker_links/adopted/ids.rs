//! No message comes twice by the connection of a dead orchestrator, also after a restart.

use tidegate_mqtt::{Packet, PacketId, Publish, PublishProperties, TopicName, UserProperties, Version};

use super::*;

/// An orchestrator whose store outlasts its process.
fn lasting_world() -> World {
    World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    })
}

#[test]
fn a_returned_home_gets_no_message_twice_by_pieces() {
    // It is back before another member has had its partition, and a heir has its connection to a broker.
    let returned = lasting_world();
    let own = returned.broker("b");
    let one = returned.connect(v5("one").lasting());
    one.subscribe("t", ExactlyOnce);
    let [before, missed] = with_ids(["1", "2"]);
    own.carry(&before);
    one.expect_publish("t", "1");
    returned.crash(Crash::now(1));
    let (dead, images) = dies(&["two"]);
    let heir = world();
    heir.broker("b");
    inherit(&heir, 1, "two", &images);
    let left = connect_as_dead(&heir, &dead);
    left.carry(&before);
    left.carry(&missed);
    let piece = take_brought(&heir).for_members.expect("the messages");
    returned
        .engine(0, |engine, now| {
            let mut moves = OrchestratorMoves::of(engine);
            moves.resume_awaiting(now, DEATH, partition("one"));
            moves.take_piece(now, DEATH, partition("one"), &piece, Behind::LatePieces)
        })
        .expect("a piece");
    let one = returned.connect(v5("one").lasting());
    one.expect_publish("t", "2");
    one.expect_nothing();
}

#[test]
fn ids_of_a_dead_connection_outlast_it_while_its_broker_waits() {
    let (dead, images) = dies(&["one"]);
    let heir = lasting_world();
    let own = heir.broker("b");
    inherit(&heir, 1, "one", &images);
    let left = connect_as_dead(&heir, &dead);
    let [carried] = with_ids(["1"]);
    left.carry(&carried);
    heir.connect(v5("one").lasting()).expect_publish("t", "1");
    let unanswered = take_brought(&heir).unanswered;
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_brought(now, "a@dead", unanswered));
    heir.run();
    left.remove(false).expect("it owes nothing");
    heir.crash(Crash::now(1));
    // Its sender gives it to another broker, which brings it.
    own.carry(&carried);
    let one = heir.connect(v5("one").lasting());
    one.expect_nothing();
}

#[test]
fn a_broker_keeps_messages_for_a_member_that_is_back() {
    for is_back in [true, false] {
        let (dead, _) = dies(&["one"]);
        let heir = world();
        heir.broker("b");
        let left = connect_as_dead(&heir, &dead);
        let removed = heir.engine(0, |engine, now| {
            if is_back {
                OrchestratorMoves::of(engine).hand_back("a@dead");
            }
            engine.fleet().remove_broker_link(now, "a@dead", false)
        });
        removed.expect("it owes nothing");
        heir.run();
        let [carried] = with_ids(["1"]);
        left.with(|broker| broker.route(&carried));
        assert_eq!(left.with(|broker| broker.owes()), usize::from(is_back), "its session is there or not");
    }
}

#[test]
fn a_packet_id_of_a_continued_session_is_no_repetition() {
    let world = world();
    let own = world.broker("b");
    let one = world.connect(v5("one").lasting());
    one.subscribe("t", ExactlyOnce);
    // Another member has released the first message, and the broker has sent it the second one under the same packet id.
    for (carried, dup, new) in
        with_ids(["1", "2"]).iter().zip([false, true]).flat_map(|(it, dup)| [(it, dup, true), (it, true, false)])
    {
        let pairs: Vec<(&str, &str)> =
            carried.user_properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let publish = Publish {
            dup,
            qos: ExactlyOnce,
            retain: false,
            topic: Some(TopicName::new("t").expect("a topic name")),
            packet_id: PacketId::new(9),
            properties: PublishProperties {
                user_properties: UserProperties::new(&pairs),
                ..PublishProperties::default()
            },
            payload: &carried.payload,
        };
        own.say(Version::V5, &Packet::Publish(publish));
        if new {
            one.expect_publish("t", carried.text());
        } else {
            one.expect_nothing();
        }
    }
}
