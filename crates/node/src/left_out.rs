//! Clients that a move of their partition disconnects.

/// Clients that do not stay connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// MQTT 5 clients, which are sent to the new home: the hold disconnects them.
    pub v5: bool,
    /// Clients with their sockets at this node, which stops. They are disconnected when the new home serves them, so
    /// that none connects to a home that refuses it. The listeners for clients close at once, so that none returns
    /// here.
    pub local: bool,
}
