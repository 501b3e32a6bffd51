//! Messages of groups that come again while their members have not answered.
//!
//! A session that ends with its connection, or is about to come from another node, gets a message with a promise: the
//! shard that keeps the message hears of its end. The next life of that shard, or its successor, deals the message
//! again. It hears of the end as well, and keeps the message until then: this node may die first, with the session.

use crate::groups::Groups;
use crate::ids::{SessionKey, ShardId, ShardPosition};
use crate::link::record::GroupName;
use crate::state::ShardState;

/// A message that is known by its id, and the shard that keeps it now.
pub(crate) struct Renewal {
    pub(crate) keeper: ShardId,
    pub(crate) id: u64,
}

impl Renewal {
    /// The shard hears of the message's end from now on. Returns false if the session has no open promise of it: the
    /// message has ended, or is stored.
    pub(crate) fn reach(&self, state: &ShardState, session: SessionKey) -> bool {
        let flow = state.sessions.get(session.0).and_then(|session| session.flow.as_ref());
        let sent = flow.into_iter().flat_map(|flow| flow.inflight.iter()).filter_map(|it| it.item.delivery.as_ref());
        let queued = flow.into_iter().flat_map(|flow| flow.queue.iter());
        let aside = state.transfers.coming.values().flat_map(|coming| &coming.aside);
        let aside = aside.filter(|aside| aside.to == session).map(|aside| &aside.delivery);
        let mut groups = queued.chain(sent).chain(aside).filter_map(|delivery| delivery.group.as_ref());
        groups.any(|group| group.renew_promise(self.keeper, self.id))
    }

    /// The same for the sessions of a client at this shard that are members of a group. The client may have another seat as
    /// well, before or after a move.
    pub(crate) fn reach_client(
        &self,
        groups: &Groups,
        state: &ShardState,
        place: ShardPosition,
        (group, client): (GroupName<'_>, u64),
    ) -> bool {
        let Some(key) = groups.find(group).filter(|_| client != 0) else { return false };
        let mut seats = groups.places_of_client(key, client).map(|(_, receiver)| receiver);
        seats.any(|(shard, session)| shard == place.shard && self.reach(state, SessionKey(session)))
    }
}
