//! UNSUBSCRIBE and UNSUBACK.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{MALFORMED_PACKET, NO_SUBSCRIPTION_EXISTED, PROTOCOL_ERROR};
use crate::wire::subscribe::head;
use crate::wire::{Bytes, PacketType, Publish, Unsubscribe};

pub(super) const CASES: &[Case] = &[
    Case::all("unsubscribe.ends_the_subscription", ends_the_subscription)
        .proves_311(&["MQTT-3.10.4-1", "MQTT-3.10.4-5", "MQTT-2.3.1-7"])
        .proves_5(&["MQTT-3.10.4-1", "MQTT-3.10.4-2", "MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-2.2.1-6"]),
    Case::all("unsubscribe.from_nothing_is_acknowledged", from_nothing_is_acknowledged)
        .proves_311(&["MQTT-3.10.4-2"])
        .proves_5(&["MQTT-3.10.4-5", "MQTT-3.11.3-2"]),
    Case::all("unsubscribe.filters_are_compared_by_characters", filters_are_compared_by_characters)
        .proves_311(&["MQTT-3.10.4-4"])
        .proves_5(&["MQTT-3.10.4-1"])
        .needs(&[Feature::WildcardSubscriptions]),
    Case::all("unsubscribe.from_several_at_once", from_several_at_once)
        .proves_311(&["MQTT-3.10.4-3"])
        .proves_5(&["MQTT-3.10.4-6", "MQTT-3.11.3-1"]),
    Case::both("unsubscribe.completes_qos_1", completes_qos_1)
        .proves_311(&["MQTT-3.10.4-5"])
        .proves_5(&["MQTT-3.10.4-3"])
        .needs(&[Feature::Qos1]),
    Case::both("unsubscribe.completes_qos_2", completes_qos_2)
        .proves_311(&["MQTT-3.10.4-5"])
        .proves_5(&["MQTT-3.10.4-3"])
        .needs(&[Feature::Qos2]),
    Case::both("unsubscribe.flags", flags)
        .proves_311(&["MQTT-3.10.1-1", "MQTT-2.2.2-2"])
        .proves_5(&["MQTT-3.10.1-1", "MQTT-2.1.3-1"]),
    Case::both("unsubscribe.no_filter", no_filter).proves_311(&["MQTT-3.10.3-2"]).proves_5(&["MQTT-3.10.3-2"]),
    Case::both("unsubscribe.packet_id_0", packet_id_0).proves_311(&["MQTT-2.3.1-1"]).proves_5(&["MQTT-2.2.1-3"]),
    Case::all("unsubscribe.and_subscribe_again", and_subscribe_again),
];

fn ends_the_subscription(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    publisher.publish(&Publish::new(&topic, "before"))?;
    subscriber.take_with("before")?;
    subscriber.send_unsubscribe(&Unsubscribe::new(&topic).id(0x1234))?;
    subscriber.expect_success(PacketType::Unsuback, 0x1234)?;
    publisher.publish(&Publish::new(&topic, "after"))?;
    s.fence(&mut publisher, &mut subscriber)
}

fn from_nothing_is_acknowledged(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_unsubscribe(&Unsubscribe::new(&s.topic("never")).id(7))?;
    let unsuback = client.expect_success(PacketType::Unsuback, 7)?;
    if s.is_v5() {
        let expected = if s.is_strict() { &[NO_SUBSCRIPTION_EXISTED][..] } else { &[0, NO_SUBSCRIPTION_EXISTED] };
        ensure!(expected.contains(&unsuback.code()), "UNSUBACK tells 0x{:02x}", unsuback.code());
    }
    client.expect_nothing()
}

/// A filter that matches, contains or resembles the one subscribed is not the same filter.
fn filters_are_compared_by_characters(s: &Scenario<'_>) -> Outcome {
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&s.topic("a/+"), 0)?;
    subscriber.subscribe(&s.topic("b/c"), 0)?;
    for other in ["a/b", "a/#", "+/+", "b/+", "b/#", "b/C", "b/c/", "a/+/"] {
        subscriber.unsubscribe(&s.topic(other))?;
    }
    for topic in ["a/b", "b/c"] {
        publisher.publish(&Publish::new(&s.topic(topic), topic))?;
        subscriber.take_with(topic)?;
    }
    subscriber.unsubscribe(&s.topic("a/+"))?;
    publisher.publish(&Publish::new(&s.topic("a/b"), "gone"))?;
    publisher.publish(&Publish::new(&s.topic("b/c"), "kept"))?;
    subscriber.take_with("kept")?;
    s.fence(&mut publisher, &mut subscriber)
}

