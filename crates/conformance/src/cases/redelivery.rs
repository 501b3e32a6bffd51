//! The packets that the broker sends again when a session is resumed: everything that is owed, once, in order, under
//! the same packet identifiers, and no other packet in its place.

use crate::case::Case;
use crate::client::{Arrival, Client};
use crate::outcome::{Outcome, ensure, failed};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::{Packet, PacketType, Publish};

pub(super) const CASES: &[Case] = &[
    Case::both("redelivery.qos1_with_dup_and_the_same_packet_id", qos1_with_dup_and_the_same_packet_id)
        .proves_311(&["MQTT-3.3.1-1", "MQTT-4.4.0-1", "MQTT-2.3.1-3", "MQTT-2.3.1-4"])
        .proves_5(&["MQTT-3.3.1-1", "MQTT-4.4.0-1", "MQTT-4.3.2-3"])
        .needs(&[Feature::Qos1]),
    Case::both("redelivery.qos2_with_dup_and_the_same_packet_id", qos2_with_dup_and_the_same_packet_id)
        .proves_311(&["MQTT-3.3.1-1", "MQTT-4.4.0-1"])
        .proves_5(&["MQTT-3.3.1-1", "MQTT-4.4.0-1", "MQTT-4.3.3-3"])
        .needs(&[Feature::Qos2]),
    Case::both("redelivery.pubrel_and_not_the_message", pubrel_and_not_the_message)
        .proves_311(&["MQTT-4.4.0-1"])
        .proves_5(&["MQTT-4.4.0-1", "MQTT-4.3.3-5", "MQTT-4.3.3-6"])
        .needs(&[Feature::Qos2]),
    Case::both("redelivery.everything_owed_in_order", everything_owed_in_order)
        .proves_311(&["MQTT-4.4.0-1", "MQTT-3.3.1-1"])
        .proves_5(&["MQTT-4.4.0-1", "MQTT-3.3.1-1"])
        .needs(&[Feature::Qos2]),
    Case::both("redelivery.new_messages_skip_packet_ids_in_flight", new_messages_skip_packet_ids_in_flight)
        .proves_311(&["MQTT-2.3.1-4"])
        .proves_5(&["MQTT-2.2.1-4", "MQTT-4.3.2-1"])
        .needs(&[Feature::Qos2]),
    Case::both("redelivery.acknowledged_is_not_sent_again", acknowledged_is_not_sent_again)
        .proves_311(&["MQTT-4.4.0-1"])
        .proves_5(&["MQTT-4.4.0-1"])
        .needs(&[Feature::Qos2]),
    Case::both("redelivery.again_and_again", again_and_again)
        .proves_311(&["MQTT-4.4.0-1", "MQTT-2.3.1-3"])
        .proves_5(&["MQTT-4.4.0-1"])
        .needs(&[Feature::Qos1]),
    Case::both("redelivery.after_a_takeover", after_a_takeover)
        .proves_311(&["MQTT-4.4.0-1", "MQTT-3.1.4-2"])
        .proves_5(&["MQTT-4.4.0-1", "MQTT-3.1.4-3"])
        .needs(&[Feature::Qos1]),
    Case::both("redelivery.none_after_a_clean_start", none_after_a_clean_start)
        .proves_311(&["MQTT-3.1.2-6"])
        .proves_5(&["MQTT-3.1.2-4"])
        .needs(&[Feature::Qos2]),
];

/// A persistent subscriber on a fresh topic, and a publisher.
fn pair(s: &Scenario<'_>) -> Outcome<(String, Client, Client)> {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, s.target().capabilities.maximum_qos)?;
    Ok((topic, subscriber, s.connect("publisher")?))
}

/// The subscriber's session on a new connection.
fn resume(s: &Scenario<'_>) -> Outcome<Client> {
    let (client, connack) = s.connect_persistent("subscriber")?;
    ensure!(connack.session_present, "the session of the subscriber is not there");
    Ok(client)
}

