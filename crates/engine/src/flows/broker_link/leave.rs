//! A broker leaves.

use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::dealing;
use crate::ids::BrokerLinkKey;
use crate::now::Now;
use crate::orchestrator::broker_link::Stage;

impl BrokerLinking<'_> {
    /// A broker that was being drained is to be given messages after all.
    pub(crate) fn end_drain(&mut self, now: Now, key: BrokerLinkKey) {
        let reassign_at = self.broker_links.brokers.config.reassign_time(now);
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        if broker_link.draining.take().is_some() {
            broker_link.since = now.unix;
            if broker_link.stage != Stage::Open {
                // It is dealt messages from now on, and keeps them from others only as long as any that is away.
                broker_link.reassign_at = reassign_at;
            }
            let (session, max_qos) = (broker_link.session, broker_link.max_qos);
            self.broker_links.brokers.note_flaws(key);
            self.take_broker_link_seat(now, session, max_qos);
            dealing!(self).keep_order(now);
            self.broker_links.brokers.set_broker_link_timer(self.state, key);
            self.check_gate(now);
        }
    }
}
