//! The token of the admin listener.

use std::path::Path;

use tidegate_admin::{ListenerToken, read_listener_token};
use tidegate_config::Config;
use tidegate_config::path::KeyPath;
use tidegate_console::api::Access;

use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// `admin.token_file` of a broker that was started with one.
pub struct AdminToken {
    access: Access,
}

impl AdminToken {
    /// Of the console with these rights; nothing where it asks for no token.
    pub fn of(access: &Access) -> Option<Self> {
        access.has_token().then(|| Self { access: access.clone() })
    }
}

/// Why a new configuration is refused.
#[derive(Debug, thiserror::Error)]
#[error(
    "the new configuration has no admin.token_file, and a reload never opens the API; name one, or restart the broker"
)]
struct NoTokenError;

struct NewToken {
    access: Access,
    token: ListenerToken,
}

impl Reloadable for AdminToken {
    fn name(&self) -> &'static str {
        "admin token"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        key.section == "admin" && key.key == "token_file"
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        let file = new.admin.token_file.as_deref().ok_or(NoTokenError)?;
        let token = read_listener_token(Path::new(file))?;
        Ok(Box::new(NewToken { access: self.access.clone(), token }))
    }
}

impl Prepared for NewToken {
    fn commit(self: Box<Self>) -> Vec<String> {
        let is_other = self.access.replace_token(self.token);
        if is_other { vec!["another one is asked for from now on".to_owned()] } else { Vec::new() }
    }
}
