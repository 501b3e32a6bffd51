//! Shared subscriptions of MQTT 5.

use crate::case::Case;
use crate::client::{Arrival, Client};
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR};
use crate::wire::subscribe::NO_LOCAL;
use crate::wire::{Packet, PacketType, Property, Publish, Subscribe, Unsubscribe};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::v5("shared.each_message_goes_to_one_member", each_message_goes_to_one_member)
        .proves_5(&["MQTT-4.8.2-1", "MQTT-4.5.0-1"])
        .needs(&[Feature::SharedSubscriptions, Feature::Qos2]),
    Case::v5("shared.groups_and_others_get_their_own", groups_and_others_get_their_own)
        .proves_5(&["MQTT-4.8.2-1"])
        .needs(&[Feature::SharedSubscriptions]),
    Case::v5("shared.invalid_names", invalid_names)
        .proves_5(&["MQTT-4.8.2-1", "MQTT-4.8.2-2", "MQTT-4.13.1-1"])
        .needs(&[Feature::SharedSubscriptions]),
    Case::v5("shared.no_local_is_a_protocol_error", no_local_is_a_protocol_error)
        .proves_5(&["MQTT-3.8.3-4"])
        .needs(&[Feature::SharedSubscriptions]),
    Case::v5("shared.granted_qos_of_each_member", granted_qos_of_each_member)
        .proves_5(&["MQTT-4.8.2-3"])
        .needs(&[Feature::SharedSubscriptions, Feature::Qos2]),
    Case::v5("shared.identifier_of_the_member", identifier_of_the_member)
        .proves_5(&["MQTT-3.3.4-3"])
        .needs(&[Feature::SharedSubscriptions, Feature::SubscriptionIdentifiers]),
    Case::v5("shared.wildcards", wildcards)
        .proves_5(&["MQTT-4.8.2-2", "MQTT-4.7.1-2"])
        .needs(&[Feature::SharedSubscriptions, Feature::WildcardSubscriptions]),
    Case::v5("shared.nothing_retained_is_sent", nothing_retained_is_sent)
        .needs(&[Feature::SharedSubscriptions, Feature::Retained]),
    Case::v5("shared.unsubscribed_member_gets_nothing", unsubscribed_member_gets_nothing)
        .proves_5(&["MQTT-3.10.4-1", "MQTT-3.10.4-2"])
        .needs(&[Feature::SharedSubscriptions]),
    Case::v5("shared.a_member_that_leaves_takes_no_more", a_member_that_leaves_takes_no_more)
        .needs(&[Feature::SharedSubscriptions]),
    Case::v5("shared.qos_1_of_a_lost_member_is_not_lost", qos_1_of_a_lost_member_is_not_lost)
        .proves_5(&["MQTT-4.5.0-1"])
        .needs(&[Feature::SharedSubscriptions, Feature::Qos1]),
    Case::v5("shared.qos_2_is_completed_by_its_member", qos_2_is_completed_by_its_member)
        .proves_5(&["MQTT-4.8.2-4"])
        .needs(&[Feature::SharedSubscriptions, Feature::Qos2]),
    Case::v5("shared.qos_2_ends_with_the_session_of_its_member", qos_2_ends_with_the_session_of_its_member)
        .proves_5(&["MQTT-4.8.2-5"])
        .needs(&[Feature::SharedSubscriptions, Feature::Qos2]),
    Case::v5("shared.refused_by_a_member_is_done", refused_by_a_member_is_done)
        .proves_5(&["MQTT-4.8.2-6"])
        .needs(&[Feature::SharedSubscriptions, Feature::Qos2]),
];

fn share(group: &str, filter: &str) -> String {
    format!("$share/{group}/{filter}")
}

/// Two members of one group, with this QoS, and a publisher.
fn members(s: &Scenario<'_>, filter: &str, qos: u8) -> Outcome<([Client; 2], Client)> {
    let (mut one, _) = s.connect_persistent("one")?;
    let (mut other, _) = s.connect_persistent("other")?;
    one.subscribe(filter, qos)?;
    other.subscribe(filter, qos)?;
    Ok(([one, other], s.connect("publisher")?))
}

/// The next message of any member: its index and the message, not acknowledged.
fn from_any(clients: &mut [Client], patience: Duration) -> Outcome<(usize, Publish)> {
    let turn = Duration::from_millis(10);
    let turns = (patience.as_millis() / turn.as_millis() / clients.len() as u128).max(1);
    for _ in 0..turns {
        for (index, client) in clients.iter_mut().enumerate() {
            match client.kept_or_arrival_within(turn)? {
                Arrival::Packet(Packet::Publish(publish)) => return Ok((index, publish)),
                Arrival::Silence => {}
                other => return failed(format!("{}: expected PUBLISH, got {other:?}", client.name)),
            }
        }
    }
    failed(format!("no member of {} got the message", clients.len()))
}

