//! The tenants of clients, and their quotas.

use tidegate_config::Config;
use tidegate_config::path::KeyPath;
use tidegate_identity::access::Tenancy;

use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// The sections `[[tenant]]`. Who is connected stays where it is.
pub struct TenantSections {
    tenancy: Tenancy,
}

impl TenantSections {
    /// Of the broker with these tenants.
    pub fn new(tenancy: Tenancy) -> Self {
        Self { tenancy }
    }
}

struct NewTenants {
    tenancy: Tenancy,
    config: Config,
}

impl Reloadable for TenantSections {
    fn name(&self) -> &'static str {
        "tenants"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        key.section == "tenant"
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        Ok(Box::new(NewTenants { tenancy: self.tenancy.clone(), config: new.clone() }))
    }
}

impl Prepared for NewTenants {
    fn commit(self: Box<Self>) -> Vec<String> {
        self.tenancy.put_in_force(&self.config);
        Vec::new()
    }
}
