//! Room for a message at all queues with the policy `reject`.

use crate::flows::contexts::Deciding;
use crate::publish::inbound::Inbound;
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Takes the room that was reserved for a message above QoS 0, or asks for it.
    #[cold]
    pub(super) fn reserve_room(&mut self, it: &Inbound<'_>) -> Step {
        if it.raw.packet_id.is_none() {
            return Step::Continue;
        }
        let topic = self.router.cache.topic_of(it);
        let publication = it.publication(&topic);
        self.admit(it.now, it.key, it.session, it.slot, &publication)
    }
}
