//! The Will Delay Interval of MQTT 5, and what cuts it short.

use super::will::DELAY_MARGIN;
use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::wire::{Property, Publish, Will};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::v5("will_delay.passes_first", passes_first).proves_5(&["MQTT-3.1.2-8"]).slow(),
    Case::v5("will_delay.a_new_connection_cancels_the_will", a_new_connection_cancels_the_will)
        .proves_5(&["MQTT-3.1.3-9", "MQTT-3.1.2-8"])
        .slow(),
    Case::v5("will_delay.a_takeover_cancels_the_will", a_takeover_cancels_the_will)
        .proves_5(&["MQTT-3.1.3-9", "MQTT-3.1.2-8"])
        .slow(),
    Case::v5("will_delay.does_not_apply_when_the_session_ends_at_once", does_not_apply_when_the_session_ends_at_once)
        .proves_5(&["MQTT-3.1.2-8"]),
    Case::v5("will_delay.ends_with_the_session", ends_with_the_session).proves_5(&["MQTT-3.1.2-8"]).slow(),
    Case::v5("will_delay.ends_when_a_clean_start_ends_the_session", ends_when_a_clean_start_ends_the_session)
        .proves_5(&["MQTT-3.1.2-8", "MQTT-3.1.2-4"]),
    Case::v5("will_delay.ends_when_disconnect_ends_the_session", ends_when_disconnect_ends_the_session)
        .proves_5(&["MQTT-3.1.2-8"]),
    Case::v5("will_delay.outlives_the_lost_connection_only_once", outlives_the_lost_connection_only_once)
        .proves_5(&["MQTT-3.1.2-10"])
        .slow(),
];

fn delayed(topic: &str, seconds: u32) -> Will {
    Will::new(topic, "gone").with(Property::WillDelayInterval(seconds))
}

fn passes_first(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let connect = s.connection("c").persistent().will(delayed(&topic, 2));
    let (client, _) = s.connect_with("c", &connect)?;
    let lost = Instant::now();
    client.drop_connection()?;
    observer.more_patient(DELAY_MARGIN);
    observer.take_with("gone")?;
    let passed = lost.elapsed();
    // A broker whose clock has whole seconds may be up to a second early, one of milliseconds a few of them.
    let least = Duration::from_millis(if s.is_strict() { 1900 } else { 1000 });
    ensure!(passed >= least, "a will with a delay of 2 s came after {passed:?}");
    Ok(())
}

fn a_new_connection_cancels_the_will(s: &Scenario<'_>) -> Outcome {
    cancelled(s, true)
}

/// The old connection is lost because the new one takes its place.
fn a_takeover_cancels_the_will(s: &Scenario<'_>) -> Outcome {
    cancelled(s, false)
}

fn cancelled(s: &Scenario<'_>, lost_before: bool) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let connect = s.connection("c").persistent();
    let (mut client, _) = s.connect_with("c", &connect.clone().will(delayed(&topic, 2)))?;
    let (mut again, connack) = if lost_before {
        client.drop_connection()?;
        s.connect_with("c", &connect)?
    } else {
        let again = s.connect_with("c", &connect)?;
        client.expect_close()?;
        again
    };
    ensure!(connack.session_present, "the session is not there");
    // The will of another client with the same delay, lost later, shows that the time has passed.
    let clock_topic = s.topic("clock");
    observer.subscribe(&clock_topic, 0)?;
    let (clock, _) = s.connect_with("clock", &s.connection("clock").persistent().will(delayed(&clock_topic, 2)))?;
    clock.drop_connection()?;
    observer.more_patient(DELAY_MARGIN);
    let publish = observer.take()?;
    ensure!(publish.topic == clock_topic, "MQTT-3.1.3-9: the will came although the client is back");
    s.fence(&mut again, &mut observer)
}

fn does_not_apply_when_the_session_ends_at_once(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    // Without a session expiry interval the session ends with the connection, and the will does not wait longer.
    let (client, _) = s.connect_with("c", &s.connection("c").will(delayed(&topic, 3600)))?;
    client.drop_connection()?;
    observer.take_with("gone")?;
    Ok(())
}

fn ends_with_the_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let connect = s.connection("c").with(Property::SessionExpiryInterval(1)).will(delayed(&topic, 3600));
    let (client, _) = s.connect_with("c", &connect)?;
    client.drop_connection()?;
    observer.more_patient(DELAY_MARGIN);
    observer.take_with("gone")?;
    Ok(())
}

fn ends_when_a_clean_start_ends_the_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let connect = s.connection("c").persistent().will(delayed(&topic, 3600));
    let (client, _) = s.connect_with("c", &connect)?;
    client.drop_connection()?;
    let _again = s.connect("c")?;
    observer.take_with("gone")?;
    Ok(())
}

fn ends_when_disconnect_ends_the_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let connect = s.connection("c").persistent().will(delayed(&topic, 3600));
    let (client, _) = s.connect_with("c", &connect)?;
    client.disconnect_with(0x04, &[Property::SessionExpiryInterval(0)])?;
    observer.take_with("gone")?;
    Ok(())
}

fn outlives_the_lost_connection_only_once(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    let connect = s.connection("c").persistent();
    let (client, _) = s.connect_with("c", &connect.clone().will(delayed(&topic, 1)))?;
    client.drop_connection()?;
    observer.more_patient(DELAY_MARGIN);
    observer.take_with("gone")?;
    // Published means removed: neither the next loss nor the end of the session publishes it again.
    s.connect_with("c", &connect)?.0.drop_connection()?;
    let mut ended = s.connect("c")?;
    publisher.publish(&Publish::new(&topic, "after the end"))?;
    observer.take_with("after the end")?;
    s.fence(&mut ended, &mut observer)
}
