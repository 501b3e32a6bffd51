//! Messages of brokers are delivered while partitions move.

use crate::flows::contexts::Moving;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::Partitions;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::publish::dispatch::Source;
use crate::session::Session;
use crate::settings::fleet_topics::of_brokers;
use crate::topics::RouteSlot;

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
