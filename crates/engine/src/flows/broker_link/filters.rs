//! Filters are asked of brokers.

use crate::events::refused::Refused;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::answering;
use crate::flows::contexts::dealing;
use crate::ids::BrokerLinkKey;
use crate::ids::{ConnectionKey, ShardId};
use crate::link::envelope::Ticket;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::asking::Change;
use crate::orchestrator::broker_link::filters::{GONE_MAX, Waiter};
use tidegate_mqtt::{Frame, PacketId, SubAck, UnsubAck};

impl BrokerLinking<'_> {
    /// A broker is gone: no SUBACK waits for its answers. An unanswered filter may be the cause if the broker closed
    /// the connection.
    pub(super) fn end_filters(&mut self, now: Now, key: BrokerLinkKey, closed: bool) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let filters = &mut broker_link.filters;
        let asked = filters.asked.iter().filter(|_| closed).flat_map(|(_, changes)| changes);
        if let Some(filter) = filters.ending.note_closed(asked, now.monotonic) {
            broker_link.last_error =
                format!("the broker closes the connection when it is asked for the filter {filter:?}");
            broker_link.suspicion.told = true;
            // The next connection will do better.
            broker_link.backoff_ms = 0;
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
        self.broker_links.brokers.note_flaws(key);
        for change in changes {
            self.end_wait(now, change.wait);
        }
    }

    pub(crate) fn handle_sub_ack(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Result<(), Refused> {
        let Some((broker_link, version)) = self.broker_links.brokers.broker_link_of(key) else { return Ok(()) };
        let ack = SubAck::decode(version, frame.first_byte, frame.body)?;
        self.broker_links.brokers.note_refused(now, &self.broker_links.wanted, broker_link, &ack);
        self.broker_links.wanted.note_sub_ack(&self.broker_links.brokers, broker_link, &ack);
        self.pass_refusals_on(now, broker_link, &ack);
        self.note_answered(now, broker_link, ack.packet_id);
        self.answer_members(now, key);
        Ok(())
    }

    pub(crate) fn handle_unsub_ack(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Result<(), Refused> {
        let Some((broker_link, version)) = self.broker_links.brokers.broker_link_of(key) else { return Ok(()) };
        let ack = UnsubAck::decode(version, frame.first_byte, frame.body)?;
        self.note_answered(now, broker_link, ack.packet_id);
        Ok(())
    }

    /// A broker has answered for some filters.
    fn note_answered(&mut self, now: Now, key: BrokerLinkKey, id: PacketId) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let filters = &mut broker_link.filters;
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
        self.broker_links.brokers.send_filters(self.state, key);
        if !asked_before
            && self.broker_links.brokers.all.get(&key).is_some_and(|broker_link| broker_link.filters.are_asked())
        {
            self.broker_links.brokers.note_flaws(key);
            dealing!(self).keep_order(now);
            self.broker_links.brokers.open_window(now, self.state, self.layouts, key);
        }
        self.broker_links.brokers.set_broker_link_timer(self.state, key);
        if complete {
            self.broker_links.brokers.begin_serving(now, self.state, key);
        }
    }

    /// One broker less is waited for.
    pub(super) fn end_wait(&mut self, now: Now, wait: u64) {
        let wanted = &mut self.broker_links.wanted;
        let Some(waiter) = wanted.waits.get_mut(&wait) else { return };
        waiter.left = waiter.left.saturating_sub(1);
        if waiter.left > 0 {
            return;
        }
        let Some(Waiter { shard, ticket, answers, .. }) = wanted.waits.remove(&wait) else { return };
        self.pass_answers_on(now, shard, ticket, &answers);
        self.confirm_wait(now, shard, ticket);
        while let Some((last, shard, ticket)) = self.broker_links.wanted.behind.front().copied() {
            if self.broker_links.wanted.waits.first_key_value().is_some_and(|(first, _)| *first <= last) {
                break;
            }
            self.broker_links.wanted.behind.pop_front();
            self.confirm_wait(now, shard, ticket);
        }
    }

    fn confirm_wait(&mut self, now: Now, shard: ShardId, ticket: Ticket) {
        if shard == self.links.place.shard {
            answering!(self).handle_interest_seen(now, ticket);
        } else {
            self.links.confirm_interest(shard, ticket);
        }
    }
}
