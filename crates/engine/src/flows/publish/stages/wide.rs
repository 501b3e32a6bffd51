//! Messages to many subscribers wait until the connections that earlier ones have put in line were written.

use crate::flows::contexts::Deciding;
use crate::flows::contexts::parking;
use crate::publish::inbound::Inbound;
use crate::topics::stages::Deferral;
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Defers a message to many while earlier ones are under way: half of their connections would have to be written
    /// once more for it.
    pub(super) fn check_line(&mut self, it: &Inbound<'_>) -> Step {
        if parking!(self).is_line_under_way() && !self.state.connections.is_leaving(it) {
            return Step::Defer(Deferral::Line);
        }
        Step::Continue
    }
}
