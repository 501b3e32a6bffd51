//! Access rules: from the configuration to the engines' questions.

mod engine;
mod load;
mod presets;
mod tenancy;
mod tenant_table;
pub mod tenants;

pub use load::{AccessError, load, restricts, warnings};
pub use presets::{presets, relayed_tenant};
pub use tenancy::Tenancy;

use std::sync::Arc;

use tidegate_acl::Rules;
use tidegate_node::AccessFactory;

use tidegate_config::Config;

use engine::RuleAccess;
use tenants::TenantNames;

/// Names in rules for the numbers of engines. Listeners are those at the start of the broker, since their numbers
/// change with a restart only.
#[derive(Clone, Debug, Default)]
pub struct Names {
    tenants: TenantNames,
    listeners: Arc<[String]>,
}

impl Names {
    /// The names of a configuration.
    pub fn of(config: &Config) -> Self {
        let listeners = config.listeners.iter().map(|listener| listener.name.clone()).collect();
        Self { tenants: TenantNames::of(config), listeners }
    }

    /// The same listeners with the tenants of another configuration, which stand in the order of their numbers.
    #[must_use]
    pub fn with_tenants(&self, config: &Config) -> Self {
        Self { tenants: TenantNames::of(config), listeners: Arc::clone(&self.listeners) }
    }
}

/// The factory of each shard's view of these rules.
pub fn factory(rules: Arc<Rules>, names: Names) -> AccessFactory {
    AccessFactory::new(move |_| Box::new(RuleAccess::new(Arc::clone(&rules), names.clone())))
}
