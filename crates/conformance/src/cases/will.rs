//! Will Messages: when they are published, and when they are not.

use super::keep_alive;
use crate::case::Case;
use crate::client::Client;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::{Property, Publish, Will, reason_codes};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::all("will.is_published_when_the_connection_is_lost", is_published_when_the_connection_is_lost)
        .proves_311(&["MQTT-3.1.2-8"])
        .proves_5(&["MQTT-3.1.2-7", "MQTT-3.1.2-8"]),
    Case::all("will.is_discarded_by_disconnect", is_discarded_by_disconnect)
        .proves_311(&["MQTT-3.1.2-8", "MQTT-3.1.2-10", "MQTT-3.14.4-2"])
        .proves_5(&["MQTT-3.1.2-8", "MQTT-3.1.2-10", "MQTT-3.14.4-3"]),
    Case::v5("will.is_published_by_disconnect_with_will", is_published_by_disconnect_with_will)
        .proves_5(&["MQTT-3.1.2-8"]),
    Case::both("will.is_published_after_a_protocol_error", is_published_after_a_protocol_error)
        .proves_311(&["MQTT-3.1.2-8"])
        .proves_5(&["MQTT-3.1.2-8"]),
    Case::both("will.is_published_after_a_second_connect", is_published_after_a_second_connect)
        .proves_311(&["MQTT-3.1.2-8"])
        .proves_5(&["MQTT-3.1.2-8"]),
    Case::both("will.is_published_when_the_keep_alive_runs_out", is_published_when_the_keep_alive_runs_out)
        .proves_311(&["MQTT-3.1.2-8", "MQTT-3.1.2-24"])
        .proves_5(&["MQTT-3.1.2-8", "MQTT-3.1.2-22"])
        .slow(),
    Case::both("will.is_published_at_a_takeover", is_published_at_a_takeover)
        .proves_311(&["MQTT-3.1.2-8"])
        .proves_5(&["MQTT-3.1.2-8"]),
    Case::all("will.is_absent_without_the_flag", is_absent_without_the_flag).proves_311(&["MQTT-3.1.2-12"]),
    Case::both("will.is_published_once", is_published_once)
        .proves_311(&["MQTT-3.1.2-10", "MQTT-3.1.2-12"])
        .proves_5(&["MQTT-3.1.2-10"])
        .needs(&[Feature::Qos1]),
    Case::all("will.of_each_qos", of_each_qos)
        .proves_311(&["MQTT-3.1.2-14"])
        .proves_5(&["MQTT-3.1.2-12"])
        .needs(&[Feature::Qos2]),
    Case::both("will.without_retain_is_not_retained", without_retain_is_not_retained)
        .proves_311(&["MQTT-3.1.2-16"])
        .proves_5(&["MQTT-3.1.2-14"])
        .needs(&[Feature::Retained]),
    Case::both("will.with_retain_is_retained", with_retain_is_retained)
        .proves_311(&["MQTT-3.1.2-17"])
        .proves_5(&["MQTT-3.1.2-15"])
        .needs(&[Feature::Retained]),
    Case::v5("will.with_retain_is_refused_without_retained_messages", with_retain_is_refused)
        .proves_5(&["MQTT-3.2.2-13"])
        .needs(&[Feature::NoRetained]),
    Case::v5("will.above_the_maximum_qos_is_refused", above_the_maximum_qos_is_refused)
        .proves_5(&["MQTT-3.2.2-12"])
        .needs(&[Feature::LowMaximumQos]),
    Case::both("will.may_be_empty", may_be_empty).proves_311(&["MQTT-3.1.2-8"]).proves_5(&["MQTT-3.1.2-8"]),
    Case::v5("will.properties_arrive", properties_arrive).proves_5(&["MQTT-3.1.3-10", "MQTT-3.1.2-7"]),
];

/// A connected client with this will.
pub(super) fn with_will(s: &Scenario<'_>, name: &str, will: Will) -> Outcome<Client> {
    Ok(s.connect_with(name, &s.connection(name).will(will))?.0)
}

fn is_published_when_the_connection_is_lost(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    let client = with_will(s, "c", Will::new(&topic, "gone"))?;
    s.fence(&mut publisher, &mut observer)?;
    client.drop_connection()?;
    let publish = observer.take_with("gone")?;
    ensure!(!publish.retain && publish.topic == topic, "the will came on `{}`", publish.topic);
    Ok(())
}

fn is_discarded_by_disconnect(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    with_will(s, "c", Will::new(&topic, "gone"))?.disconnect()?;
    // The fence comes from the same client identifier, so that it follows whatever became of the will.
    let mut again = s.connect("c")?;
    s.fence(&mut again, &mut observer)
}

fn is_published_by_disconnect_with_will(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    with_will(s, "c", Will::new(&topic, "gone"))?.disconnect_with(0x04, &[])?;
    observer.take_with("gone")?;
    Ok(())
}

fn is_published_after_a_protocol_error(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let mut client = with_will(s, "c", Will::new(&topic, "gone"))?;
    // SUBSCRIBE with wrong flags.
    client.send(&[0x80, 0])?;
    client.expect_error_close(&[])?;
    observer.take_with("gone")?;
    Ok(())
}

