//! Sessions: their presence, their content, their end.

use crate::case::Case;
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::version::Version;
use crate::wire::reason_codes::PROTOCOL_ERROR;
use crate::wire::{Bytes, PacketType, Property, Publish, Subscribe, properties};
use std::time::Duration;

pub(super) const CASES: &[Case] =
    &[
        Case::all("session.accepted", accepted).proves_311(&["MQTT-3.1.4-4", "MQTT-3.2.0-1", "MQTT-3.2.2-1"]).proves_5(
            &["MQTT-3.1.4-5", "MQTT-3.2.0-1", "MQTT-3.2.0-2", "MQTT-3.2.2-1", "MQTT-3.2.2-2", "MQTT-3.2.2-8"],
        ),
        Case::both("session.is_created_when_it_is_missing", is_created_when_it_is_missing)
            .proves_311(&["MQTT-3.1.2-4", "MQTT-3.2.2-3"])
            .proves_5(&["MQTT-3.1.2-6", "MQTT-3.2.2-3"]),
        Case::both("session.is_resumed", is_resumed)
            .proves_311(&["MQTT-3.1.2-4", "MQTT-3.2.2-2", "MQTT-3.1.3-2"])
            .proves_5(&["MQTT-3.1.2-5", "MQTT-3.1.2-23", "MQTT-3.2.2-3", "MQTT-3.1.3-2"]),
        Case::both("session.survives_a_lost_connection", survives_a_lost_connection)
            .proves_311(&["MQTT-3.1.2-4"])
            .proves_5(&["MQTT-3.1.2-23"])
            .needs(&[Feature::Qos1]),
        Case::both("session.clean_start_discards_it", clean_start_discards_it)
            .proves_311(&["MQTT-3.1.2-6", "MQTT-3.1.4-3", "MQTT-3.2.2-1"])
            .proves_5(&["MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2"])
            .needs(&[Feature::Qos1]),
        Case::both("session.of_a_clean_start_is_not_kept", of_a_clean_start_is_not_kept)
            .proves_311(&["MQTT-3.1.2-6", "MQTT-3.2.2-3"])
            .proves_5(&["MQTT-4.1.0-2"])
            .needs(&[Feature::Qos1]),
        Case::all("session.queues_qos_1_and_2_in_order", queues_qos_1_and_2_in_order)
            .proves_311(&["MQTT-3.1.2-5", "MQTT-4.5.0-1", "MQTT-4.6.0-6"])
            .proves_5(&["MQTT-4.5.0-1", "MQTT-4.6.0-5"])
            .needs(&[Feature::Qos2]),
        Case::both("session.long_queue_arrives_in_order", long_queue_arrives_in_order)
            .proves_311(&["MQTT-3.1.2-5", "MQTT-4.6.0-6"])
            .proves_5(&["MQTT-4.5.0-1", "MQTT-4.6.0-5"])
            .needs(&[Feature::Qos1]),
        Case::v5("session.moves_between_versions", moves_between_versions).needs(&[Feature::Qos2]),
        Case::both("session.unsubscribed_stays_unsubscribed", unsubscribed_stays_unsubscribed)
            .proves_311(&["MQTT-3.1.2-4"])
            .proves_5(&["MQTT-3.1.2-5"])
            .needs(&[Feature::Qos1]),
        Case::both("session.two_clients_two_sessions", two_clients_two_sessions)
            .proves_311(&["MQTT-3.1.3-2"])
            .proves_5(&["MQTT-3.1.3-2"]),
        Case::v5("session.expires", expires).proves_5(&["MQTT-4.1.0-2", "MQTT-3.1.2-23"]).slow(),
        Case::v5("session.is_not_discarded_while_connected", is_not_discarded_while_connected)
            .proves_5(&["MQTT-4.1.0-1"])
            .slow(),
        Case::v5("session.disconnect_ends_it", disconnect_ends_it).proves_5(&["MQTT-4.1.0-2"]),
        Case::v5("session.disconnect_prolongs_it", disconnect_prolongs_it).proves_5(&["MQTT-3.1.2-23"]),
        Case::v5("session.disconnect_cannot_create_it", disconnect_cannot_create_it).proves_5(&["MQTT-4.13.1-1"]),
    ];

