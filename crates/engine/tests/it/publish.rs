//! PUBLISH from a client: the three qualities of service, what is checked, and what is passed on.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{Packet, PacketId, PacketType, PayloadFormat, PubRec, ReasonCode, Version};

use crate::harness::*;

const LEVELS: [QoS; 3] = [AtMostOnce, AtLeastOnce, ExactlyOnce];

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

#[test]
fn a_message_goes_to_each_subscriber_at_the_lower_of_both_qualities() {
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
        publisher.send_publish(message("t", "x").qos2().id(77));
        publisher.expect(PacketType::PubRec);
        publisher.pubrel(id(77));
        publisher.expect(PacketType::PubComp);
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
fn a_qos_2_publish_replayed_before_pubrel_is_not_delivered_twice() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("publisher").manual());
        publisher.send_publish(message("t", "once").qos2().id(5));
        publisher.expect(PacketType::PubRec);
        publisher.send_publish(message("t", "once").qos2().id(5).dup());
        publisher.expect(PacketType::PubRec);
        publisher.send_publish(message("t", "once").qos2().id(5));
        publisher.expect(PacketType::PubRec);
        publisher.pubrel(id(5));
        publisher.expect(PacketType::PubComp);
        assert_eq!(subscriber.payloads(), ["once"]);
        publisher.send_publish(message("t", "next").qos2().id(5));
        publisher.expect(PacketType::PubRec);
        assert_eq!(subscriber.payloads(), ["next"], "after PUBREL the packet id stands for a new message");
    });
}

