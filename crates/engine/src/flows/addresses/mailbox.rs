//! A mobile node goes, and its queue stays as a mailbox until it returns.

use crate::addresses::Nodes;
use crate::addresses::mailbox::is_addressed;
use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::flows::contexts::Reading;
use crate::flows::contexts::SessionEnding;
use crate::flows::contexts::subscribing;
use crate::flows::contexts::{Dealing, dealing};
use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::journal::keys::{Key, StoredSession};
use crate::message::Message;
use crate::now::{Millis, Now};
use crate::session::packet_ids::{ReceivedIds, State};
use crate::session::{Delivery, Flow, Session, Standing};
use crate::settings::AddressSettings;
use crate::state::ShardState;
use crate::topics::address_name::encoded;
use std::sync::Arc;

impl SessionEnding<'_> {
    /// Counts and reports a session of a node that gets no mailbox because the limit of mailboxes is reached. Returns
    /// the reason for its dropped messages.
    pub(crate) fn tell_mailbox_limit(&mut self, key: SessionKey) -> Option<Reason> {
        let session = self.state.sessions.get(key.0).filter(|session| session.standing == Standing::Node)?;
        let addresses = self.state.settings.addresses.as_ref().filter(|addresses| addresses.node_expiry_seconds > 0)?;
        let address = format!("{}/to/node/{}", addresses.prefix, encoded(&session.client_id));
        self.state.counters.requests_refused[Reason::MailboxLimit.number()] += 1;
        self.state.reports().tell_denied(Attempt::Mailbox, key, &address, Reason::MailboxLimit);
        Some(Reason::MailboxLimit)
    }

    /// The session of a node has ended, and messages to its address stay. Its other messages are dropped as with any
    /// session.
    pub(crate) fn begin_mailbox(&mut self, now: Now, key: SessionKey, reason: Reason) {
        let Some(addresses) = &self.state.settings.addresses else { return };
        let ends_at = addresses.mailbox_ends_at(now.monotonic);
        self.end_will_and_timers(now, key);
        self.retaining.fetches.end_fetches(self.state, key);
        self.router.index.forget_stored_subscriptions(&mut self.state.sessions, &mut self.state.journal, key);
        subscribing!(self).remove_subscriptions(now, key);
        subscribing!(self).set_standing(now, key, Standing::Mailbox);
        if let Some(session) = self.state.sessions.get_mut(key.0) {
            // Messages of the tail are checked when they are read from the store.
            session.forget_newest(&mut self.state.memory);
        }
        dealing!(self).empty_into_mailbox(now, key, reason);
        self.state.sessions.watch_expiry(&mut self.state.timers, key);
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        session.expiry_seconds = 0;
        session.settle();
        if ends_at != Millis::NEVER {
            session.rare_mut().ends_at = Some(ends_at);
            self.state.timers.set(ends_at, crate::timers::Timer::SessionEnd(key));
        }
        self.state.sessions.store_session(&mut self.state.journal, key);
    }
}

impl Reading<'_> {
    /// Whether a message of a session's tail is owed to its client: not if it was for the subscriptions of a session
    /// that has ended.
    pub(crate) fn is_owed_still(&self, key: SessionKey, number: u64, message: &Message) -> bool {
        let Some(session) = self.state.sessions.get(key.0) else { return true };
        let before = session.flow.as_ref().is_some_and(|flow| number <= flow.mailbox_from);
        !before || is_addressed(self.state.settings.addresses.as_ref(), session, message)
    }
}

