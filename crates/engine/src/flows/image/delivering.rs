//! Messages of brokers are delivered while partitions move.

use crate::flows::contexts::Moving;
use crate::flows::contexts::dealing;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::Partitions;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::publish::dispatch::Source;
use crate::session::Session;
use crate::settings::fleet_topics::of_brokers;
use crate::topics::{GroupKey, RouteSlot};

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
        self.deal_live(now, message, having);
        true
    }

    /// Delivers a message that was passed on to the sessions of partitions, and deals it to groups.
    pub(crate) fn pass_on_to(&mut self, now: Now, message: &MessageRef, wanted: Partitions, groups: &[GroupKey]) {
        self.deliver_only(now, message, |session| session.is_some_and(|session| session.is_of(wanted)));
        self.deal_to_groups(now, message, groups);
    }

    /// Delivers a message to the sessions of this shard for which `is_meant` is true.
    pub(crate) fn deliver_only(&mut self, now: Now, message: &MessageRef, is_meant: impl Fn(Option<&Session>) -> bool) {
        let Some((tenant, topic)) = of_brokers(&self.state.settings, message.topic()) else { return };
        let slot = publishing!(self).route_of(tenant, topic);
        let (_, route) = self.router.cache.get(slot);
        let targets: Vec<_> = route
            .targets()
            .iter()
            .filter(|target| is_meant(self.state.sessions.get(target.session.0)))
            .copied()
            .collect();
        let mut publication = message.publication().named(tenant, topic);
        let source = Source::inside(self.links.place.shard, now);
        reach!(self).deliver_to(now, route, &targets, &mut publication, &source);
    }
}

impl Moving<'_> {
    /// Deals a live message to the shared groups of this shard, except groups whose members all have it.
    fn deal_live(&mut self, now: Now, message: &MessageRef, having: Partitions) {
        let groups = self.groups_of(message).into_iter();
        let groups: Vec<GroupKey> = groups.filter(|group| !self.groups.are_all_of(*group, having)).collect();
        self.deal_to_groups(now, message, &groups);
    }

    /// The shared groups of this shard that a message of a broker is for.
    fn groups_of(&mut self, message: &MessageRef) -> Vec<GroupKey> {
        let Some((tenant, topic)) = of_brokers(&self.state.settings, message.topic()) else { return Vec::new() };
        let slot = publishing!(self).route_of(tenant, topic);
        self.router.cache.get(slot).1.groups().to_vec()
    }

    /// The shared groups of this shard that get a message passed on for these partitions: a member has come with one of
    /// them, and no member that has come has it. It is asked before the message is noted as passed on.
    pub(crate) fn groups_lacking(
        &mut self,
        id: Option<&MessageId>,
        message: &MessageRef,
        partitions: Partitions,
    ) -> Vec<GroupKey> {
        let groups = self.groups_of(message);
        let (arrivals, arrived) = (&self.handover.arrivals, self.handover.arrivals.partitions());
        let lacks = |group: &GroupKey| {
            let members = self.groups.partitions_of_members(*group);
            let Some(id) = id.filter(|_| !members.among(partitions).is_empty()) else {
                return !members.among(partitions).is_empty();
            };
            let come = members.among(arrived);
            come.without(arrivals.lacking(come, id, self.broker_links.settlement.has_seen(id))).is_empty()
        };
        groups.into_iter().filter(lacks).collect()
    }

    /// Deals a message of a broker to shared groups of this shard.
    pub(crate) fn deal_to_groups(&mut self, now: Now, message: &MessageRef, groups: &[GroupKey]) {
        let Some((tenant, topic)) = of_brokers(&self.state.settings, message.topic()).filter(|_| !groups.is_empty())
        else {
            return;
        };
        let source = Source::inside(self.links.place.shard, now);
        for group in groups {
            let is_over = self.groups.are_all_of(*group, self.state.departures.over);
            if self.groups.deals_for(self.links.place.shard, *group) && !is_over {
                let mut publication = message.publication().named(tenant, topic);
                dealing!(self).deal_to(now, *group, &mut publication, &source, None);
            }
        }
    }
}
