//! Messages that cross shards are stored until they have arrived.

use crate::durable::Recovery;
use crate::durable::crossing::Left;
use crate::flows::contexts::Dealing;
use crate::flows::contexts::Publishing;
use crate::flows::publish::dispatch::Reach;
use crate::groups::group_partition;
use crate::ids::{BROKER_LINK_PARTITION, PartitionId, ShardId, ShardPosition, partition_of};
use crate::journal::keys::Key;
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::settings::fleet_topics::owner_of;
use crate::state::ShardState;
use crate::topics::is_own_topic;
use tidegate_mqtt::QoS;

impl Reach<'_> {
    /// True if a message must be stored before it leaves for other shards: no client would send it again.
    #[inline]
    pub(crate) fn must_be_kept(&self, publication: &Publication<'_>, source: &Source) -> bool {
        if !self.state.journal.is_on() {
            return false;
        }
        if source.ticket.is_some() && !source.is_outgoing() {
            let session = source.session.and_then(|session| self.state.sessions.get(session.0));
            return publication.qos == QoS::ExactlyOnce && session.is_some_and(|session| session.stored.is_some());
        }
        let promised = publication.qos != QoS::AtMostOnce || publication.retain;
        source.connection.is_none() && promised && !is_own_topic(publication.topic)
    }
}

impl Publishing<'_> {
    /// Some may have got it already: this process has restored the store of a dead node.
    pub(crate) fn replay_publish(
        &mut self,
        now: Now,
        left: &Left,
        shards: u16,
        (deliver, retain): (u64, u64),
        name: Option<ExchangeName>,
    ) {
        let known = name.map_or(Got::EMPTY, |name| {
            self.state.exchanges.mark_left(
                self.links.place,
                &mut self.state.journal,
                name,
                left,
                shards,
                deliver | retain,
            )
        });
        let mut publication = left.message.publication();
        let (tenant, topic) = owner_of(&self.state.settings, publication.tenant, publication.topic);
        let home = partition_of(tenant, topic);
        if left.is_missing(retain, shards, home) && !known.sessions.has(home) {
            self.retain(now, &mut publication, None);
        }
        if deliver == 0 {
            return;
        }
        let slot = self.route_of(publication.tenant, publication.topic);
        let (_, route) = self.router.cache.get(slot);
        let source = Source { hops: 1, ..Source::inside(self.links.place.shard, now) };
        let is_missing = |partition| left.is_missing(deliver, shards, partition);
        let wants = |partition| is_missing(partition) && !known.sessions.has(partition);
        let deals = |partition| match partition {
            // The brokers are at the first shard, as the first partition is.
            BROKER_LINK_PARTITION => is_missing(PartitionId(0)),
            partition => is_missing(partition) && !known.groups.has(partition),
        };
        crate::flows::publish::dispatch::reach!(self).deliver_some(now, route, &mut publication, &source, wants, deals);
    }

    /// A message dealt to another node waits until its receiver is known. Returns true if this shard keeps it.
    pub(crate) fn replay_deal(
        &mut self,
        now: Now,
        left: &Left,
        (share, filter): (&str, &str),
        client: u64,
        id: u64,
    ) -> bool {
        let tenant = left.message.tenant;
        let own = left.crossed.is_empty() && self.links.place.owns(group_partition(tenant, share, filter));
        if own {
            self.groups.kept.keep_left(now, self.state, &left.message, (share, filter), client, id);
        }
        own
    }
}

impl Dealing<'_> {
    /// Returns whether this shard was to deal it.
    pub(crate) fn replay_for_group(&mut self, now: Now, left: &Left, (share, filter): (&str, &str), name: u64) -> bool {
        let tenant = left.message.tenant;
        if !left.crossed.is_empty() || !self.links.place.owns(group_partition(tenant, share, filter)) {
            return false;
        }
        let mut publication = left.message.publication();
        if self.groups.kept.rests && publication.qos != QoS::AtMostOnce {
            // A node whose store others have read may so deal it once more. If each reader dealt its own copy to sessions
            // that others have, it could be lost.
            self.groups.kept.keep_noted(now, self.state, (share, filter), &mut publication, name);
            return true;
        }
        let source = Source { hops: 1, ..Source::inside(self.links.place.shard, now) };
        let group = crate::link::record::GroupName { tenant, share, filter };
        self.deal_left(now, group, &mut publication, &source, name);
        true
    }
}

impl Recovery {
    /// One more shard has delivered its crossing messages and writes that to the store.
    pub(crate) fn handle_replayed(&mut self, place: ShardPosition, state: &mut ShardState) {
        self.others_replayed += 1;
        self.forget_replayed(place, state);
    }

    /// Once all shards have, the records of crossing messages are obsolete. The first shard deletes them.
    pub(crate) fn forget_replayed(&mut self, place: ShardPosition, state: &mut ShardState) {
        if self.replay.is_some() || self.others_replayed + 1 < place.shards {
            return;
        }
        for (number, crossed) in std::mem::take(&mut self.replayed) {
            state.journal.delete(Key::Crossing(number));
            let here = place.shards;
            let now = (0..here).map(|shard| ShardPosition { shard: ShardId(shard), shards: here });
            for place in crossed.into_iter().chain(now) {
                state.journal.delete(Key::Crossed(number, place));
            }
        }
    }
}
