//! A store that has no room.

use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketId, PacketType, ReasonCode, SubscriptionOptions};

use super::*;

fn fill(world: &World, full: bool) {
    for shard in 0..world.shards() {
        world.engine(shard, |engine, _| engine.set_store_full(full));
    }
}

#[test]
fn a_publisher_is_told_or_keeps_its_message() {
    for shards in [1, 3] {
        let world = stored(shards);
        let v5_publisher = world.connect(v5("five"));
        let v3_publisher = world.connect(v311("three"));
        fill(&world, true);
        assert_eq!(v5_publisher.publish(message("t", "x").qos1()), ReasonCode::QuotaExceeded);
        assert_eq!(v5_publisher.publish(message("t", "x").qos2()), ReasonCode::QuotaExceeded);
        assert_eq!(v5_publisher.publish(message("t", "x")), ReasonCode::Success);
        v5_publisher.ping();
        v3_publisher.publish_later(message("t", "x").qos1());
        v3_publisher.expect_closed();
        assert_eq!(world.dropped(tidegate_engine::Reason::StoreFull), 3);
        fill(&world, false);
        assert_eq!(v5_publisher.publish(message("t", "x").qos2()), ReasonCode::NoMatchingSubscribers);
    }
}

#[test]
fn what_was_taken_before_is_finished_and_delivered() {
    let world = stored(1);
    let client = world.connect(v5("a").lasting().manual());
    client.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5("p").lasting().manual());
    publisher.publish_later(message("t", "1").qos2().id(1));
    publisher.publish_later(message("t", "2").qos1().id(2));
    publisher.expect(PacketType::PubRec);
    publisher.expect(PacketType::PubAck);
    fill(&world, true);
    // A repetition of what was taken is answered as it was.
    publisher.publish_later(message("t", "1").qos2().id(1).dup());
    let again = publisher.expect(PacketType::PubRec);
    assert!(matches!(again.packet(), tidegate_mqtt::Packet::PubRec(ack) if !ack.reason_code.is_error()));
    publisher.pubrel(PacketId::new(1).unwrap());
    publisher.expect(PacketType::PubComp);
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
    assert_eq!(world.gauges().sessions_disconnected, 0, "what gives room back goes on");
}

#[test]
fn no_session_that_lasts_begins_and_those_that_are_there_come_back() {
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
