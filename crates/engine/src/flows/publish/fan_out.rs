//! A publisher waits for the rest of its receivers.

use crate::flows::contexts::Parking;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::publish::fan_out::FAN_OUT_STEP;
use crate::publish::turn_share::Share;
use crate::publish::turn_share::wide_share;
use tidegate_mqtt::{QoS, RawPublish};

impl Parking<'_> {
    /// How many of more than [`FAN_OUT_STEP`] receivers a message reaches at once. When they are not all, its publisher
    /// waits from now on.
    #[cold]
    pub(crate) fn first_receivers(
        &mut self,
        now: Now,
        key: ConnectionKey,
        raw: &RawPublish<'_>,
        receivers: usize,
    ) -> usize {
        let splits = raw.qos == QoS::AtMostOnce && !raw.retain;
        if !splits || receivers <= wide_share(self.state.blocked_connections, receivers) {
            return receivers;
        }
        self.wait_for_next_turn(now, key, Share::Wide);
        if self.turn_share.holds(key) { FAN_OUT_STEP } else { receivers }
    }
}
