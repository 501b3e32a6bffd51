//! Mobile nodes of an orchestrator: their messages never go to brokers.

use std::sync::Arc;

use tidegate_engine::{
    AddressSettings, ListenerSettings, MembershipChange, MembershipOutcome, ObserverAnswer, Reason, RoutingPolicy,
    Settings, TenantId,
};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use super::tenants::{ACME, Acme};
use crate::harness::*;

const ALL_QOS: [QoS; 3] = [AtMostOnce, AtLeastOnce, ExactlyOnce];

fn settings(settings: &mut Settings) {
    fleet_settings(settings, RoutingPolicy::TopicHash);
    let reports = vec!["ctx/context/+".into(), "vehicle/+/position".into()];
    settings.addresses = Some(AddressSettings { guarded: false, reports, ..AddressSettings::default() });
    settings.listeners.push(ListenerSettings { tenant: ACME, name: "acme".into(), ..settings.listeners[0].clone() });
    settings.tenants = Some(Arc::new(Acme));
}

fn in_front_of_one(story: impl Fn(&World, Broker)) {
    everywhere_with(settings, |world| story(world, world.broker("a")));
}

fn join(world: &World, client_id: &str, group: &str) {
    let (client_id, add) = (client_id.to_owned(), vec![group.to_owned()]);
    let change = MembershipChange { tenant: TenantId::DEFAULT, client_id, add, remove: Vec::new() };
    let home = world.home_of(&change.client_id);
    let outcome = world.engine(home, |engine, now| engine.insiders().change_membership(now, &change));
    assert_eq!(outcome, MembershipOutcome::Done);
    world.run();
}

#[test]
fn addressed_messages_reach_nodes_and_no_broker() {
    in_front_of_one(|world, broker| {
        let (node, other) = (world.connect(v5("n")), world.connect(v311("other")));
        join(world, "n", "g");
        let sender = world.connect(v5("sender"));
        for qos in ALL_QOS {
            for to in ["node/n/do/it", "group/g/x", "all"] {
                let topic = format!("ctx/to/{to}");
                assert_eq!(sender.publish(message(&topic, "x").qos(qos)), ReasonCode::Success);
                assert_eq!(node.expect_publish(&topic, "x").qos, qos);
                node.expect_nothing();
            }
            other.expect_publish("ctx/to/all", "x");
            sender.expect_publish("ctx/to/all", "x");
        }
        assert!(broker.taken().is_empty(), "a broker has got a message to a node");
        assert!(broker.asked().is_empty(), "a broker was asked for a topic of addresses");
        sender.publish(message("t", "ordinary").qos1());
        assert_eq!(broker.payloads(), ["ordinary"]);
    });
}

#[test]
fn messages_to_absent_nodes_wait_without_a_broker() {
    everywhere_with(settings, |world| {
        world.connect(v5("n")).disconnect();
        let sender = world.connect(v5("sender"));
        for qos in [AtLeastOnce, ExactlyOnce] {
            assert_eq!(sender.publish(message("ctx/to/node/n", "waits").qos(qos)), ReasonCode::Success);
        }
        let node = world.connect(v5("n"));
        let got: Vec<String> = node.messages_among_others().iter().map(Delivered::text).collect();
        assert_eq!(got, ["waits", "waits"]);
    });
}

#[test]
fn subscriptions_of_addresses_need_no_broker() {
    everywhere_with(settings, |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("ctx/#", AtLeastOnce);
        reader.subscribe("$share/g/ctx/up/+", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        assert_eq!(publisher.publish(message("ctx/up/1", "x").qos1().retain()), ReasonCode::Success);
        assert_eq!(reader.payloads(), ["x", "x"]);
        let late = world.connect(v5("late"));
        late.subscribe_later("ctx/up/#");
        assert!(late.messages_among_others().iter().any(|got| got.text() == "x" && got.retain));
        let broker = world.broker("a");
        assert!(broker.asked().is_empty() && broker.taken().is_empty());
        reader.subscribe("#", AtLeastOnce);
        assert_eq!(broker.held(), ["#"]);
    });
}

#[test]
fn aliases_keep_messages_to_nodes_from_brokers() {
    in_front_of_one(|world, broker| {
        for (listener, topic) in [(0, "t"), (1, "$tenant/acme/t")] {
            let node = world.connect(v5("n").through(listener));
            node.subscribe("t", AtLeastOnce);
            let sender = world.connect(v5("sender").through(listener));
            sender.publish(message("ctx/to/node/n", "1").qos1().alias(1));
            sender.publish(message("t", "2").qos1().alias(2));
            sender.publish(message("", "3").qos1().alias(1));
            sender.publish(message("", "4").qos1().alias(2));
            assert_eq!(node.payloads(), ["1", "2", "3", "4"]);
            let taken: Vec<String> = broker.taken().into_iter().map(|taken| taken.topic).collect();
            assert_eq!(taken, [topic, topic]);
            node.disconnect();
            sender.disconnect();
        }
    });
}

#[test]
fn wills_and_receipts_of_nodes_go_to_no_broker() {
    in_front_of_one(|world, broker| {
        let (node, sender) = (world.connect(v5("n")), world.connect(v5("sender")));
        world.connect(v5("leaves").will(message("ctx/to/node/n", "gone").qos1())).lose();
        node.expect_publish("ctx/to/node/n", "gone");
        sender.publish(message("ctx/to/node/n", "x").qos1().user("receipt", "delivered"));
        node.expect_message();
        let receipt = sender.messages_among_others().remove(0);
        assert_eq!(receipt.topic, "ctx/receipts/sender");
        assert!(receipt.text().contains("delivered"), "{}", receipt.text());
        assert!(broker.taken().is_empty());
    });
}

#[test]
fn contexts_stay_and_other_reports_are_observed_and_sent() {
    in_front_of_one(|world, broker| {
        let node = world.connect(v5("truck"));
        for (topic, taken) in [("ctx/context/truck", 0), ("vehicle/7/position", 1)] {
            let id = node.send_publish(message(topic, "{}").qos1()).expect("a packet id");
            let mut reports = world.take_reports();
            assert_eq!(reports.len(), 1, "{topic}");
            let (shard, report) = reports.remove(0);
            assert_eq!((&*report.client_id, &*report.topic), ("truck", topic));
            assert_eq!(node.answers(), [], "the core has not said anything");
            world.engine(shard, |engine, now| {
                engine.insiders().confirm_observed(now, report.ticket, ObserverAnswer::Taken);
            });
            world.run();
            node.expect_answer(PacketType::PubAck, id);
            assert_eq!(broker.taken().len(), taken, "{topic}");
        }
    });
}

#[test]
fn clients_of_brokers_cannot_speak_to_nodes() {
    in_front_of_one(|world, broker| {
        let node = world.connect(v5("n"));
        node.subscribe("#", AtLeastOnce);
        for retained in [false, true] {
            for topic in ["ctx/to/node/n", "ctx/to/all", "ctx/context/n"] {
                let forged = message(topic, "forged").qos1();
                broker.publish(&if retained { forged.retain() } else { forged });
            }
        }
        node.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 6);
        broker.publish(&message("t", "ordinary").qos1());
        node.expect_publish("t", "ordinary");
    });
}