fn accepted(s: &Scenario<'_>) -> Outcome {
    let (mut client, connack) = s.connect_with("c", &s.connection("c"))?;
    ensure!(!connack.session_present, "session present after a clean start");
    // A second CONNACK would fail the client's own checks.
    client.expect_nothing()
}

fn is_created_when_it_is_missing(s: &Scenario<'_>) -> Outcome {
    let (mut client, connack) = s.connect_persistent("c")?;
    ensure!(!connack.session_present, "session present for a client identifier never used before");
    client.expect_nothing()
}

fn is_resumed(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, 0)?;
    client.disconnect()?;
    let (mut client, connack) = s.connect_persistent("c")?;
    ensure!(connack.session_present, "session present is 0 although the session was kept");
    s.connect("publisher")?.publish(&Publish::new(&topic, "to the old subscription"))?;
    client.take_with("to the old subscription")?;
    Ok(())
}

fn survives_a_lost_connection(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, 1)?;
    client.drop_connection()?;
    s.connect("publisher")?.publish(&Publish::new(&topic, "meanwhile").qos(1))?;
    let (mut client, connack) = s.connect_persistent("c")?;
    ensure!(connack.session_present, "the session did not survive the end of the connection");
    client.take_with("meanwhile")?;
    Ok(())
}

fn clean_start_discards_it(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, 1)?;
    client.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "for the old session").qos(1))?;
    let (mut client, connack) = s.connect_with("c", &s.connection("c"))?;
    ensure!(!connack.session_present, "session present after a clean start");
    publisher.publish(&Publish::new(&topic, "unwanted").qos(1))?;
    s.fence(&mut publisher, &mut client)
}

fn of_a_clean_start_is_not_kept(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    client.subscribe(&topic, 1)?;
    client.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "unwanted").qos(1))?;
    let (mut client, connack) = s.connect_persistent("c")?;
    ensure!(!connack.session_present, "the session of a clean start was kept");
    s.fence(&mut publisher, &mut client)
}

fn queues_qos_1_and_2_in_order(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, 2)?;
    client.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    for number in 0..20 {
        publisher.publish(&Publish::new(&topic, format!("one {number}")).qos(1))?;
        publisher.publish(&Publish::new(&topic, format!("two {number}")).qos(2))?;
    }
    let (mut client, _) = s.connect_persistent("c")?;
    let (mut ones, mut twos) = (0, 0);
    for _ in 0..40 {
        // The order counts among messages of the same topic and QoS.
        let publish = client.take()?;
        let (expected, next) = match publish.qos {
            1 => (format!("one {ones}"), &mut ones),
            _ => (format!("two {twos}"), &mut twos),
        };
        ensure!(publish.text() == expected, "expected `{expected}`, got `{}`", publish.text());
        ensure!(!publish.dup, "DUP is set on `{expected}`, which was never sent before");
        *next += 1;
    }
    client.expect_nothing()
}

/// More than any window, less than any queue.
fn long_queue_arrives_in_order(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, 1)?;
    client.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    for number in 0..500 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(1))?;
    }
    let (mut client, _) = s.connect_persistent("c")?;
    for number in 0..500 {
        client.take_with(format!("{number}"))?;
    }
    s.fence(&mut publisher, &mut client)
}

/// A session made in MQTT 5 is resumed in 3.1.1 and back. A broker may begin a new one each time; if it continues the
/// old one, owed messages have to come in the form of the connection.
fn moves_between_versions(s: &Scenario<'_>) -> Outcome {
    if !s.target().capabilities.versions.contains(&Version::V311) {
        return skipped("the broker does not speak MQTT 3.1.1");
    }
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    let mut subscribe = Subscribe::new(&topic, 2);
    if s.target().capabilities.subscription_identifiers {
        subscribe = subscribe.with(Property::SubscriptionIdentifier(7));
    }
    client.subscribe_packet(&subscribe)?;
    let mut publisher = s.connect("publisher")?;
    let pair = Property::UserProperty("name".to_owned(), "value".to_owned());
    let message = |payload: &str, qos| Publish::new(&topic, payload).qos(qos).with(pair.clone());
    publisher.publish(&message("owed", 1))?;
    client.message_with("owed")?;
    client.drop_connection()?;
    publisher.publish(&message("queued", 2))?;
    let old = s.connection_as(Version::V311, "c").persistent();
    let (mut client, connack) = s.connect_with("c", &old)?;
    if connack.session_present {
        client.take_with("owed")?;
        client.take_with("queued")?;
        publisher.publish(&message("live", 1))?;
        client.take_with("live")?;
    }
    client.disconnect()?;
    publisher.publish(&message("back", 1))?;
    let (mut client, back) = s.connect_persistent("c")?;
    if connack.session_present && back.session_present {
        let publish = client.take_with("back")?;
        ensure!(publish.user_properties().len() == 1, "the user property got lost: {publish:?}");
    }
    Ok(())
}

