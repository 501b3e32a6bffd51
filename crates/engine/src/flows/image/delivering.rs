//! Messages of brokers are delivered while partitions move.

use crate::flows::contexts::Moving;
use crate::flows::contexts::dealing;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::{PartitionId, Partitions};
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::publish::dispatch::Source;
use crate::session::Session;
use crate::settings::fleet_topics::of_brokers;
use crate::topics::{GroupKey, RouteSlot};
use tidegate_mqtt::QoS;

impl Moving<'_> {
    /// Delivers a message of a broker while partitions move. Partitions that have it, or get it later, are passed over.
    /// Returns whether it has been delivered.
    #[cold]
    pub(crate) fn attend_moves(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> bool {
        let arrivals = &mut self.handover.arrivals;
        let having = id.map_or(Partitions::NONE, |id| arrivals.take_brought(&mut self.state.journal, id));
        let mut passed_over = having;
        if !self.handover.forwarding.is_empty() {
            passed_over = passed_over.with(self.attend_forwarding(now, slot, id, message, having));
        }
        if passed_over.is_empty() {
            return false;
        }
        self.deliver_only(now, message, |session| !session.is_some_and(|session| session.is_of(passed_over)));
        self.deal_to_groups(now, message, Partitions::ALL.without(passed_over));
        true
    }

    /// Delivers a message that was passed on to the sessions of partitions, and deals it to their groups.
    pub(crate) fn pass_on_to(&mut self, now: Now, message: &MessageRef, wanted: Partitions) {
        self.deliver_only(now, message, |session| session.is_some_and(|session| session.is_of(wanted)));
        self.deal_to_groups(now, message, wanted);
    }

    /// Delivers a message to the sessions of this shard for which `is_meant` is true.
    pub(crate) fn deliver_only(&mut self, now: Now, message: &MessageRef, is_meant: impl Fn(Option<&Session>) -> bool) {
        let Some((tenant, topic)) = of_brokers(self.settings, message.topic()) else { return };
        let slot = publishing!(self).route_of(tenant, topic);
        let (_, route) = self.cache.get(slot);
        let targets: Vec<_> = route
            .targets()
            .iter()
            .filter(|target| is_meant(self.state.sessions.get(target.session.0)))
            .copied()
            .collect();
        let mut publication = message.publication().named(tenant, topic);
        let source = Source::inside(self.place.shard, now);
        reach!(self).deliver_to(now, route, &targets, &mut publication, &source);
    }
}

impl Moving<'_> {
    /// Deals a message of a broker to the shared groups of some partitions, as far as this shard deals for them.
    pub(crate) fn deal_to_groups(&mut self, now: Now, message: &MessageRef, partitions: Partitions) {
        let deals = self.state.departures;
        self.for_groups(message, partitions, |moving, group, partition, publication| {
            if deals.deals(&moving.links.roster, partition) {
                let source = Source::inside(moving.place.shard, now);
                dealing!(moving).deal_to(now, group, publication, &source, None);
            }
        });
    }

    /// Keeps a message of an earlier process for the shared groups of some partitions: no table says yet where their
    /// members are.
    pub(crate) fn keep_for_groups(&mut self, now: Now, message: &MessageRef, partitions: Partitions) {
        if message.qos == QoS::AtMostOnce {
            return;
        }
        self.for_groups(message, partitions, |moving, group, _, publication| {
            let name = moving.groups.dealt.get(group.0).map(|dealt| (dealt.share.clone(), dealt.filter.clone()));
            let Some((share, filter)) = name else { return };
            moving.groups.kept.wait_for_member(now, moving.state, (&share, &filter), publication);
        });
    }

    /// Calls `act` for the shared groups of this shard in some partitions that a message of a broker is for.
    fn for_groups(
        &mut self,
        message: &MessageRef,
        partitions: Partitions,
        mut act: impl FnMut(&mut Self, GroupKey, PartitionId, &mut Publication<'_>),
    ) {
        let Some((tenant, topic)) = of_brokers(self.settings, message.topic()) else { return };
        let slot = publishing!(self).route_of(tenant, topic);
        let groups = self.cache.get(slot).1.groups().to_vec();
        for group in groups {
            let partition = self.groups.partition_of(group).filter(|partition| partitions.has(*partition));
            if let Some(partition) = partition {
                act(self, group, partition, &mut message.publication().named(tenant, topic));
            }
        }
    }
}
