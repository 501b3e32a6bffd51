//! Filters are asked of brokers.

use crate::events::refused::Refused;
use crate::flows::contexts::Uplinking;
use crate::flows::contexts::answering;
use crate::flows::contexts::dealing;
use crate::ids::UplinkKey;
use crate::ids::{ConnectionKey, ShardId};
use crate::link::envelope::Ticket;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::asking::Change;
use crate::orchestrator::uplink::filters::{GONE_MAX, Waiter};
use tidegate_mqtt::{Frame, PacketId, SubAck, UnsubAck};

impl Uplinking<'_> {
    /// A broker is gone: no SUBACK waits for its answers. An unanswered filter may be the cause if the broker closed
    /// the connection.
    pub(super) fn end_filters(&mut self, now: Now, key: UplinkKey, closed: bool) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        let filters = &mut uplink.filters;
        let asked = filters.asked.iter().filter(|_| closed).flat_map(|(_, changes)| changes);
        if let Some(filter) = filters.ending.note_closed(asked, now.monotonic) {
            uplink.last_error = format!("the broker closes the connection when it is asked for the filter {filter:?}");
            uplink.suspicion.told = true;
            // The next connection will do better.
            uplink.backoff_ms = 0;
        }
        let changes = filters.asked.drain(..).flat_map(|(_, changes)| changes).chain(filters.queue.drain(..));
        let changes: Vec<Change> = changes.collect();
        filters.held = 0;
        filters.asked_since = Millis::NEVER;
        filters.first_unasked = 0;
        filters.refused.clear();
        filters.not_held.clear();
        filters.ask_again_at = Millis::NEVER;
        filters.kept_back.clear();
        let unsubscribed = changes.iter().filter(|change| !change.subscribe).map(|change| change.filter.clone());
        filters.gone.extend(unsubscribed.take(GONE_MAX));
        self.uplinks.brokers.note_flaws(key);
        for change in changes {
            self.end_wait(now, change.wait);
        }
    }

    pub(crate) fn handle_sub_ack(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Result<(), Refused> {
        let Some((uplink, version)) = self.uplinks.brokers.uplink_of(key) else { return Ok(()) };
        let ack = SubAck::decode(version, frame.first_byte, frame.body)?;
        self.uplinks.brokers.note_refused(now, &self.uplinks.wanted, uplink, &ack);
        self.uplinks.wanted.note_verdicts(&self.uplinks.brokers, uplink, &ack);
        self.pass_refusals_on(now, uplink, &ack);
        self.note_answered(now, uplink, ack.packet_id);
        Ok(())
    }

    pub(crate) fn handle_unsub_ack(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Result<(), Refused> {
        let Some((uplink, version)) = self.uplinks.brokers.uplink_of(key) else { return Ok(()) };
        let ack = UnsubAck::decode(version, frame.first_byte, frame.body)?;
        self.note_answered(now, uplink, ack.packet_id);
        Ok(())
    }

    /// A broker has answered for some filters.
    fn note_answered(&mut self, now: Now, key: UplinkKey, id: PacketId) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        let filters = &mut uplink.filters;
        let Some(at) = filters.asked.iter().position(|(asked, _)| *asked == id) else { return };
        let Some((_, changes)) = filters.asked.remove(at) else { return };
        filters.asked_since = if filters.asked.is_empty() { Millis::NEVER } else { now.monotonic };
        let asked_before = filters.are_asked();
        for change in &changes {
            filters.ending.note_answered(&change.filter);
            if change.subscribe {
                filters.not_held.remove(&change.filter);
                filters.held += u64::from(!filters.refused.contains(&change.filter));
            } else if !filters.not_held.remove(&change.filter) {
                filters.held = filters.held.saturating_sub(1);
            }
        }
        let before = filters.first_left;
        filters.first_left = before.saturating_sub(changes.len() as u64);
        let complete = before > 0 && filters.first_left == 0;
        for change in changes {
            self.end_wait(now, change.wait);
        }
        self.uplinks.brokers.send_filters(self.state, key);
        if !asked_before && self.uplinks.brokers.all.get(&key).is_some_and(|uplink| uplink.filters.are_asked()) {
            self.uplinks.brokers.note_flaws(key);
            dealing!(self).keep_order(now);
            self.uplinks.brokers.open_window(now, self.state, self.layouts, key);
        }
        self.uplinks.brokers.set_uplink_timer(self.state, key);
        if complete {
            self.uplinks.brokers.begin_serving(now, self.state, key);
        }
    }

    /// One broker less is waited for.
    pub(super) fn end_wait(&mut self, now: Now, wait: u64) {
        let wanted = &mut self.uplinks.wanted;
        let Some(waiter) = wanted.waits.get_mut(&wait) else { return };
        waiter.left = waiter.left.saturating_sub(1);
        if waiter.left > 0 {
            return;
        }
        let Some(Waiter { shard, ticket, verdict, .. }) = wanted.waits.remove(&wait) else { return };
        self.pass_verdict_on(now, shard, ticket, &verdict);
        self.confirm_wait(now, shard, ticket);
        while let Some((last, shard, ticket)) = self.uplinks.wanted.behind.front().copied() {
            if self.uplinks.wanted.waits.first_key_value().is_some_and(|(first, _)| *first <= last) {
                break;
            }
            self.uplinks.wanted.behind.pop_front();
            self.confirm_wait(now, shard, ticket);
        }
    }

    fn confirm_wait(&mut self, now: Now, shard: ShardId, ticket: Ticket) {
        if shard == self.place.shard {
            answering!(self).handle_interest_seen(now, ticket);
        } else {
            self.links.confirm_interest(shard, ticket);
        }
    }
}
