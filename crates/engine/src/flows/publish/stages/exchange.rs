//! Stage: a QoS 2 message that another node has sent before.

use crate::flows::contexts::Deciding;
use crate::publish::inbound::Inbound;
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Forwards the message to the nodes that lack it, or waits for the nodes that were asked.
    #[cold]
    pub(super) fn resume_exchange(&mut self, it: &Inbound<'_>) -> Step {
        let Some((session, id)) = it.session.zip(it.raw.packet_id) else { return Step::Continue };
        let Some(exchange) = self.state.sessions.exchange_of(session, id) else { return Step::Continue };
        if self.state.connections.awaits_pub_rec(it) {
            return Step::Done;
        }
        if exchange.doubtful {
            // The packet may hold another message than the first with its identifier.
            let allowed = self.check_rights(it);
            return if allowed == Step::Continue { self.publish_again(&exchange, it) } else { allowed };
        }
        if self.wait_for_exchange(it, id, &exchange) { Step::Done } else { Step::Continue }
    }
}
