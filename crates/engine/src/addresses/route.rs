//! The receivers of a message to an address.

use super::nodes::ADDRESSED;
use crate::ids::{PartitionId, SessionKey, TenantId, partition_of};
use crate::settings::Settings;
use crate::topics::Route;
use crate::topics::address_name::Address;

impl Settings {
    /// The partition of the mobile node that a topic is the address of.
    pub(crate) fn home_of_address(&self, tenant: TenantId, topic: &str) -> Option<PartitionId> {
        match Address::read(&self.addresses.as_ref()?.prefix, topic)? {
            Address::Node(id) | Address::Receipts(id) => Some(partition_of(tenant, &id)),
            Address::Group(_) | Address::All => None,
        }
    }
}

impl Route {
    /// Adds nodes that an address reaches, each once, and removes their common target.
    pub(crate) fn add_addressed(&mut self, nodes: impl IntoIterator<Item = SessionKey>) {
        self.replace_target(ADDRESSED, nodes);
    }
}
