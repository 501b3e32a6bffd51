//! A connection ends, and its session is left.

use crate::events::outcome::DeliveryOutcome;
use crate::events::reason::Reason;
use crate::flows::contexts::Connecting;
use crate::flows::contexts::Dealing;
use crate::flows::contexts::SessionEnding;
use crate::flows::contexts::connecting;
use crate::flows::contexts::dealing;
use crate::flows::contexts::publishing;
use crate::flows::contexts::subscribing;
use crate::ids::SessionKey;
use crate::journal::keys::Key;
use crate::limits::usage::Payer;
use crate::now::{Millis, Now};
use crate::session::ended::EndedSession;
use crate::session::packet_ids::State;
use crate::session::{Delivery, Session, Standing};
use crate::settings::Holding;
use crate::sys::ClientNews;
use crate::timers::Timer;
use crate::topics::address_name::is_address;
use std::collections::VecDeque;
use std::rc::Rc;
use tidegate_mqtt::QoS;

/// How long messages at QoS 0 are kept for a client that was sent on, milliseconds. Afterwards they are dropped, as for any
/// client that is away.
const SENT_ON_KEEP_MS: u64 = 10_000;

impl SessionEnding<'_> {
    /// Detaches a session from its lost connection. If the client was sent to another server, its missed messages are
    /// kept for a while.
    pub(crate) fn detach_session(&mut self, now: Now, key: SessionKey, reason: Reason, sent_on: bool) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let payer =
            session.connection.take().map_or(Payer::NONE, |connection| self.state.connections.payer_of(connection));
        let expiry = session.expiry_seconds;
        // Nothing goes out over the connection any more. The client itself may watch who goes, and behind a DISCONNECT
        // nothing may follow ([MQTT-3.14.4-1]).
        let event = self.sys.client_event(now, self.state, key, ClientNews::Ended(reason));
        publishing!(self).publish_client_event(now, event);
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        if let Some(flow) = session.flow.as_mut() {
            self.state.to_unpark.append(&mut flow.blocking);
            flow.pace.end(0);
            flow.to_resend = 0;
        }
        let tenant = session.counted_for();
        self.state.tenants.release(tenant, Holding::Connections, 1);
        self.state.sessions_connected -= 1;
        self.state.meters.disconnect(payer, now.monotonic);
        self.retaining.fetches.suspend_fetches(&mut self.state.sessions, key);
        self.schedule_will(now, key, reason);
        if expiry == 0 {
            self.end_session(now, key, reason);
            return;
        }
        self.groups.announce_presence(self.state, self.links, key, false);
        let ends_at = if expiry == u32::MAX { Millis::NEVER } else { now.monotonic.plus_seconds(expiry) };
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        session.settle();
        if sent_on {
            session.rare_mut().sent_on_until = Some(now.monotonic.plus(SENT_ON_KEEP_MS));
        }
        if ends_at != Millis::NEVER {
            session.rare_mut().ends_at = Some(ends_at);
            self.state.timers.set(ends_at, Timer::SessionEnd(key));
        }
        self.state.sessions.store_session(&mut self.state.journal, key);
    }

    pub(crate) fn handle_session_timer(&mut self, now: Now, key: SessionKey) {
        if let Some(rare) = self.state.sessions.get_mut(key.0).and_then(|session| session.rare.as_mut()) {
            rare.ends_at = None;
        }
        self.state.counters.sessions_expired += 1;
        self.end_session(now, key, Reason::SessionExpired);
    }

    /// Ends a session: its will is published, its subscriptions end, and its undelivered messages return to shared
    /// groups or are counted as dropped. Many subscriptions and messages are removed [in
    /// steps](crate::connection::ending).
    ///
    /// Messages to the address of a mobile node outlive its session.
    pub(crate) fn end_session(&mut self, now: Now, key: SessionKey, reason: Reason) {
        if self.nodes.keeps_mailbox(self.state, key) {
            self.begin_mailbox(now, key, reason);
            return;
        }
        let reason = self.tell_mailbox_limit(key).unwrap_or(reason);
        self.end_will_and_timers(now, key);
        self.retaining.fetches.end_fetches(self.state, key);
        subscribing!(self).set_standing(now, key, Standing::Client);
        self.state.sessions.end_exchanges(&mut self.state.exchanges, key);
        let Some(mut session) = self.state.withdraw_session(key) else { return };
        if let Some(stored) = session.stored {
            self.state.journal.delete(Key::Session(stored));
        }
        self.state.tenants.release(session.counted_for(), Holding::Subscriptions, session.subscriptions());
        // The groups that get messages back must not take the session for a member.
        for membership in session.take_owing_memberships() {
            subscribing!(self).leave_home(now, key, &membership);
        }
        let ending = dealing!(self).begin_ending(now, key, session, reason);
        self.endings.begin(now, ending, &mut subscribing!(self));
    }

    /// Publishes the will of a session that ends, if it waits.
    pub(crate) fn end_will_and_timers(&mut self, now: Now, key: SessionKey) {
        let rare = self.state.sessions.get(key.0).and_then(|session| session.rare.as_ref());
        if rare.is_some_and(|rare| rare.will_due.is_some()) {
            let will = self.state.sessions.replace_will(&mut self.state.memory, &mut self.state.journal, key, None);
            self.publish_will(now, key, will);
        }
        connecting!(self).drop_former_wills(key, |_| true);
        connecting!(self).cancel_session_timers(key);
    }
}

