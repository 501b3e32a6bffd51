//! Observers that must have the message before its publisher is acknowledged: whether their windows have room.

use crate::flows::contexts::Deciding;
use crate::observers::{Room, observed_cost};
use crate::publish::inbound::Inbound;
use crate::topics::stages::Deferral;
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Defers or rejects a message that an observer has no room for, as its policy says.
    #[cold]
    pub(super) fn check_observers(&mut self, it: &Inbound<'_>) -> Step {
        let set = self.observers_of(it);
        let cost = observed_cost(&it.publication(self.router.cache.get(it.slot).0));
        let (is_answered, may_wait) = (it.raw.packet_id.is_some(), !self.state.connections.is_leaving(it));
        match self.services.observers.room(set, cost, it.key, is_answered, may_wait) {
            Room::Enough => Step::Continue,
            Room::Wait(id) => Step::Defer(Deferral::Observer(id)),
            Room::Refused(reason) => reason.into(),
        }
    }
}
