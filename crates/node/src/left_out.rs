//! Clients that a move of their partition disconnects.

/// Clients that do not leave with their connections: the hold disconnects them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// MQTT 5 clients, which are sent to the new home.
    pub v5: bool,
    /// Clients with their sockets at this node, which stops.
    pub local: bool,
}
