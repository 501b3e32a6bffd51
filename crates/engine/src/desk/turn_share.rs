//! The share of a turn that a wide message takes.

use crate::desk::Desk;
use crate::publish::fan_out::FAN_OUT_STEP;
use crate::publish::turn_share::DELIVERIES_MAX;

impl Desk {
    /// Deliveries of messages to many after which their publishers wait. Where many receivers take no output, what
    /// cannot be sent is queued or dropped instead, which costs more, and gains nothing from being done for several
    /// messages at once.
    #[inline]
    pub(crate) fn wide_share(&self, receivers: usize) -> usize {
        if self.blocked_connections * 4 >= receivers as u64 { FAN_OUT_STEP } else { DELIVERIES_MAX }
    }
}
