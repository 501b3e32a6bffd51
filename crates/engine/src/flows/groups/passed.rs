//! QoS 2 messages of other nodes are passed to the next home of their group.

use crate::flows::contexts::{Dealing, dealing};
use crate::flows::publish::dispatch::Reach;
use crate::ids::PartitionId;
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::link::record::GroupName;
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
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
        let of_brokers = self.is_of_brokers(publication);
        for group in route.groups() {
            let partition = self.groups.partition_of(*group).filter(|partition| lacks(*partition));
            let Some(partition) = partition.filter(|_| self.deals_here(from, *group, of_brokers)) else { continue };
            let id = self.groups.id_of_exchange(*group, name);
            let is_dealt = self.state.exchanges.marks.has_deal(QoS::ExactlyOnce, id);
            if is_dealt || self.groups.kept.waits_for(id) {
                continue;
            }
            let passes = !of_brokers && self.groups.passing(self.links, from).has(partition);
            if !(passes && dealing!(self).pass_to_next_home(now, *group, publication, source, (partition, id, name))) {
                dealing!(self).deal_to(now, *group, publication, source, None);
            }
        }
    }
}

impl Dealing<'_> {
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
        let Some(home) = self.groups.next_home(self.links, partition) else { return false };
        let Some(dealt) = self.groups.dealt.get(key.0) else { return false };
        let (tenant, share, filter) = (dealt.tenant, dealt.share.clone(), dealt.filter.clone());
        let (names, to): ((&str, &str), _) = ((&share, &filter), (home, id, name));
        if !self.groups.kept.keep_passed(now, self.state, publication, names, to, source.hops) {
            let groups = std::iter::once(partition).collect();
            let got = Got { groups, ..Got::EMPTY };
            self.state.exchanges.put_mark(self.links.place, &mut self.state.journal, name, got);
            self.groups.tell_next_homes(self.state, self.links, name, groups);
            return false;
        }
        let group = GroupName { tenant, share: &share, filter: &filter };
        let source = Source { hops: source.hops, ..Source::inside(self.links.place.shard, now) };
        self.send_return(home, group, publication, &source, (u32::MAX, 0, id, 0), Some(name));
        true
    }

    /// Deals a kept message to any member, unless it was passed on and is dealt already. It is remembered then, since its publisher may send
    /// it again.
    pub(super) fn deal_passed(
        &mut self,
        now: Now,
        key: GroupKey,
        publication: &mut Publication<'_>,
        source: &Source,
        id: u64,
    ) {
        let name = self.groups.kept.deals.get(&id).and_then(|deal| deal.name);
        self.groups.kept.forget_deal(self.state, id);
        let Some(partition) = name.and_then(|_| self.groups.partition_of(key)) else {
            return self.deal_to(now, key, publication, source, None);
        };
        if self.state.exchanges.marks.has_deal(publication.qos, id) {
            return;
        }
        let (place, qos) = (self.links.place, publication.qos);
        let (transfers, journal) = (&mut self.state.transfers, &mut self.state.journal);
        self.state.exchanges.note_taken(place, transfers, journal, qos, id, Some(partition));
        self.deal_to(now, key, publication, source, None);
    }
}
