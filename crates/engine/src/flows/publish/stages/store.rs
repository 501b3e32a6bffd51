//! While the store has no room: only messages that would have to be stored are rejected.

use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::Publishing;
use crate::flows::contexts::publishing;
use crate::ids::{SessionKey, TenantId};
use crate::publish::admission::Wanted;
use crate::publish::inbound::Inbound;
use crate::topics::RouteSlot;
use crate::topics::stages::Step;
use tidegate_mqtt::QoS;

impl Deciding<'_> {
    /// Rejects a message that would have to be stored. Messages to a fleet would be: brokers get all of them, and their
    /// queues are stored.
    #[cold]
    pub(super) fn check_store(&mut self, it: &Inbound<'_>) -> Step {
        let rejected = if it.tenant == TenantId::BROKER_LINK {
            it.raw.qos != QoS::AtMostOnce || it.raw.retain
        } else {
            it.raw.packet_id.is_some() && publishing!(self).has_to_be_stored(it)
        };
        if rejected { Reason::StoreFull.into() } else { Step::Continue }
    }
}

impl Publishing<'_> {
    /// Whether the store would have to take a PUBLISH above QoS 0 in, as far as this shard knows: as a retained value,
    /// for a session that lasts, or to remember that its publisher has sent it.
    fn has_to_be_stored(&self, it: &Inbound<'_>) -> bool {
        if it.raw.retain && !it.raw.payload.is_empty() {
            return true;
        }
        let publication = it.publication(self.router.cache.get(it.slot).0);
        (it.raw.qos == QoS::ExactlyOnce && it.session.is_some_and(|session| self.state.sessions.is_stored(session)))
            || self.has_to_be_stored_for_receivers(it.slot, &Wanted::of(&publication))
    }

    /// True if a receiver of this shard would have a message stored. Members of a shared group on other shards count
    /// too: messages to them are stored on the way.
    pub(crate) fn has_to_be_stored_for_receivers(&self, slot: RouteSlot, wanted: &Wanted<'_>) -> bool {
        if wanted.qos == QoS::AtMostOnce {
            return false;
        }
        let (_, route) = self.router.cache.get(slot);
        let mut targets = route.targets().iter().filter(|target| target.qos() != QoS::AtMostOnce);
        targets.any(|target| self.state.sessions.is_stored(target.session))
            || route.groups().iter().any(|group| {
                let mut members = self.groups.members(*group);
                members.any(|(shard, session)| {
                    shard != self.links.place.shard || self.state.sessions.is_stored(SessionKey(session))
                })
            })
    }
}
