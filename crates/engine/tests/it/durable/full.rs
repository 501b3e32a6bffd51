//! A store that has no room.

use tidegate_engine::{Attempt, LogEvent, Reason};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode, SubscriptionOptions};

use super::*;

fn fill(world: &World, full: bool) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.store().set_store_full(full));
    }
}

#[test]
fn a_publisher_gets_an_error_or_keeps_its_message() {
    for shards in [1, 3] {
        let world = stored(shards);
        let owed = world.connect(v5("owed").lasting());
        owed.subscribe("t", ExactlyOnce);
        let v5_publisher = world.connect(v5("five"));
        let v3_publisher = world.connect(v311("three"));
        fill(&world, true);
        assert_eq!(v5_publisher.publish(message("t", "x").qos1()), ReasonCode::QuotaExceeded);
        assert_eq!(v5_publisher.publish(message("t", "x").qos2()), ReasonCode::QuotaExceeded);
        assert_eq!(v5_publisher.publish(message("t", "y")), ReasonCode::Success);
        assert_eq!(owed.payloads(), ["y"]);
        world.take_log();
        v3_publisher.publish_later(message("t", "x").qos1());
        v3_publisher.expect_closed();
        let log = world.take_log();
        assert!(!log.iter().any(|event| matches!(event, LogEvent::BadPacket { .. })), "{log:?}");
        assert_eq!(world.dropped(Reason::StoreFull), 3);
        fill(&world, false);
        assert_eq!(v5_publisher.publish(message("t", "z").qos2()), ReasonCode::Success);
        assert_eq!(owed.payloads(), ["z"]);
    }
}

#[test]
fn messages_that_need_no_store_are_delivered() {
    for shards in [1, 3] {
        let world = stored(shards);
        let publishers = [world.connect(v5("five")), world.connect(v311("three"))];
        let clean: Vec<Client> = (0..4)
            .map(|n| {
                let client = world.connect(v5(&format!("clean-{n}")));
                client.subscribe("t", ExactlyOnce);
                client
            })
            .collect();
        let brief = world.connect(v5("lasts").lasting());
        brief.subscribe("t", tidegate_mqtt::QoS::AtMostOnce);
        fill(&world, true);
        for publisher in &publishers {
            assert!(!publisher.publish(message("unwanted", "x").qos1()).is_error());
            for sent in [message("t", "1").qos1(), message("t", "2").qos2()] {
                assert_eq!(publisher.publish(sent), ReasonCode::Success);
            }
            for client in clean.iter().chain([&brief]) {
                assert_eq!(client.payloads(), ["1", "2"]);
            }
        }
        assert_eq!(world.dropped(Reason::StoreFull), 0);
    }
}

#[test]
fn a_retained_value_can_be_cleared_and_none_be_set() {
    for shards in [1, 3] {
        let world = stored(shards);
        let publisher = world.connect(v5("p"));
        for topic in ["a", "b", "c"] {
            publisher.publish(message(topic, "old").qos1().retain());
        }
        fill(&world, true);
        let live = world.connect(v5("live"));
        live.subscribe("b", AtLeastOnce);
        live.payloads();
        assert!(!publisher.publish(message("a", "").qos1().retain()).is_error());
        publisher.publish(message("b", "new").retain());
        assert_eq!(publisher.publish(message("c", "new").qos1().retain()), ReasonCode::QuotaExceeded);
        publisher.ping();
        assert_eq!(live.payloads(), ["new"], "who is there gets it");
        assert_eq!(world.dropped(Reason::StoreFull), 2, "the message that was not kept is counted");
        let told = |attempt| move |event: &LogEvent| matches!(event, LogEvent::Denied { attempt: found, .. } if *found == attempt);
        let log = world.take_log();
        assert_eq!(log.iter().filter(|event| told(Attempt::Retain)(event)).count(), 1, "{log:?}");
        assert_eq!(log.iter().filter(|event| told(Attempt::Publish)(event)).count(), 1, "{log:?}");
        let late = world.connect(v5("late"));
        late.subscribe("#", AtLeastOnce);
        assert_eq!(late.payloads(), ["old", "old"]);
    }
}

