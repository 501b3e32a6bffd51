//! Whether the records of groups and of their members agree.

use super::{DealtGroup, Groups};
use crate::ids::ShardId;
use crate::link::record::GroupName;
use crate::roster::Roster;
use crate::state::ShardState;

impl Groups {
    /// Compares the seats of this shard's sessions with the memberships in the sessions.
    pub(crate) fn audit(&self, (here, roster): (ShardId, &Roster), state: &ShardState, wrong: &mut dyn FnMut(String)) {
        for (_, dealt) in self.dealt.iter() {
            let group = GroupName { tenant: dealt.tenant, share: &dealt.share, filter: &dealt.filter };
            for (place, member) in dealt.members.members().iter().enumerate() {
                let (shard, session) = member.receiver;
                let Some(session) = state.sessions.get(session).filter(|_| shard == here) else { continue };
                let memberships = session.rare.iter().flat_map(|rare| &rare.memberships);
                let online = place < dealt.members.online();
                if !memberships.into_iter().any(|known| known.group() == group) {
                    wrong(format!("{:?} has a seat that it does not know of in {group:?}", session.client_id));
                } else if online != session.connection.is_some() && !(session.is_broker_link() && online) {
                    // A broker that is away keeps its seat until its messages go to others.
                    wrong(format!("{:?} is taken for online ({online}) in {group:?}", session.client_id));
                }
            }
        }
        for (key, session) in state.sessions.iter() {
            let memberships = session.rare.iter().flat_map(|rare| &rare.memberships);
            for membership in memberships.filter(|one| roster.home_of(one.partition) == here) {
                let dealt = self.find(membership.group()).and_then(|group| self.dealt.get(group.0));
                let seated = |dealt: &DealtGroup| dealt.members.members().iter().any(|m| m.receiver == (here, key));
                if !dealt.is_some_and(seated) {
                    wrong(format!("{:?} has no seat in {:?}", session.client_id, membership.group()));
                }
            }
        }
    }
}
