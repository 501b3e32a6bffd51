//! SUBSCRIBE and SUBACK, and the effect of a subscription from then on.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR};
use crate::wire::subscribe::{NO_LOCAL, RETAIN_AS_PUBLISHED, RETAIN_IF_NEW, RETAIN_NEVER, head};
use crate::wire::{PacketType, Publish, Subscribe};

pub(super) const CASES: &[Case] = &[
    Case::all("subscribe.is_acknowledged", is_acknowledged)
        .proves_311(&["MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-2.3.1-7"])
        .proves_5(&["MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-2.2.1-6"]),
    Case::all("subscribe.one_code_for_each_filter_in_order", one_code_for_each_filter_in_order)
        .proves_311(&["MQTT-3.8.4-4", "MQTT-3.8.4-5"])
        .proves_5(&["MQTT-3.8.4-5", "MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.9.3-1", "MQTT-3.9.3-2"])
        .needs(&[Feature::Qos2]),
    Case::v5("subscribe.every_qos_is_accepted_whatever_is_granted", every_qos_is_accepted).proves_5(&[
        "MQTT-3.2.2-9",
        "MQTT-3.2.2-10",
        "MQTT-3.8.4-7",
    ]),
    Case::both("subscribe.flags", flags)
        .proves_311(&["MQTT-3.8.1-1", "MQTT-2.2.2-2"])
        .proves_5(&["MQTT-3.8.1-1", "MQTT-2.1.3-1"]),
    Case::both("subscribe.no_filter", no_filter).proves_311(&["MQTT-3.8.3-3"]).proves_5(&["MQTT-3.8.3-2"]),
    Case::both("subscribe.packet_id_0", packet_id_0).proves_311(&["MQTT-2.3.1-1"]).proves_5(&["MQTT-2.2.1-3"]),
    Case::both("subscribe.reserved_option_bits", reserved_option_bits)
        .proves_311(&["MQTT-3.8.3-4"])
        .proves_5(&["MQTT-3.8.3-5"]),
    Case::both("subscribe.truncated", truncated).proves_311(&["MQTT-4.8.0-1"]).proves_5(&["MQTT-4.13.1-1"]),
    Case::all("subscribe.qos_is_the_lower_of_the_two", qos_is_the_lower_of_the_two)
        .proves_5(&["MQTT-3.8.4-8"])
        .needs(&[Feature::Qos2]),
    Case::all("subscribe.again_replaces", again_replaces)
        .proves_311(&["MQTT-3.8.4-3"])
        .proves_5(&["MQTT-3.8.4-3"])
        .needs(&[Feature::Qos2]),
    Case::all("subscribe.again_loses_nothing", again_loses_nothing)
        .proves_311(&["MQTT-3.8.4-3"])
        .proves_5(&["MQTT-3.8.4-4"])
        .needs(&[Feature::Qos1]),
    Case::all("subscribe.same_filter_twice_in_one_packet", same_filter_twice_in_one_packet)
        .proves_311(&["MQTT-3.8.4-4"])
        .proves_5(&["MQTT-3.8.4-5"])
        .needs(&[Feature::Qos1]),
    Case::all("subscribe.takes_effect_before_suback", takes_effect_before_suback)
        .proves_311(&["MQTT-4.5.0-1"])
        .proves_5(&["MQTT-4.5.0-1"]),
    Case::all("subscribe.to_many_filters_at_once", to_many_filters_at_once)
        .proves_311(&["MQTT-3.8.4-5"])
        .proves_5(&["MQTT-3.8.4-6"]),
    Case::v5("subscribe.no_local", no_local).proves_5(&["MQTT-3.8.3-3"]),
    Case::v5("subscribe.no_local_of_a_resumed_session", no_local_of_a_resumed_session).proves_5(&["MQTT-3.8.3-3"]),
    Case::v5("subscribe.again_replaces_the_options", again_replaces_the_options).proves_5(&["MQTT-3.8.4-3"]),
];

fn is_acknowledged(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    for packet_id in [1, 0x0100, 0xffff] {
        client.send_subscribe(&Subscribe::new(&s.topic("t"), 0).id(packet_id))?;
        client.expect_success(PacketType::Suback, packet_id)?;
    }
    client.expect_nothing()
}

