//! Each refusal has its reason, in every packet with a place for it.

use std::sync::Arc;

use tidegate_engine::{Access, HubFilter, LogEvent, PayloadCheck, Reason, Subject, TenantId};
use tidegate_mqtt::QoS::{self, AtLeastOnce};
use tidegate_mqtt::{Packet, PacketType, ReasonCode, SubscriptionOptions};

use crate::harness::*;

/// Denies every action on topics with this word, and every delivery on topics with the other one.
#[derive(Debug)]
struct Denies;

const FORBIDDEN: &str = "forbidden";
const WITHHELD: &str = "withheld";

impl Access for Denies {
    fn may_publish(&self, _: Subject<'_>, topic: &str, _: QoS, _: bool) -> bool {
        !topic.contains(FORBIDDEN)
    }

    fn may_subscribe(&self, _: Subject<'_>, filter: &str, _: QoS, _: bool) -> bool {
        !filter.contains(FORBIDDEN)
    }

    fn may_receive(&self, subject: Subject<'_>, topic: &str) -> bool {
        subject.client_id == "admin" || !topic.contains(WITHHELD)
    }

    fn decides_on_delivery(&self) -> bool {
        true
    }
}

fn deny(world: &World) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(Denies))));
    }
    world.run();
}

/// The reason string of the next answer of a kind.
fn text_of(client: &Client, kind: PacketType) -> Option<String> {
    let arrival = client.expect(kind);
    let text = match arrival.packet() {
        Packet::PubAck(ack) => ack.reason_string,
        Packet::PubRec(ack) => ack.reason_string,
        Packet::SubAck(ack) => ack.reason_string,
        Packet::UnsubAck(ack) => ack.reason_string,
        other => panic!("no answer: {other:?}"),
    };
    text.map(str::to_owned)
}

fn ask_for(client: &Client, filters: &[&str]) {
    let filters: Vec<_> = filters.iter().map(|filter| (*filter, SubscriptionOptions::new(AtLeastOnce))).collect();
    client.send_subscribe(&filters, None);
}

#[test]
fn answers_to_mqtt_5_clients_say_why() {
    everywhere(|world| {
        deny(world);
        let client = world.connect(v5("a").manual());
        let text = Some(Reason::NotAuthorized.text().to_owned());
        client.send_publish(message("forbidden/1", "x").qos1());
        assert_eq!(text_of(&client, PacketType::PubAck), text);
        client.send_publish(message("forbidden/1", "x").qos2());
        assert_eq!(text_of(&client, PacketType::PubRec), text);
        ask_for(&client, &["forbidden/1"]);
        assert_eq!(text_of(&client, PacketType::SubAck), text);
        ask_for(&client, &["fine", "forbidden/1", "also/fine"]);
        let named = text_of(&client, PacketType::SubAck);
        assert_eq!(named, Some(format!("forbidden/1: {}", Reason::NotAuthorized.text())));
        ask_for(&client, &["fine"]);
        assert_eq!(text_of(&client, PacketType::SubAck), None);
        client.send_publish(message("unwanted", "x").qos1());
        assert_eq!(text_of(&client, PacketType::PubAck), None, "no matching subscriber is no refusal");
    });
}

#[test]
fn a_refusal_by_the_home_of_a_retained_value_says_why_as_well() {
    for shards in [1, 3] {
        let world = World::with(shards, |settings| settings.retained.max_messages = 1);
        let client = world.connect(v5("a").manual());
        let mut texts = Vec::new();
        for topic in ["a", "b", "c", "d", "e", "f"] {
            client.send_publish(message(topic, "x").qos1().retain());
            texts.push(text_of(&client, PacketType::PubAck));
        }
        let refused = Some(Reason::RetainedCountLimit.text().to_owned());
        assert!(texts.contains(&refused), "{texts:?}");
    }
}

#[test]
fn who_wants_no_reasons_or_has_no_room_for_them_gets_the_code() {
    everywhere(|world| {
        deny(world);
        for connecting in [v5("a").request_problem(false).manual(), v5("b").max_packet(30).manual()] {
            let client = world.connect(connecting);
            client.send_publish(message("forbidden/1", "x").qos1());
            assert_eq!(text_of(&client, PacketType::PubAck), None);
            ask_for(&client, &["forbidden/1"]);
            assert_eq!(text_of(&client, PacketType::SubAck), None);
        }
    });
}

/// Accepts payloads without a reason to refuse them, which they are themselves.
#[derive(Debug)]
struct Empty;

