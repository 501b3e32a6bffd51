//! Whether the payload is one that pipelines of the hub accept, where they check it before anyone gets the message.

use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::publish::inbound::Inbound;
use crate::settings::fleet_topics::owner_of;
use crate::topics::origin::checks_of;
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Rejects a message whose payload a pipeline refuses. An empty retained message passes, to subscribers and to the
    /// pipeline too: otherwise no client could delete the retained message [MQTT-3.3.1-6].
    #[cold]
    pub(super) fn check_payload(&mut self, it: &Inbound<'_>) -> Step {
        if it.raw.retain && it.raw.payload.is_empty() {
            return Step::Continue;
        }
        let (owner, topic) = owner_of(&self.state.settings, it.tenant, self.router.cache.get(it.slot).0);
        if checks_of(&self.state.settings, owner, topic).all(|check| check.accepts(it.raw.payload)) {
            return Step::Continue;
        }
        Reason::PayloadRefused.into()
    }
}
