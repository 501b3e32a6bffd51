//! Members of groups change their tables when homes change, and leave them when their node is gone.

use crate::engine::Engine;
use crate::hash::hash_name;
use crate::ids::{SessionKey, ShardId};
use crate::link::record::{GroupName, Record};
use crate::now::Now;
use crate::session::Membership;

impl Engine {
    /// A group has another home: its member takes its seat there.
    pub(crate) fn take_seat_anew(&mut self, now: Now, key: SessionKey, membership: &Membership) {
        let Some(session) = self.desk.sessions.get(key.0) else { return };
        let (client, online) = (hash_name(session.tenant, &session.client_id), session.connection.is_some());
        self.seat_away(now, key, client, membership);
        if online {
            self.announce_presence_in(membership, key, true);
        }
    }

    /// A shard of another node is gone, and all members there with it.
    pub(crate) fn leave_groups_of(&mut self, now: Now, peer: ShardId) {
        let mut left = Vec::new();
        for (_, dealt) in self.groups.dealt.iter() {
            let members = dealt.members.members().iter().filter(|member| member.receiver.0 == peer);
            left.extend(
                members.map(|member| (dealt.tenant, dealt.share.clone(), dealt.filter.clone(), member.receiver.1)),
            );
        }
        for (tenant, share, filter, session) in left {
            self.handle_group_leave(now, peer, GroupName { tenant, share: &share, filter: &filter }, session);
        }
        self.groups.joining.retain(|_, joining| joining.shard != peer);
    }

    /// Tells one group that a member went online or offline.
    pub(super) fn announce_presence_in(&mut self, membership: &Membership, key: SessionKey, online: bool) {
        let group = membership.group();
        for table in self.tables_of(membership.partition).filter(|table| *table != self.place.shard) {
            self.links.send(table, Record::GroupPresence { group, session: key.0, online });
        }
        self.groups.set_online(group, self.place.shard, key.0, online);
    }
}