#[test]
fn a_publish_replayed_while_its_pubrec_is_pending_is_answered_once() {
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
        let subscriber = world.connect(v5("subscriber").manual());
        subscriber.subscribe("t", ExactlyOnce);
        world.connect(v5("publisher")).publish(message("t", "x").qos2());
        let got = subscriber.expect_publish("t", "x").id.unwrap();
        subscriber.puback(got);
        subscriber.pubcomp(got);
        world.run();
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

// ---- acknowledgements that wait ----------------------------------------------------------------------------------------

#[test]
fn pubacks_keep_the_order_of_their_publishes_while_another_shard_is_late() {
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
    assert_eq!(near.payloads(), ["2", "3"], "delivery waits for nobody");
    world.release(1, 0);
    let kinds: Vec<_> = publisher.answers().into_iter().map(|(kind, id, _)| (kind, id)).collect();
    let (ack, rec, comp) = (PacketType::PubAck, PacketType::PubRec, PacketType::PubComp);
    assert_eq!(kinds, [(ack, 11), (ack, 12), (rec, 13), (comp, 13)]);
}

#[test]
fn a_confirmation_for_a_connection_that_is_gone_reaches_nobody() {
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

// ---- receive maximum ---------------------------------------------------------------------------------------------------

#[test]
fn more_than_the_receive_maximum_ends_the_connection() {
    everywhere_with(
        |settings| settings.listeners[0].receive_maximum = 2,
        |world| {
            let client = world.connect(v5("a").manual());
            client.send_publish(message("t", "1").qos2().id(1));
            client.send_publish(message("t", "2").qos2().id(2));
            client.send_publish(message("t", "2").qos2().id(2).dup());
            for _ in 0..3 {
                client.expect(PacketType::PubRec);
            }
            client.send_publish(message("t", "free").qos(AtMostOnce));
            client.pubrel(id(1));
            client.expect(PacketType::PubComp);
            client.send_publish(message("t", "3").qos2().id(3));
            client.expect(PacketType::PubRec);
            client.send_publish(message("t", "4").qos1().id(4));
            client.expect_disconnect(ReasonCode::ReceiveMaximumExceeded);
        },
    );
}

#[test]
fn unconfirmed_qos_1_messages_count_towards_the_receive_maximum() {
    let world = World::with(2, |settings| settings.listeners[0].receive_maximum = 2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    world.connect(v5(&there)).subscribe("far", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(1, 0);
    publisher.send_publish(message("far", "1").qos1());
    publisher.send_publish(message("far", "2").qos1());
    publisher.expect_nothing();
    world.release(1, 0);
    assert_eq!(publisher.answers().len(), 2);
    world.hold(1, 0);
    for _ in 0..3 {
        publisher.send_publish(message("far", "x").qos1());
    }
    publisher.expect_disconnect(ReasonCode::ReceiveMaximumExceeded);
}

#[test]
fn a_strict_receive_maximum_broke_small_devices_so_it_is_a_choice() {
    everywhere_with(
        |settings| {
            settings.listeners[0].receive_maximum = 2;
            settings.listeners[0].receive_maximum_lenient = true;
        },
        |world| {
            let client = world.connect(v5("a").manual());
            for number in 1..=5 {
                client.send_publish(message("t", "x").qos2().id(number));
                client.expect(PacketType::PubRec);
            }
            assert_eq!(world.counters().receive_maximum_tolerated, 3);
        },
    );
}

#[test]
fn clients_before_mqtt_5_know_no_receive_maximum() {
    everywhere_with(
        |settings| settings.listeners[0].receive_maximum = 2,
        |world| {
            let client = world.connect(v311("a").manual());
            for number in 1..=5 {
                client.send_publish(message("t", "x").qos2().id(number));
                client.expect(PacketType::PubRec);
            }
        },
    );
}

#[test]
fn the_receive_maximum_counts_messages_of_this_connection_only() {
    everywhere_with(
        |settings| settings.listeners[0].receive_maximum = 2,
        |world| {
            let first = world.connect(v5("a").lasting().manual());
            first.send_publish(message("t", "1").qos2().id(1));
            first.send_publish(message("t", "2").qos2().id(2));
            first.lose();
            // The client has forgotten them, as a device does that lost its power.
            let second = world.connect(v5("a").lasting());
            assert!(second.session_present());
            for _ in 0..5 {
                let id = id(100);
                second.send_publish(message("t", "x").qos2().id(100));
                second.expect_answer(PacketType::PubRec, id);
                second.expect_answer(PacketType::PubComp, id);
            }
            second.expect_open();
        },
    );
}

// ---- topic aliases -----------------------------------------------------------------------------------------------------

#[test]
fn a_client_may_name_topics_by_aliases() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("#", AtMostOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("a/long/topic", "1").alias(1));
        publisher.publish(message("another", "2").alias(32));
        publisher.publish(message("", "3").alias(1));
        publisher.publish(message("", "4").alias(32).qos1());
        publisher.publish(message("moved", "5").alias(1));
        publisher.publish(message("", "6").alias(1));
        let got: Vec<_> = subscriber.messages().iter().map(|got| (got.topic.clone(), got.text(), got.alias)).collect();
        let wanted = [
            ("a/long/topic", "1"),
            ("another", "2"),
            ("a/long/topic", "3"),
            ("another", "4"),
            ("moved", "5"),
            ("moved", "6"),
        ];
        assert_eq!(got, wanted.map(|(topic, payload)| (topic.to_owned(), payload.to_owned(), None)));
    });
}

#[test]
fn aliases_end_with_their_connection() {
    everywhere(|world| {
        let first = world.connect(v5("a").lasting());
        first.publish(message("t", "1").alias(1));
        first.lose();
        let second = world.connect(v5("a").lasting());
        second.send_publish(message("", "2").alias(1));
        second.expect_disconnect(ReasonCode::TopicAliasInvalid);
    });
}

#[test]
fn an_alias_out_of_range_or_never_set_ends_the_connection() {
    everywhere(|world| {
        for wrong in [message("t", "x").alias(33), message("", "x").alias(33), message("", "x").alias(2)] {
            let client = world.connect(v5("a"));
            client.publish(message("t", "x").alias(1));
            client.send_publish(wrong);
            client.expect_disconnect(ReasonCode::TopicAliasInvalid);
        }
    });
}

#[test]
fn the_server_names_topics_by_aliases_where_the_client_allows_it() {
    everywhere(|world| {
        let two = world.connect(v5("two").aliases(2));
        let none = world.connect(v5("none"));
        let old = world.connect(v311("old"));
        for client in [&two, &none, &old] {
            client.subscribe("#", AtLeastOnce);
        }
        let publisher = world.connect(v5("publisher"));
        for topic in ["a", "b", "c", "a", "b", "c"] {
            publisher.publish(message(topic, "x").qos1());
        }
        let got: Vec<_> = two.messages().iter().map(|got| (got.topic.clone(), got.alias, got.named)).collect();
        let wanted = [
            ("a", Some(1), true),
            ("b", Some(2), true),
            ("c", None, true),
            ("a", Some(1), false),
            ("b", Some(2), false),
            ("c", None, true),
        ];
        assert_eq!(got, wanted.map(|(topic, alias, named)| (topic.to_owned(), alias, named)));
        for client in [&none, &old] {
            assert!(client.messages().iter().all(|got| got.named && got.alias.is_none()));
        }
    });
}

#[test]
fn the_server_sets_no_more_aliases_than_its_own_limit() {
    everywhere_with(
        |settings| settings.listeners[0].topic_alias_maximum_out = 1,
        |world| {
            let client = world.connect(v5("client").aliases(100));
            client.subscribe("#", AtMostOnce);
            let publisher = world.connect(v5("publisher"));
            for topic in ["a", "b", "b", "a"] {
                publisher.publish(message(topic, "x"));
            }
            let got: Vec<_> = client.messages().iter().map(|got| got.alias).collect();
            assert_eq!(got, [Some(1), None, None, Some(1)]);
        },
    );
}

// ---- what is passed on -------------------------------------------------------------------------------------------------

#[test]
fn properties_are_passed_on_as_they_came_and_in_order() {
    everywhere(|world| {
        let new = world.connect(v5("new"));
        let old = world.connect(v311("old"));
        new.subscribe("t", AtLeastOnce);
        old.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        let sent = message("t", "x")
            .qos1()
            .alias(3)
            .user("b", "1")
            .user("a", "2")
            .user("b", "")
            .utf8()
            .content_type("text/plain")
            .response("answers/1", b"\0\xff");
        publisher.publish(sent);
        let got = new.expect_publish("t", "x");
        let pairs = [("b", "1"), ("a", "2"), ("b", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(got.user_properties, pairs);
        assert_eq!(got.payload_format, Some(PayloadFormat::Utf8));
        assert_eq!(got.content_type.as_deref(), Some("text/plain"));
        assert_eq!(got.response_topic.as_deref(), Some("answers/1"));
        assert_eq!(got.correlation_data.as_deref(), Some(&b"\0\xff"[..]));
        assert_eq!((got.alias, got.expiry), (None, None));
        old.expect_publish("t", "x");
    });
}

#[test]
fn request_and_response_find_each_other() {
    everywhere(|world| {
        let server = world.connect(v5("server"));
        server.subscribe("requests", AtLeastOnce);
        let client = world.connect(v5("client"));
        client.subscribe("answers/client", AtLeastOnce);
        client.publish(message("requests", "2+2").qos1().response("answers/client", b"42"));
        let request = server.expect_publish("requests", "2+2");
        let (topic, correlation) = (request.response_topic.unwrap(), request.correlation_data.unwrap());
        let mut answer = message(&topic, "4").qos1();
        answer.correlation_data = Some(correlation);
        server.publish(answer);
        assert_eq!(client.expect_publish("answers/client", "4").correlation_data.unwrap(), b"42");
    });
}

#[test]
fn a_waiting_message_loses_the_time_that_it_waited() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber").lasting());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("t", "at once").qos1().expiry(100));
        assert_eq!(subscriber.expect_publish("t", "at once").expiry, Some(100));
        subscriber.lose();
        publisher.publish(message("t", "later").qos1().expiry(100));
        publisher.publish(message("t", "too late").qos1().expiry(30));
        publisher.publish(message("t", "for ever").qos1());
        world.advance(seconds(30));
        let subscriber = world.connect(v5("subscriber").lasting());
        assert_eq!(subscriber.expect_publish("t", "later").expiry, Some(70));
        assert_eq!(subscriber.expect_publish("t", "for ever").expiry, None);
        subscriber.expect_nothing();
        assert_eq!(world.dropped(Reason::MessageExpired), 1);
        assert_eq!(world.gauges().queued_messages, 0);
    });
}