fn each_message_goes_to_one_member(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut members, mut publisher) = members(s, &share("group", &topic), 2)?;
    for qos in 0..=2 {
        for number in 0..10 {
            publisher.publish(&Publish::new(&topic, format!("{qos} {number}")).qos(qos))?;
        }
        let mut missing: BTreeSet<String> = (0..10).map(|number| format!("{qos} {number}")).collect();
        while !missing.is_empty() {
            let (index, publish) = from_any(&mut members, s.patience())?;
            ensure!(missing.remove(&publish.text()), "`{}` came twice", publish.text());
            members.iter_mut().skip(index).take(1).try_for_each(|member| member.acknowledge(&publish))?;
        }
        for member in &mut members {
            s.fence(&mut publisher, member)?;
        }
    }
    Ok(())
}

fn groups_and_others_get_their_own(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let filters = [share("group", &topic), share("another", &topic), topic.clone()];
    let mut clients = Vec::new();
    for (number, filter) in filters.iter().enumerate() {
        let mut client = s.connect(&format!("c{number}"))?;
        client.subscribe(filter, 0)?;
        clients.push(client);
    }
    let mut publisher = s.connect("publisher")?;
    for number in 0..5 {
        publisher.publish(&Publish::new(&topic, format!("{number}")))?;
    }
    for client in &mut clients {
        for number in 0..5 {
            client.take_with(format!("{number}"))?;
        }
        s.fence(&mut publisher, client)?;
    }
    Ok(())
}

const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR];

