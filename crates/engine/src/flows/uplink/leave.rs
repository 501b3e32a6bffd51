//! A broker leaves.

use crate::flows::contexts::Uplinking;
use crate::flows::contexts::dealing;
use crate::ids::UplinkKey;
use crate::now::Now;
use crate::orchestrator::uplink::Stage;

impl Uplinking<'_> {
    /// A broker that was being drained is to be given messages after all.
    pub(crate) fn end_drain(&mut self, now: Now, key: UplinkKey) {
        let reassign_at = self.uplinks.brokers.config.reassign_time(now);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.draining.take().is_some() {
            uplink.since = now.unix;
            if uplink.stage != Stage::Open {
                // It is dealt messages from now on, and keeps them from others only as long as any that is away.
                uplink.reassign_at = reassign_at;
            }
            let (session, max_qos) = (uplink.session, uplink.max_qos);
            self.uplinks.brokers.note_flaws(key);
            self.take_uplink_seat(now, session, max_qos);
            dealing!(self).keep_order(now);
            self.uplinks.brokers.set_uplink_timer(self.state, key);
            self.check_gate(now);
        }
    }
}
