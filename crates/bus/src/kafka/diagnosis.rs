//! The cause of unreachable brokers of Kafka. The client returns only that they are; the cause is in its log.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;

use crate::complaints::Complaint;

/// Remembers the last message of a client about a connection that failed.
#[derive(Default)]
pub(super) struct Heard(Mutex<Option<String>>);

impl Heard {
    /// The brokers answer: earlier messages do not matter any more.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The last message.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Heard {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, message, "the client of Kafka says");
        if facility == "FAIL" {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(without_thread(message).to_owned());
        }
    }
}

impl ConsumerContext for Heard {}

/// A message of the client without the name of its thread in front of it.
fn without_thread(message: &str) -> &str {
    message.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")).map_or(message, |(_, message)| message)
}

const WANTS_CERTIFICATE: &str =
    "set `bus_certificate` and `bus_key`: that listener wants a certificate, from an authority that it believes";

/// Meanings of words in the client's errors; the first word that is found counts.
const MEANINGS: [(&str, &str); 13] = [
    ("Failed to resolve", "check the name in the address of the bus, and who resolves names here"),
    ("Connection refused", "start Kafka there, or correct the port (9092 is the usual one)"),
    ("SASL authentication error", "correct user:password@ in the address of the bus, or `bus_sasl`"),
    ("Unsupported SASL mechanism", "set `bus_sasl` to a mechanism that the broker has, PLAIN or SCRAM"),
    ("alert bad certificate", WANTS_CERTIFICATE),
    ("alert certificate required", WANTS_CERTIFICATE),
    (
        "SSL connection closed by peer",
        "write user:password@ into the address of the bus where that listener asks who comes",
    ),
    ("PLAINTEXT broker listener", "that listener speaks no TLS: take the port of another one, or leave `bus_tls` out"),
    ("APIVERSION_QUERY", "set `bus_tls` where that listener wants TLS; otherwise see whether it is Kafka's port"),
    ("broker might require SASL", "write user:password@ into the address of the bus: that listener asks who comes"),
    (
        "certificate",
        "see whether `bus_ca` has the authority of its certificate, which has to name it as the address does",
    ),
    ("SSL handshake failed", "see `bus_tls`, `bus_ca`, and `bus_certificate` with `bus_key` where it wants one"),
    ("timed out", "see whether it can be reached from here, and what firewalls allow"),
];

/// The fault, by the client's message about a connection, or else by the returned error.
pub(super) fn complaint(heard: Option<String>, servers: &str, error: &str) -> Complaint {
    let cause = heard.unwrap_or_else(|| format!("{servers}: {error}"));
    let meaning = MEANINGS.iter().find(|(words, _)| cause.contains(words));
    Complaint { next: meaning.map_or("see whether Kafka runs there, and read its log", |(_, next)| next), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_client_has_its_advice() {
        let next = |said: &str| complaint(Some(said.to_owned()), "", "").next;
        assert!(next("k1:9092/bootstrap: Failed to resolve 'k1:9092': Name or service not known").contains("the name"));
        assert!(
            next("Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms)").contains("correct the port")
        );
        assert!(next("SASL authentication error: Authentication failed: Invalid username").contains("user:password@"));
        let listener =
            "Disconnected: connection closed by peer: receive 0 after POLLIN (after 0ms in state APIVERSION_QUERY)";
        assert!(next(listener).contains("set `bus_tls`"));
        let alert = "Receive failed: SSL routines::sslv3 alert bad certificate: SSL alert number 42 (after 30ms in state APIVERSION_QUERY)";
        assert!(next(alert).contains("set `bus_certificate`"));
        assert!(next("Disconnected: SSL connection closed by peer (after 4ms in state UP)").contains("user:password@"));
        assert!(next("SSL handshake failed: certificate verify failed: broker certificate").contains("`bus_ca`"));
        assert!(next("something else").contains("read its log"));
    }

    #[test]
    fn where_nothing_was_heard_the_servers_are_named() {
        assert!(complaint(None, "k1:9092", "no answer").cause.starts_with("k1:9092: no answer"));
        assert_eq!(without_thread("[thrd:k1:9092/bootstrap]: k1: gone"), "k1: gone");
        assert_eq!(without_thread("k1: gone"), "k1: gone");
    }
}
