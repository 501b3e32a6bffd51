//! Messages for applications on a bus, and theirs for nodes.

use tidegate_engine::{
    AddressSettings, Durability, InnerPublication, Millis, ObservedTicket, ObserverAnswer, Reason, ReportCheck,
    Settings, TenantId,
};
use tidegate_mqtt::{PacketType, QoS, ReasonCode};

use crate::harness::*;

/// Everybody may publish to everybody, and there is a bus.
fn on_bus(settings: &mut Settings) {
    settings.addresses = Some(AddressSettings { guarded: false, records: true, ..AddressSettings::default() });
}

fn publication(topic: &str, payload: &str, properties: &[u8]) -> InnerPublication {
    InnerPublication {
        tenant: TenantId::DEFAULT,
        topic: topic.into(),
        qos: QoS::AtLeastOnce,
        retain: false,
        properties: properties.to_vec(),
        payload: payload.into(),
        expires_at: Millis::NEVER,
    }
}

/// Gives a message to the shard of its topic, as the shell does.
fn publish(world: &World, message: &InnerPublication, number: u64) {
    world.publish_as_broker(world.home_of(&message.topic), message, number);
}

/// Reports the outcome of a record, as the shell does.
fn confirm(world: &World, shard: u16, ticket: ObservedTicket, answer: ObserverAnswer) {
    world.engine(shard, |engine, now| engine.insiders().confirm_observed(now, ticket, answer));
    world.run();
}

#[test]
fn application_messages_are_acknowledged_when_on_the_bus() {
    everywhere_with(on_bus, |world| {
        for (number, qos) in [(1, QoS::AtLeastOnce), (2, QoS::ExactlyOnce)] {
            let reader = world.connect(v5("reader"));
            reader.subscribe("ctx/to/app/#", QoS::ExactlyOnce);
            let node = world.connect(v5("node"));
            let sent = message("ctx/to/app/dispatch/job", "go").qos(qos).user("a", "b");
            let id = node.send_publish(sent).expect("a packet id");
            let records = world.take_records();
            let [(shard, record)] = &records[..] else { panic!("{number}: one record: {records:?}") };
            assert_eq!((record.client_id.as_str(), record.topic.as_str()), ("node", "ctx/to/app/dispatch/job"));
            assert_eq!((record.qos, &record.payload[..]), (qos, &b"go"[..]));
            assert!(!record.properties.is_empty());
            reader.expect_publish("ctx/to/app/dispatch/job", "go");
            assert_eq!(node.answers(), [], "the bus has not said anything");
            let ticket = record.ticket;
            confirm(world, *shard, ticket, ObserverAnswer::Taken);
            let kind = if qos == QoS::AtLeastOnce { PacketType::PubAck } else { PacketType::PubRec };
            assert_eq!(node.expect_answer(kind, id), ReasonCode::Success, "no subscriber is needed");
            node.disconnect();
            reader.disconnect();
        }
    });
}

#[test]
fn a_refusal_of_the_bus_is_answered_or_ends_the_connection() {
    everywhere_with(on_bus, |world| {
        for version in [v5("node"), v311("node")] {
            let node = world.connect(version);
            let id = node.send_publish(message("ctx/to/app/a", "go").qos1()).expect("a packet id");
            let (shard, record) = world.take_records().remove(0);
            let ticket = record.ticket;
            confirm(world, shard, ticket, ObserverAnswer::Later);
            if node.is_v5() {
                assert_eq!(node.expect_answer(PacketType::PubAck, id), ReasonCode::QuotaExceeded);
                node.disconnect();
            } else {
                assert_eq!(node.expect_closed(), Reason::BusRefused);
            }
            // No publisher waits any more.
            confirm(world, shard, ticket, ObserverAnswer::Taken);
        }
        assert_eq!(world.dropped(Reason::BusRefused), 2);
    });
}

#[test]
fn an_unfinished_qos_2_message_is_repeated_to_the_bus_alone() {
    everywhere_with(on_bus, |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("ctx/to/app/#", QoS::ExactlyOnce);
        let node = world.connect(v5("node").lasting());
        let sent = message("ctx/to/app/a", "go").qos(QoS::ExactlyOnce);
        let id = node.send_publish(sent.clone()).expect("a packet id");
        assert_eq!(world.take_records().len(), 1);
        reader.expect_publish("ctx/to/app/a", "go");
        node.lose();
        let again = world.connect(v5("node").lasting());
        assert_eq!(again.send_publish(sent.dup().id(id.get())), Some(id), "the same packet id");
        let (shard, record) = world.take_records().remove(0);
        assert_eq!(again.answers(), []);
        confirm(world, shard, record.ticket, ObserverAnswer::Taken);
        assert_eq!(again.expect_answer(PacketType::PubRec, id), ReasonCode::Success);
        reader.expect_nothing();
    });
}

