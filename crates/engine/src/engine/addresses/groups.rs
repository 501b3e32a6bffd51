//! Memberships of mobile nodes that the shell changes and reads.

use crate::addresses::groups::{MembershipChange, MembershipOutcome};
use crate::engine::facets::{InsiderCalls, ShardQuestions};
use crate::flows::contexts::subscribing;
use crate::ids::TenantId;
use crate::now::Now;

impl InsiderCalls<'_> {
    /// Changes the groups of a node whose home is this shard. They stay with its session, connected or not, until the
    /// session and the node's mailbox have ended.
    pub fn change_membership(&mut self, now: Now, change: &MembershipChange) -> MembershipOutcome {
        self.engine.state.journal.now = now;
        let node = self
            .engine
            .state
            .sessions
            .find_session(change.tenant, &change.client_id)
            .filter(|key| self.engine.state.sessions.get(key.0).is_some_and(|session| session.standing.is_node()));
        let Some(key) = node else { return MembershipOutcome::NoSuchNode };
        if let Err(error) = self.engine.nodes.check_change(&self.engine.state.settings, key, change) {
            return MembershipOutcome::Refused(error);
        }
        let tenant = change.tenant;
        for name in change.remove.iter().filter(|name| !change.add.contains(name)) {
            if let Some(group) = self.engine.nodes.groups.find(tenant, name) {
                subscribing!(self.engine).leave_node_group(now, tenant, name, group, key);
            }
        }
        for name in &change.add {
            subscribing!(self.engine).join_node_group(now, tenant, name, key);
        }
        MembershipOutcome::Done
    }
}

impl ShardQuestions<'_> {
    /// The groups of a node whose home is this shard.
    pub fn groups_of(&self, tenant: TenantId, client_id: &str) -> Vec<String> {
        let key = self.engine.state.sessions.find_session(tenant, client_id);
        key.map(|key| self.engine.nodes.groups.of(key).map(str::to_owned).collect()).unwrap_or_default()
    }
}
