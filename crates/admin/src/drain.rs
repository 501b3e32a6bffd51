//! `/api/v1/drain`: clients of an orchestrator are sent elsewhere.

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::request::{Body, Done, Method, Request};

/// Clients sent away per second unless another number is asked for.
pub const DEFAULT_PER_SECOND: u32 = 500;
/// Most clients sent away per second.
pub const MAX_PER_SECOND: u32 = 1_000_000;
/// Longest time that clients have to leave by themselves, seconds.
pub const MAX_EVICT_AFTER_S: u64 = 86_400;

const ROUTE: &str = "/api/v1/drain";
const COMMAND: Option<&str> = Some("fleet");

/// `GET /api/v1/drain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetDrain;

impl Request for GetDrain {
    type Answer = DrainStatus;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = ROUTE;
}

/// `POST /api/v1/drain`: begins to send clients elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// The server reference for MQTT 5 clients (0x9C), `HOST:PORT`.
    #[serde(default)]
    pub server_reference: Option<String>,
    /// Clients per second, 1 to [`MAX_PER_SECOND`].
    #[serde(default = "default_per_second")]
    pub per_second: u32,
    /// Time from the beginning, seconds, 0 to [`MAX_EVICT_AFTER_S`], after which clients of MQTT 3 are closed, too: they
    /// get no server reference.
    #[serde(default)]
    pub evict_after_s: u64,
}

fn default_per_second() -> u32 {
    DEFAULT_PER_SECOND
}

impl Default for DrainRequest {
    fn default() -> Self {
        Self { server_reference: None, per_second: DEFAULT_PER_SECOND, evict_after_s: 0 }
    }
}

impl Request for DrainRequest {
    type Answer = Done;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        crate::in_range("per_second", &self.per_second, &(1..=MAX_PER_SECOND))?;
        crate::in_range("evict_after_s", &self.evict_after_s, &(0..=MAX_EVICT_AFTER_S))
    }
}

/// `DELETE /api/v1/drain`: clients are taken again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndDrain;

impl Request for EndDrain {
    type Answer = Done;
    const METHOD: Method = Method::Delete;
    const ROUTE: &'static str = ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;
}

/// The progress of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainStatus {
    /// Whether clients are sent elsewhere.
    pub draining: bool,
    /// Clients still connected, relayed ones included.
    #[serde(default)]
    pub clients: u64,
    /// Messages accepted and not settled by brokers, and messages that sessions are owed.
    #[serde(default)]
    pub owed: u64,
    /// Of the messages that sessions are owed, those in the store for clients that are away, mailboxes of mobile nodes
    /// included. A stop does not lose them, and a drain does not wait for them.
    #[serde(default)]
    pub kept: u64,
}

impl DrainStatus {
    /// Whether the process may be stopped: no client is connected, and each message that is owed is in the store for a
    /// client that is away.
    pub fn is_drained(&self) -> bool {
        self.clients == 0 && self.owed <= self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_body;

    #[test]
    fn a_drain_does_not_wait_for_mailboxes_in_the_store() {
        let status = |clients, owed, kept| DrainStatus { draining: true, clients, owed, kept };
        assert!(status(0, 0, 0).is_drained());
        assert!(status(0, 3, 3).is_drained(), "all wait in the store for clients that are away");
        assert!(!status(0, 3, 2).is_drained(), "one is only in memory, or a broker has not settled it");
        assert!(!status(1, 3, 3).is_drained(), "a client is connected");
    }

    #[test]
    fn a_drain_is_read_or_refused() {
        let read = |body: &[u8]| read_body::<DrainRequest>(body);
        let request = read(br#"{"server_reference":"b:1883","per_second":7,"evict_after_s":3}"#).unwrap();
        assert_eq!(request, DrainRequest { server_reference: Some("b:1883".into()), per_second: 7, evict_after_s: 3 });
        assert_eq!(read(b"{}").unwrap(), DrainRequest::default());
        for wrong in [
            &br#"{"per_second":0}"#[..],
            br#"{"x":1}"#,
            b"[]",
            b"",
            br#"{"server_reference":5}"#,
            br#"{"evict_after_s":-1}"#,
            br#"{"evict_after_s":86401}"#,
        ] {
            assert!(read(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
