//! Unreachable brokers: the reported cause.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::Arc;

use tidegate_bus::Bus;

use crate::client::Client;
use crate::settings;

/// Why there is no connection, once something of it is known that has these words.
pub(super) fn until_said(bus: &Bus, words: &[&str]) {
    let began = std::time::Instant::now();
    loop {
        let said = bus.failure().unwrap_or_default();
        if words.iter().all(|word| said.contains(word)) {
            return;
        }
        assert!(began.elapsed() < crate::client::PATIENCE, "{words:?}: {said}");
        std::thread::yield_now();
    }
}

#[test]
fn an_unreachable_broker_is_named_with_cause_and_advice() {
    let open = |address: &str| Client(Bus::open(&address.parse().unwrap(), settings(), Arc::new(|_| {})).unwrap());
    let closed = open("kafka://127.0.0.1:1");
    until_said(&closed.0, &["127.0.0.1:1", "Connection refused", "start Kafka there"]);
    let unknown = open("kafka://unknown.invalid");
    until_said(&unknown.0, &["unknown.invalid:9092", "Failed to resolve", "check the name"]);
    // A server that wants TLS ends a connection that begins without.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.read(&mut [0; 512]));
        }
    });
    let safe = open(&format!("kafka://127.0.0.1:{port}"));
    until_said(&safe.0, &[&format!("127.0.0.1:{port}"), "Disconnected", "set `bus_tls`"]);
}
