//! In a cluster: a message that would miss subscribers at an absent node.

use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::publish::inbound::Inbound;
use crate::topics::stages::Deferral;
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Defers a message above QoS 0 that could miss a receiver, until the interest of all nodes is known.
    #[cold]
    pub(super) fn check_missing(&mut self, it: &Inbound<'_>) -> Step {
        if it.raw.packet_id.is_none() {
            return Step::Continue;
        }
        self.defer_if_missing(it)
    }

    /// The same for any message. Where a node has yet to take over what another one had, which takes longer, the
    /// message is rejected: its publisher sends it again, to another node perhaps.
    pub(crate) fn defer_if_missing(&self, it: &Inbound<'_>) -> Step {
        if !self.peers.lacks_receiver(
            self.state,
            &self.links.roster,
            self.router.cache.get(it.slot),
            it.tenant,
            it.raw.retain,
        ) {
            return Step::Continue;
        }
        if self.links.roster.misses_any() || self.state.connections.is_leaving(it) {
            return Reason::NodeLost.into();
        }
        Step::Defer(Deferral::Interest)
    }
}
