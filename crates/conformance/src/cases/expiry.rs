//! The Message Expiry Interval of MQTT 5.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::{PacketType, Property, Publish};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::v5("expiry.interval_is_passed_on", interval_is_passed_on).proves_5(&["MQTT-3.3.2-6"]),
    Case::v5("expiry.waiting_time_is_taken_off", waiting_time_is_taken_off)
        .proves_5(&["MQTT-3.3.2-6"])
        .needs(&[Feature::Qos1])
        .slow(),
    Case::v5("expiry.expired_is_not_delivered", expired_is_not_delivered)
        .proves_5(&["MQTT-3.3.2-5"])
        .needs(&[Feature::Qos1])
        .slow(),
    Case::v5("expiry.expired_behind_a_full_window_is_not_delivered", expired_behind_a_full_window)
        .proves_5(&["MQTT-3.3.2-5"])
        .needs(&[Feature::Qos1])
        .slow(),
    Case::v5("expiry.does_not_apply_once_sent", does_not_apply_once_sent)
        .proves_5(&["MQTT-4.3.3-7"])
        .needs(&[Feature::Qos2])
        .slow(),
    Case::v5("expiry.does_not_interrupt_the_handshake", does_not_interrupt_the_handshake)
        .proves_5(&["MQTT-4.3.3-13"])
        .needs(&[Feature::Qos2])
        .slow(),
];

/// Long enough that an interval of a second has passed on any clock, also one of whole seconds.
const OVER_A_SECOND: Duration = Duration::from_millis(2500);

fn expiring(topic: &str, payload: &str, seconds: u32) -> Publish {
    Publish::new(topic, payload).with(Property::MessageExpiryInterval(seconds))
}

fn interval_is_passed_on(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    for seconds in [100, 86_400, u32::MAX] {
        publisher.publish(&expiring(&topic, "x", seconds))?;
        let left = subscriber.take_with("x")?.expiry();
        // At once, within the delays of a busy machine.
        let near = left.is_some_and(|left| left <= seconds && left >= seconds - 60);
        ensure!(near, "an interval of {seconds} s came as {left:?}");
    }
    publisher.publish(&Publish::new(&topic, "lasting"))?;
    let left = subscriber.take_with("lasting")?.expiry();
    ensure!(left.is_none(), "a message without an interval came with {left:?}");
    Ok(())
}

fn waiting_time_is_taken_off(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 1)?;
    subscriber.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&expiring(&topic, "x", 1000).qos(1))?;
    publisher.expect_quiet_for(OVER_A_SECOND)?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    let left = subscriber.take_with("x")?.expiry();
    let taken_off = left.is_some_and(|left| (900..1000).contains(&left));
    ensure!(taken_off, "after more than two seconds of waiting 1000 s came as {left:?}");
    Ok(())
}

fn expired_is_not_delivered(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 1)?;
    subscriber.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&expiring(&topic, "short-lived", 1).qos(1))?;
    publisher.publish(&Publish::new(&topic, "lasting").qos(1))?;
    publisher.expect_quiet_for(OVER_A_SECOND)?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.take_with("lasting")?;
    s.fence(&mut publisher, &mut subscriber)
}

/// The subscriber is connected, but its window is full while the message waits.
fn expired_behind_a_full_window(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let connect = s.connection("subscriber").with(Property::ReceiveMaximum(1));
    let (mut subscriber, _) = s.connect_with("subscriber", &connect)?;
    subscriber.subscribe(&topic, 1)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "first").qos(1))?;
    publisher.publish(&expiring(&topic, "short-lived", 1).qos(1))?;
    publisher.publish(&Publish::new(&topic, "last").qos(1))?;
    let first = subscriber.message_with("first")?;
    subscriber.expect_quiet_for(OVER_A_SECOND)?;
    subscriber.acknowledge(&first)?;
    subscriber.take_with("last")?;
    s.fence(&mut publisher, &mut subscriber)
}

/// A message that was sent once is owed, however old it gets.
fn does_not_apply_once_sent(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 2)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&expiring(&topic, "owed", 1).qos(2))?;
    let first = subscriber.message_with("owed")?;
    subscriber.drop_connection()?;
    publisher.expect_quiet_for(OVER_A_SECOND)?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    let again = subscriber.message_with("owed")?;
    ensure!(again.dup && again.packet_id == first.packet_id, "sent again as {again:?}");
    subscriber.acknowledge(&again)?;
    s.fence(&mut publisher, &mut subscriber)
}

fn does_not_interrupt_the_handshake(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    let sent = publisher.send_publish(&expiring(&topic, "x", 1).qos(2))?;
    publisher.expect_success(PacketType::Pubrec, sent.packet_id)?;
    publisher.expect_quiet_for(OVER_A_SECOND)?;
    publisher.release(sent.packet_id)?;
    publisher.expect_nothing()
}