fn invalid_names(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let invalid = [
        format!("$share//{topic}"),
        format!("$share/a+b/{topic}"),
        format!("$share/a#b/{topic}"),
        format!("$share/+/{topic}"),
        format!("$share/#/{topic}"),
        format!("$share/group/{topic}/a+"),
        "$share/group".to_owned(),
        "$share/group/".to_owned(),
        "$share/".to_owned(),
    ];
    for filter in invalid {
        let mut client = s.connect("c")?;
        client.send_subscribe(&Subscribe::new(&filter, 0))?;
        client.expect_error_close(BROKEN)?;
        let mut client = s.connect("c")?;
        client.send_unsubscribe(&Unsubscribe::new(&filter))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn no_local_is_a_protocol_error(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_subscribe(&Subscribe::new(&share("group", &s.topic("t")), NO_LOCAL))?;
    client.expect_error_close(&[PROTOCOL_ERROR])
}

fn granted_qos_of_each_member(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let filter = share("group", &topic);
    let mut clients = Vec::new();
    for granted in 0..=2 {
        let mut client = s.connect(&format!("c{granted}"))?;
        client.subscribe(&filter, granted)?;
        clients.push(client);
    }
    let mut publisher = s.connect("publisher")?;
    for _ in 0..12 {
        publisher.publish(&Publish::new(&topic, "x").qos(2))?;
        let (index, publish) = from_any(&mut clients, s.patience())?;
        ensure!(usize::from(publish.qos) == index, "a member with QoS {index} got QoS {}", publish.qos);
        clients.iter_mut().skip(index).take(1).try_for_each(|client| client.acknowledge(&publish))?;
    }
    Ok(())
}

fn identifier_of_the_member(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    let shared = Subscribe::new(&share("group", &topic), 0).with(Property::SubscriptionIdentifier(9));
    client.subscribe_packet(&shared)?;
    s.connect("publisher")?.publish(&Publish::new(&topic, "x"))?;
    let told = client.take_with("x")?.subscription_identifiers();
    ensure!(told == [9], "the message tells {told:?}, expected 9");
    Ok(())
}

fn wildcards(s: &Scenario<'_>) -> Outcome {
    let (mut client, mut publisher) = s.subscriber_and_publisher(&share("group", &s.topic("a/+/#")), 0)?;
    for tail in ["a", "b/a/c", "share"] {
        publisher.publish(&Publish::new(&s.topic(tail), "elsewhere"))?;
    }
    for tail in ["a/b", "a/b/c/d"] {
        publisher.publish(&Publish::new(&s.topic(tail), tail))?;
        let publish = client.take_with(tail)?;
        ensure!(publish.topic == s.topic(tail), "`{tail}` came on `{}`", publish.topic);
    }
    s.fence(&mut publisher, &mut client)
}

fn nothing_retained_is_sent(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    super::retained::retain(&mut publisher, &topic, "kept", 0)?;
    let mut client = s.connect("c")?;
    client.subscribe(&share("group", &topic), 0)?;
    super::retained::expect_none_retained(s, &mut publisher, &mut client)
}

fn unsubscribed_member_gets_nothing(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let filter = share("group", &topic);
    let ([mut one, mut other], mut publisher) = members(s, &filter, 0)?;
    // The group's filter is another filter than the plain one.
    one.unsubscribe(&topic)?;
    other.unsubscribe(&filter)?;
    for number in 0..10 {
        publisher.publish(&Publish::new(&topic, format!("{number}")))?;
        one.take_with(format!("{number}"))?;
    }
    s.fence(&mut publisher, &mut other)?;
    one.unsubscribe(&filter)?;
    publisher.publish(&Publish::new(&topic, "no member is left"))?;
    s.fence(&mut publisher, &mut one)
}

fn a_member_that_leaves_takes_no_more(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let filter = share("group", &topic);
    let mut stays = s.connect("stays")?;
    stays.subscribe(&filter, 0)?;
    let mut leaves = s.connect("leaves")?;
    leaves.subscribe(&filter, 0)?;
    // Its session ends with its connection.
    leaves.drop_connection()?;
    let mut again = s.connect("leaves")?;
    let mut publisher = s.connect("publisher")?;
    for number in 0..10 {
        publisher.publish(&Publish::new(&topic, format!("{number}")))?;
        stays.take_with(format!("{number}"))?;
    }
    s.fence(&mut publisher, &mut again)
}

/// An unacknowledged QoS 1 message of a member whose session ended may go to another member, and must not
/// disappear for a member that returns.
fn qos_1_of_a_lost_member_is_not_lost(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let ([one, other], mut publisher) = members(s, &share("group", &topic), 1)?;
    let mut clients = [one, other];
    publisher.publish(&Publish::new(&topic, "owed").qos(1))?;
    let (index, first) = from_any(&mut clients, s.patience())?;
    let [one, other] = clients;
    let (lost, mut left, name) = if index == 0 { (one, other, "one") } else { (other, one, "other") };
    lost.drop_connection()?;
    let (back, connack) = s.connect_persistent(name)?;
    ensure!(connack.session_present, "the session of the member is not there");
    left.ping()?;
    let mut clients = [back, left];
    let (index, again) = from_any(&mut clients, s.patience())?;
    ensure!(again.payload == first.payload, "expected `owed`, got `{}`", again.text());
    ensure!(index == 1 || again.dup, "sent again to the same member without DUP");
    clients.iter_mut().skip(index).take(1).try_for_each(|client| client.acknowledge(&again))?;
    clients.iter_mut().try_for_each(|client| s.fence(&mut publisher, client))
}

/// A message of QoS 2 that is on its way to a member: the member's index, and the message.
fn qos_2_under_way(s: &Scenario<'_>) -> Outcome<([Client; 2], Client, usize, Publish)> {
    let topic = s.topic("t");
    let (mut clients, mut publisher) = members(s, &share("group", &topic), 2)?;
    publisher.publish(&Publish::new(&topic, "exactly one").qos(2))?;
    let (index, publish) = from_any(&mut clients, s.patience())?;
    Ok((clients, publisher, index, publish))
}

fn qos_2_is_completed_by_its_member(s: &Scenario<'_>) -> Outcome {
    let ([one, other], mut publisher, index, first) = qos_2_under_way(s)?;
    let (lost, mut left, name) = if index == 0 { (one, other, "one") } else { (other, one, "other") };
    lost.drop_connection()?;
    s.fence(&mut publisher, &mut left)?;
    let (mut back, _) = s.connect_persistent(name)?;
    let again = back.message_with(&first.payload)?;
    ensure!(again.dup && again.packet_id == first.packet_id, "sent again as {again:?}");
    back.acknowledge(&again)?;
    s.fence(&mut publisher, &mut back)?;
    s.fence(&mut publisher, &mut left)
}

fn qos_2_ends_with_the_session_of_its_member(s: &Scenario<'_>) -> Outcome {
    let ([one, other], mut publisher, index, _) = qos_2_under_way(s)?;
    let (lost, mut left, name) = if index == 0 { (one, other, "one") } else { (other, one, "other") };
    lost.drop_connection()?;
    let (mut fresh, connack) = s.connect_with(name, &s.connection(name))?;
    ensure!(!connack.session_present, "session present after a clean start");
    s.fence(&mut publisher, &mut left)?;
    s.fence(&mut publisher, &mut fresh)
}

fn refused_by_a_member_is_done(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut clients, mut publisher) = members(s, &share("group", &topic), 2)?;
    for (qos, kind) in [(1, PacketType::Puback), (2, PacketType::Pubrec)] {
        publisher.publish(&Publish::new(&topic, format!("unwanted {qos}")).qos(qos))?;
        let (index, publish) = from_any(&mut clients, s.patience())?;
        if publish.qos != qos {
            return skipped(format!("the broker sends QoS {} instead of {qos}", publish.qos));
        }
        let mut refusing = clients.iter_mut().skip(index).take(1);
        refusing.try_for_each(|client| client.send_acknowledgement_with(kind, publish.packet_id, 0x83))?;
        clients.iter_mut().try_for_each(|client| s.fence(&mut publisher, client))?;
    }
    Ok(())
}