fn one_code_for_each_filter_in_order(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    let mut subscribe = Subscribe::default();
    let wanted = [2, 0, 1, 1, 0, 2];
    for (number, qos) in wanted.into_iter().enumerate() {
        subscribe = subscribe.and(&s.topic(&format!("{number}")), qos);
    }
    let suback = client.subscribe_packet(&subscribe)?;
    ensure!(suback.codes == wanted, "asked for {wanted:?}, granted {:?}", suback.codes);
    // Each of the filters works.
    for number in 0..wanted.len() {
        client.publish(&Publish::new(&s.topic(&format!("{number}")), "x").qos(2))?;
        let publish = client.take()?;
        ensure!(publish.topic == s.topic(&format!("{number}")), "the message came on `{}`", publish.topic);
    }
    Ok(())
}

/// A broker without QoS 2 or QoS 1 says so in CONNACK and still accepts the subscriptions; one that says nothing has
/// them all.
fn every_qos_is_accepted(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    let highest = s.target().capabilities.maximum_qos;
    for qos in 0..=2 {
        let topic = s.topic(&format!("{qos}"));
        let suback = client.subscribe_packet(&Subscribe::new(&topic, qos))?;
        let granted = suback.code();
        ensure!(granted <= qos, "a subscription with QoS {qos} is answered with 0x{granted:02x}");
        let publish = client.publish(&Publish::new(&topic, "x").qos(qos.min(highest)))?;
        let arrived = client.take_with("x")?;
        ensure!(arrived.qos == publish.qos.min(granted), "the message came at QoS {}", arrived.qos);
    }
    Ok(())
}

fn flags(s: &Scenario<'_>) -> Outcome {
    for flags in [0x0, 0x1, 0x3, 0x4, 0x6, 0xa] {
        let mut client = s.connect("c")?;
        let mut bytes = Subscribe::new(&s.topic("t"), 0).id(1).encode(s.version);
        bytes.iter_mut().take(1).for_each(|first| *first = 0x80 | flags);
        client.send(&bytes)?;
        client.expect_error_close(&[MALFORMED_PACKET, PROTOCOL_ERROR])?;
    }
    Ok(())
}

fn no_filter(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send(&Subscribe::default().id(1).encode(s.version))?;
    client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])
}

fn packet_id_0(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send(&Subscribe::new(&s.topic("t"), 0).encode(s.version))?;
    client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])
}

fn reserved_option_bits(s: &Scenario<'_>) -> Outcome {
    // QoS 3 and the reserved bits; in MQTT 5 bits 2 to 5 have a meaning, but retain handling 3 has none.
    let wrong: &[u8] = if s.is_v5() { &[0x03, 0x40, 0x80, 0x30] } else { &[0x03, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80] };
    for options in wrong {
        let mut client = s.connect("c")?;
        client.send(&Subscribe::new(&s.topic("t"), *options).id(1).encode(s.version))?;
        client.expect_error_close(&[MALFORMED_PACKET, PROTOCOL_ERROR])?;
    }
    Ok(())
}

fn truncated(s: &Scenario<'_>) -> Outcome {
    let properties = usize::from(s.is_v5());
    let body = head(1, &[], s.version).text("filter").byte(0).into_vec();
    for length in 0..body.len() {
        // Without the filter altogether the packet is complete but empty, which is another case.
        if length == 2 + properties {
            continue;
        }
        let mut client = s.connect("c")?;
        let cut = body.get(..length).unwrap_or_default();
        client.send(&crate::wire::Bytes::new().raw(cut).packet(0x82))?;
        client.expect_error_close(&[MALFORMED_PACKET, PROTOCOL_ERROR])?;
    }
    Ok(())
}

fn qos_is_the_lower_of_the_two(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    for granted in 0..=2 {
        let topic = s.topic(&format!("{granted}"));
        let mut subscriber = s.connect(&format!("s{granted}"))?;
        subscriber.subscribe(&topic, granted)?;
        for published in 0..=2 {
            publisher.publish(&Publish::new(&topic, "x").qos(published))?;
            let publish = subscriber.take_with("x")?;
            ensure!(
                publish.qos == published.min(granted),
                "published at QoS {published}, granted {granted}, came at QoS {}",
                publish.qos
            );
        }
    }
    Ok(())
}

