//! QoS 2 messages that were refused after others had got them, and whose publishers move before they get the answer.

use tidegate_engine::{Durability, Observer, ObserverAnswer, ObserverPolicy, ObserverWindow};

use super::*;

/// A publisher whose message was refused for good after its subscriber had got it. The publisher has not read the answer. Returns
/// the packet id of the message.
fn publish_in_vain(world: &World) -> PacketId {
    let subscriber = world.connect(v5("subscriber").lasting());
    subscriber.subscribe("t", ExactlyOnce);
    let observer = Observer {
        name: "sink".into(),
        filters: vec!["t".into()],
        tenant: None,
        window: ObserverWindow { messages: 10, bytes: 1_000 },
        policy: ObserverPolicy::Refuse,
        refusal: Reason::ObserverRefused,
    };
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.insiders().observe(observer.clone())).expect("an observer");
    }
    let publisher = world.connect(v5("publisher").lasting());
    let id = publisher.send_publish(message("t", "x").qos2()).expect("a packet id");
    let (shard, _, told) = world.take_observed().remove(0);
    let never =
        ObserverAnswer::Never { tenant: told.tenant, client_id: told.client_id.clone(), topic: told.topic.clone() };
    world.engine(shard, |engine, now| engine.insiders().confirm_observed(now, told.ticket, never));
    world.run();
    assert_eq!(subscriber.payloads(), ["x"]);
    publisher.lose();
    subscriber.lose();
    id
}

/// The publisher sends its message again: it is refused again, and the subscriber does not get it a second time.
fn repeat_in_vain(world: &World, id: PacketId) {
    let subscriber = world.connect(v5("subscriber").lasting());
    let publisher = world.connect(v5("publisher").lasting());
    assert!(publisher.session_present());
    publisher.send_publish(message("t", "x").qos2().id(id.get()).dup());
    assert_eq!(publisher.expect_answer(PacketType::PubRec, id), ReasonCode::ImplementationSpecificError);
    assert!(subscriber.payloads().is_empty(), "the subscriber has the message");
    publisher.lose();
    subscriber.lose();
}

#[test]
fn a_refused_qos_2_message_is_refused_again_after_a_move() {
    moved(0, publish_in_vain, |there, id| {
        repeat_in_vain(there, id);
        // The client has the answer now, and takes the packet id for another message.
        let publisher = there.connect(v5("publisher").lasting());
        publisher.send_publish(message("t", "y").qos2().id(id.get()));
        assert_eq!(publisher.expect_answer(PacketType::PubRec, id), ReasonCode::Success);
        assert_eq!(there.connect(v5("subscriber").lasting()).payloads(), ["y"]);
    });
}

#[test]
fn a_refused_qos_2_message_is_stored_where_it_moves() {
    let stored = || World::with(1, |settings| settings.durability = Durability::Commit);
    let (here, there) = (stored(), stored());
    let id = publish_in_vain(&here);
    move_all(&here, &there);
    there.crash(Crash::now(1));
    repeat_in_vain(&there, id);
}
