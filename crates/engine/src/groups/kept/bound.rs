//! QoS 2 messages of groups that only one client may get, since it may have them already.

use super::{Doubt, WAIT_MS};
use crate::groups::kept::Kept;
use crate::groups::{Groups, Receiver, lacks_home};
use crate::ids::SessionKey;
use crate::link::Links;
use crate::now::Now;
use crate::state::ShardState;
use crate::topics::GroupKey;

impl Kept {
    /// Handles the return of a message that was dealt under an id. Returns true if the message keeps waiting for its
    /// client: a shard that is gone may have delivered it before, and the returning session may be one that the client
    /// never reached.
    pub(crate) fn stays_bound(&mut self, now: Now, state: &mut ShardState, of: u64) -> bool {
        let deal = self.deals.get(&of);
        if deal.is_none_or(|deal| deal.client == 0 || deal.doubt != Doubt::Open) {
            return false;
        }
        self.put(of, None, now.monotonic);
        if self.due.is_none() {
            self.set_deal_timer(state, now.monotonic.plus(WAIT_MS));
        }
        true
    }
}

impl Groups {
    /// The place of a client among the members of a group that get messages now. What its session gets here that is about to
    /// leave is forgotten with it.
    pub(crate) fn place_of_client(
        &self,
        links: &Links,
        state: &ShardState,
        key: GroupKey,
        client: u64,
    ) -> Option<usize> {
        if lacks_home(&links.roster, client) {
            return None;
        }
        let stays = |(_, (shard, session)): &(usize, Receiver)| {
            *shard != links.place.shard
                || !state.sessions.has_left(&state.transfers, state.departures.left, SessionKey(*session), *shard)
        };
        self.places_of_client(key, client).find(stays).map(|(place, _)| place)
    }
}

impl Groups {
    pub(crate) fn receiver_at(&self, key: GroupKey, place: usize) -> Option<Receiver> {
        self.dealt.get(key.0)?.members.members().get(place).map(|member| member.receiver)
    }

    pub(super) fn places_of_client(&self, key: GroupKey, client: u64) -> impl Iterator<Item = (usize, Receiver)> + '_ {
        let members = self.dealt.get(key.0).into_iter().flat_map(|dealt| dealt.members.members()).enumerate();
        members.filter(move |(_, member)| member.identity == client).map(|(place, member)| (place, member.receiver))
    }
}