#[test]
fn only_application_topics_and_wills_go_to_the_bus() {
    everywhere_with(on_bus, |world| {
        let will = message("ctx/to/app/monitor/gone", "gone");
        let node = world.connect(v5("node").will(will));
        for topic in ["ctx/to/app", "ctx/to/application/x", "ctx/to/node/n", "other"] {
            node.publish(message(topic, "x").qos1());
        }
        node.publish_later(message("ctx/to/app/a", "x"));
        node.lose();
        let said: Vec<_> =
            world.take_records().into_iter().map(|(_, record)| (record.topic, record.is_awaited)).collect();
        assert_eq!(said, [("ctx/to/app/a".to_owned(), false), ("ctx/to/app/monitor/gone".to_owned(), false)]);
    });
    everywhere(|world| {
        let node = world.connect(v5("node"));
        node.publish(message("ctx/to/app/a", "x").qos1());
        assert_eq!(world.take_records(), [], "no observer has asked for it");
    });
}

#[test]
fn a_bus_message_is_taken_when_every_shard_has_it() {
    everywhere_with(on_bus, |world| {
        let nodes: Vec<Client> =
            (0..world.shards()).map(|shard| world.connect(v5(&world.name_on(shard, "n")))).collect();
        publish(world, &publication("ctx/to/all/news", "x", &[]), 7);
        assert_eq!(world.take_published(), [(7, Ok(ReasonCode::Success))]);
        for node in &nodes {
            node.expect_publish("ctx/to/all/news", "x");
        }
        let wrong = ["", "a/#", "$SYS/broker/uptime"];
        for topic in wrong {
            publish(world, &publication(topic, "x", &[]), 8);
        }
        let reasons = [Reason::InvalidTopicName, Reason::InvalidTopicName, Reason::NotAuthorized];
        assert_eq!(world.take_published(), reasons.map(|reason| (8, Err(reason))));
    });
}

#[test]
fn a_bus_message_is_taken_when_it_is_committed() {
    for shards in [1, 3] {
        let world = World::with(shards, |settings| {
            settings.durability = Durability::Commit;
            on_bus(settings);
        });
        world.connect(v311("n").lasting()).lose();
        world.hold_commits();
        publish(&world, &publication("ctx/to/node/n", "x", &[]), 1);
        assert_eq!(world.take_published(), [], "{shards} shards: it could be lost still");
        world.release_commits();
        assert_eq!(world.take_published(), [(1, Ok(ReasonCode::Success))], "{shards} shards");
        world.crash(Crash::now(shards));
        let node = world.connect(v311("n").lasting());
        assert_eq!(node.messages_among_others().len(), 1);
    }
}

#[test]
fn receipts_reach_an_application_on_the_bus() {
    everywhere_with(on_bus, |world| {
        let node = world.connect(v5("n"));
        let mut properties = Vec::new();
        let to = "ctx/to/app/dispatch/receipts";
        properties.push(0x08);
        properties.extend_from_slice(&(to.len() as u16).to_be_bytes());
        properties.extend_from_slice(to.as_bytes());
        // Properties that only the broker sets are not taken from a record either.
        let pair = |name: &str, value: &str| {
            let texts = [name, value].map(|text| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat());
            [vec![0x26], texts.concat()].concat()
        };
        properties.extend(pair("receipt", "delivered"));
        node.subscribe("victim", QoS::AtLeastOnce);
        publish(world, &publication("ctx/to/node/n/y", "y", &pair("receipt-to", "victim")), 2);
        world.run();
        node.expect_publish("ctx/to/node/n/y", "y");
        assert_eq!(node.messages().len(), 0);
        publish(world, &publication("ctx/to/node/n/x", "x", &properties), 1);
        world.run();
        node.expect_publish("ctx/to/node/n/x", "x");
        let (_, record) = world.take_records().remove(0);
        assert_eq!((record.topic.as_str(), record.client_id.as_str(), record.is_awaited), (to, "", false));
        let text = String::from_utf8(record.payload).unwrap();
        assert_eq!(text, r#"{"receipt":"delivered","node":"n","topic":"ctx/to/node/n/x"}"#);
    });
}

#[test]
fn bus_messages_unconfirmed_by_a_dead_node_are_given_back() {
    let world = World::cluster(2, 1, on_bus);
    let (here, there) = (world.name_on(0, "a"), world.name_on(1, "b"));
    let nodes = [world.connect(v5(&here)), world.connect(v5(&there))];
    world.hold(0, 1);
    let message = publication("ctx/to/all", "x", &[]);
    world.publish_as_broker(0, &message, 5);
    assert_eq!(world.take_published(), []);
    world.end_node(1);
    assert_eq!(world.take_published(), [(5, Err(Reason::NodeLost))]);
    drop(nodes);
}

#[test]
fn bus_messages_for_a_dead_node_are_given_back_until_replaced() {
    let world = World::cluster(2, 1, on_bus);
    let name = world.name_on(1, "truck");
    let truck = world.connect(v5(&name).clean(false).expiry(u32::MAX));
    world.await_node(1);
    let message = publication(&format!("ctx/to/node/{name}/x"), "go", &[]);
    world.publish_as_broker(0, &message, 5);
    assert_eq!(world.take_published(), [(5, Err(Reason::NodeLost))]);
    let publisher = world.connect(v5(&world.name_on(0, "publisher")));
    publisher.send_publish(crate::harness::message(&message.topic, "go").qos1());
    publisher.expect_disconnect(ReasonCode::ServerBusy);
    assert_eq!(publisher.expect_closed(), Reason::NodeLost, "a client has to send it again, too");
    world.replace_node(1);
    world.publish_as_broker(0, &message, 6);
    assert_eq!(world.take_published(), [(6, Ok(ReasonCode::NoMatchingSubscribers))], "it had no store");
    drop(truck);
}

#[test]
fn reports_of_nodes_are_observed_where_they_enter() {
    let change = |settings: &mut Settings| {
        on_bus(settings);
        let addresses = settings.addresses.as_mut().unwrap();
        addresses.reports = vec!["ctx/context/+".into(), "vehicle/+/position".into()];
    };
    everywhere_with(change, |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("vehicle/#", QoS::AtLeastOnce);
        let node = world.connect(v5("truck"));
        let first = node.send_publish(message("ctx/context/truck", "{}").qos1()).expect("a packet id");
        let position = message("vehicle/7/position", "[]").qos(QoS::ExactlyOnce).user("context", "{}");
        let second = node.send_publish(position).expect("a packet id");
        let reports = world.take_reports();
        let told: Vec<(&str, &str)> = reports.iter().map(|(_, it)| (&*it.client_id, &*it.topic)).collect();
        assert_eq!(told, [("truck", "ctx/context/truck"), ("truck", "vehicle/7/position")], "each once, by one shard");
        assert!(reports[0].1.properties.is_empty() && !reports[1].1.properties.is_empty());
        assert!(world.take_records().is_empty());
        assert_eq!(node.answers(), [], "the bus has not said anything");
        reader.expect_publish("vehicle/7/position", "[]");
        for (shard, report) in reports {
            confirm(world, shard, report.ticket, ObserverAnswer::Taken);
        }
        assert_eq!(node.expect_answer(PacketType::PubAck, first), ReasonCode::Success);
        assert_eq!(node.expect_answer(PacketType::PubRec, second), ReasonCode::Success);
        node.disconnect();
        reader.disconnect();
    });
}

