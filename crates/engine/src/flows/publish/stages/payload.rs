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
        let payload = it.raw.payload;
        let Some(why) = checks_of(&self.state.settings, owner, topic).find_map(|check| check.refusal(payload)) else {
            return Step::Continue;
        };
        if let Some(id) = it.raw.packet_id
            && self.state.connections.wants_reasons(it.key)
            && let Some(connection) = self.state.connections.get_mut(it.key)
        {
            let text = format!("{}: {why}", Reason::PayloadRefused.text());
            connection.extra_mut().acks.explained.keep(id, text);
        }
        Reason::PayloadRefused.into()
    }
}
