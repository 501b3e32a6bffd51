//! Members of groups change their tables when homes change, and leave them when their node is gone.

use crate::groups::Groups;
use crate::ids::{Partitions, SessionKey, ShardId};
use crate::link::Links;
use crate::link::record::Record;
use crate::session::{Membership, Session};
use crate::state::ShardState;

impl Groups {
    /// A shard of another node is gone, with all its members. Groups without members are kept until it is known that no
    /// member returns by another node.
    pub(crate) fn leave_groups_of(&mut self, peer: ShardId) {
        self.unseat(peer, Partitions::that(|_| true));
        self.joining.retain(|_, joining| joining.shard != peer);
    }

    /// Members of another shard have no seats here any more in groups of some partitions.
    pub(super) fn unseat(&mut self, peer: ShardId, partitions: Partitions) {
        let mut gone = Vec::new();
        for (group, dealt) in self.dealt.iter().filter(|(_, dealt)| partitions.has(dealt.partition)) {
            let receivers = dealt.members.members().iter().map(|member| member.receiver);
            gone.extend(receivers.filter(|(shard, _)| *shard == peer).map(|receiver| (group, receiver)));
        }
        for (group, receiver) in gone {
            if let Some(dealt) = self.dealt.get_mut(group) {
                dealt.members.leave(&receiver);
            }
        }
    }

    /// A session went online or offline: its groups prefer members that are there.
    pub(crate) fn announce_presence(&mut self, state: &ShardState, links: &mut Links, key: SessionKey, online: bool) {
        let Some(rare) = state.sessions.get(key.0).and_then(|session| session.rare.as_ref()) else { return };
        for membership in rare.memberships.clone() {
            self.announce_presence_in(links, &membership, key, online);
        }
    }

    /// Partitions do not move: their members accept messages of their groups again.
    pub(crate) fn announce_members_that_stay(&mut self, state: &ShardState, links: &mut Links, partitions: Partitions) {
        if partitions.is_empty() {
            return;
        }
        let has_groups = |session: &Session| session.rare.as_ref().is_some_and(|rare| !rare.memberships.is_empty());
        let those: Vec<(SessionKey, bool)> = state
            .sessions
            .iter()
            .filter(|(_, session)| has_groups(session) && session.is_of(partitions))
            .map(|(key, session)| (SessionKey(key), session.connection.is_some()))
            .collect();
        for (key, online) in those {
            self.announce_presence(state, links, key, online);
        }
    }

    /// Tells one group that a member went online or offline.
    pub(crate) fn announce_presence_in(
        &mut self,
        links: &mut Links,
        membership: &Membership,
        key: SessionKey,
        online: bool,
    ) {
        let (group, here) = (membership.group(), links.place.shard);
        for table in self.tables_of(&links.roster, membership.partition).filter(|table| *table != here) {
            links.send(table, Record::GroupPresence { group, session: key.0, online });
        }
        self.set_online(group, here, key.0, online);
    }
}
