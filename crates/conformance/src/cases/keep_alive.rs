//! Keep alive and PINGREQ.

use crate::case::Case;
use crate::client::Arrival;
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::wire::reason_codes::{KEEP_ALIVE_TIMEOUT, MALFORMED_PACKET, PROTOCOL_ERROR};
use crate::wire::{Packet, PacketType, Property, Publish};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::all("keep_alive.ping_is_answered", ping_is_answered)
        .proves_311(&["MQTT-3.12.4-1"])
        .proves_5(&["MQTT-3.12.4-1"]),
    Case::both("keep_alive.malformed_ping_closes", malformed_ping_closes)
        .proves_311(&["MQTT-2.2.2-2", "MQTT-4.8.0-1"])
        .proves_5(&["MQTT-2.1.3-1", "MQTT-4.13.1-1"]),
    Case::all("keep_alive.silence_closes", silence_closes)
        .proves_311(&["MQTT-3.1.2-24"])
        .proves_5(&["MQTT-3.1.2-22", "MQTT-3.2.2-22"])
        .slow(),
    Case::all("keep_alive.any_packet_counts", any_packet_counts)
        .proves_311(&["MQTT-3.1.2-24"])
        .proves_5(&["MQTT-3.1.2-22"])
        .slow(),
    Case::all("keep_alive.zero_turns_it_off", zero_turns_it_off).slow(),
    Case::both("keep_alive.half_a_packet_does_not_count", half_a_packet_does_not_count)
        .proves_311(&["MQTT-3.1.2-24"])
        .proves_5(&["MQTT-3.1.2-22"])
        .slow(),
    Case::all("keep_alive.what_the_broker_sends_does_not_count", what_the_broker_sends_does_not_count)
        .proves_311(&["MQTT-3.1.2-24"])
        .proves_5(&["MQTT-3.1.2-22"])
        .slow(),
];

/// Longest keep alive in seconds, imposed by the broker, for which these cases wait.
const KEEP_ALIVE_MAX: u16 = 5;

/// The keep alive that holds for a client that asks for one second.
fn effective(s: &Scenario<'_>) -> Outcome<u16> {
    let seconds = s.target().capabilities.server_keep_alive.unwrap_or(1);
    if seconds == 0 || seconds > KEEP_ALIVE_MAX {
        return skipped(format!("the broker imposes a keep alive of {seconds} s"));
    }
    Ok(seconds)
}

/// How long a broker may take to close a silent connection with a keep alive of a second: far more than one and a half
/// times the keep alive, as the statement is about closing at all.
pub(super) fn longest_wait(s: &Scenario<'_>) -> Outcome<Duration> {
    Ok(Duration::from_secs(u64::from(effective(s)?) * 2 + 15))
}

fn ping_is_answered(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.ping()?;
    // Several at once get an answer each.
    client.send(&[0xc0, 0, 0xc0, 0, 0xc0, 0])?;
    for _ in 0..3 {
        client.expect(PacketType::Pingresp)?;
    }
    client.expect_nothing()
}

fn malformed_ping_closes(s: &Scenario<'_>) -> Outcome {
    for bytes in [&[0xc1, 0][..], &[0xc0, 1, 0]] {
        let mut client = s.connect("c")?;
        client.send(bytes)?;
        client.expect_error_close(&[MALFORMED_PACKET, PROTOCOL_ERROR])?;
    }
    Ok(())
}

fn silence_closes(s: &Scenario<'_>) -> Outcome {
    let keep_alive = effective(s)?;
    let connect = s.connection("c").keep_alive(1);
    let mut client = s.open("c")?;
    let sent = Instant::now();
    client.send_connect(&connect)?;
    let connack = client.expect_connack()?;
    let imposed = connack.properties.iter().any(|property| matches!(property, Property::ServerKeepAlive(_)));
    ensure!(
        imposed == s.target().capabilities.server_keep_alive.is_some() || !s.is_v5(),
        "MQTT-3.2.2-22: the Server Keep Alive differs between two connections that ask for the same"
    );
    client.more_patient(longest_wait(s)?);
    client.expect_error_close(&[KEEP_ALIVE_TIMEOUT])?;
    let passed = sent.elapsed();
    let earliest = Duration::from_secs(u64::from(keep_alive));
    ensure!(passed >= earliest, "a keep alive of {keep_alive} s ran out after {passed:?}");
    Ok(())
}

fn any_packet_counts(s: &Scenario<'_>) -> Outcome {
    effective(s)?;
    let topic = s.topic("t");
    let (mut client, _) = s.connect_with("c", &s.connection("c").keep_alive(1))?;
    let (mut silent, _) = s.connect_with("silent", &s.connection("silent").keep_alive(1))?;
    // The broker's own clock: once it has closed the silent client, a talking one had every reason to be closed too.
    let deadline = Instant::now() + longest_wait(s)?;
    while Instant::now() < deadline {
        client.send_publish(&Publish::new(&topic, "alive"))?;
        if silent.arrival_within(Duration::from_millis(200))? != Arrival::Silence {
            return client.expect_nothing();
        }
    }
    failed("a silent client with a keep alive of 1 s was not closed")
}

fn zero_turns_it_off(s: &Scenario<'_>) -> Outcome {
    if s.target().capabilities.server_keep_alive.is_some() {
        return skipped("the broker imposes a keep alive");
    }
    let (mut client, _) = s.connect_with("c", &s.connection("c").keep_alive(0))?;
    let (mut silent, _) = s.connect_with("silent", &s.connection("silent").keep_alive(1))?;
    silent.more_patient(longest_wait(s)?);
    silent.expect_close()?;
    client.expect_nothing()
}

/// A packet that trickles in byte by byte and never ends keeps no connection alive.
fn half_a_packet_does_not_count(s: &Scenario<'_>) -> Outcome {
    effective(s)?;
    let (mut client, _) = s.connect_with("c", &s.connection("c").keep_alive(1))?;
    client.send(&[0x30, 0x7f])?;
    let deadline = Instant::now() + longest_wait(s)?;
    while Instant::now() < deadline {
        client.send_anyway(b"\0");
        match client.arrival_within(Duration::from_millis(250))? {
            Arrival::Silence => {}
            Arrival::Closed | Arrival::Packet(Packet::Disconnect { .. }) => return Ok(()),
            Arrival::Packet(packet) => return failed(format!("half a packet is answered with {packet:?}")),
        }
    }
    failed("a client that never completes a packet was not closed although its keep alive ran out")
}

fn what_the_broker_sends_does_not_count(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.open("c")?;
    client.send_connect(&s.connection("c").keep_alive(2))?;
    client.expect_connack()?;
    client.subscribe(&topic, 0)?;
    let mut publisher = s.connect("publisher")?;
    let deadline = Instant::now() + longest_wait(s)?;
    while Instant::now() < deadline {
        publisher.publish(&Publish::new(&topic, "hello?"))?;
        match client.arrival_within(Duration::from_millis(200))? {
            Arrival::Closed => return Ok(()),
            Arrival::Packet(Packet::Disconnect { code, .. }) => {
                ensure!(code == KEEP_ALIVE_TIMEOUT, "DISCONNECT with 0x{code:02x}, expected 0x8d");
                return Ok(());
            }
            _ => {}
        }
    }
    failed("a client that only listens was not closed although its keep alive ran out")
}
