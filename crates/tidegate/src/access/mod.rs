//! Who may do what: from the configuration to what engines ask.

mod engine;
mod load;
pub(crate) mod tenants;

pub(crate) use load::{check, load};

use std::sync::Arc;

use tidegate_acl::Rules;
use tidegate_node::AccessFactory;

use crate::config::Config;

use engine::RuleAccess;
use tenants::TenantNames;

/// What makes each shard's view of these rules.
pub(crate) fn factory(rules: Arc<Rules>, tenants: TenantNames, config: &Config) -> AccessFactory {
    let listeners: Arc<[String]> = config.listeners.iter().map(|listener| listener.name.clone()).collect();
    AccessFactory::new(move |_| Box::new(RuleAccess::new(Arc::clone(&rules), tenants.clone(), Arc::clone(&listeners))))
}
