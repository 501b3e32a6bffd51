//! Removals of retained messages at brokers.

use crate::flows::publish::dispatch::reach;
use crate::flows::uplink::uplinking::Uplinking;
use crate::ids::{SessionKey, TenantId, partition_of};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::receive::version_of;
use crate::publish::dispatch::Source;
use crate::settings::fleet_topics::owner_of;

impl Uplinking<'_> {
    /// Remembers the removals of retained messages that a restored session still owes its broker.
    pub(crate) fn remember_removals(&mut self, now: Now, session: SessionKey) {
        let Some(flow) = self.state.sessions.get(session.0).and_then(|session| session.flow.as_ref()) else { return };
        let sent = flow.inflight.iter().filter_map(|entry| entry.item.delivery.as_ref());
        let owed = sent.chain(&flow.queue).filter(|owed| owed.message.retain && owed.message.payload().is_empty());
        let removals: Vec<MessageRef> = owed.map(|owed| owed.message.clone()).collect();
        for removal in removals {
            let mut publication = removal.publication();
            let (tenant, topic) = owner_of(self.settings, TenantId::UPLINK, publication.topic);
            let home = self.place.home_of(partition_of(tenant, topic));
            if home == self.place.shard {
                let version = version_of(publication.properties);
                self.uplinks.settlement.removals.note(publication.topic, version);
            } else {
                let source = Source::inside(self.place.shard, now);
                reach!(self).send_to_home(&mut publication, &source, home);
            }
        }
    }
}
