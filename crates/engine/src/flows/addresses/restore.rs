//! Memberships of mobile nodes are restored.

use crate::flows::contexts::Subscribing;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;
use crate::session::Standing;

impl Subscribing<'_> {
    /// Counts a session that was taken in.
    pub(crate) fn restore_standing(&mut self, now: Now, tenant: TenantId, standing: Standing) {
        if standing.is_node() && self.state.settings.addresses.is_some() {
            self.count_node(now, tenant);
            self.nodes.mailboxes += u64::from(standing == Standing::Mailbox);
        }
    }

    /// A node was in a group.
    pub(crate) fn restore_node_group(&mut self, now: Now, key: Option<SessionKey>, name: &str) {
        let session = key.and_then(|key| self.state.sessions.get(key.0));
        let tenant = session.filter(|session| session.standing.is_node()).map(|session| session.tenant);
        if let (Some(key), Some(tenant), true) = (key, tenant, self.state.settings.addresses.is_some()) {
            self.join_node_group(now, tenant, name, key);
        }
    }
}
