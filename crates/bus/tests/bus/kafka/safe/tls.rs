//! Tests of the client of Kafka with TLS.

use std::sync::Arc;

use tidegate_bus::{Address, Append, Bus, LogSpec, Sasl, Settings};

use super::{open, safe};
use crate::client::{Client, log, place};
use crate::kafka::Broker;
use crate::kafka::unreachable::until_said;

/// A bus that is not let in.
fn refused(port: u16, settings: Settings) -> Bus {
    let address: Address = format!("kafka://node:known@127.0.0.1:{port}").parse().unwrap();
    Bus::open(&address, settings, Arc::new(|connection| assert!(!connection.is_connected()))).unwrap()
}

pub(crate) fn tls_with_the_right_password_connects(broker: &Broker) {
    for sasl in [Sasl::Plain, Sasl::ScramSha512] {
        let (bus, connected) = open(broker, "known", safe(broker, sasl)).unwrap();
        assert!(connected, "{sasl:?}");
        let client = Client(bus);
        client.create(LogSpec::fenced(log("state"), 1)).unwrap();
        let state = place("state", 0);
        let owner = client.own(&state);
        client.append(&state, Append::new("said").by(owner)).unwrap();
        assert_eq!(client.payloads(&state), ["said"]);
        let (bus, connected) = open(broker, "guessed", safe(broker, sasl)).unwrap();
        assert!(!connected, "{sasl:?}");
        until_said(&bus, &["127.0.0.1", "SASL authentication error", "correct user:password@"]);
    }
    let unknown = refused(broker.safe_port, Settings { tls_ca: None, ..safe(broker, Sasl::Plain) });
    until_said(&unknown, &["certificate verify failed", "see whether `bus_ca`"]);
}