fn again_replaces(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for granted in [1, 0, 2] {
        subscriber.subscribe(&topic, granted)?;
        publisher.publish(&Publish::new(&topic, "x").qos(2))?;
        let publish = subscriber.take_with("x")?;
        ensure!(publish.qos == granted, "the new subscription has QoS {granted}, the message QoS {}", publish.qos);
        // One subscription, one copy.
        s.fence(&mut publisher, &mut subscriber)?;
    }
    subscriber.unsubscribe(&topic)?;
    publisher.publish(&Publish::new(&topic, "x").qos(2))?;
    s.fence(&mut publisher, &mut subscriber)
}

fn again_loses_nothing(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    for number in 0..50 {
        // Published while the subscription is being replaced, before or after as the broker likes.
        let publish = publisher.send_publish(&Publish::new(&topic, format!("{number}")).qos(1))?;
        let packet_id = subscriber.send_subscribe(&Subscribe::new(&topic, 1))?;
        publisher.expect_success(PacketType::Puback, publish.packet_id)?;
        subscriber.expect_success(PacketType::Suback, packet_id)?;
        subscriber.take_with(format!("{number}"))?;
    }
    s.fence(&mut publisher, &mut subscriber)
}

/// As a sequence of subscriptions the last one counts.
fn same_filter_twice_in_one_packet(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut subscriber = s.connect("subscriber")?;
    let suback = subscriber.subscribe_packet(&Subscribe::new(&topic, 1).and(&topic, 0))?;
    ensure!(suback.codes == [1, 0], "granted {:?}", suback.codes);
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "x").qos(1))?;
    let publish = subscriber.take_with("x")?;
    ensure!(publish.qos == 0, "the second of two subscriptions has QoS 0, the message QoS {}", publish.qos);
    s.fence(&mut publisher, &mut subscriber)
}

fn takes_effect_before_suback(s: &Scenario<'_>) -> Outcome {
    let mut subscriber = s.connect("subscriber")?;
    let mut publisher = s.connect("publisher")?;
    for number in 0..100 {
        let topic = s.topic(&format!("{number}"));
        subscriber.subscribe(&topic, 0)?;
        publisher.publish(&Publish::new(&topic, format!("{number}")))?;
        subscriber.take_with(format!("{number}"))?;
    }
    Ok(())
}

fn to_many_filters_at_once(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    let count = 100;
    let filters =
        (0..count).fold(Subscribe::default(), |subscribe, number| subscribe.and(&s.topic(&format!("{number}")), 0));
    // The helper compares the number of codes with the number of filters.
    let suback = client.subscribe_packet(&filters)?;
    ensure!(suback.codes.iter().all(|code| *code == 0), "granted {:?}", suback.codes);
    for number in [0, count / 2, count - 1] {
        client.publish(&Publish::new(&s.topic(&format!("{number}")), format!("{number}")))?;
        client.take_with(format!("{number}"))?;
    }
    Ok(())
}

fn no_local(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, mut other) = s.subscriber_and_publisher(&topic, NO_LOCAL)?;
    client.publish(&Publish::new(&topic, "my own"))?;
    other.publish(&Publish::new(&topic, "from another"))?;
    client.take_with("from another")?;
    s.fence_itself(&mut client)
}

fn no_local_of_a_resumed_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, _) = s.connect_persistent("c")?;
    client.subscribe(&topic, NO_LOCAL)?;
    client.drop_connection()?;
    let (mut client, _) = s.connect_persistent("c")?;
    client.publish(&Publish::new(&topic, "my own"))?;
    s.connect("other")?.publish(&Publish::new(&topic, "from another"))?;
    client.take_with("from another")?;
    s.fence_itself(&mut client)
}

fn again_replaces_the_options(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut client, mut other) = s.subscriber_and_publisher(&topic, NO_LOCAL | RETAIN_AS_PUBLISHED)?;
    for (options, own_arrives) in [(0, true), (NO_LOCAL | RETAIN_IF_NEW, false), (RETAIN_NEVER, true)] {
        client.subscribe(&topic, options)?;
        client.publish(&Publish::new(&topic, "my own"))?;
        if own_arrives {
            client.take_with("my own")?;
        }
        other.publish(&Publish::new(&topic, "from another"))?;
        client.take_with("from another")?;
        s.fence_itself(&mut client)?;
    }
    Ok(())
}
