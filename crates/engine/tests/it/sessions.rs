//! Messages kept for an offline client, and delivered when it returns.

use tidegate_engine::{Millis, Reason};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{Packet, PacketId, PacketType, ReasonCode};

use crate::harness::*;

/// A message's payload, whether it came again, and its packet id.
fn told(messages: &[Delivered]) -> Vec<(String, bool, u16)> {
    messages.iter().map(|got| (got.text(), got.dup, got.id.map_or(0, PacketId::get))).collect()
}

fn wanted(messages: &[(&str, bool, u16)]) -> Vec<(String, bool, u16)> {
    messages.iter().map(|(text, dup, id)| ((*text).to_owned(), *dup, *id)).collect()
}

#[test]
fn a_session_waits_for_its_client() {
    everywhere(|world| {
        for (number, connecting) in [v31("x"), v311("x"), v5("x")].into_iter().enumerate() {
            let connecting = Connecting { client_id: format!("client {number}"), ..connecting.lasting() };
            let v31 = number == 0;
            let client = world.connect(connecting.clone());
            assert!(!client.session_present());
            client.subscribe("t", AtLeastOnce);
            client.disconnect();
            let publisher = world.connect(v5("publisher"));
            publisher.publish(message("t", "waiting").qos1());
            let client = world.connect(connecting);
            assert_eq!(client.session_present(), !v31, "MQTT 3.1 has no flag for it");
            client.expect_publish("t", "waiting");
            client.unsubscribe("t");
        }
    });
}

#[test]
fn a_clean_start_forgets_everything() {
    everywhere(|world| {
        world.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("t", "forgotten").qos1());
        let client = world.connect(v5("a").expiry(60));
        assert!(!client.session_present());
        client.expect_nothing();
        assert_eq!(publisher.publish(message("t", "unwanted").qos1()), ReasonCode::NoMatchingSubscribers);
        assert_eq!(world.dropped(Reason::SessionDiscarded), 1);
        assert_eq!(world.gauges().subscriptions, 0);
    });
}

#[test]
fn a_session_without_expiry_ends_with_its_connection() {
    everywhere(|world| {
        for connecting in [v5("a").clean(false), v311("a")] {
            world.absent_subscriber(connecting.clone(), "t", AtLeastOnce);
            assert!(!world.connect(connecting.clean(false)).session_present());
        }
        let gauges = world.gauges();
        assert_eq!((gauges.sessions_disconnected, gauges.subscriptions), (0, 0));
    });
}

#[test]
fn a_session_expires_on_time() {
    everywhere(|world| {
        world.absent_subscriber(v5("a").expiry(60), "t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("t", "1").qos1());
        world.advance(seconds(60) - 1);
        assert_eq!(world.gauges().sessions_disconnected, 1);
        world.advance(1);
        assert_eq!(world.gauges().sessions_disconnected, 0);
        assert_eq!(world.counters().sessions_expired, 1);
        assert_eq!(world.dropped(Reason::SessionExpired), 1);
        assert_eq!(publisher.publish(message("t", "2").qos1()), ReasonCode::NoMatchingSubscribers);
        assert!(!world.connect(v5("a").clean(false)).session_present());
    });
}

#[test]
fn a_return_stops_the_expiry() {
    everywhere(|world| {
        world.connect(v5("a").expiry(60)).lose();
        world.advance(seconds(59));
        let client = world.connect(v5("a").clean(false).expiry(60));
        assert!(client.session_present());
        world.advance(minutes(10));
        client.ping();
        client.lose();
        world.advance(seconds(59));
        assert!(world.connect(v5("a").clean(false)).session_present());
    });
}

#[test]
fn a_session_may_last_for_ever() {
    everywhere(|world| {
        world.connect(v5("a").expiry(u32::MAX)).lose();
        world.connect(v311("b").lasting()).lose();
        world.advance(minutes(60 * 24 * 365 * 200));
        assert!(world.connect(v5("a").clean(false)).session_present());
        assert!(world.connect(v311("b").lasting()).session_present());
        assert_eq!(world.next_deadline(), Millis::NEVER);
    });
}

#[test]
fn the_server_shortens_sessions_to_its_limit() {
    everywhere_with(
        |settings| settings.limits.max_session_expiry_seconds = 30,
        |world| {
            for connecting in [v5("a").expiry(u32::MAX), v311("b").lasting()] {
                world.connect(connecting).lose();
            }
            world.advance(seconds(30));
            assert_eq!(world.counters().sessions_expired, 2);
        },
    );
}

// ---- redelivery -----------------------------------------------------------------------------------------------------

#[test]
fn unacknowledged_messages_come_again_before_queued_ones() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        for (number, qos) in [AtLeastOnce, ExactlyOnce, AtLeastOnce, AtMostOnce, ExactlyOnce].into_iter().enumerate() {
            publisher.publish(message("t", number.to_string()).qos(qos));
        }
        assert_eq!(subscriber.payloads(), ["0", "1", "2", "3", "4"]);
        subscriber.puback(id(1));
        subscriber.lose();
        publisher.publish(message("t", "5").qos1());
        let subscriber = world.connect(v5("s").lasting().manual());
        let got = told(&subscriber.messages());
        assert_eq!(got, wanted(&[("1", true, 2), ("2", true, 3), ("4", true, 4), ("5", false, 5)]));
        assert_eq!(world.counters().redelivered, 3);
    });
}

