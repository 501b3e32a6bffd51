//! Brokers that are not there: what is said of them.

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
fn a_broker_that_cannot_be_reached_is_named_with_the_cause_and_what_to_do() {
    let open = |address: &str| Client(Bus::open(&address.parse().unwrap(), settings(), Arc::new(|_| {})).unwrap());
    let nobody = open("kafka://127.0.0.1:1");
    until_said(&nobody.0, &["127.0.0.1:1", "Connection refused", "start Kafka there"]);
    let unknown = open("kafka://nobody.invalid");
    until_said(&unknown.0, &["nobody.invalid:9092", "Failed to resolve", "check the name"]);
}
