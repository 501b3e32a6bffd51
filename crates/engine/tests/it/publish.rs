//! PUBLISH from a client: the three qualities of service and their acknowledgements.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{Packet, PacketType, PubRec, ReasonCode};

use crate::harness::*;

mod checks;
mod gathered;
mod passed_on;
mod receive_maximum;
mod stages;
mod topic_aliases;

const LEVELS: [QoS; 3] = [AtMostOnce, AtLeastOnce, ExactlyOnce];

#[test]
fn a_message_is_delivered_at_the_lower_of_both_qos() {
    everywhere(|world| {
        let publisher = world.connect(v5("publisher"));
        for granted in LEVELS {
            let name = format!("subscriber {}", granted.bits());
            let subscriber = world.connect(v311(&name));
            subscriber.subscribe("x/+", granted);
            for published in LEVELS {
                publisher.publish(message("x/1", name.as_str()).qos(published));
                assert_eq!(subscriber.expect_publish("x/1", &name).qos, granted.min(published));
            }
            subscriber.expect_nothing();
            subscriber.disconnect();
        }
    });
}

#[test]
fn a_publisher_learns_whether_anyone_listens() {
    everywhere(|world| {
        let publisher = world.connect(v5("publisher"));
        for qos in [AtLeastOnce, ExactlyOnce] {
            assert_eq!(publisher.publish(message("lonely", "x").qos(qos)), ReasonCode::NoMatchingSubscribers);
        }
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("#", AtMostOnce);
        for qos in [AtLeastOnce, ExactlyOnce] {
            assert_eq!(publisher.publish(message("lonely", "x").qos(qos)), ReasonCode::Success);
        }
    });
}

#[test]
fn qos_2_is_an_exchange_of_four() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber").manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("publisher").manual());
        publisher.open_exchange(message("t", "x").qos2().id(77));
        publisher.end_exchange(id(77));
        let got = subscriber.expect_publish("t", "x");
        assert_eq!((got.qos, got.dup), (ExactlyOnce, false));
        subscriber.pubrec(got.id.unwrap());
        subscriber.expect(PacketType::PubRel);
        assert_eq!(world.gauges().inflight_messages, 1);
        subscriber.pubcomp(got.id.unwrap());
        subscriber.expect_nothing();
        assert_eq!(world.gauges().inflight_messages, 0);
    });
}

#[test]
fn a_qos_2_replay_before_pubrel_is_not_delivered_twice() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("publisher").manual());
        publisher.open_exchange(message("t", "once").qos2().id(5));
        publisher.open_exchange(message("t", "once").qos2().id(5).dup());
        publisher.open_exchange(message("t", "once").qos2().id(5));
        publisher.end_exchange(id(5));
        assert_eq!(subscriber.payloads(), ["once"]);
        publisher.open_exchange(message("t", "next").qos2().id(5));
        assert_eq!(subscriber.payloads(), ["next"], "after PUBREL the packet id belongs to a new message");
    });
}

#[test]
fn a_replay_with_a_pending_pubrec_is_answered_once() {
    let world = World::new(2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    let subscriber = world.connect(v5(&there));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5(&here).manual());
    world.hold(1, 0);
    publisher.send_publish(message("t", "once").qos2().id(5));
    publisher.send_publish(message("t", "once").qos2().id(5).dup());
    publisher.expect_nothing();
    world.release(1, 0);
    publisher.expect(PacketType::PubRec);
    publisher.expect_nothing();
    assert_eq!(subscriber.payloads(), ["once"]);
}

#[test]
fn dup_is_not_passed_on() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("t", "x").qos1().dup());
        assert!(!subscriber.expect_publish("t", "x").dup);
    });
}

#[test]
fn a_release_of_nothing_is_answered() {
    everywhere(|world| {
        for connecting in [v5("a").manual(), v311("b").manual()] {
            let client = world.connect(connecting);
            client.pubrel(id(9));
            let arrival = client.expect(PacketType::PubComp);
            let Packet::PubComp(done) = arrival.packet() else { unreachable!() };
            let v5 = client.id() == "a";
            let expected = if v5 { ReasonCode::PacketIdentifierNotFound } else { ReasonCode::Success };
            assert_eq!((done.packet_id, done.reason_code), (id(9), expected));
        }
    });
}