/// Cases that end the connection: the QoS of the message, whether PUBREC was sent before, and the answer.
const WRONG_ANSWERS: [(QoS, bool, PacketType, ReasonCode); 9] = [
    (AtLeastOnce, false, PacketType::PubRec, ReasonCode::Success),
    (AtLeastOnce, false, PacketType::PubRec, ReasonCode::UnspecifiedError),
    (AtLeastOnce, false, PacketType::PubComp, ReasonCode::Success),
    (ExactlyOnce, false, PacketType::PubAck, ReasonCode::Success),
    (ExactlyOnce, false, PacketType::PubAck, ReasonCode::UnspecifiedError),
    (ExactlyOnce, false, PacketType::PubComp, ReasonCode::Success),
    (ExactlyOnce, true, PacketType::PubAck, ReasonCode::Success),
    (ExactlyOnce, true, PacketType::PubAck, ReasonCode::UnspecifiedError),
    (ExactlyOnce, true, PacketType::PubRec, ReasonCode::UnspecifiedError),
];

#[test]
fn an_answer_of_the_wrong_type_ends_the_connection() {
    everywhere(|world| {
        for (connecting, is_v5) in [(v5("new"), true), (v311("old"), false)] {
            for (qos, received, kind, code) in WRONG_ANSWERS {
                if code.is_error() && !is_v5 {
                    continue;
                }
                let subscriber = world.connect(connecting.clone().manual());
                subscriber.subscribe("t", qos);
                world.connect(v5("p")).publish(message("t", "x").qos(qos));
                let packet_id = subscriber.expect_publish("t", "x").id.unwrap();
                if received {
                    subscriber.pubrec(packet_id);
                    subscriber.expect(PacketType::PubRel);
                }
                let [high, low] = packet_id.get().to_be_bytes();
                let first_byte = (kind as u8) << 4;
                match code {
                    ReasonCode::Success => subscriber.send_bytes(&[first_byte, 2, high, low]),
                    code => subscriber.send_bytes(&[first_byte, 3, high, low, code.byte()]),
                }
                if is_v5 {
                    subscriber.expect_disconnect(ReasonCode::ProtocolError);
                }
                assert_eq!(subscriber.expect_closed(), Reason::ProtocolError, "{kind:?} {code:?} for {qos:?}");
            }
        }
    });
}

#[test]
fn an_answer_to_nothing_and_a_second_pubrec_are_taken() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").manual());
        subscriber.puback(id(7));
        subscriber.pubcomp(id(7));
        subscriber.subscribe("t", ExactlyOnce);
        world.connect(v5("p")).publish(message("t", "x").qos2());
        let packet_id = subscriber.expect_publish("t", "x").id.unwrap();
        for _ in 0..2 {
            subscriber.pubrec(packet_id);
            subscriber.expect(PacketType::PubRel);
        }
        subscriber.pubcomp(packet_id);
        subscriber.expect_open();
    });
}