/// The same message again: same packet identifier and payload, DUP set.
fn expect_again(client: &mut Client, first: &Publish) -> Outcome<Publish> {
    let again = client.message_with(&first.payload)?;
    ensure!(
        again.packet_id == first.packet_id,
        "MQTT-4.4.0-1: sent again with packet identifier {} instead of {}",
        again.packet_id,
        first.packet_id
    );
    ensure!(again.dup, "MQTT-3.3.1-1: sent again without DUP");
    ensure!(again.qos == first.qos, "sent again at QoS {} instead of {}", again.qos, first.qos);
    Ok(again)
}

fn qos1_with_dup_and_the_same_packet_id(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    publisher.publish(&Publish::new(&topic, "owed").qos(1))?;
    let first = subscriber.message_with("owed")?;
    ensure!(!first.dup, "DUP is set on a message that was never sent before");
    subscriber.drop_connection()?;
    let mut subscriber = resume(s)?;
    let again = expect_again(&mut subscriber, &first)?;
    subscriber.acknowledge(&again)?;
    s.fence(&mut publisher, &mut subscriber)
}

fn qos2_with_dup_and_the_same_packet_id(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    publisher.publish(&Publish::new(&topic, "owed").qos(2))?;
    let first = subscriber.message_with("owed")?;
    subscriber.drop_connection()?;
    let mut subscriber = resume(s)?;
    let again = expect_again(&mut subscriber, &first)?;
    subscriber.acknowledge(&again)?;
    s.fence(&mut publisher, &mut subscriber)
}

fn pubrel_and_not_the_message(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    publisher.publish(&Publish::new(&topic, "half done").qos(2))?;
    let first = subscriber.message_with("half done")?;
    subscriber.receive_release(first.packet_id)?;
    subscriber.drop_connection()?;
    let mut subscriber = resume(s)?;
    subscriber.expect_success(PacketType::Pubrel, first.packet_id)?;
    subscriber.send_acknowledgement(PacketType::Pubcomp, first.packet_id)?;
    s.fence(&mut publisher, &mut subscriber)?;
    subscriber.drop_connection()?;
    // After PUBCOMP nothing is owed any more.
    let mut subscriber = resume(s)?;
    s.fence(&mut publisher, &mut subscriber)
}

/// Nine messages in three states: not acknowledged at QoS 1, not acknowledged at QoS 2, and waiting for PUBCOMP.
fn everything_owed_in_order(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    let mut owed = Vec::new();
    for number in 0..9 {
        let qos = if number % 3 == 0 { 1 } else { 2 };
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(qos))?;
        owed.push(subscriber.message_with(format!("{number}"))?);
    }
    let released: Vec<u16> = owed.iter().skip(2).step_by(3).map(|publish| publish.packet_id).collect();
    for packet_id in &released {
        subscriber.receive_release(*packet_id)?;
    }
    subscriber.drop_connection()?;

    let mut subscriber = resume(s)?;
    let mut messages: Vec<&Publish> = owed.iter().filter(|publish| !released.contains(&publish.packet_id)).collect();
    let mut owed_releases = released.clone();
    while !messages.is_empty() || !owed_releases.is_empty() {
        match subscriber.arrival()? {
            Arrival::Packet(Packet::Publish(again)) => {
                let Some(index) = messages.iter().position(|publish| publish.packet_id == again.packet_id) else {
                    return failed(format!("`{}` is sent again although it is not owed", again.text()));
                };
                let first = messages.remove(index);
                let same = again.payload == first.payload && again.qos == first.qos && again.dup;
                ensure!(same, "`{}` came again as {again:?}", first.text());
                // The order counts among messages of one topic and QoS.
                let overtaken = messages.iter().take(index).any(|earlier| earlier.qos == first.qos);
                ensure!(!overtaken, "`{}` is sent again before an earlier message", first.text());
            }
            Arrival::Packet(Packet::Acknowledgement(PacketType::Pubrel, pubrel)) => {
                let expected = owed_releases.first().copied();
                ensure!(expected == Some(pubrel.packet_id), "PUBREL of {}, expected {expected:?}", pubrel.packet_id);
                owed_releases.remove(0);
            }
            other => {
                let left = messages.len() + owed_releases.len();
                return failed(format!("{left} of 9 packets owed were not sent again: {other:?}"));
            }
        }
    }
    subscriber.expect_nothing()
}

