//! Authentication as a part that takes a new configuration while the broker runs.

use std::sync::Arc;

use tidegate_engine::Reason;
use tidegate_node::NodeHandle;

use super::{Authentication, Next};
use tidegate_config::Config;
use tidegate_config::path::KeyPath;
use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// `[[auth]]`, `[authentication]` and who may come in without a name. When anything of it is wrong, or a file is
/// missing, everybody who came in before still does (CVE-2017-7652).
pub struct Providers {
    authentication: Arc<Authentication>,
    node: NodeHandle,
}

impl Providers {
    /// Of this authentication, for the clients of this node.
    pub fn new(authentication: Arc<Authentication>, node: NodeHandle) -> Self {
        Self { authentication, node }
    }
}

struct NewProviders {
    authentication: Arc<Authentication>,
    node: NodeHandle,
    next: Next,
    /// Whether connections end whose user is gone or has another password.
    disconnects: bool,
}

impl Reloadable for Providers {
    fn name(&self) -> &'static str {
        "authentication"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        match key.section {
            "auth" => true,
            "authentication" => key.key != "threads",
            "listener" => key.key == "allow_anonymous",
            _ => false,
        }
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        let next = self.authentication.prepare(new)?;
        let (authentication, node) = (Arc::clone(&self.authentication), self.node.clone());
        let disconnects = new.authentication.disconnect_on_reload;
        Ok(Box::new(NewProviders { authentication, node, next, disconnects }))
    }
}

impl Prepared for NewProviders {
    fn commit(self: Box<Self>) -> Vec<String> {
        let differences = self.authentication.commit(self.next);
        let mut told = if differences.is_empty() { Vec::new() } else { vec![differences.to_string()] };
        if !self.disconnects || differences.users_ended.is_empty() {
            return told;
        }
        // After the new providers are in force: they decide about a client that reconnects at once.
        match self.node.clients().disconnect_users(differences.users_ended, Reason::BadCredentials) {
            Ok(closed) => {
                told.push(format!("connections closed of users that are gone or have another password: {closed}"));
            }
            Err(error) => tracing::warn!(%error, "connections of removed users are closed on that shard later"),
        }
        told
    }
}