#[test]
fn every_inflight_item_and_owed_pubrel_is_resent_on_resume() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        for payload in ["1", "2", "3"] {
            publisher.publish(message("t", payload).qos2());
        }
        assert_eq!(subscriber.payloads(), ["1", "2", "3"]);
        subscriber.pubrec(id(2));
        subscriber.expect(PacketType::PubRel);
        subscriber.lose();
        let subscriber = world.connect(v5("s").lasting().manual());
        let first = subscriber.expect_publish("t", "1");
        assert!(first.dup);
        let arrival = subscriber.expect(PacketType::PubRel);
        let Packet::PubRel(release) = arrival.packet() else { unreachable!() };
        assert_eq!(release.packet_id, id(2));
        assert!(subscriber.expect_publish("t", "3").dup);
        subscriber.expect_nothing();
    });
}

#[test]
fn new_packet_ids_skip_those_still_in_flight_after_a_resume() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for payload in ["1", "2", "3"] {
            publisher.publish(message("t", payload).qos1());
        }
        subscriber.messages();
        subscriber.puback(id(2));
        subscriber.lose();
        let subscriber = world.connect(v5("s").lasting().manual());
        assert_eq!(told(&subscriber.messages()), wanted(&[("1", true, 1), ("3", true, 3)]));
        publisher.publish(message("t", "4").qos1());
        let got = subscriber.expect_publish("t", "4");
        assert!(!got.dup && got.id != Some(id(1)) && got.id != Some(id(3)), "{got:?}");
    });
}

#[test]
fn packet_ids_wrap_past_one_that_is_never_acknowledged() {
    let world = World::new(1);
    let subscriber = world.connect(v5("s").lasting().manual());
    subscriber.subscribe("t", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    publisher.publish(message("t", "stuck").qos1());
    let stuck = subscriber.expect_publish("t", "stuck").id.unwrap();
    for number in 0..66_000_u32 {
        publisher.send_publish(message("t", number.to_le_bytes()).qos1().id(1));
        let got = subscriber.expect_message();
        assert_ne!(got.id, Some(stuck), "message {number}");
        subscriber.puback(got.id.unwrap());
    }
    world.run();
    assert_eq!(world.gauges().inflight_messages, 1);
}

#[test]
fn a_resumed_session_resends_within_the_receive_maximum() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        for number in 1..=5 {
            publisher.publish(message("t", number.to_string()).qos(if number == 3 {
                ExactlyOnce
            } else {
                AtLeastOnce
            }));
        }
        subscriber.messages();
        subscriber.lose();
        publisher.publish(message("t", "6").qos1());
        let subscriber = world.connect(v5("s").lasting().receive_maximum(2).manual());
        assert_eq!(subscriber.payloads(), ["1", "2"]);
        subscriber.puback(id(2));
        assert_eq!(subscriber.payloads(), ["3"]);
        subscriber.puback(id(1));
        assert_eq!(subscriber.payloads(), ["4"]);
        subscriber.pubrec(id(3));
        subscriber.expect(PacketType::PubRel);
        subscriber.expect_nothing();
        subscriber.pubcomp(id(3));
        assert_eq!(subscriber.payloads(), ["5"]);
        subscriber.puback(id(4));
        subscriber.puback(id(5));
        assert_eq!(subscriber.payloads(), ["6"]);
    });
}

#[test]
fn an_early_acknowledgement_spares_the_redelivery() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in 1..=4 {
            publisher.publish(message("t", number.to_string()).qos1());
        }
        subscriber.messages();
        subscriber.lose();
        let subscriber = world.connect(v5("s").lasting().receive_maximum(2).manual());
        assert_eq!(subscriber.payloads(), ["1", "2"]);
        // The client remembers that it has 3, which is not sent again yet.
        subscriber.puback(id(3));
        subscriber.expect_nothing();
        subscriber.puback(id(1));
        subscriber.puback(id(2));
        assert_eq!(subscriber.payloads(), ["4"]);
        subscriber.puback(id(4));
        publisher.publish(message("t", "5").qos1());
        assert_eq!(subscriber.payloads(), ["5"]);
        assert_eq!(world.gauges().inflight_messages, 1);
    });
}

