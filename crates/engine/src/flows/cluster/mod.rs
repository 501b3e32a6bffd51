//! Flows between shards and nodes.

pub(crate) mod again;
pub(crate) mod asked_to_wait;
pub(crate) mod cuts;
pub(crate) mod dealt_before;
pub(crate) mod exchanges;
pub(crate) mod finish;
pub(crate) mod marks;
pub(crate) mod outgoing;

use crate::cluster::peers::Peers;
use crate::cluster::transfer::Transfers;
use crate::cluster::{FAREWELL_INDEX, WELCOME_INDEX};
use crate::durable::RESTORING_INDEX;
use crate::flows::contexts::Subscribing;
use crate::groups::Groups;
use crate::ids::{ConnectionKey, PartitionId, ShardId, TenantId, partition_of};
use crate::link::Links;
use crate::link::envelope::OUTGOING_INDEX;
use crate::link::envelope::Ticket;
use crate::link::record::Record;
use crate::now::Now;
use crate::retained::strays::STRAY_INDEX;
use crate::roster::{Roster, Shards};
use crate::settings::fleet_topics::owner_of;
use crate::state::ShardState;
use crate::topics::{Route, SubscriptionIndex};

const _: () = assert!(
    WELCOME_INDEX != RESTORING_INDEX
        && OUTGOING_INDEX < WELCOME_INDEX
        && OUTGOING_INDEX < RESTORING_INDEX
        && STRAY_INDEX < OUTGOING_INDEX
        && FAREWELL_INDEX < STRAY_INDEX,
    "each kind of ticket has an index of its own"
);

impl Subscribing<'_> {
    /// Gives members of shared groups their seats where the groups are dealt for now.
    pub(crate) fn reseat_members(&mut self, now: Now, old: &Roster) {
        let mut moved = Vec::new();
        for (key, session) in self.state.sessions.iter() {
            for membership in session.rare.iter().flat_map(|rare| &rare.memberships) {
                if old.home_of(membership.partition) != self.links.roster.home_of(membership.partition) {
                    moved.push((crate::ids::SessionKey(key), membership.clone()));
                }
            }
        }
        for (key, membership) in moved {
            self.retake_seat(now, key, &membership);
        }
    }
}

impl Peers {
    /// True if a receiver of the message is at a node that is gone and has no successor yet: a session, the mobile node
    /// of the address, or the home of the topic.
    pub(crate) fn lacks_receiver(
        &self,
        state: &ShardState,
        roster: &Roster,
        (topic, route): (&str, &Route),
        tenant: TenantId,
        retain: bool,
    ) -> bool {
        let remote = route.remote_bits();
        let undecided = state.transfers.undecided();
        let is_gone = |home| roster.misses(home) || undecided.has(home);
        let (owner, own) = owner_of(&state.settings, tenant, topic);
        let is_home_gone = || retain && is_gone(partition_of(owner, own));
        let is_node_gone = || state.settings.home_of_address(tenant, topic).is_some_and(is_gone);
        let returns = self.returning != Shards::default();
        self.is_blind
            || self.may_lack_receiver(roster, &state.transfers)
                && (returns || remote != roster.living(remote) || is_home_gone() || is_node_gone())
    }
}

impl Peers {
    /// True if a roster has lost partitions whose interest this shard does not know. Either their node died before this
    /// shard had its interest, or the partitions moved to the dead node without this shard knowing: as far as it knew,
    /// that node was home to no partition.
    pub(crate) fn does_not_know(&self, old: &Roster, new: &Roster) -> bool {
        let is_new = |partition: &PartitionId| new.misses(*partition) && !old.misses(*partition);
        let missed = PartitionId::all().filter(is_new);
        let home = |partition| old.home_of(partition);
        missed.into_iter().any(|partition| !self.heard.has(home(partition)) || new.has(home(partition)))
    }

    /// Tells a new shard of another node all that is wanted here.
    pub(crate) fn welcome_peer(
        &mut self,
        index: &SubscriptionIndex,
        links: &mut Links,
        transfers: &mut Transfers,
        peer: ShardId,
    ) {
        links.open(peer);
        for (tenant, filter) in index.local_filters() {
            if links.roster.others_for(tenant, filter).has(peer) {
                links.send(peer, Record::Interest { tenant, filter, present: true, ticket: None });
            }
        }
        let ticket = Ticket { connection: ConnectionKey { index: WELCOME_INDEX, generation: 0 }, sequence: 0 };
        links.send(peer, Record::InterestBarrier { ticket });
        self.interest_under_way += 1;
        self.welcomes += 1;
        transfers.tell_of_transfers(links, peer);
    }

    /// Whether clients of absent nodes may be at others soon, or already are without this shard's knowledge.
    pub(crate) fn awaits_absent_home(&self, roster: &Roster, groups: &Groups, transfers: &Transfers) -> bool {
        let unheard = roster.peers().without(self.heard);
        roster.misses_any() || groups.dealers.miss_any() || unheard != Shards::default() || transfers.has_undecided()
    }

    pub(crate) fn forget_gone(&mut self, index: &mut SubscriptionIndex, peers: Shards) {
        for peer in peers {
            if self.gone.has(peer) {
                index.remove_remote(peer);
            }
        }
        self.gone = self.gone.without(peers);
    }

    /// True if some node with receivers may be gone without a successor.
    #[inline]
    pub(crate) fn may_lack_receiver(&self, roster: &Roster, transfers: &Transfers) -> bool {
        self.is_blind
            || roster.misses_any()
            || self.gone != Shards::default()
            || self.returning != Shards::default()
            || transfers.has_undecided()
    }
}
