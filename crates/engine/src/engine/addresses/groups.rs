//! Memberships of mobile nodes that the shell changes and reads.

use crate::addresses::groups::{MembershipChange, MembershipOutcome};
use crate::engine::Engine;
use crate::flows::subscribe::subscribing::subscribing;
use crate::ids::TenantId;
use crate::now::Now;

impl Engine {
    /// Changes the groups of a node whose home is this shard. They stay with its session, connected or not, until that
    /// and what is kept for the node when it is away have ended.
    pub fn change_membership(&mut self, now: Now, change: &MembershipChange) -> MembershipOutcome {
        self.state.journal.now = now;
        let node = self
            .state
            .sessions
            .find_session(change.tenant, &change.client_id)
            .filter(|key| self.state.sessions.get(key.0).is_some_and(|session| session.standing.is_node()));
        let Some(key) = node else { return MembershipOutcome::NoSuchNode };
        if let Err(error) = self.nodes.check_change(&self.settings, key, change) {
            return MembershipOutcome::Refused(error);
        }
        let tenant = change.tenant;
        for name in change.remove.iter().filter(|name| !change.add.contains(name)) {
            if let Some(group) = self.nodes.groups.find(tenant, name) {
                subscribing!(self).leave_node_group(now, tenant, name, group, key);
            }
        }
        for name in &change.add {
            subscribing!(self).join_node_group(now, tenant, name, key);
        }
        MembershipOutcome::Done
    }

    /// The groups of a node whose home is this shard.
    pub fn groups_of(&self, tenant: TenantId, client_id: &str) -> Vec<String> {
        let key = self.state.sessions.find_session(tenant, client_id);
        key.map(|key| self.nodes.groups.of(key).map(str::to_owned).collect()).unwrap_or_default()
    }
}
