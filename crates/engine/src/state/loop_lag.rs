//! The lag of the event loop is charged to publishers.

use crate::event::Delay;
use crate::ids::TenantId;
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::session::BlockedPublisher;
use crate::state::ShardState;

/// The assumed cost of a delivery beside the message's bytes, in bytes.
const MESSAGE_BYTES: u64 = 256;

impl ShardState {
    /// Counts the work of this shard for a message to this number of sessions. A publisher that causes more than the
    /// others waits, unless that has not helped for as long as publishers may be made to wait.
    #[cold]
    pub(crate) fn charge_loop_lag(&mut self, now: Now, publisher: BlockedPublisher, receivers: usize, payload: usize) {
        let patient = now.monotonic.since(self.loop_lag.since) < self.settings.limits.block_timeout_ms;
        let work = (receivers as u64 + 1).saturating_mul(payload as u64 + MESSAGE_BYTES);
        if self.loop_lag.count(publisher, work) && patient && self.loop_lag.waiting.insert(publisher) {
            self.counters.held_for_lag += 1;
            self.to_park.push(publisher);
            if publisher.shard == self.shard {
                self.reports().tell_delayed(Delay::LoopLag, publisher.connection);
            }
        }
    }

    /// The same for a message from another shard. Brokers of a fleet are not held: their messages come from clients.
    #[inline]
    pub(crate) fn charge_others_loop_lag(
        &mut self,
        now: Now,
        source: &Source,
        receivers: usize,
        publication: &Publication<'_>,
    ) {
        if self.loop_lag.is_on(now)
            && let Some(publisher) = source.publisher()
            && (publication.tenant == TenantId::BROKER_LINK
                || self.settings.broker_links.is_none()
                || self.settings.is_of_addresses(publication.topic.as_bytes()))
        {
            self.charge_loop_lag(now, publisher, receivers, publication.payload.len());
        }
    }
}