fn new_messages_skip_packet_ids_in_flight(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    let mut owed = Vec::new();
    for number in 0..6 {
        publisher.publish(&Publish::new(&topic, format!("old {number}")).qos(1 + number % 2))?;
        owed.push(subscriber.message_with(format!("old {number}"))?);
    }
    // One waits for PUBCOMP: its identifier is taken although the message itself is not sent again.
    let half_done = owed.pop().map(|publish| publish.packet_id).unwrap_or_default();
    subscriber.receive_release(half_done)?;
    subscriber.drop_connection()?;
    let mut subscriber = resume(s)?;
    for first in &owed {
        let again = subscriber.message()?;
        ensure!(again.dup && again.packet_id == first.packet_id, "`{}` came again as {again:?}", first.text());
    }
    for number in 0..20 {
        let payload = format!("new {number}");
        publisher.publish(&Publish::new(&topic, &payload).qos(1))?;
        // The client's own checks fail when a message takes the identifier of one sent again on this connection.
        let publish = subscriber.message_with(&payload)?;
        ensure!(
            publish.packet_id != half_done,
            "`{payload}` takes packet identifier {half_done}, which awaits PUBCOMP"
        );
        ensure!(!publish.dup, "DUP is set on `{payload}`, which was never sent before");
        subscriber.acknowledge(&publish)?;
    }
    Ok(())
}

fn acknowledged_is_not_sent_again(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    for qos in [1, 2, 1, 2] {
        publisher.publish(&Publish::new(&topic, format!("done at {qos}")).qos(qos))?;
        subscriber.take_with(format!("done at {qos}"))?;
    }
    // The broker has read every acknowledgement once it answers the ping sent after them.
    subscriber.ping()?;
    subscriber.drop_connection()?;
    let mut subscriber = resume(s)?;
    s.fence(&mut publisher, &mut subscriber)
}

fn again_and_again(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    publisher.publish(&Publish::new(&topic, "persistent").qos(1))?;
    let first = subscriber.message_with("persistent")?;
    for _ in 0..5 {
        subscriber.drop_connection()?;
        subscriber = resume(s)?;
        expect_again(&mut subscriber, &first)?;
    }
    subscriber.acknowledge(&first)?;
    s.fence(&mut publisher, &mut subscriber)
}

fn after_a_takeover(s: &Scenario<'_>) -> Outcome {
    let (topic, mut old, mut publisher) = pair(s)?;
    publisher.publish(&Publish::new(&topic, "owed").qos(1))?;
    let first = old.message_with("owed")?;
    let mut new = resume(s)?;
    let again = expect_again(&mut new, &first)?;
    new.acknowledge(&again)?;
    old.expect_close()?;
    s.fence(&mut publisher, &mut new)
}

fn none_after_a_clean_start(s: &Scenario<'_>) -> Outcome {
    let (topic, mut subscriber, mut publisher) = pair(s)?;
    publisher.publish(&Publish::new(&topic, "owed").qos(1))?;
    subscriber.message_with("owed")?;
    publisher.publish(&Publish::new(&topic, "half done").qos(2))?;
    let second = subscriber.message_with("half done")?;
    subscriber.receive_release(second.packet_id)?;
    subscriber.drop_connection()?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.expect_nothing()?;
    s.fence(&mut publisher, &mut subscriber)
}