impl Connecting<'_> {
    /// The client is back: neither its session ends nor its will is published ([MQTT-3.1.3-9]).
    pub(crate) fn cancel_session_timers(&mut self, key: SessionKey) {
        self.state.sessions.replace_will(&mut self.state.memory, &mut self.state.journal, key, None);
        let Some(rare) = self.state.sessions.get_mut(key.0).and_then(|session| session.rare.as_mut()) else { return };
        if let Some(due) = rare.will_due.take() {
            self.state.timers.cancel(due, Timer::Will(key));
        }
        rare.sent_on_until = None;
        if let Some(at) = rare.ends_at.take() {
            self.state.timers.cancel(at, Timer::SessionEnd(key));
        }
    }
}

impl Dealing<'_> {
    /// Settles the messages in flight and the messages of shared groups of an ended session; the rest is left for steps.
    fn begin_ending(&mut self, now: Now, key: SessionKey, session: Session, reason: Reason) -> EndedSession {
        let reason = match reason {
            Reason::SessionExpired | Reason::SessionDiscarded | Reason::MailboxLimit => reason,
            // A session that was never to outlive its connection gave up its messages by that.
            _ => Reason::SessionDiscarded,
        };
        let (of_broker_link, tenant) = (session.is_broker_link(), session.tenant);
        let memberships = session.rare.map_or_else(Vec::new, |rare| rare.memberships);
        let (client_id, filters) = (session.client_id, session.filters);
        let mut ending = EndedSession {
            key,
            tenant,
            client_id,
            reason,
            filters,
            memberships,
            queue: VecDeque::new(),
            of_broker_link,
        };
        let Some(mut flow) = session.flow else { return ending };
        if let Some(tail) = flow.tail.take() {
            self.state.memory.forget_tail(tail.messages, tail.bytes, tail.counted);
            self.state.counters.dropped[reason.number()] += tail.messages;
        }
        self.state.blockers.remove(&key.0);
        self.state.to_unpark.append(&mut flow.blocking);
        self.state.memory.held -= flow.inflight_bytes;
        for entry in flow.inflight.drain() {
            // A sent QoS 2 message may have arrived: no other client may get it ([MQTT-4.8.2-5]). A broker is an
            // exception: the message id prevents a second delivery.
            let sent_once = entry.state != State::AwaitPubAck && !of_broker_link;
            if entry.state == State::AwaitPubComp && !of_broker_link {
                // The receiver has acknowledged the message.
                continue;
            }
            match entry.item.delivery {
                Some(delivery) => self.settle_sent(now, key, &ending.client_id, &delivery, sent_once, reason),
                // Only its packet id was left to be released: another broker has the message.
                None if of_broker_link => {}
                None => self.state.counters.drop_message(reason),
            }
        }
        for delivery in flow.queue {
            if delivery.group.is_some() {
                // The session is deleted from the store in this turn, so its group must have the message in this turn.
                self.state.memory.forget_queued(delivery.cost());
                self.settle_queued(now, key, &ending.client_id, &delivery, reason);
            } else {
                ending.queue.push_back(delivery);
            }
        }
        ending
    }

    /// Settles a message that was sent and not acknowledged (`sent_once`: and that may have arrived).
    pub(crate) fn settle_sent(
        &mut self,
        now: Now,
        key: SessionKey,
        client_id: &str,
        delivery: &Delivery,
        sent_once: bool,
        reason: Reason,
    ) {
        if delivery.group.is_some() && !sent_once {
            self.return_to_group(now, key, delivery);
        } else {
            self.give_up(client_id, reason, delivery);
        }
    }

    /// Settles a message that was queued.
    pub(crate) fn settle_queued(
        &mut self,
        now: Now,
        key: SessionKey,
        client_id: &str,
        delivery: &Delivery,
        reason: Reason,
    ) {
        if delivery.is_expired(now.monotonic) {
            self.give_up(client_id, Reason::MessageExpired, delivery);
        } else if delivery.group.is_some() && delivery.qos != QoS::AtMostOnce {
            self.return_to_group(now, key, delivery);
        } else {
            self.give_up(client_id, reason, delivery);
        }
    }

    /// Drops a message of a session that is not there any more.
    fn give_up(&mut self, client_id: &str, reason: Reason, delivery: &Delivery) {
        let is_addressed = || is_address(&self.state.settings, delivery.message.topic());
        // A mailbox would have kept messages to the address alone.
        let reason = if reason == Reason::MailboxLimit && !is_addressed() { Reason::SessionDiscarded } else { reason };
        self.state.reports().discard(reason, &delivery.message);
        let message = &delivery.message;
        if self.state.has_addresses && !message.properties().is_empty() {
            let (topic, properties, outcome) =
                (message.topic(), message.properties(), DeliveryOutcome::Dropped(reason));
            self.state.reports().report_outcome_named(
                message.tenant,
                client_id,
                topic,
                properties,
                message.qos,
                outcome,
            );
        }
        self.state.reports().tell_given_up(reason, (message.tenant.of_clients(), client_id), message.topic());
    }

    fn return_to_group(&mut self, now: Now, from: SessionKey, delivery: &Delivery) {
        let Some(membership) = delivery.group.as_ref().map(Rc::clone) else { return };
        let mut publication = delivery.message.publication();
        self.give_back(now, &membership, from, &mut publication);
    }
}