#[test]
fn a_context_that_the_bus_does_not_keep_is_not_acknowledged() {
    let change = |settings: &mut Settings| {
        on_bus(settings);
        settings.addresses.as_mut().unwrap().reports = vec!["ctx/context/+".into()];
    };
    everywhere_with(change, |world| {
        let node = world.connect(v5("truck"));
        let id = node.send_publish(message("ctx/context/truck", "{}").qos1()).expect("a packet id");
        let (shard, report) = world.take_reports().remove(0);
        confirm(world, shard, report.ticket, ObserverAnswer::Later);
        assert_eq!(node.expect_answer(PacketType::PubAck, id), ReasonCode::QuotaExceeded);
        assert_eq!(world.dropped(Reason::BusRefused), 1);
        node.disconnect();
        let node = world.connect(v311("truck"));
        node.send_publish(message("ctx/context/truck", "{}").qos1());
        let (shard, report) = world.take_reports().remove(0);
        confirm(world, shard, report.ticket, ObserverAnswer::Later);
        node.expect_closed();
    });
}

#[test]
fn an_unusable_report_is_refused_if_the_client_can_know() {
    let change = |settings: &mut Settings| {
        on_bus(settings);
        let addresses = settings.addresses.as_mut().unwrap();
        addresses.reports = vec!["ctx/context/+".into()];
        addresses.unusable_report =
            Some(ReportCheck(|prefix, topic, payload| topic.starts_with(prefix) && !payload.starts_with(b"{")));
    };
    everywhere_with(change, |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("ctx/context/#", QoS::AtLeastOnce);
        let (node, old) = (world.connect(v5("truck")), world.connect(v311("old")));
        let refused = ReasonCode::ImplementationSpecificError;
        assert_eq!(node.publish(message("ctx/context/truck", "1").qos1()), refused);
        assert_eq!(node.publish(message("ctx/context/truck", "2").qos(QoS::ExactlyOnce)), refused);
        assert_eq!(world.dropped(Reason::NotUnderstood), 2);
        // A publisher without a negative acknowledgement is not punished, and subscribers get the message.
        node.publish(message("ctx/context/truck", "3"));
        old.send_publish(message("ctx/context/old", "4").qos1());
        world.run();
        node.send_publish(message("ctx/context/truck", "{}").qos(QoS::ExactlyOnce));
        reader.expect_publish("ctx/context/truck", "3");
        reader.expect_publish("ctx/context/old", "4");
        reader.expect_publish("ctx/context/truck", "{}");
        let told: Vec<_> =
            world.take_reports().iter().map(|(_, it)| String::from_utf8_lossy(&it.payload).into_owned()).collect();
        assert_eq!(told, ["1", "2", "3", "4", "{}"], "the shell counts all of them");
        assert_eq!(world.dropped(Reason::NotUnderstood), 2);
    });
}
