//! The operations of a running broker.

use std::sync::OnceLock;

use tidegate_admin::Reloaded;
use tidegate_console::Operations;

use crate::Reloader;

/// The operations of this broker, once it is ready.
#[derive(Default)]
pub struct BrokerOperations {
    reloader: OnceLock<Reloader>,
}

impl BrokerOperations {
    /// The broker is ready.
    pub fn ready(&self, reloader: Reloader) {
        // It is set once, at the start of the broker.
        let _ = self.reloader.set(reloader);
    }

    /// Reads the configuration again, as SIGHUP requests.
    pub fn reload_and_log(&self) {
        if let Some(reloader) = self.reloader.get() {
            reloader.reload().log();
        }
    }
}

impl Operations for BrokerOperations {
    fn reload(&self) -> Reloaded {
        let Some(reloader) = self.reloader.get() else {
            return Reloaded::refused("the broker is starting; try again");
        };
        let outcome = reloader.reload();
        outcome.log();
        outcome.to_answer()
    }
}
