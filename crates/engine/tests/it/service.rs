//! Services within the process publish, ping, and send clients elsewhere.

use tidegate_engine::{InnerPublication, Millis, TenantId};
use tidegate_mqtt::{Packet, QoS, ReasonCode};

use crate::harness::*;

fn publication(topic: &str, retain: bool) -> InnerPublication {
    InnerPublication {
        tenant: TenantId::DEFAULT,
        topic: topic.into(),
        qos: QoS::AtLeastOnce,
        retain,
        properties: Vec::new(),
        payload: b"told".to_vec(),
        expires_at: Millis::NEVER,
    }
}

fn ping(world: &World, client_id: &str) -> bool {
    (0..world.shards()).any(|shard| {
        world.engine(shard, |engine, now| {
            engine.insiders().ping(now, TenantId::DEFAULT, client_id, "ctx/to/node/ping", Millis::NEVER)
        })
    })
}

#[test]
fn a_service_publishes_and_its_retained_message_is_found() {
    everywhere(|world| {
        let early = world.connect(v5("early"));
        early.subscribe("list", QoS::AtLeastOnce);
        let said = world.engine(0, |engine, now| engine.insiders().publish_inner(now, &publication("list", true)));
        assert!(said);
        early.expect_publish("list", "told");
        let late = world.connect(v311("late"));
        late.subscribe("list", QoS::AtLeastOnce);
        late.expect_publish("list", "told");
        for wrong in ["", "a/#", "$SYS/broker/uptime"] {
            assert!(
                !world.engine(0, |engine, now| engine.insiders().publish_inner(now, &publication(wrong, false))),
                "{wrong}"
            );
        }
    });
}

#[test]
fn a_ping_is_answered_by_its_acknowledgement() {
    everywhere(|world| {
        let node = world.connect(v5("node").manual());
        assert!(ping(world, "node") && !ping(world, "unknown"));
        world.run();
        let pinged = node.expect_message();
        assert!(ping(world, "node"), "it is asked still");
        assert!(world.take_pongs().is_empty());
        node.puback(pinged.id.expect("a packet id at QoS 1"));
        assert_eq!(world.take_pongs(), ["node"]);
        assert!(ping(world, "node"));
        let late = node.expect_message();
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.insiders().forget_pings());
        }
        assert!(ping(world, "node"), "who has not answered in a round is one that does not in the next");
        node.puback(late.id.expect("a packet id at QoS 1"));
        assert!(world.take_pongs().is_empty(), "its round is over");
        node.expect_nothing();
        assert!(ping(world, "node"));
        node.puback(node.expect_message().id.expect("a packet id at QoS 1"));
        assert_eq!(world.take_pongs(), ["node"], "who answers again is asked again");
    });
}

#[test]
fn who_owes_other_acknowledgements_is_not_pinged() {
    everywhere(|world| {
        let node = world.connect(v5("node").manual());
        node.subscribe("t", QoS::AtLeastOnce);
        world.connect(v5("p")).publish(message("t", "x").qos1());
        let owed = node.expect_message();
        assert!(!ping(world, "node"));
        node.puback(owed.id.expect("a packet id at QoS 1"));
        world.run();
        assert!(ping(world, "node"));
    });
}

#[test]
fn acknowledgements_of_messages_are_no_pongs() {
    everywhere(|world| {
        let node = world.connect(v5("node"));
        node.subscribe("t", QoS::AtLeastOnce);
        assert!(ping(world, "node"));
        world.connect(v5("p")).publish(message("t", "x").qos1());
        assert_eq!(world.take_pongs(), ["node"]);
    });
}

#[test]
fn a_client_gets_another_server_to_use() {
    everywhere(|world| {
        let (new, old) = (world.connect(v5("new")), world.connect(v311("old")));
        let send = |client_id: &str| {
            (0..world.shards()).any(|shard| {
                world.engine(shard, |engine, now| {
                    engine.insiders().send_elsewhere(now, TenantId::DEFAULT, client_id, "gw-2:1883")
                })
            })
        };
        assert!(send("new") && send("old") && !send("unknown"));
        let told = new.expect_disconnect(ReasonCode::UseAnotherServer);
        let Packet::Disconnect(disconnect) = told.packet() else { panic!("no DISCONNECT: {told:?}") };
        assert_eq!(disconnect.server_reference, Some("gw-2:1883"));
        old.expect_closed();
    });
}

#[test]
fn the_connected_clients_are_known() {
    everywhere(|world| {
        let (_stays, goes) = (world.connect(v5("stays").lasting()), world.connect(v5("goes").lasting()));
        goes.disconnect();
        let on = |shard: u16| {
            let names = |engine: &mut tidegate_engine::Engine| {
                engine.questions().connected_clients().map(|(_, name, _)| name.to_owned()).collect::<Vec<_>>()
            };
            world.engine(shard, |engine, _| names(engine))
        };
        assert_eq!((0..world.shards()).flat_map(on).collect::<Vec<_>>(), ["stays"]);
    });
}
