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

struct NewToken {
    access: Access,
    /// Nothing if the new configuration names none: the last one stays until a restart.
    token: Option<ListenerToken>,
}

impl Reloadable for AdminToken {
    fn name(&self) -> &'static str {
        "admin token"
    }

    /// A configuration without a token takes effect with a restart: a reload never opens the API.
    fn takes(&self, _: &KeyPath) -> bool {
        false
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        let token = new.admin.token_file.as_deref().map(|path| read_listener_token(Path::new(path))).transpose()?;
        Ok(Box::new(NewToken { access: self.access.clone(), token }))
    }
}

impl Prepared for NewToken {
    fn commit(self: Box<Self>) -> Vec<String> {
        let is_other = self.token.is_some_and(|token| self.access.replace_token(token));
        if is_other { vec!["another one is asked for from now on".to_owned()] } else { Vec::new() }
    }
}
