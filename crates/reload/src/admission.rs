//! Admission of clients: limits and bans of the configuration.

use tidegate_node::{AdmissionSettings, NodeHandle};

use tidegate_config::Config;
use tidegate_config::path::KeyPath;

use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// The section `admission`, for new connections.
pub struct AdmissionRules {
    node: NodeHandle,
}

impl AdmissionRules {
    /// Of this node.
    pub fn new(node: NodeHandle) -> Self {
        Self { node }
    }
}

struct NewSettings {
    node: NodeHandle,
    settings: AdmissionSettings,
}

impl Reloadable for AdmissionRules {
    fn name(&self) -> &'static str {
        "admission"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        // The tables are as large as they were made.
        key.section == "admission" && key.key != "tracked"
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        Ok(Box::new(NewSettings { node: self.node.clone(), settings: new.admission_settings() }))
    }
}

impl Prepared for NewSettings {
    fn commit(self: Box<Self>) -> Vec<String> {
        self.node.admission().reconfigure(self.node.now(), self.settings);
        Vec::new()
    }
}