fn is_published_after_a_second_connect(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let mut client = with_will(s, "c", Will::new(&topic, "gone"))?;
    client.send(&s.connection("c").encode())?;
    client.expect_error_close(&[])?;
    observer.take_with("gone")?;
    Ok(())
}

fn is_published_when_the_keep_alive_runs_out(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let connect = s.connection("c").keep_alive(1).will(Will::new(&topic, "silent"));
    let (silent, _) = s.connect_with("c", &connect)?;
    observer.more_patient(keep_alive::longest_wait(s)?);
    observer.take_with("silent")?;
    drop(silent);
    Ok(())
}

/// In MQTT 5 the will has a delay of 0 here, so that it is due the moment the old connection is closed.
fn is_published_at_a_takeover(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let mut old = with_will(s, "c", Will::new(&topic, "taken over"))?;
    let _new = s.connect("c")?;
    old.expect_close()?;
    observer.take_with("taken over")?;
    Ok(())
}

fn is_absent_without_the_flag(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    s.connect("c")?.drop_connection()?;
    s.fence(&mut publisher, &mut observer)
}

fn is_published_once(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 1)?;
    let connect = s.connection("c").persistent();
    let willing = connect.clone().will(Will::new(&topic, "gone").qos(1));
    s.connect_with("c", &willing)?.0.drop_connection()?;
    observer.take_with("gone")?;
    // The will belonged to the lost connection; a later connection of the session without one loses nothing.
    s.connect_with("c", &connect)?.0.drop_connection()?;
    let mut again = s.connect_with("c", &connect)?.0;
    s.fence(&mut again, &mut observer)
}

fn of_each_qos(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 2)?;
    for qos in 0..=2 {
        let payload = format!("at QoS {qos}");
        with_will(s, "c", Will::new(&topic, &payload).qos(qos))?.drop_connection()?;
        let publish = observer.take_with(&payload)?;
        ensure!(publish.qos == qos, "a will of QoS {qos} came at QoS {}", publish.qos);
    }
    Ok(())
}

fn without_retain_is_not_retained(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    with_will(s, "c", Will::new(&topic, "gone"))?.drop_connection()?;
    observer.take_with("gone")?;
    let mut late = s.connect("late")?;
    late.subscribe(&topic, 0)?;
    s.fence(&mut publisher, &mut late)
}

fn with_retain_is_retained(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    with_will(s, "c", Will::new(&topic, "gone").qos(1).retain())?.drop_connection()?;
    let publish = observer.take_with("gone")?;
    ensure!(!publish.retain, "RETAIN is set on the will for a subscription that existed before");
    let mut late = s.connect("late")?;
    late.subscribe(&topic, 1)?;
    let publish = late.take_with("gone")?;
    ensure!(publish.retain, "RETAIN is not set on the retained will");
    publisher.publish(&Publish::new(&topic, "").retain())?;
    Ok(())
}

fn with_retain_is_refused(s: &Scenario<'_>) -> Outcome {
    let mut client = s.open("c")?;
    client.send_connect(&s.connection("c").will(Will::new(&s.topic("will"), "gone").retain()))?;
    client.expect_refusal(&[reason_codes::RETAIN_NOT_SUPPORTED])?;
    Ok(())
}

fn above_the_maximum_qos_is_refused(s: &Scenario<'_>) -> Outcome {
    let mut client = s.open("c")?;
    client.send_connect(&s.connection("c").will(Will::new(&s.topic("will"), "gone").qos(2)))?;
    client.expect_refusal(&[reason_codes::QOS_NOT_SUPPORTED])?;
    Ok(())
}

fn may_be_empty(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    with_will(s, "c", Will::new(&topic, ""))?.drop_connection()?;
    observer.take_with("")?;
    Ok(())
}

fn properties_arrive(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let pairs = [("b", "1"), ("a", "2"), ("b", "3"), ("", "")];
    let mut will = Will::new(&topic, "gone")
        .with(Property::PayloadFormatIndicator(1))
        .with(Property::MessageExpiryInterval(1000))
        .with(Property::ContentType("text/plain".to_owned()))
        .with(Property::ResponseTopic("answers".to_owned()))
        .with(Property::CorrelationData(vec![0, 1, 255]));
    for (name, value) in pairs {
        will = will.with(Property::UserProperty(name.to_owned(), value.to_owned()));
    }
    let sent = will.properties.clone();
    with_will(s, "c", will)?.drop_connection()?;
    let publish = observer.take_with("gone")?;
    for property in &sent {
        // The expiry may have been counted down by a second.
        let arrived = match property {
            Property::MessageExpiryInterval(sent) => {
                publish.expiry().is_some_and(|left| left <= *sent && left + 60 > *sent)
            }
            other => publish.properties.contains(other),
        };
        ensure!(arrived, "{property:?} of the will did not arrive unaltered");
    }
    let expected: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ensure!(
        publish.user_properties() == expected,
        "MQTT-3.1.3-10: the user properties came as {:?}",
        publish.user_properties()
    );
    Ok(())
}

/// Time that a will delay of a second may take at most, beyond the usual patience.
pub(super) const DELAY_MARGIN: Duration = Duration::from_secs(10);
