//! A message that no broker brings back is delivered to the clients of this process directly.

use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::moving;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::{BrokerLinkKey, TenantId};
use crate::image::forwarding::AtHand;
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::publish::dispatch::Source;
use crate::settings::fleet_topics::of_brokers;
use crate::topics::RouteSlot;

impl BrokerLinking<'_> {
    /// Delivers a message that a broker has taken and does not bring back. A late return is recognised by its id. Where
    /// brokers decide about reading, only the broker delivers.
    pub(super) fn deliver_here(&mut self, now: Now, key: BrokerLinkKey, message: &MessageRef) {
        if self.broker_links.brokers.config.brokers_decide() {
            return;
        }
        let id = MessageId::at_end_of(message.properties());
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let session = broker_link.session;
        if let Some(id) = &id {
            if self.broker_links.settlement.seen.contains(id) {
                return;
            }
            broker_link.counters.delivered_here += 1;
            self.broker_links.settlement.seen.insert(id);
            if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) {
                broker_link.keep_id(self.state, session, message.qos, id);
            }
        }
        let Some((tenant, topic)) = of_brokers(&self.state.settings, message.topic()) else { return };
        let slot = publishing!(self).route_of(tenant, topic);
        let given = message.publication();
        let properties = MessageId::strip(given.properties);
        if self.attend_moves_here(now, slot, id.as_ref(), given.clone().with_properties(properties)) {
            return;
        }
        let priority = self.router.cache.traits(slot).priority.level(properties);
        let publisher = id.map_or(0, |id| id.publisher);
        let (topic, route) = self.router.cache.get(slot);
        let (qos, expires_at, payload) = (given.qos, given.expires_at, given.payload);
        let mut own = Publication::new(tenant, topic, qos, given.retain, properties, expires_at, payload, publisher);
        own.priority = priority;
        // Its topic's home has kept it when it entered.
        own.retain_is_done = true;
        let source = Source::inside(self.links.place.shard, now);
        reach!(self).dispatch(now, route, &mut own, &source);
    }

    /// Passes a message that no broker brings to the new homes of partitions that have left. Returns whether it has been
    /// delivered here. The connection of a dead orchestrator ends without such a message: another broker gets it before.
    fn attend_moves_here(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        publication: Publication<'_>,
    ) -> bool {
        if !self.handover.concerns(id) {
            return false;
        }
        let topic = publication.topic;
        let message = publication.named(TenantId::DEFAULT, topic).keep();
        let last = AtHand { is_last: true, ..AtHand::default() };
        let at_hand = std::mem::replace(&mut self.handover.forwarding.at_hand, last);
        let is_delivered = moving!(self).attend_moves(now, slot, id, &message);
        self.handover.forwarding.at_hand = at_hand;
        is_delivered
    }

    /// Delivers messages that brokers were given in the packet at hand and will not bring back.
    pub(super) fn deliver_all_here(&mut self, now: Now) {
        while let Some((key, message)) = self.broker_links.settlement.for_here.pop() {
            self.deliver_here(now, key, &message);
        }
    }
}
