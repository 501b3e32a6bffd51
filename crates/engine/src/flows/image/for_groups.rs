//! Messages of brokers for shared groups whose partitions leave: each is dealt once, at the old home or at the new one.

use crate::durable::crossing::Left;
use crate::events::reason::Reason;
use crate::flows::contexts::Moving;
use crate::flows::contexts::dealing;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::{PartitionId, Partitions};
use crate::image::forwarding::Forwarding;
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::settings::fleet_topics::of_brokers;
use crate::topics::{GroupKey, RouteSlot};
use tidegate_mqtt::QoS;

impl Moving<'_> {
    /// A message of a broker on the topic of the clients.
    pub(crate) fn of_clients(&self, message: &MessageRef) -> Option<MessageRef> {
        let (tenant, topic) = of_brokers(&self.state.settings, message.topic())?;
        Some(message.publication().named(tenant, topic).keep())
    }

    /// Notes a new message for the groups of this shard whose partitions leave, except the partitions `having`, which have
    /// it. From the roster in which the new home has them, that one deals.
    pub(crate) fn note_for_groups(&mut self, slot: RouteSlot, message: &MessageRef, having: Partitions) {
        let (_, route) = self.router.cache.get(slot);
        let (groups, roster, state) = (&*self.groups, &self.links.roster, &mut *self.state);
        let Forwarding { left, stored, .. } = &mut self.handover.forwarding;
        for left in left.values_mut() {
            let leaving = left.partitions.without(left.back).without(having);
            let leaves = |partition: &PartitionId| leaving.has(*partition) && roster.works(*partition);
            let partitions = route.groups().iter().filter_map(|group| groups.partition_of(*group)).filter(leaves);
            let partitions: Partitions = partitions.collect();
            if !partitions.is_empty() {
                let name = state.journal.names.make();
                left.for_groups.note(&mut state.journal, stored, message.clone(), partitions, name);
            }
        }
    }

    /// The same for a message that another shard of this process has passed on, if a broker has brought it.
    #[cold]
    pub(crate) fn note_of_brokers(&mut self, slot: RouteSlot, publication: &mut Publication<'_>) {
        if reach!(self).is_of_brokers(publication) && !self.router.cache.get(slot).1.groups().is_empty() {
            let message = publication.keep();
            self.note_for_groups(slot, &message, Partitions::NONE);
        }
    }

    /// The move with this id is called off for these partitions: their groups get the noted messages.
    pub(crate) fn deal_noted(&mut self, now: Now, id: u64, partitions: Partitions) {
        let Forwarding { left, stored, .. } = &mut self.handover.forwarding;
        let Some(left) = left.get_mut(&id) else { return };
        let noted = left.for_groups.take(&mut self.state.journal, stored, partitions);
        for _ in 0..left.for_groups.take_left_out() {
            self.state.counters.drop_message(Reason::MemoryCeiling);
        }
        for (message, partitions, _) in noted {
            self.deal_among(now, &message, partitions);
        }
    }

    /// A roster is in force. Groups of partitions that are at home here get the messages of an earlier process; groups of
    /// other partitions get theirs elsewhere.
    pub(crate) fn follow_roster(&mut self, now: Now) {
        let Forwarding { left, stored, undealt, .. } = &mut self.handover.forwarding;
        if undealt.is_empty() && left.is_empty() {
            return;
        }
        let roster = &self.links.roster;
        let known = Partitions::that(|partition| !roster.lacks_home(partition));
        let here = known.filtered(|partition| roster.works(partition));
        let journal = &mut self.state.journal;
        for left in left.values_mut() {
            left.for_groups.take(journal, stored, known.without(here));
            left.for_groups.take_left_out();
            if left.is_resumed {
                left.back = left.back.with(left.partitions.among(here));
            }
        }
        undealt.take(journal, stored, known.without(here));
        for (message, partitions, name) in undealt.take(journal, stored, here) {
            self.keep_for_groups(now, &message, partitions, name);
        }
        self.handover.tell_departures(self.state);
    }

    /// Keeps messages for the groups of partitions that were about to leave a dead member.
    pub(crate) fn keep_undealt(&mut self, now: Now, partitions: Partitions) {
        let Forwarding { undealt, stored, .. } = &mut self.handover.forwarding;
        for (message, partitions, name) in undealt.take(&mut self.state.journal, stored, partitions) {
            self.keep_for_groups(now, &message, partitions, name);
        }
    }

    /// Takes a message that an earlier process had noted for the groups of partitions.
    pub(crate) fn replay_for_groups(&mut self, left: &Left, partitions: Partitions, name: u64) {
        let is_taken = |partition| left.crossed.iter().any(|place| place.owns(partition));
        let own = self.links.place.own(partitions).filtered(|partition| !is_taken(partition));
        if !own.is_empty() {
            let Forwarding { undealt, stored, .. } = &mut self.handover.forwarding;
            undealt.note(&mut self.state.journal, stored, left.message.clone(), own, name);
        }
    }

    /// Deals a message of a broker to the shared groups of some partitions, as far as this shard deals for them.
    pub(crate) fn deal_to_groups(&mut self, now: Now, message: &MessageRef, partitions: Partitions) {
        if let Some(message) = self.of_clients(message) {
            self.deal_among(now, &message, partitions);
        }
    }

    /// The same for a message on the topic of the clients.
    fn deal_among(&mut self, now: Now, message: &MessageRef, partitions: Partitions) {
        let deals = self.state.departures;
        self.for_groups(message, partitions, |moving, group, partition, publication| {
            if deals.deals(&moving.links.roster, partition) {
                let source = Source::inside(moving.links.place.shard, now);
                dealing!(moving).deal_to(now, group, publication, &source, None);
            }
        });
    }

    /// Keeps a message of an earlier process, on the topic of the clients, for the shared groups of some partitions: no
    /// table says yet where their members are.
    pub(crate) fn keep_for_groups(&mut self, now: Now, message: &MessageRef, partitions: Partitions, name: u64) {
        if message.qos == QoS::AtMostOnce {
            return;
        }
        self.for_groups(message, partitions, |moving, group, _, publication| {
            let group = moving.groups.dealt.get(group.0).map(|dealt| (dealt.share.clone(), dealt.filter.clone()));
            let Some((share, filter)) = group else { return };
            moving.groups.kept.keep_noted(now, moving.state, (&share, &filter), publication, name);
        });
    }

    /// Calls `act` for the shared groups of this shard in some partitions that a message is for.
    fn for_groups(
        &mut self,
        message: &MessageRef,
        partitions: Partitions,
        mut act: impl FnMut(&mut Self, GroupKey, PartitionId, &mut Publication<'_>),
    ) {
        let slot = publishing!(self).route_of(message.tenant, message.topic());
        let groups = self.router.cache.get(slot).1.groups().to_vec();
        for group in groups {
            let partition = self.groups.partition_of(group).filter(|partition| partitions.has(*partition));
            if let Some(partition) = partition {
                act(self, group, partition, &mut message.publication());
            }
        }
    }
}