#[test]
fn a_qos_2_message_from_before_a_resume_is_not_taken_twice() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", ExactlyOnce);
        for connecting in [v5("p").lasting().manual(), v311("q").lasting().manual()] {
            let publisher = world.connect(connecting.clone());
            publisher.open_exchange(message("t", "once").qos2().id(7));
            publisher.lose();
            let publisher = world.connect(connecting);
            publisher.open_exchange(message("t", "once").qos2().id(7).dup());
            publisher.end_exchange(id(7));
            assert_eq!(subscriber.payloads(), ["once"]);
        }
    });
}

#[test]
fn a_pubrec_lost_between_shards_causes_no_second_delivery() {
    let world = World::new(2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    let subscriber = world.connect(v5(&there));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5(&here).lasting().manual());
    world.hold(1, 0);
    publisher.send_publish(message("t", "once").qos2().id(7));
    publisher.expect_nothing();
    publisher.lose();
    let publisher = world.connect(v5(&here).lasting().manual());
    publisher.open_exchange(message("t", "once").qos2().id(7).dup());
    world.release(1, 0);
    publisher.expect_nothing();
    publisher.end_exchange(id(7));
    assert_eq!(subscriber.payloads(), ["once"]);
}

#[test]
fn a_packet_id_finished_offline_is_not_owed() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting());
        subscriber.subscribe("t", ExactlyOnce);
        world.connect(v5("p")).publish(message("t", "x").qos2());
        assert_eq!(subscriber.payloads(), ["x"]);
        subscriber.lose();
        let subscriber = world.connect(v5("s").lasting());
        subscriber.expect_nothing();
        assert_eq!(world.gauges().inflight_messages, 0);
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn a_session_without_expiry_keeps_no_message_for_redelivery() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").manual());
        subscriber.subscribe("t", AtLeastOnce);
        world.connect(v5("p")).publish(message("t", "x").qos1());
        subscriber.expect_publish("t", "x");
        subscriber.lose();
        let subscriber = world.connect(v5("s").clean(false).manual());
        assert!(!subscriber.session_present());
        subscriber.expect_nothing();
        assert_eq!(world.dropped(Reason::SessionDiscarded), 1);
    });
}

#[test]
fn a_delivered_message_is_not_lost_when_its_session_ends() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").manual());
        subscriber.subscribe("t", ExactlyOnce);
        world.connect(v5("p")).publish(message("t", "x").qos2());
        let got = subscriber.expect_publish("t", "x");
        subscriber.pubrec(got.id.unwrap());
        subscriber.expect(PacketType::PubRel);
        subscriber.lose();
        assert_eq!(world.counters().dropped_total(), 0, "PUBREC says that the receiver has it");
    });
}

#[test]
fn a_message_too_large_after_reconnect_is_dropped_with_reason() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting().manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", vec![b'x'; 100]).qos1());
        publisher.publish(message("t", "small").qos1());
        assert_eq!(subscriber.messages().len(), 2);
        subscriber.lose();
        publisher.publish(message("t", vec![b'y'; 100]).qos1());
        let subscriber = world.connect(v5("s").lasting().max_packet(50).manual());
        assert_eq!(subscriber.payloads(), ["small"]);
        assert_eq!(world.dropped(Reason::SubscriberPacketLimit), 2);
        assert_eq!(world.gauges().inflight_messages, 1);
    });
}

// ---- windows --------------------------------------------------------------------------------------------------------

