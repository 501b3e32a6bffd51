//! Changes of a running broker that its process carries out.

use tidegate_admin::Reloaded;

/// The service that can change a running broker. Asked on a thread that may wait.
pub trait Operations: Send + Sync + 'static {
    /// Reads the configuration again and puts it in force as a whole or not at all.
    fn reload(&self) -> Reloaded;
}
