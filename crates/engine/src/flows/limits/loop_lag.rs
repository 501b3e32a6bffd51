//! Publishers wait while the event loop lags.

use crate::flows::contexts::Parking;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::session::BlockedPublisher;

impl Parking<'_> {
    /// Counts a message of a client of this shard.
    pub(crate) fn charge_own_loop_lag(&mut self, now: Now, key: ConnectionKey, receivers: usize, payload: usize) {
        if self.state.loop_lag.is_on(now) {
            let publisher = BlockedPublisher { shard: self.links.place.shard, connection: key };
            self.state.charge_loop_lag(now, publisher, receivers, payload);
        }
    }
}
