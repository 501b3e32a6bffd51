//! Subscriptions of one client that match the same message, and subscription identifiers.

use crate::case::Case;
use crate::client::Client;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::PROTOCOL_ERROR;
use crate::wire::subscribe::NO_LOCAL;
use crate::wire::{Property, Publish, Subscribe};
use std::collections::BTreeSet;

pub(super) const CASES: &[Case] = &[
    Case::all("overlapping.maximum_qos", maximum_qos)
        .proves_311(&["MQTT-3.3.5-1"])
        .proves_5(&["MQTT-3.3.4-2"])
        .needs(&[Feature::Qos2, Feature::WildcardSubscriptions]),
    Case::v5("overlapping.identifiers_of_all", identifiers_of_all)
        .proves_5(&["MQTT-3.3.4-3", "MQTT-3.3.4-4", "MQTT-3.3.4-5"])
        .needs(&[Feature::SubscriptionIdentifiers, Feature::WildcardSubscriptions]),
    Case::v5("overlapping.identifiers_of_any_size", identifiers_of_any_size)
        .proves_5(&["MQTT-3.3.4-3", "MQTT-1.5.5-1"])
        .needs(&[Feature::SubscriptionIdentifiers]),
    Case::v5("overlapping.identifier_is_replaced", identifier_is_replaced)
        .proves_5(&["MQTT-3.3.4-3", "MQTT-3.8.4-3"])
        .needs(&[Feature::SubscriptionIdentifiers]),
    Case::v5("overlapping.identifier_belongs_to_the_client", identifier_belongs_to_the_client)
        .proves_5(&["MQTT-3.3.4-3"])
        .needs(&[Feature::SubscriptionIdentifiers]),
    Case::v5("overlapping.identifier_survives_the_connection", identifier_survives_the_connection)
        .proves_5(&["MQTT-3.3.4-3", "MQTT-3.1.2-5"])
        .needs(&[Feature::SubscriptionIdentifiers, Feature::Qos1]),
    Case::v5("overlapping.identifier_0_and_two_of_them", identifier_0_and_two_of_them).proves_5(&["MQTT-4.13.1-1"]),
    Case::v5("overlapping.identifier_from_a_client", identifier_from_a_client).proves_5(&["MQTT-3.3.4-6"]),
    Case::v5("overlapping.no_local_of_one_only", no_local_of_one_only)
        .proves_5(&["MQTT-3.8.3-3"])
        .needs(&[Feature::WildcardSubscriptions]),
];

/// All copies of a message that overlapping subscriptions bring: at most `most` are allowed, and one when strict. The
/// copies end where a message on its own topic arrives.
fn copies(s: &Scenario<'_>, from: &mut Client, to: &mut Client, most: usize) -> Outcome<Vec<Publish>> {
    let end = s.topic("end of copies");
    to.subscribe(&end, 0)?;
    from.publish(&Publish::new(&end, "end"))?;
    let mut copies = Vec::new();
    loop {
        let publish = to.take()?;
        if publish.topic == end {
            to.unsubscribe(&end)?;
            break;
        }
        copies.push(publish);
    }
    let most = if s.is_strict() { 1 } else { most };
    ensure!((1..=most).contains(&copies.len()), "{} copies of one message, at most {most} expected", copies.len());
    Ok(copies)
}

fn maximum_qos(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("a/b");
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&s.topic("a/+"), 0)?;
    subscriber.subscribe(&s.topic("a/#"), 2)?;
    subscriber.subscribe(&topic, 1)?;
    let mut publisher = s.connect("publisher")?;
    for published in 0..=2 {
        publisher.publish(&Publish::new(&topic, "x").qos(published))?;
        // The copy at the highest QoS is acknowledged last; until then nothing may be lost.
        let copies = copies(s, &mut publisher, &mut subscriber, 3)?;
        let highest = copies.iter().map(|publish| publish.qos).max();
        let best = highest.map_or_else(|| "no copy came".to_owned(), |qos| format!("the best copy came at QoS {qos}"));
        ensure!(highest == Some(published), "published at QoS {published}, {best}");
        ensure!(copies.iter().all(|publish| publish.topic == topic), "copies on other topics: {copies:?}");
    }
    Ok(())
}

