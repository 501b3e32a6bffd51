//! The requests of a CONNECT, and the part that the server grants.

/// The granted part of a CONNECT's requests.
pub(crate) struct Granted<'a> {
    pub client_id: &'a str,
    /// Whether the server chose the client id.
    pub assigned: bool,
    pub keep_alive: u16,
    pub expiry_seconds: u32,
    pub receive_maximum: u16,
}