#[test]
fn the_receive_maximum_bounds_unacknowledged_messages() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").receive_maximum(3).manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        for number in 1..=8 {
            let qos = if number % 2 == 0 { ExactlyOnce } else { AtLeastOnce };
            publisher.publish(message("t", number.to_string()).qos(qos));
        }
        assert_eq!(subscriber.payloads(), ["1", "2", "3"]);
        subscriber.pubrec(id(2));
        subscriber.expect(PacketType::PubRel);
        subscriber.expect_nothing();
        subscriber.pubcomp(id(2));
        assert_eq!(subscriber.payloads(), ["4"]);
        subscriber.puback(id(3));
        subscriber.puback(id(1));
        assert_eq!(subscriber.payloads(), ["5", "6"]);
    });
}

#[test]
fn before_mqtt_5_the_server_sets_the_window() {
    everywhere_with(
        |settings| settings.limits.max_inflight = 2,
        |world| {
            let subscriber = world.connect(v311("s").manual());
            subscriber.subscribe("t", AtLeastOnce);
            let publisher = world.connect(v5("p"));
            for number in 1..=5 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            assert_eq!(subscriber.payloads(), ["1", "2"]);
            subscriber.puback(id(1));
            assert_eq!(subscriber.payloads(), ["3"]);
            subscriber.puback(id(3));
            subscriber.puback(id(2));
            assert_eq!(subscriber.payloads(), ["4", "5"]);
        },
    );
}

#[test]
fn a_full_window_holds_later_messages_in_order() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").receive_maximum(1).manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for (payload, qos) in [("1", AtLeastOnce), ("2", AtLeastOnce), ("3", AtMostOnce), ("4", AtLeastOnce)] {
            publisher.publish(message("t", payload).qos(qos));
        }
        assert_eq!(subscriber.payloads(), ["1", "3"], "QoS 0 needs no window");
        assert_eq!(world.gauges().queued_messages, 2);
        subscriber.puback(id(1));
        assert_eq!(subscriber.payloads(), ["2"]);
        subscriber.puback(id(2));
        assert_eq!(subscriber.payloads(), ["4"]);
    });
}

// ---- messages that are not kept --------------------------------------------------------------------------------------

#[test]
fn qos_0_messages_are_not_kept_for_offline_clients() {
    let story = |world: &World, kept: &[&str]| {
        let subscriber = world.connect(v5("s").lasting());
        subscriber.subscribe("high", ExactlyOnce);
        subscriber.subscribe("low", AtMostOnce);
        subscriber.lose();
        let publisher = world.connect(v5("p"));
        publisher.publish(message("high", "0").qos(AtMostOnce));
        publisher.publish(message("high", "1").qos1());
        publisher.publish(message("low", "2").qos2());
        let subscriber = world.connect(v5("s").lasting());
        assert_eq!(subscriber.payloads(), kept);
        assert_eq!(world.dropped(Reason::OfflineQos0), 3 - kept.len() as u64);
    };
    everywhere(|world| story(world, &["1"]));
    everywhere_with(|settings| settings.queue.keep_qos0_offline = true, |world| story(world, &["0", "1", "2"]));
}

#[test]
fn idle_sessions_own_nothing_that_is_counted() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s").lasting());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            publisher.publish(message("t", "x").qos(qos));
        }
        subscriber.messages();
        let gauges = world.gauges();
        assert_eq!((gauges.queued_messages, gauges.queued_bytes), (0, 0));
        assert_eq!((gauges.inflight_messages, gauges.input_bytes), (0, 0));
    });
}

#[test]
fn subscriptions_survive_with_their_options() {
    everywhere(|world| {
        let options = tidegate_mqtt::SubscriptionOptions {
            no_local: true,
            retain_as_published: true,
            ..tidegate_mqtt::SubscriptionOptions::new(QoS::AtLeastOnce)
        };
        let subscriber = world.connect(v5("s").lasting());
        subscriber.subscribe_with("t", options, Some(77));
        subscriber.lose();
        let subscriber = world.connect(v5("s").lasting());
        subscriber.publish(message("t", "own").qos1());
        world.connect(v5("p")).publish(message("t", "x").qos2().retain());
        let got = subscriber.expect_publish("t", "x");
        assert_eq!((got.qos, got.retain, got.subscription_ids), (AtLeastOnce, true, vec![77]));
        subscriber.expect_nothing();
    });
}