fn unsubscribed_stays_unsubscribed(s: &Scenario<'_>) -> Outcome {
    let (gone, kept) = (s.topic("gone"), s.topic("kept"));
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&gone, 1)?;
    client.subscribe(&kept, 1)?;
    client.unsubscribe(&gone)?;
    client.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&gone, "to the gone").qos(1))?;
    publisher.publish(&Publish::new(&kept, "to the kept").qos(1))?;
    let (mut client, _) = s.connect_persistent("c")?;
    client.take_with("to the kept")?;
    s.fence(&mut publisher, &mut client)
}

fn two_clients_two_sessions(s: &Scenario<'_>) -> Outcome {
    let (mine, yours) = (s.topic("mine"), s.topic("yours"));
    let (mut me, _) = s.connect_persistent("me")?;
    // Client identifiers that differ in case only are different.
    let (mut you, connack) = s.connect_persistent("ME")?;
    ensure!(!connack.session_present, "a client got the session of another");
    me.subscribe(&mine, 0)?;
    you.subscribe(&yours, 0)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&mine, "mine"))?;
    publisher.publish(&Publish::new(&yours, "yours"))?;
    me.take_with("mine")?;
    you.take_with("yours")?;
    s.fence(&mut publisher, &mut me)?;
    s.fence(&mut publisher, &mut you)
}

/// The session is gone some time after its interval; how long a broker takes to notice is its own affair.
fn expires(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c").clean(false).with(Property::SessionExpiryInterval(1));
    let mut witness = s.connect("witness")?;
    let mut wait = Duration::from_millis(2500);
    for attempt in 0..4 {
        let (client, connack) = s.connect_with("c", &connect)?;
        if attempt > 0 && !connack.session_present {
            return Ok(());
        }
        client.drop_connection()?;
        let (client, connack) = s.connect_with("c", &connect)?;
        ensure!(connack.session_present, "the session ended before its interval of a second");
        client.disconnect()?;
        witness.expect_quiet_for(wait)?;
        wait *= 2;
    }
    failed("a session with an expiry interval of 1 s is still there after 20 s")
}

fn is_not_discarded_while_connected(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let connect = s.connection("c").clean(false).with(Property::SessionExpiryInterval(1));
    let (mut client, _) = s.connect_with("c", &connect)?;
    client.subscribe(&topic, 0)?;
    client.expect_quiet_for(Duration::from_millis(2500))?;
    client.publish(&Publish::new(&topic, "still here"))?;
    client.take_with("still here")?;
    let (_, connack) = s.connect_with("c", &connect)?;
    ensure!(connack.session_present, "the session was discarded while its connection was open");
    Ok(())
}

fn disconnect_ends_it(s: &Scenario<'_>) -> Outcome {
    let (client, _) = s.connect_persistent("c")?;
    client.disconnect_with(0x00, &[Property::SessionExpiryInterval(0)])?;
    let (_, connack) = s.connect_persistent("c")?;
    ensure!(!connack.session_present, "DISCONNECT with session expiry interval 0 did not end the session");
    Ok(())
}

fn disconnect_prolongs_it(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c").clean(false).with(Property::SessionExpiryInterval(1));
    let (client, _) = s.connect_with("c", &connect)?;
    client.disconnect_with(0x00, &[Property::SessionExpiryInterval(600)])?;
    s.connect("witness")?.expect_quiet_for(Duration::from_millis(2500))?;
    let (_, connack) = s.connect_persistent("c")?;
    ensure!(connack.session_present, "DISCONNECT with session expiry interval 600 did not prolong the session");
    Ok(())
}

fn disconnect_cannot_create_it(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    let properties = properties::encode(&[Property::SessionExpiryInterval(600)]);
    client.send(&Bytes::new().byte(0).raw(&properties).packet((PacketType::Disconnect as u8) << 4))?;
    client.expect_error_close(&[PROTOCOL_ERROR])
}
