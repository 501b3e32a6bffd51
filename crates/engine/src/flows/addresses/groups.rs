//! Memberships of mobile nodes change.

use crate::addresses::restore::{NODE_GROUP, stored_group};
use crate::flows::contexts::Subscribing;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;

impl Subscribing<'_> {
    pub(crate) fn join_node_group(&mut self, now: Now, tenant: TenantId, name: &str, key: SessionKey) {
        let Some(new) = self.nodes.groups.join(tenant, name, key) else { return };
        self.state.sessions.store_subscription(&mut self.state.journal, key, &stored_group(name), NODE_GROUP, 0);
        if new {
            let filter = self.state.settings.filter_of(&format!("group/{name}"));
            self.want_address(now, tenant, &filter);
        }
        self.nodes.nodes_changed(&mut self.router.index);
    }

    pub(crate) fn leave_node_group(&mut self, now: Now, tenant: TenantId, name: &str, group: u32, key: SessionKey) {
        let Some(gone) = self.nodes.groups.leave(group, key) else { return };
        self.state.sessions.forget_subscription(&mut self.state.journal, key, &stored_group(name));
        if gone {
            let filter = self.state.settings.filter_of(&format!("group/{name}"));
            self.want_address_no_more(now, tenant, &filter);
        }
        self.nodes.nodes_changed(&mut self.router.index);
    }

    /// A node is gone: it is in no group any more.
    pub(super) fn leave_node_groups(&mut self, now: Now, key: SessionKey) {
        for group in self.nodes.groups.by_session.get(&key.0).cloned().unwrap_or_default() {
            let Some((tenant, name)) = self.nodes.groups.groups.get(group).map(|it| (it.tenant, it.name.clone()))
            else {
                continue;
            };
            self.leave_node_group(now, tenant, &name, group, key);
        }
    }
}