fn identifiers_of_all(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("a/b");
    let mut subscriber = s.connect("subscriber")?;
    let filters =
        [(s.topic("a/b"), Some(1)), (s.topic("a/+"), Some(2)), (s.topic("a/#"), Some(300)), (s.topic("+/b"), None)];
    for (filter, identifier) in &filters {
        let mut subscribe = Subscribe::new(filter, 0);
        subscribe.properties.extend(identifier.map(Property::SubscriptionIdentifier));
        subscriber.subscribe_packet(&subscribe)?;
    }
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "x"))?;
    let copies = copies(s, &mut publisher, &mut subscriber, filters.len())?;
    let told: Vec<usize> = copies.iter().flat_map(Publish::subscription_identifiers).collect();
    let distinct: BTreeSet<usize> = told.iter().copied().collect();
    ensure!(distinct == BTreeSet::from([1, 2, 300]), "identifiers: {told:?}, expected 1, 2 and 300");
    ensure!(told.len() == distinct.len(), "an identifier came twice: {told:?}");
    // Either one copy tells all identifiers, or each copy tells the one of its subscription.
    let single = copies.len() == 1;
    let each = copies.iter().all(|publish| publish.subscription_identifiers().len() <= 1);
    ensure!(single || each, "several copies, one with several identifiers: {told:?}");
    Ok(())
}

fn identifiers_of_any_size(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    for identifier in [1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455] {
        let topic = s.topic(&format!("{identifier}"));
        client.subscribe_packet(&Subscribe::new(&topic, 0).with(Property::SubscriptionIdentifier(identifier)))?;
        client.publish(&Publish::new(&topic, "x"))?;
        let told = client.take_with("x")?.subscription_identifiers();
        ensure!(told == [identifier], "subscribed with identifier {identifier}, the message tells {told:?}");
    }
    Ok(())
}

fn identifier_is_replaced(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    for identifier in [Some(5), Some(6), None] {
        let mut subscribe = Subscribe::new(&topic, 0);
        subscribe.properties.extend(identifier.map(Property::SubscriptionIdentifier));
        client.subscribe_packet(&subscribe)?;
        client.publish(&Publish::new(&topic, "x"))?;
        let told = client.take_with("x")?.subscription_identifiers();
        ensure!(told == Vec::from_iter(identifier), "subscribed with {identifier:?}, the message tells {told:?}");
    }
    Ok(())
}

fn identifier_belongs_to_the_client(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut clients = Vec::new();
    for identifier in [None, Some(1), Some(2)] {
        let mut client = s.connect(&format!("c{}", identifier.unwrap_or(0)))?;
        let mut subscribe = Subscribe::new(&topic, 0);
        subscribe.properties.extend(identifier.map(Property::SubscriptionIdentifier));
        client.subscribe_packet(&subscribe)?;
        clients.push((client, identifier));
    }
    s.connect("publisher")?.publish(&Publish::new(&topic, "x"))?;
    for (client, identifier) in &mut clients {
        let told = client.take_with("x")?.subscription_identifiers();
        ensure!(told == Vec::from_iter(*identifier), "a client with {identifier:?} got {told:?}");
    }
    Ok(())
}

fn identifier_survives_the_connection(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe_packet(&Subscribe::new(&topic, 1).with(Property::SubscriptionIdentifier(77)))?;
    client.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "while away").qos(1))?;
    let (mut client, _) = s.connect_persistent("c")?;
    publisher.publish(&Publish::new(&topic, "back again").qos(1))?;
    for payload in ["while away", "back again"] {
        let told = client.take_with(payload)?.subscription_identifiers();
        ensure!(told == [77], "`{payload}` tells {told:?}, expected 77");
    }
    Ok(())
}

fn identifier_0_and_two_of_them(s: &Scenario<'_>) -> Outcome {
    let two = vec![Property::SubscriptionIdentifier(1), Property::SubscriptionIdentifier(2)];
    for properties in [vec![Property::SubscriptionIdentifier(0)], two] {
        let mut subscribe = Subscribe::new(&s.topic("t"), 0);
        subscribe.properties = properties;
        let mut client = s.connect("c")?;
        client.send_subscribe(&subscribe)?;
        client.expect_error_close(&[PROTOCOL_ERROR, crate::wire::reason_codes::MALFORMED_PACKET])?;
    }
    Ok(())
}

fn identifier_from_a_client(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_publish(&Publish::new(&s.topic("t"), "x").with(Property::SubscriptionIdentifier(1)))?;
    client.expect_error_close(&[PROTOCOL_ERROR, crate::wire::reason_codes::MALFORMED_PACKET])
}

/// No Local silences the subscription that has it, not another one that matches as well.
fn no_local_of_one_only(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("a/b");
    let mut client = s.connect("c")?;
    client.subscribe(&topic, NO_LOCAL)?;
    client.subscribe(&s.topic("a/+"), 0)?;
    client.publish(&Publish::new(&topic, "my own"))?;
    client.take_with("my own")?;
    s.fence_itself(&mut client)
}
