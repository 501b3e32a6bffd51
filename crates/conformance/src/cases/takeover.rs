//! A second connection with the same client identifier.

use crate::case::Case;
use crate::client::Client;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::version::Version;
use crate::wire::Publish;
use crate::wire::reason_codes::SESSION_TAKEN_OVER;

pub(super) const CASES: &[Case] = &[
    Case::all("takeover.ends_the_old_connection", ends_the_old_connection)
        .proves_311(&["MQTT-3.1.4-2"])
        .proves_5(&["MQTT-3.1.4-3"]),
    Case::both("takeover.keeps_a_session_that_is_resumed", keeps_a_session_that_is_resumed)
        .proves_311(&["MQTT-3.1.4-2", "MQTT-3.2.2-2"])
        .proves_5(&["MQTT-3.1.4-3", "MQTT-3.2.2-3"])
        .needs(&[Feature::Qos1]),
    Case::both("takeover.clean_start_discards_the_session", clean_start_discards_the_session)
        .proves_311(&["MQTT-3.1.2-6", "MQTT-3.2.2-1"])
        .proves_5(&["MQTT-3.1.2-4", "MQTT-3.2.2-2"])
        .needs(&[Feature::Qos1]),
    Case::both("takeover.across_versions", across_versions).proves_311(&["MQTT-3.1.4-2"]).proves_5(&["MQTT-3.1.4-3"]),
    Case::both("takeover.many_in_a_row", many_in_a_row).proves_311(&["MQTT-3.1.4-2"]).proves_5(&["MQTT-3.1.4-3"]),
];

/// The old connection ends; in MQTT 5 a DISCONNECT may say why, and nothing else than that.
fn expect_taken_over(s: &Scenario<'_>, old: &mut Client) -> Outcome {
    let told = old.expect_close()?;
    let expected = old.version == Version::V5 && s.is_strict();
    ensure!(told.is_some() || !expected, "closed without DISCONNECT 0x8e (strict)");
    ensure!(told.is_none_or(|code| code == SESSION_TAKEN_OVER), "MQTT-3.1.4-3: DISCONNECT with {told:02x?}");
    Ok(())
}

fn ends_the_old_connection(s: &Scenario<'_>) -> Outcome {
    let mut old = s.connect("c")?;
    let mut new = s.connect("c")?;
    expect_taken_over(s, &mut old)?;
    new.expect_nothing()
}

fn keeps_a_session_that_is_resumed(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut old, _) = s.connect_persistent("c")?;
    old.subscribe(&topic, 1)?;
    let (mut new, connack) = s.connect_persistent("c")?;
    ensure!(connack.session_present, "the session got lost when its connection was taken over");
    expect_taken_over(s, &mut old)?;
    s.connect("publisher")?.publish(&Publish::new(&topic, "to the new connection").qos(1))?;
    new.take_with("to the new connection")?;
    Ok(())
}

fn clean_start_discards_the_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut old, _) = s.connect_persistent("c")?;
    old.subscribe(&topic, 1)?;
    let (mut new, connack) = s.connect_with("c", &s.connection("c"))?;
    ensure!(!connack.session_present, "session present after a clean start");
    expect_taken_over(s, &mut old)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "unwanted").qos(1))?;
    s.fence(&mut publisher, &mut new)
}

fn across_versions(s: &Scenario<'_>) -> Outcome {
    let other = if s.is_v5() { Version::V311 } else { Version::V5 };
    if !s.target().capabilities.versions.contains(&other) {
        return crate::outcome::skipped(format!("the broker does not speak MQTT {other}"));
    }
    let mut old = s.connect("c")?;
    let (mut new, _) = s.connect_with("c", &s.connection_as(other, "c"))?;
    expect_taken_over(s, &mut old)?;
    new.expect_nothing()
}

fn many_in_a_row(s: &Scenario<'_>) -> Outcome {
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(s.connect_persistent("c")?.0);
    }
    let Some(mut last) = clients.pop() else {
        return Ok(());
    };
    for old in &mut clients {
        expect_taken_over(s, old)?;
    }
    last.expect_nothing()
}
