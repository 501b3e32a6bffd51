//! The version of the link between nodes.

/// The version of everything that is said on a link, the layout of batches included; nodes of different versions have
/// no session.
pub const LINK_VERSION: u16 = 16;
