//! Certificates, keys and lists of revoked certificates.

use tidegate_node::{NodeHandle, PreparedTls};

use tidegate_config::Config;
use tidegate_config::path::KeyPath;

use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// Keys of a listener that hold for connections that begin after a reload.
const KEYS: &[&str] = &[
    "certificate",
    "key",
    "client_certificate",
    "client_ca",
    "crl",
    "crl_outdated",
    "identity_from",
    "identity_as",
    "tls_minimum",
    "max_handshakes",
];

/// The files of TLS listeners.
pub struct TlsFiles {
    node: NodeHandle,
}

impl TlsFiles {
    /// Of this node.
    pub fn new(node: NodeHandle) -> Self {
        Self { node }
    }
}

struct NewFiles(PreparedTls);

impl Reloadable for TlsFiles {
    fn name(&self) -> &'static str {
        "TLS certificates"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        key.section == "listener" && KEYS.contains(&key.key)
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        let prepared = self
            .node
            .prepare_tls(&tidegate_config::tls_settings::of_listeners(&new.listeners))
            .map_err(|error| error.to_string())?;
        Ok(Box::new(NewFiles(prepared)))
    }
}

impl Prepared for NewFiles {
    fn commit(self: Box<Self>) -> Vec<String> {
        self.0.apply();
        Vec::new()
    }
}