impl Dealing<'_> {
    /// Keeps the messages of a session to its client's address: first the sent and unacknowledged ones, then the queued
    /// ones, in their orders.
    fn empty_into_mailbox(&mut self, now: Now, key: SessionKey, reason: Reason) {
        let reason = if reason == Reason::SessionExpired { reason } else { Reason::SessionDiscarded };
        self.state.sessions.end_exchanges(&mut self.state.exchanges, key);
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let (stored, client_id) = (session.stored, session.client_id.clone());
        if let Some(rare) = session.rare.as_mut() {
            rare.refused.forget_all(&mut self.state.journal, stored);
        }
        let Some(mut flow) = session.flow.take() else { return };
        self.state.to_unpark.append(&mut flow.blocking);
        self.state.blockers.remove(&key.0);
        reset_packet_ids(&mut flow, stored, &mut self.state.journal);
        self.state.memory.held -= std::mem::take(&mut flow.inflight_bytes);
        let settings = Arc::clone(&self.state.settings);
        let addresses = settings.addresses.as_ref();
        let forget = |journal: &mut Journal, numbers| {
            if let Some(stored) = stored {
                journal.delete_entry(stored, numbers);
            }
        };
        let mut first = Vec::new();
        let (mut sent, mut queued) = (Vec::new(), Vec::new());
        for entry in flow.inflight.drain() {
            let numbers = entry.item.numbers;
            match entry.item.delivery {
                // The receiver has acknowledged the message.
                _ if entry.state == State::AwaitPubComp => forget(&mut self.state.journal, numbers),
                Some(delivery) if is_kept(addresses, self.state.sessions.get(key.0), &delivery) => {
                    first.push((delivery, numbers));
                }
                Some(delivery) => {
                    forget(&mut self.state.journal, numbers);
                    sent.push((delivery, entry.state != State::AwaitPubAck));
                }
                None => self.state.counters.drop_message(reason),
            }
        }
        let mut kept = Vec::with_capacity(first.len() + flow.queue.len());
        for (delivery, numbers) in first {
            if let Some(stored) = stored.filter(|_| numbers.entry != 0) {
                self.state.journal.delete_entry(stored, numbers);
                let place = flow.place_of_adopted()(delivery.number);
                self.state.journal.put_adopted(stored, &delivery, place);
            }
            self.state.memory.count_queued(delivery.cost());
            flow.queue_bytes += delivery.cost();
            kept.push(delivery);
        }
        for delivery in std::mem::take(&mut flow.queue) {
            if is_kept(addresses, self.state.sessions.get(key.0), &delivery) {
                kept.push(delivery);
                continue;
            }
            let cost = delivery.cost();
            self.state.memory.forget_queued(cost);
            flow.queue_bytes -= cost;
            self.state.journal.forget_stored(stored, delivery.number);
            queued.push(delivery);
        }
        flow.make_queue(kept);
        if let Some(session) = self.state.sessions.get_mut(key.0) {
            session.flow = Some(flow);
        }
        for (delivery, sent_once) in sent {
            self.settle_sent(now, key, &client_id, &delivery, sent_once, reason);
        }
        for delivery in queued {
            self.settle_queued(now, key, &client_id, &delivery, reason);
        }
    }
}

/// Whether a message addressed to a mobile node is kept after the node's session ends.
fn is_kept(addresses: Option<&AddressSettings>, session: Option<&Session>, delivery: &Delivery) -> bool {
    let is_for = |session: &Session| is_addressed(addresses, session, &delivery.message);
    delivery.group.is_none() && session.is_some_and(is_for)
}

/// Forgets all packet ids: the next connection of the client starts with new ones.
fn reset_packet_ids(flow: &mut Flow, stored: Option<StoredSession>, journal: &mut Journal) {
    if let Some(stored) = stored {
        for id in flow.received.iter() {
            journal.delete(Key::Received(stored, id));
        }
    }
    flow.received = ReceivedIds::default();
    (flow.received_before, flow.to_resend, flow.one_at_a_time) = (0, 0, false);
    flow.mailbox_from = flow.next_number;
}

impl Nodes {
    /// True if messages to the address of a session's client stay when the session ends.
    pub(crate) fn keeps_mailbox(&self, state: &ShardState, key: SessionKey) -> bool {
        let Some(addresses) = &state.settings.addresses else { return false };
        let standing = state.sessions.get(key.0).map(|session| session.standing);
        let max = addresses.max_mailboxes;
        standing == Some(Standing::Node)
            && addresses.node_expiry_seconds > 0
            && (max == 0 || self.mailboxes < u64::from(max))
    }
}