#[test]
fn acknowledgements_of_nothing_change_nothing() {
    everywhere(|world| {
        let client = world.connect(v5("a").manual());
        client.puback(id(1));
        client.pubcomp(id(2));
        client.expect_nothing();
        client.pubrec(id(3));
        let arrival = client.expect(PacketType::PubRel);
        let Packet::PubRel(release) = arrival.packet() else { unreachable!() };
        assert_eq!(release.reason_code, ReasonCode::PacketIdentifierNotFound);
        client.expect_open();
    });
}

#[test]
fn an_acknowledgement_of_the_wrong_kind_finishes_nothing() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber").lasting().manual());
        subscriber.subscribe("t", ExactlyOnce);
        world.connect(v5("publisher")).publish(message("t", "x").qos2());
        let got = subscriber.expect_publish("t", "x").id.unwrap();
        subscriber.puback(got);
        subscriber.expect_disconnect(ReasonCode::ProtocolError);
        let subscriber = world.connect(v5("subscriber").lasting().manual());
        assert!(subscriber.expect_publish("t", "x").dup);
        assert_eq!(world.gauges().inflight_messages, 1);
    });
}

#[test]
fn a_receiver_may_refuse_a_message() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber").manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("t", "x").qos2());
        let got = subscriber.expect_publish("t", "x").id.unwrap();
        subscriber.send(&Packet::PubRec(PubRec::new(got, ReasonCode::QuotaExceeded)));
        subscriber.expect_nothing();
        assert_eq!(world.gauges().inflight_messages, 0);
        assert_eq!(world.dropped(Reason::RefusedByReceiver), 1);
    });
}

// ---- acknowledgements that wait -------------------------------------------------------------------------------------

#[test]
fn pubacks_keep_their_order_while_another_shard_is_late() {
    let world = World::new(2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    let far = world.connect(v5(&there));
    far.subscribe("far", AtLeastOnce);
    let near = world.connect(v5(&world.name_on(0, "n")));
    near.subscribe("near", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(1, 0);
    publisher.send_publish(message("far", "1").qos1().id(11));
    publisher.send_publish(message("near", "2").qos1().id(12));
    publisher.send_publish(message("near", "3").qos2().id(13));
    publisher.ping();
    assert!(publisher.answers().is_empty(), "the first is not confirmed yet");
    assert_eq!(near.payloads(), ["2", "3"], "delivery does not wait");
    world.release(1, 0);
    let kinds: Vec<_> = publisher.answers().into_iter().map(|(kind, id, _)| (kind, id)).collect();
    let (ack, rec, comp) = (PacketType::PubAck, PacketType::PubRec, PacketType::PubComp);
    assert_eq!(kinds, [(ack, 11), (ack, 12), (rec, 13), (comp, 13)]);
}

#[test]
fn a_confirmation_for_a_gone_connection_is_ignored() {
    let world = World::new(2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    world.connect(v5(&there)).subscribe("far", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(1, 0);
    publisher.send_publish(message("far", "1").qos1().id(1));
    publisher.lose();
    let next = world.connect(v5(&here));
    world.release(1, 0);
    assert!(next.answers().is_empty());
    assert_eq!(next.publish(message("far", "2").qos1()), ReasonCode::Success);
}

#[test]
fn received_and_sent_messages_are_counted() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        for qos in LEVELS {
            publisher.publish(message("t", "12345").qos(qos));
        }
        subscriber.messages();
        let counters = world.counters();
        assert_eq!(counters.messages_in, [1, 1, 1]);
        assert_eq!(counters.messages_out, [1, 2, 0]);
        assert_eq!((counters.payload_bytes_in, counters.payload_bytes_out), (15, 15));
        assert_eq!(counters.dropped_total(), 0);
        assert_eq!(counters.packets_in[PacketType::PubAck as usize], 2);
        assert_eq!(counters.packets_out[PacketType::Publish as usize], 3);
    });
}