#[test]
fn a_message_that_expires_between_shards_is_not_delivered() {
    let world = World::new(2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    let subscriber = world.connect(v5(&there));
    subscriber.subscribe("t", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(0, 1);
    publisher.send_publish(message("t", "late").qos1().expiry(1));
    publisher.send_publish(message("t", "in time").qos1().expiry(3));
    world.run();
    world.skip(seconds(1));
    world.release(0, 1);
    assert_eq!(subscriber.expect_publish("t", "in time").expiry, Some(2));
    subscriber.expect_nothing();
    assert_eq!(world.dropped(Reason::MessageExpired), 1);
    assert_eq!(publisher.answers().len(), 2);
}

#[test]
fn an_expiry_survives_a_step_of_the_wall_clock() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber").lasting());
        subscriber.subscribe("t", AtLeastOnce);
        subscriber.lose();
        world.connect(v5("publisher")).publish(message("t", "x").qos1().expiry(100));
        world.step_wall_clock(-1_000_000_000);
        world.advance(seconds(10));
        world.step_wall_clock(2_000_000_000);
        let subscriber = world.connect(v5("subscriber").lasting());
        assert_eq!(subscriber.expect_publish("t", "x").expiry, Some(90));
    });
}

#[test]
fn large_payloads_arrive_whole_at_every_reader() {
    everywhere(|world| {
        let payload: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let readers: Vec<Client> = (0..4).map(|number| world.connect(v5(&format!("reader {number}")))).collect();
        for (reader, qos) in readers.iter().zip([AtMostOnce, AtLeastOnce, ExactlyOnce, AtLeastOnce]) {
            reader.subscribe("big", qos);
        }
        let publisher = world.connect(v311("publisher"));
        for _ in 0..3 {
            publisher.publish(message("big", &payload).qos2());
            publisher.publish(message("big", "small").qos2());
        }
        for reader in &readers {
            for _ in 0..3 {
                assert!(reader.expect_message().payload == payload);
                reader.expect_publish("big", "small");
            }
        }
    });
}

