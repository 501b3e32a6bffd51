//! Whether the publisher may publish the message at all: the rules, the topics of the broker itself, and the longest
//! payload.

use super::Step;
use crate::engine::Engine;
use crate::publish::inbound::Inbound;
use crate::telling::reason::Reason;

impl Engine {
    /// Rejects what the publisher may not publish.
    pub(super) fn check_rights(&mut self, it: &Inbound<'_>) -> Step {
        if self.cache.traits(it.slot).is_own || !self.may_publish_inbound(it) {
            return Reason::NotAuthorized.into();
        }
        if it.raw.payload.len() > self.settings.limits.max_payload {
            return Reason::PayloadTooLong.into();
        }
        Step::Continue
    }
}
