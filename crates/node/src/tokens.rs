//! The tokens by which pollers name sockets: connections have the index of their key, reserved ones are above.

/// Tokens from this index on name no connection: wakers and listeners.
pub(crate) const RESERVED_INDEX: u32 = u32::MAX - 1024;