#[test]
fn messages_of_one_publisher_keep_their_order() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("a/#", ExactlyOnce);
        let publisher = world.connect(v5("publisher"));
        let wanted: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        for (number, text) in wanted.iter().enumerate() {
            let topic = ["a/1", "a/2"][number % 2];
            publisher.send_publish(message(topic, text).qos(LEVELS[number % 3]));
        }
        assert_eq!(subscriber.payloads(), wanted);
    });
}

// ---- checks ------------------------------------------------------------------------------------------------------------

#[test]
fn a_payload_that_is_said_to_be_text_is_checked_where_the_listener_asks_for_it() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.publish(message("t", b"\xff").utf8().qos1());
        client.expect_open();
    });
    everywhere_with(
        |settings| settings.listeners[0].check_payload_format = true,
        |world| {
            let client = world.connect(v5("a"));
            client.publish(message("t", "text").utf8().qos1());
            client.publish(message("t", b"\xff").qos1());
            client.send_publish(message("t", b"\xff").utf8().qos1());
            client.expect_disconnect(ReasonCode::PayloadFormatInvalid);
        },
    );
}

#[test]
fn a_topic_with_wildcards_ends_the_connection() {
    let publish = |topic: &str, version: Version| {
        let mut body = vec![0, topic.len() as u8];
        body.extend(topic.as_bytes());
        if version.is_v5() {
            body.push(0);
        }
        let mut bytes = vec![0x30, body.len() as u8];
        bytes.extend(body);
        bytes
    };
    everywhere(|world| {
        for topic in ["a/+", "#", "a\0b"] {
            let client = world.connect(v5("a"));
            client.send_bytes(&publish(topic, Version::V5));
            client.expect_disconnect(ReasonCode::TopicNameInvalid);
            let old = world.connect(v311("b"));
            old.send_bytes(&publish(topic, Version::V311));
            assert_eq!(old.expect_closed(), Reason::InvalidTopicName);
        }
        let client = world.connect(v5("a"));
        client.send_bytes(&publish("", Version::V5));
        client.expect_disconnect(ReasonCode::ProtocolError);
    });
}

#[test]
fn a_topic_with_too_many_levels_ends_the_connection() {
    everywhere_with(
        |settings| settings.limits.max_topic_levels = 3,
        |world| {
            let client = world.connect(v5("a"));
            client.publish(message("1/2/3", "x").qos1());
            client.send_publish(message("1/2/3/4", "x").qos1());
            client.expect_disconnect(ReasonCode::TopicNameInvalid);
            let deep = v5("b").will(message("1/2/3/4", "x"));
            world.try_connect(deep).expect_refused(ReasonCode::TopicNameInvalid);
        },
    );
}

#[test]
fn a_quality_above_the_maximum_ends_the_connection() {
    everywhere_with(
        |settings| settings.listeners[0].maximum_qos = AtLeastOnce,
        |world| {
            let client = world.connect(v5("a"));
            client.publish(message("t", "x").qos1());
            client.send_publish(message("t", "x").qos2());
            client.expect_disconnect(ReasonCode::QosNotSupported);
            let will = v5("a").will(message("t", "x").qos2());
            world.try_connect(will).expect_refused(ReasonCode::QosNotSupported);
        },
    );
}

#[test]
fn retain_ends_the_connection_where_it_is_switched_off() {
    everywhere_with(
        |settings| settings.retained.available = false,
        |world| {
            let client = world.connect(v5("a"));
            client.send_publish(message("t", "x").retain());
            client.expect_disconnect(ReasonCode::RetainNotSupported);
        },
    );
}

#[test]
fn a_client_may_not_send_subscription_identifiers() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.send_bytes(&[0x30, 6, 0, 1, b't', 2, 0x0B, 1]);
        client.expect_disconnect(ReasonCode::ProtocolError);
    });
}

#[test]
fn topics_of_the_broker_are_not_for_clients_to_write() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("$SYS/broker/fake", AtLeastOnce);
        let client = world.connect(v5("a"));
        assert_eq!(client.publish(message("$SYS/broker/fake", "x").qos1()), ReasonCode::NotAuthorized);
        assert_eq!(client.publish(message("$SYS/broker/fake", "x").qos2()), ReasonCode::NotAuthorized);
        client.publish(message("$SYS/broker/fake", "x").retain());
        watcher.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 3);
        client.expect_open();
    });
}

#[test]
fn a_will_may_not_be_left_below_the_brokers_own_topics() {
    everywhere(|world| {
        let will = v5("a").will(message("$SYS/broker/fake", "x"));
        world.try_connect(will).expect_refused(ReasonCode::NotAuthorized);
    });
}

#[test]
fn what_is_received_and_sent_is_counted() {
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
