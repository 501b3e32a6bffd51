//! Who may do what.

use tidegate_node::{AccessFactory, NodeHandle};

use crate::access::{self, Names};
use crate::config::Config;
use crate::config::path::KeyPath;

use super::{Prepared, Reloadable};

/// The rules of `[access]`. When they are wrong, or a file is missing, those in force stay (CVE-2018-12550).
pub(crate) struct AccessRules {
    node: NodeHandle,
    names: Names,
}

impl AccessRules {
    /// Of this node, which was started with these names.
    pub(crate) fn new(node: NodeHandle, names: Names) -> Self {
        Self { node, names }
    }
}

struct NewRules {
    node: NodeHandle,
    rules: Option<AccessFactory>,
}

impl Reloadable for AccessRules {
    fn name(&self) -> &'static str {
        "access rules"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        key.section == "access"
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, String> {
        let rules = access::load(new).map_err(|error| error.to_string())?;
        let rules = rules.map(|rules| access::factory(rules, self.names.with_tenants(new)));
        Ok(Box::new(NewRules { node: self.node.clone(), rules }))
    }
}

impl Prepared for NewRules {
    fn commit(self: Box<Self>) {
        if let Err(error) = self.node.set_access(self.rules.as_ref()) {
            // The request stands in its inbox all the same, before everything that comes later.
            tracing::warn!(%error, "new access rules come in force there later");
        }
    }
}
