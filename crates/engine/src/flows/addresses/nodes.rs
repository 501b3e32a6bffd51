//! Subscriptions of mobile nodes to their addresses.

use crate::addresses::nodes::ADDRESSED;
use crate::flows::contexts::Subscribing;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;
use crate::session::Standing;
use crate::topics::{Subscriber, SubscriberOptions};
use tidegate_mqtt::QoS;

/// The subscription of nodes to their addresses: each message keeps its QoS.
fn subscriber() -> Subscriber {
    Subscriber {
        session: ADDRESSED,
        options: SubscriberOptions::new(QoS::ExactlyOnce, false, false),
        subscription_id: 0,
    }
}

impl Subscribing<'_> {
    /// A session is that of a node from now on, or no longer.
    pub(crate) fn set_standing(&mut self, now: Now, key: SessionKey, standing: Standing) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let before = std::mem::replace(&mut session.standing, standing);
        let tenant = session.tenant;
        self.nodes.mailboxes += u64::from(standing == Standing::Mailbox);
        self.nodes.mailboxes -= u64::from(before == Standing::Mailbox);
        if before.is_node() == standing.is_node() {
            return;
        }
        if standing.is_node() {
            self.count_node(now, tenant);
        } else {
            self.forget_node(now, key, tenant);
        }
    }

    /// Counts a session that has become a node's.
    pub(crate) fn count_node(&mut self, now: Now, tenant: TenantId) {
        let count = self.nodes.by_tenant.entry(tenant).or_default();
        *count += 1;
        if *count == 1 {
            let filter = self.state.settings.filter_of("all");
            self.want_address(now, tenant, &filter);
        }
        self.nodes.nodes_changed(&mut self.router.index);
    }

    /// Forgets a node, and the groups that it was in.
    pub(crate) fn forget_node(&mut self, now: Now, key: SessionKey, tenant: TenantId) {
        self.leave_node_groups(now, key);
        let Some(count) = self.nodes.by_tenant.get_mut(&tenant) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.nodes.by_tenant.remove(&tenant);
            let filter = self.state.settings.filter_of("all");
            self.want_address_no_more(now, tenant, &filter);
        }
        self.nodes.nodes_changed(&mut self.router.index);
    }

    /// This shard has nodes that an address reaches: it announces that to the other shards.
    pub(super) fn want_address(&mut self, now: Now, tenant: TenantId, filter: &str) {
        if self.router.index.subscribe(tenant, filter, subscriber()).first_local {
            self.announce_interest(tenant, filter, true, None);
            self.note_sys_interest(now, tenant, filter, true);
        }
    }

    /// This shard has no interest in it any more.
    pub(super) fn want_address_no_more(&mut self, now: Now, tenant: TenantId, filter: &str) {
        let removed = self.router.index.unsubscribe(tenant, filter, ADDRESSED);
        if removed.is_some_and(|removed| removed.last_local) {
            self.announce_interest(tenant, filter, false, None);
            self.note_sys_interest(now, tenant, filter, false);
        }
    }
}
