//! The admin listener of a running broker.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::broker::{Broker, PATIENCE};

#[test]
fn a_running_broker_is_healthy_and_ready() {
    let broker = Broker::start(&[]);
    assert_eq!(broker.get("/healthz"), ("200".to_owned(), "ok\n".to_owned()));
    assert_eq!(broker.get("/readyz"), ("200".to_owned(), "ready\n".to_owned()));
    assert_eq!(broker.get("/").0, "200");
    assert_eq!(broker.get("/nothing").0, "404");
}

#[test]
fn metrics_count_the_actions_of_clients() {
    let broker = Broker::start(&["--shards", "2"]);
    let mut client = TcpStream::connect(broker.address("mqtt://")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    // CONNECT of MQTT 3.1.1 with the client id "a"; the CONNACK shows that it has been counted.
    client.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a").unwrap();
    let mut connack = [0; 4];
    client.read_exact(&mut connack).unwrap();
    assert_eq!(connack, [0x20, 2, 0, 0]);
    let (code, text) = broker.get("/metrics");
    assert_eq!(code, "200");
    for line in [
        "mqtt_connections 1",
        "mqtt_sessions{state=\"connected\"} 1",
        "mqtt_connect_total{result=\"accepted\"} 1",
        "mqtt_packets_total{type=\"connect\",direction=\"received\"} 1",
        "mqtt_packets_total{type=\"connack\",direction=\"sent\"} 1",
        "tidegate_shards 2",
        concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
}