impl PayloadCheck for Empty {
    fn refusal(&self, payload: &[u8]) -> Option<String> {
        (!payload.is_empty()).then(|| String::from_utf8_lossy(payload).into_owned())
    }
}

#[test]
fn a_refused_payload_has_the_reason_of_its_check() {
    let checked = HubFilter { check: Some(Arc::new(Empty)), ..HubFilter::unchecked(TenantId::DEFAULT, "plant/#") };
    let world = World::with(3, move |settings| settings.hub_filters = vec![checked.clone()]);
    let client = world.connect(v5("a").manual());
    let said = |why: &str| Some(format!("{}: {why}", Reason::PayloadRefused.text()));
    client.send_publish(message("plant/1", "first").qos1());
    client.send_publish(message("plant/1", "second").qos2());
    client.send_publish(message("plant/1", "third").qos1());
    assert_eq!(text_of(&client, PacketType::PubAck), said("first"));
    assert_eq!(text_of(&client, PacketType::PubRec), said("second"));
    assert_eq!(text_of(&client, PacketType::PubAck), said("third"));
    for connecting in [v5("b").request_problem(false).manual(), v5("c").max_packet(30).manual()] {
        let client = world.connect(connecting);
        client.send_publish(message("plant/1", "why").qos1());
        assert_eq!(text_of(&client, PacketType::PubAck), None);
    }
}

#[test]
fn a_filter_with_too_many_levels_has_a_reason_of_its_own() {
    let world = World::with(1, |settings| settings.limits.max_topic_levels = 3);
    let client = world.connect(v5("a").manual());
    ask_for(&client, &["a/b/c/d"]);
    assert_eq!(text_of(&client, PacketType::SubAck).as_deref(), Some(Reason::FilterTooDeep.text()));
    let refused = world.counters().requests_refused;
    assert_eq!((refused[Reason::FilterTooDeep.number()], refused[Reason::InvalidTopicFilter.number()]), (1, 0));
}

#[test]
fn forbidden_deliveries_are_counted_per_message_and_logged() {
    everywhere(|world| {
        deny(world);
        let (admin, client) = (world.connect(v5("admin")), world.connect(v5("a")));
        for one in [&admin, &client] {
            one.subscribe("#", AtLeastOnce);
        }
        let publisher = world.connect(v5("p"));
        world.take_log();
        for n in 1..=3 {
            assert_eq!(publisher.publish(message("withheld/1", n.to_string()).qos1()), ReasonCode::Success);
        }
        assert_eq!(admin.payloads(), ["1", "2", "3"]);
        client.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 3);
        let told = world.take_log().into_iter().any(|event| {
            matches!(&event, LogEvent::Dropped { client_id, topic, reason: Reason::NotAuthorized, .. }
                if client_id == "a" && topic == "withheld/1")
        });
        assert!(told);
        publisher.publish(message("withheld/kept", "x").qos1().retain());
        admin.payloads();
        let late = world.connect(v5("late"));
        late.subscribe("withheld/kept", AtLeastOnce);
        late.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 5, "one live, one retained");
    });
}

#[test]
fn a_right_that_ends_is_not_told_as_a_wish() {
    let world = World::new(1);
    world.connect(v5("a")).subscribe("forbidden/#", AtLeastOnce);
    world.take_log();
    deny(&world);
    let told = world.take_log().into_iter().find_map(|event| match event {
        LogEvent::Denied { attempt, .. } => Some(attempt.text()),
        _ => None,
    });
    assert_eq!(told, Some("to stay subscribed"));
}

#[test]
fn nothing_follows_a_disconnect_to_one_who_watches_itself() {
    // Every client of this world is a referee: it panics when a packet comes behind a DISCONNECT.
    everywhere_with(
        |settings| settings.sys_events = true,
        |world| {
            for lasting in [false, true] {
                let watcher = |name: &str| {
                    let connecting = if lasting { v5(name).lasting() } else { v5(name) };
                    let client = world.connect(connecting);
                    client.send_subscribe(&[("$SYS/brokers/#", SubscriptionOptions::new(AtLeastOnce))], None);
                    world.run();
                    client.messages_among_others();
                    client
                };
                let taken_over = watcher("twin");
                let twin = watcher("twin");
                taken_over.expect_disconnect(ReasonCode::SessionTakenOver);
                twin.disconnect();
                let wrong = watcher("wrong");
                wrong.send_bytes(&[0x00, 0x00]);
                wrong.expect_disconnect(ReasonCode::MalformedPacket);
            }
        },
    );
}