/// Limits are shares of shards: a process of one shard has a third of the limit of three.
#[test]
fn retained_values_survive_a_start_with_a_lower_limit() {
    let world = stored_with(3, |settings| settings.retained.max_messages = 4);
    let publisher = world.connect(v5("p"));
    let tried: Vec<String> = (0..40).map(|number| format!("t/{number:02}")).collect();
    let is_kept = |topic: &&String| !publisher.publish(message(topic, "x").qos1().retain()).is_error();
    let kept: Vec<&String> = tried.iter().filter(is_kept).collect();
    assert_eq!(kept.len(), 12);
    let refused = world.dropped(Reason::RetainedCountLimit);
    for _ in 0..2 {
        world.crash(Crash::now(1));
        assert_eq!(world.gauges().retained_messages, 12);
    }
    assert_eq!((refused, world.dropped(Reason::RetainedCountLimit)), (28, 28), "a start drops none");
    let publisher = world.connect(v5("p"));
    assert_eq!(publisher.publish(message("new", "x").qos1().retain()), ReasonCode::QuotaExceeded);
    assert!(!publisher.publish(message(kept[0], "newer").qos1().retain()).is_error());
}

#[test]
fn a_qos_2_message_of_a_publisher_that_lasts_is_refused() {
    let world = stored(1);
    let publisher = world.connect(v5("p").lasting());
    fill(&world, true);
    assert_eq!(
        publisher.publish(message("t", "x").qos2()),
        ReasonCode::QuotaExceeded,
        "it would have to be remembered"
    );
    assert!(!publisher.publish(message("t", "x").qos1()).is_error());
}

#[test]
fn a_shared_group_counts_by_its_members() {
    let world = stored(1);
    let publisher = world.connect(v5("p"));
    let brief = world.connect(v5("brief"));
    brief.subscribe("$share/g/t", AtLeastOnce);
    fill(&world, true);
    assert_eq!(publisher.publish(message("t", "x").qos1()), ReasonCode::Success);
    fill(&world, false);
    world.connect(v5("lasts").lasting()).subscribe("$share/g/t", AtLeastOnce);
    fill(&world, true);
    assert_eq!(publisher.publish(message("t", "x").qos1()), ReasonCode::QuotaExceeded);
}

#[test]
fn messages_taken_before_are_finished_and_delivered() {
    let world = stored(1);
    let client = world.connect(v5("a").lasting().manual());
    client.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5("p").lasting().manual());
    publisher.publish_later(message("t", "1").qos2().id(1));
    publisher.publish_later(message("t", "2").qos1().id(2));
    publisher.expect(PacketType::PubRec);
    publisher.expect(PacketType::PubAck);
    fill(&world, true);
    // A repetition of a message taken before gets the same answer.
    publisher.publish_later(message("t", "1").qos2().id(1).dup());
    let again = publisher.expect(PacketType::PubRec);
    assert!(matches!(again.packet(), tidegate_mqtt::Packet::PubRec(ack) if !ack.reason_code.is_error()));
    publisher.end_exchange(id(1));
    let got = client.messages();
    assert_eq!(got.len(), 2);
    client.pubrec(got[0].id.unwrap());
    client.expect(PacketType::PubRel);
    client.pubcomp(got[0].id.unwrap());
    client.puback(got[1].id.unwrap());
    client.ping();
    assert_eq!(world.gauges().inflight_messages, 0);
    client.disconnect();
    world.connect(v5("a")).disconnect();
    publisher.lose();
    world.connect(v5("p")).disconnect();
    let left = Crash { swept: true, ..Crash::now(1) };
    world.crash(left);
    assert_eq!(world.gauges().sessions_disconnected, 0, "work that frees space continues");
}

#[test]
fn a_full_store_refuses_new_and_resumes_old_sessions() {
    let world = stored(1);
    world.connect(v5("old").lasting()).lose();
    fill(&world, true);
    world.try_connect(v5("new").lasting()).expect_refused(ReasonCode::QuotaExceeded);
    let old = world.connect(v5("old").lasting());
    assert!(old.session_present());
    let id = old.send_subscribe(&[("t", SubscriptionOptions::new(AtLeastOnce))], None);
    assert_eq!(old.expect_sub_ack(id), [ReasonCode::QuotaExceeded]);
    let brief = world.connect(v5("brief"));
    brief.subscribe("t", AtLeastOnce);
    brief.publish(message("t", "x"));
    assert_eq!(brief.payloads(), ["x"]);
}
