//! Which sessions are those of nodes, and what other shards are told of them.

use crate::settings::Settings;
use crate::subscribe::subscribing::Subscribing;
use crate::topics::SubscriptionIndex;
use std::collections::{BTreeMap, BTreeSet};

use tidegate_mqtt::QoS;

use super::groups::NodeGroups;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;
use crate::session::Standing;
use crate::topics::{Subscriber, SubscriberOptions};

/// Stands in the subscription index for all nodes that an address reaches. No session has this key.
pub(crate) const ADDRESSED: SessionKey = SessionKey(u32::MAX - 1);

/// The nodes of a shard and their groups.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// How many each tenant has.
    by_tenant: BTreeMap<TenantId, u32>,
    pub(crate) groups: NodeGroups,
    /// How many of them are mailboxes.
    pub(super) mailboxes: u64,
    /// Messages to several nodes whose senders have asked for receipts.
    pub(super) asked: u64,
    /// Whether a route to a group or to all was made since nodes changed last.
    pub(super) routed: bool,
}

impl Nodes {
    /// How many nodes there are, connected or not.
    pub(crate) fn len(&self) -> u64 {
        self.by_tenant.values().map(|count| u64::from(*count)).sum()
    }

    /// The members of a group, by their sessions.
    pub(crate) fn members(&self, tenant: TenantId, name: &str) -> &BTreeSet<u32> {
        self.groups.members(tenant, name)
    }

    /// The groups that a node is in.
    pub(crate) fn groups_of(&self, session: SessionKey) -> impl Iterator<Item = &str> {
        self.groups.of(session)
    }

    /// How many of them are mailboxes.
    pub(crate) fn mailboxes(&self) -> u64 {
        self.mailboxes
    }

    /// Subscriptions in the index that stand for nodes.
    pub(crate) fn subscriptions(&self) -> u64 {
        self.by_tenant.len() as u64 + self.groups.len() as u64
    }
}

/// How nodes get what is addressed to them: each message keeps its QoS.
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
        let Some(session) = self.desk.sessions.get_mut(key.0) else { return };
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
            let filter = self.desk.settings.filter_of("all");
            self.want_address(now, tenant, &filter);
        }
        self.nodes.nodes_changed(self.index);
    }

    /// Forgets a node, and the groups that it was in.
    pub(crate) fn forget_node(&mut self, now: Now, key: SessionKey, tenant: TenantId) {
        self.leave_node_groups(now, key);
        let Some(count) = self.nodes.by_tenant.get_mut(&tenant) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.nodes.by_tenant.remove(&tenant);
            let filter = self.desk.settings.filter_of("all");
            self.want_address_no_more(now, tenant, &filter);
        }
        self.nodes.nodes_changed(self.index);
    }

    /// This shard has nodes that an address reaches: the others are told.
    pub(super) fn want_address(&mut self, now: Now, tenant: TenantId, filter: &str) {
        if self.index.subscribe(tenant, filter, subscriber()).first_local {
            self.announce_interest(tenant, filter, true, None);
            self.note_sys_interest(now, tenant, filter, true);
        }
    }

    /// This shard has none any more.
    pub(super) fn want_address_no_more(&mut self, now: Now, tenant: TenantId, filter: &str) {
        let removed = self.index.unsubscribe(tenant, filter, ADDRESSED);
        if removed.is_some_and(|removed| removed.last_local) {
            self.announce_interest(tenant, filter, false, None);
            self.note_sys_interest(now, tenant, filter, false);
        }
    }
}

impl Nodes {
    /// Routes to several nodes that are remembered hold no longer.
    pub(super) fn nodes_changed(&mut self, index: &mut SubscriptionIndex) {
        if std::mem::take(&mut self.routed) {
            index.change_rights();
        }
    }
}

impl Settings {
    /// The filter of all topics of an address to several nodes.
    pub(super) fn filter_of(&self, whom: &str) -> String {
        let prefix = self.addresses.as_ref().map_or("", |addresses| &addresses.prefix);
        format!("{prefix}/to/{whom}/#")
    }
}
