//! The sections `[[auth]]` and `[authentication]`: providers and their settings.

mod check;
pub mod settings;

pub use check::check;
use tidegate_node::IdentityRole;

use crate::Config;

/// Limit on the requests of all authentication exchanges under way, bytes.
pub const MAX_EXCHANGE_BYTES: u64 = 16 * 1024 * 1024;

impl Config {
    /// True if clients are authenticated, by a provider or by their certificate.
    pub fn needs_authentication(&self) -> bool {
        self.has_providers() || self.listeners.iter().any(|listener| listener.identity_role() != IdentityRole::None)
    }
}
