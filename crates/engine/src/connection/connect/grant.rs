//! What a CONNECT asks for, and how much of it the server grants.

/// What a CONNECT asks for and the server grants.
pub(crate) struct Granted<'a> {
    pub client_id: &'a str,
    /// Whether the server chose the client id.
    pub assigned: bool,
    pub keep_alive: u16,
    pub expiry_seconds: u32,
    pub receive_maximum: u16,
}