fn from_several_at_once(s: &Scenario<'_>) -> Outcome {
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&s.topic("a"), 0)?;
    subscriber.subscribe(&s.topic("b"), 0)?;
    subscriber.subscribe(&s.topic("c"), 0)?;
    let several = Unsubscribe::new(&s.topic("a")).and(&s.topic("never")).and(&s.topic("c"));
    let packet_id = subscriber.send_unsubscribe(&several)?;
    let unsuback = subscriber.expect_acknowledgement(PacketType::Unsuback, packet_id)?;
    if s.is_v5() {
        let [a, never, c] = unsuback.codes[..] else {
            return crate::outcome::failed(format!("MQTT-3.11.3-1: three filters, codes {:02x?}", unsuback.codes));
        };
        ensure!(a == 0 && c == 0 && [0, NO_SUBSCRIPTION_EXISTED].contains(&never), "codes {:02x?}", unsuback.codes);
        ensure!(!s.is_strict() || never == NO_SUBSCRIPTION_EXISTED, "codes {:02x?} (strict)", unsuback.codes);
    }
    for topic in ["a", "c", "b"] {
        publisher.publish(&Publish::new(&s.topic(topic), topic))?;
    }
    subscriber.take_with("b")?;
    subscriber.expect_nothing()?;
    s.fence(&mut publisher, &mut subscriber)
}

fn completes_qos_1(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 1)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "under way").qos(1))?;
    let first = subscriber.message_with("under way")?;
    subscriber.unsubscribe(&topic)?;
    publisher.publish(&Publish::new(&topic, "too late").qos(1))?;
    subscriber.drop_connection()?;
    // Begun deliveries are completed, also on another connection; later messages are not delivered.
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    let again = subscriber.take_with("under way")?;
    ensure!(again.dup && again.packet_id == first.packet_id, "sent again as {again:?}");
    s.fence(&mut publisher, &mut subscriber)
}

fn completes_qos_2(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    publisher.publish(&Publish::new(&topic, "one").qos(2))?;
    publisher.publish(&Publish::new(&topic, "two").qos(2))?;
    let one = subscriber.message_with("one")?;
    subscriber.receive_release(one.packet_id)?;
    let two = subscriber.message_with("two")?;
    subscriber.unsubscribe(&topic)?;
    subscriber.send_acknowledgement(PacketType::Pubcomp, one.packet_id)?;
    subscriber.receive_release(two.packet_id)?;
    subscriber.send_acknowledgement(PacketType::Pubcomp, two.packet_id)?;
    s.fence(&mut publisher, &mut subscriber)
}

fn flags(s: &Scenario<'_>) -> Outcome {
    for flags in [0x0, 0x1, 0x3, 0x4, 0x6, 0xa] {
        let mut client = s.connect("c")?;
        let body = head(1, &[], s.version).text(&s.topic("t"));
        client.send(&body.packet(0xa0 | flags))?;
        client.expect_error_close(&[MALFORMED_PACKET, PROTOCOL_ERROR])?;
    }
    Ok(())
}

fn no_filter(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send(&Unsubscribe::default().id(1).encode(s.version))?;
    client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])?;
    // A filter that ends before its length is as good as none.
    let mut client = s.connect("c")?;
    let cut = head(1, &[], s.version).raw(&[0, 9, b'x']);
    client.send(&Bytes::new().raw(&cut.into_vec()).packet(0xa2))?;
    client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])
}

fn packet_id_0(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send(&Unsubscribe::new(&s.topic("t")).encode(s.version))?;
    client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])
}

fn and_subscribe_again(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    for number in 0..20 {
        client.subscribe(&topic, 0)?;
        client.publish(&Publish::new(&topic, format!("{number}")))?;
        client.take_with(format!("{number}"))?;
        client.unsubscribe(&topic)?;
        client.publish(&Publish::new(&topic, "no subscriber"))?;
        s.fence_itself(&mut client)?;
    }
    Ok(())
}
