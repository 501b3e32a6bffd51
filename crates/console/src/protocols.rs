//! Counters of the listeners for HTTP and CoAP.

/// Counters of the HTTP listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpNumbers {
    /// Requests by the first part of their path and by outcome.
    pub requests: Vec<(&'static str, &'static str, u64)>,
    /// Bytes of the bodies of requests.
    pub body_bytes: u64,
    /// Messages that clients were sent and their bytes as JSON, by way.
    pub sent: Vec<(&'static str, u64, u64)>,
    /// Connections that were closed at once, as there were too many.
    pub connections_refused: u64,
    /// Queues whose sessions are connected.
    pub queues: u64,
    /// WebSockets that are open.
    pub websockets: u64,
}

/// Counters of the CoAP listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoapNumbers {
    /// Requests by method and by outcome.
    pub requests: Vec<(&'static str, &'static str, u64)>,
    /// Datagrams from clients, and their bytes.
    pub received: (u64, u64),
    /// Datagrams to clients, and their bytes.
    pub sent: (u64, u64),
    /// Datagrams and messages that were left out, by cause.
    pub dropped: Vec<(&'static str, u64)>,
    /// Messages that observers were sent.
    pub notifications: u64,
    /// Messages that were sent again.
    pub repeated: u64,
    /// Clients that are remembered.
    pub clients: u64,
    /// Sessions of clients at the broker.
    pub sessions: u64,
}
