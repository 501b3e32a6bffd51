//! How long brokers take to join a fleet, in the engine alone: `cargo bench -p tidegate-engine --bench fleet`.
//!
//! One client holds 10,000 filters, half of them with wildcards. Then 100 brokers are dialed, accept, and confirm each
//! SUBSCRIBE packet at once. The time is that from the first CONNACK until all of them serve.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results and stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use tidegate_engine::{
    BrokerLinkOptions, BrokerLinkSettings, BrokerLinkState, ConnectionKey, Engine, Event, ListenerId, Millis, Now,
    Settings, ShardPosition,
};
use tidegate_mqtt::{
    ConnAck, ConnAckProperties, Packet, QoS, ReasonCode, SubAck, Subscribe, SubscriptionOptions, Subscriptions,
    TopicFilter, UserProperties, Version, split_frame,
};

const BROKERS: usize = 100;
const FILTERS: usize = 10_000;
const NOW: Now = Now { monotonic: Millis(1_000), unix: 1_700_000_000_000 };

/// What an output holds, taken out of it.
fn take_output(engine: &mut Engine, key: ConnectionKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(output) = engine.output(key).filter(|output| !output.is_empty()) {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = output.slices(&mut slices);
        let before = bytes.len();
        for slice in &slices[..count] {
            bytes.extend_from_slice(slice);
        }
        let taken = bytes.len() - before;
        engine.output(key).unwrap().advance(taken);
        engine.outputs().handle_written(NOW, key);
    }
    bytes
}

/// The answers of a broker to the bytes that it gets.
fn answer(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some(frame) = split_frame(rest, u32::MAX).unwrap() {
        match Packet::decode(Version::V5, &frame).unwrap() {
            Packet::Connect(_) => {
                let properties = ConnAckProperties::default();
                let ack = ConnAck { session_present: false, reason_code: ReasonCode::Success, properties };
                ack.encode(Version::V5, &mut out).unwrap();
            }
            Packet::Subscribe(packet) => {
                let codes = vec![ReasonCode::GrantedQos2; packet.filters().count()];
                SubAck::new(packet.packet_id, &codes).encode(Version::V5, &mut out).unwrap();
            }
            _ => {}
        }
        rest = &rest[frame.total_len..];
    }
    out
}

/// Subscribes a client to all filters.
fn subscribe(engine: &mut Engine) {
    let key = engine.open_connection(NOW, ListenerId(0)).unwrap();
    engine.handle_input(NOW, key, b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a");
    for first in (0..FILTERS).step_by(100) {
        let name = |number: usize| match number % 2 {
            0 => format!("site/{number}/level"),
            _ => format!("site/{number}/+/level"),
        };
        let names: Vec<String> = (first..first + 100).map(name).collect();
        let options = SubscriptionOptions::new(QoS::AtLeastOnce);
        let filters: Vec<_> = names.iter().map(|name| (TopicFilter::new(name).unwrap(), options)).collect();
        let packet_id = tidegate_mqtt::PacketId::MIN;
        let subscriptions = Subscriptions::new(&filters);
        let user_properties = UserProperties::EMPTY;
        let packet = Subscribe { packet_id, subscription_identifier: None, user_properties, subscriptions };
        let mut bytes = Vec::new();
        packet.encode(Version::V311, &mut bytes).unwrap();
        engine.handle_input(NOW, key, &bytes);
        take_output(engine, key);
    }
}

fn main() {
    let settings = Settings { broker_links: Some(BrokerLinkSettings::default()), ..Settings::default() };
    let mut engine = Engine::new(Arc::new(settings), ShardPosition::ALONE, 7, NOW);
    subscribe(&mut engine);
    assert_eq!(engine.questions().wanted_filters(), FILTERS as u64);
    let options = BrokerLinkOptions { version: Some(Version::V5), user_name: None, password: None, lasting: false };
    for broker in 0..BROKERS {
        engine.fleet().set_broker_link(NOW, &format!("broker-{broker}"), options.clone()).unwrap();
    }
    let mut connections = BTreeMap::new();
    while let Some(event) = engine.poll_event() {
        if let Event::Dial { broker_link, attempt } = event {
            connections.insert(engine.fleet().open_broker_link(NOW, &broker_link, attempt).unwrap(), broker_link);
        }
    }
    let began = Instant::now();
    let mut packets = 0;
    loop {
        let mut quiet = true;
        for key in connections.keys() {
            let sent = take_output(&mut engine, *key);
            if !sent.is_empty() {
                quiet = false;
                packets += 1;
                engine.handle_input(NOW, *key, &answer(&sent));
            }
        }
        if quiet {
            break;
        }
    }
    let serving = engine
        .questions()
        .broker_links()
        .iter()
        .filter(|broker_link| broker_link.state == BrokerLinkState::Serving)
        .count();
    assert_eq!(serving, BROKERS, "all of them serve");
    let took = began.elapsed();
    println!(
        "{BROKERS} brokers x {FILTERS} filters: {:.2} s until all serve ({packets} exchanges)",
        took.as_secs_f64()
    );
}
