//! Whether the publisher may publish the message at all: the rules, the topics of the broker itself, and the longest
//! payload.

use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::ids::TenantId;
use crate::publish::inbound::Inbound;
use crate::settings::fleet_topics::{is_of_tenant, of_brokers};
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Rejects a message that the publisher may not publish.
    pub(super) fn check_rights(&mut self, it: &Inbound<'_>) -> Step {
        // Below the name of a tenant at brokers, only its own clients may publish.
        let topic = self.router.cache.get(it.slot).0;
        let is_foreign = it.tenant == TenantId::BROKER_LINK
            && is_of_tenant(topic)
            && self.publisher_of(it).map(|(tenant, _)| tenant)
                != of_brokers(&self.state.settings, topic).map(|(tenant, _)| tenant);
        if self.router.cache.traits(it.slot).is_own || is_foreign || !self.may_publish_inbound(it) {
            return Reason::NotAuthorized.into();
        }
        if it.raw.payload.len() > self.state.settings.limits.max_payload {
            return Reason::PayloadTooLong.into();
        }
        Step::Continue
    }
}
