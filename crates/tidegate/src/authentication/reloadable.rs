//! Authentication as a part that takes a new configuration while the broker runs.

use std::sync::Arc;

use super::{Authentication, Next};
use crate::config::Config;
use crate::config::path::KeyPath;
use crate::reload::{Prepared, Reloadable};

/// `[[auth]]`, `[authentication]` and who may come in without a name. When anything of it is wrong, or a file is missing,
/// everybody who came in before still does (CVE-2017-7652).
pub(crate) struct Providers(Arc<Authentication>);

impl Providers {
    /// Of this authentication.
    pub(crate) fn new(authentication: Arc<Authentication>) -> Self {
        Self(authentication)
    }
}

struct NewProviders {
    authentication: Arc<Authentication>,
    next: Next,
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

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, String> {
        let next = self.0.prepare(new)?;
        Ok(Box::new(NewProviders { authentication: Arc::clone(&self.0), next }))
    }
}

impl Prepared for NewProviders {
    fn commit(self: Box<Self>) {
        let differences = self.authentication.commit(self.next);
        if !differences.is_empty() {
            tracing::info!(%differences, "authentication has changed");
        }
    }
}
