//! QoS 2 messages of other nodes are passed to the next home of their group.

use crate::flows::contexts::{Dealing, dealing};
use crate::flows::publish::dispatch::Reach;
use crate::groups::kept::Deal;
use crate::ids::{PartitionId, ShardId};
use crate::link::Links;
use crate::link::exchange_word::{ExchangeName, ExchangeWord};
use crate::link::got::Got;
use crate::link::record::{GroupName, Record};
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::settings::overflow::OverflowRules;
use crate::topics::{GroupKey, Route};
use tidegate_mqtt::QoS;

impl Reach<'_> {
    /// Deals a message with a name to the groups of this shard in the partitions that lack it.
    pub(crate) fn deal_exchange(
        &mut self,
        now: Now,
        route: &Route,
        publication: &mut Publication<'_>,
        source: &Source,
        name: ExchangeName,
        lacks: impl Fn(PartitionId) -> bool,
    ) {
        let from = self.state.transfers.source;
        let is_foreign = self.links.is_foreign(from);
        let of_brokers = self.is_of_brokers(publication);
        for group in route.groups() {
            let partition = self.groups.partition_of(*group).filter(|partition| lacks(*partition));
            let Some(partition) = partition.filter(|_| self.deals_here(from, *group, of_brokers)) else { continue };
            let id = self.groups.id_of_exchange(*group, name);
            let is_dealt = self.state.exchanges.marks.has_deal(QoS::ExactlyOnce, id);
            if is_dealt || self.groups.kept.waits_for(self.state, id, is_foreign) {
                continue;
            }
            let passes = !of_brokers && self.groups.passing(self.links, from).has(partition);
            if !(passes
                && Passing(&mut dealing!(self)).pass_to_next_home(
                    now,
                    *group,
                    publication,
                    source,
                    (partition, id, name),
                ))
            {
                dealing!(self).deal_to(now, *group, publication, source, None);
            }
        }
    }
}

/// Messages on their way to the next home of their group.
pub(super) struct Passing<'a, 'e>(pub(super) &'a mut Dealing<'e>);

impl Passing<'_, '_> {
    /// Passes a message to the next home of its group. Where there is no room to keep it, it is to be dealt here: returns
    /// false, and the next home learns that it is dealt.
    fn pass_to_next_home(
        &mut self,
        now: Now,
        key: GroupKey,
        publication: &mut Publication<'_>,
        source: &Source,
        (partition, id, name): (PartitionId, u64, ExchangeName),
    ) -> bool {
        let Some(home) = self.0.groups.next_home(self.0.links, partition) else { return false };
        let Some(dealt) = self.0.groups.dealt.get(key.0) else { return false };
        let (tenant, share, filter) = (dealt.tenant, dealt.share.clone(), dealt.filter.clone());
        let (names, to): ((&str, &str), _) = ((&share, &filter), (home, id, name));
        if !self.0.groups.kept.keep_passed(now, self.0.state, publication, names, to, source.hops) {
            let groups = std::iter::once(partition).collect();
            let got = Got { groups, ..Got::EMPTY };
            self.0.state.exchanges.put_mark(self.0.links.place, &mut self.0.state.journal, name, got);
            self.0.groups.tell_next_homes(self.0.state, self.0.links, name, groups);
            return false;
        }
        let group = GroupName { tenant, share: &share, filter: &filter };
        let source = Source { hops: source.hops, ..Source::inside(self.0.links.place.shard, now) };
        let returning = Returning { group, not_to: u32::MAX, of: 0, id, client: 0, name: Some(name) };
        returning.send(self.0.links, &self.0.state.overflow, home, publication, &source);
        true
    }

    /// Deals a kept message to any member, unless it may have come before and is dealt already. It is remembered then: the
    /// publisher of one that was passed on may send it again, and another heir of a dead node may bring one that this shard
    /// has from that node.
    pub(super) fn deal(
        &mut self,
        now: Now,
        key: GroupKey,
        publication: &mut Publication<'_>,
        source: &Source,
        id: u64,
    ) {
        let may_come_again = self.0.groups.kept.deals.get(&id).is_some_and(Deal::may_come_again);
        self.0.groups.kept.forget_deal(self.0.state, id);
        let Some(partition) = self.0.groups.partition_of(key).filter(|_| may_come_again) else {
            return self.0.deal_to(now, key, publication, source, None);
        };
        if self.0.state.exchanges.marks.has_deal(publication.qos, id) {
            return;
        }
        let (place, qos) = (self.0.links.place, publication.qos);
        let (transfers, journal) = (&mut self.0.state.transfers, &mut self.0.state.journal);
        self.0.state.exchanges.note_taken(place, transfers, journal, qos, id, Some(partition));
        self.0.deal_to(now, key, publication, source, None);
    }
}

/// A message for the shard where its group is dealt.
pub(super) struct Returning<'a> {
    pub(super) group: GroupName<'a>,
    /// The session that gets it only if there is no other.
    pub(super) not_to: u32,
    pub(super) of: u64,
    pub(super) id: u64,
    pub(super) client: u64,
    /// Its name, if that shard is the next home.
    pub(super) name: Option<ExchangeName>,
}

impl Returning<'_> {
    pub(super) fn send(
        self,
        links: &mut Links,
        overflow: &OverflowRules,
        home: ShardId,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        let Self { group, not_to, of, id, client, name } = self;
        if let Some(name) = name {
            let word = ExchangeWord { name, done_below: 0, covered: Got::EMPTY };
            links.send(home, Record::Exchange(Box::new(word)));
        }
        let envelope = source.envelope(overflow, 0, publication, None);
        links.send(home, Record::Return { group, not_to, of, id, client, envelope });
    }
}
