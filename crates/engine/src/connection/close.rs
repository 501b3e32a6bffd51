//! How connections and sessions end: reasons, expiry, and what was still owed.

use crate::cluster::ending::{SessionEnding, ending};
use crate::connection::connecting::{Connecting, connecting};
use crate::groups::dealing::{Dealing, dealing};
use crate::orchestrator::uplink::uplinking::uplinking;
use crate::publish::answering::answering;
use crate::publish::publishing::publishing;
use crate::subscribe::subscribing::subscribing;
use std::collections::VecDeque;
use std::rc::Rc;

use tidegate_mqtt::{Disconnect, PacketType, QoS, Version};

use crate::addresses::Fate;
use crate::connection::Phase;
use crate::connection::connect::keep_alive_deadline;
use crate::connection::input::Refused;
use crate::desk::Timer;
use crate::durable::Key;
use crate::engine::Engine;
use crate::event::{Event, LogEvent};
use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER, SessionKey, TenantId};
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::UPLINK_LISTENER;
use crate::session::ended::EndedSession;
use crate::session::packet_ids::State;
use crate::session::{Delivery, Session, Standing};
use crate::settings::Holding;
use crate::telling::reason::Reason;

/// Whom a drain sends away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// Those who are told so and what to use instead: MQTT 5 clients.
    Told,
    /// Everyone.
    Everyone,
}

/// How long messages at QoS 0 are kept for a client that was sent on, milliseconds. Afterwards they are dropped, as for any
/// client that is away.
const SENT_ON_KEEP_MS: u64 = 10_000;

impl Engine {
    /// The transport of a connection is gone.
    pub fn handle_transport_closed(&mut self, now: Now, key: ConnectionKey) {
        if self.turn_share.ends_later(key) {
            return;
        }
        self.take_parked(now, key);
        self.end_connection(now, key, Reason::ConnectionLost, None);
        self.after_frame(now);
    }

    /// The transport of a connection has failed in a way that has a reason of its own, such as a certificate that is
    /// missing. Where there is a client already, its connection is lost as any other.
    pub fn handle_transport_failed(&mut self, now: Now, key: ConnectionKey, reason: Reason, detail: &str) {
        let heard = self.desk.connections.get(key).is_some_and(|connection| connection.phase != Phase::AwaitConnect);
        if heard {
            return self.handle_transport_closed(now, key);
        }
        self.end_connection(now, key, reason, Some(detail.to_owned()));
        self.after_frame(now);
    }

    /// Whether a connection has sent no CONNECT yet.
    pub fn is_unheard(&self, key: ConnectionKey) -> bool {
        self.desk.connections.get(key).is_some_and(|connection| connection.phase == Phase::AwaitConnect)
    }

    /// A connection of which nothing was heard yet is refused by the shell, which counts and tells it. Says whether it
    /// was one.
    pub fn close_unheard(&mut self, key: ConnectionKey, reason: Reason) -> bool {
        let unheard = |connection: &&mut crate::connection::Connection| connection.phase == Phase::AwaitConnect;
        let Some(connection) = self.desk.connections.get_mut(key).filter(unheard) else { return false };
        connection.phase = Phase::Closing;
        connection.extra = None;
        self.desk.connections.set_connection_timer(&mut self.desk.timers, key, Millis::NEVER);
        self.desk.events.push_back(Event::Close { key, reason });
        true
    }

    /// Ends the connection of a client by name; says whether there was one.
    pub fn disconnect_client(&mut self, now: Now, tenant: TenantId, client_id: &str, reason: Reason) -> bool {
        let session = self.desk.sessions.find_session(tenant, client_id);
        let Some(key) = session.and_then(|session| self.desk.sessions.get(session.0)?.connection) else { return false };
        self.close_connection(now, key, reason, None);
        self.after_frame(now);
        true
    }

    /// Ends the connections of everybody who came in with a proven user name that `is_meant`; says how many there were.
    /// Takes a look at every session.
    pub fn disconnect_users(&mut self, now: Now, is_meant: impl Fn(TenantId, &str) -> bool, reason: Reason) -> u64 {
        let name_is_meant = |session: &Session| {
            let name = session.identity.as_ref().and_then(|identity| identity.user_name.as_deref());
            name.is_some_and(|name| is_meant(session.tenant, name))
        };
        let sessions = self.desk.sessions.iter().filter(|(_, session)| name_is_meant(session));
        let meant: Vec<ConnectionKey> = sessions.filter_map(|(_, session)| session.connection).collect();
        for key in &meant {
            self.close_connection(now, *key, reason, None);
        }
        self.after_frame(now);
        meant.len() as u64
    }

    /// A packet was refused: its sender is told and the connection ends ([MQTT-4.13.1-1]).
    pub(crate) fn refuse(&mut self, now: Now, key: ConnectionKey, refused: Refused) {
        if let Some(session) =
            self.desk.connections.session_of(key).and_then(|session| self.desk.sessions.get(session.0))
        {
            let client_id = session.client_id.to_string();
            let detail = refused.detail.clone();
            self.desk.events.push_back(Event::Log(LogEvent::BadPacket { key, client_id, detail }));
        }
        self.close_connection(now, key, refused.reason, Some(refused.detail));
    }

    /// Ends a connection from this side: an MQTT 5 client gets a DISCONNECT with the reason.
    pub(crate) fn close_connection(&mut self, now: Now, key: ConnectionKey, reason: Reason, detail: Option<String>) {
        self.close_towards(now, key, reason, detail, None);
    }

    /// The same with what the client is told to use instead; `None` leaves it to the table of homes, the drain and the
    /// listener.
    pub(crate) fn close_towards(
        &mut self,
        now: Now,
        key: ConnectionKey,
        reason: Reason,
        detail: Option<String>,
        reference: Option<&str>,
    ) {
        if !self.fan_outs.is_empty() {
            // What it is still owed of them goes before the DISCONNECT.
            self.finish_fan_out(now, key);
        }
        let Some(connection) = self.desk.connections.get(key) else { return };
        if connection.listener == UPLINK_LISTENER {
            self.uplinks.brokers.say_goodbye(&mut self.desk, key, false);
        } else if connection.phase == Phase::Open && connection.version.is_v5() && connection.session.is_some() {
            let redirects = matches!(reason, Reason::UseAnotherServer | Reason::ServerShuttingDown);
            let home =
                reference.map(str::to_owned).or_else(|| self.homes.reference_of_home(&self.desk, connection.session));
            let reference = home.or_else(|| self.reference_for(connection.listener)).filter(|_| redirects);
            let text = detail.as_deref().filter(|text| !text.is_empty()).unwrap_or(reason.text());
            let packet = Disconnect {
                reason_string: Some(text),
                server_reference: reference.as_deref(),
                ..Disconnect::new(reason.code_of_disconnect())
            };
            let (version, max) = (connection.version, connection.max_packet_out);
            self.desk.send(key, PacketType::Disconnect, |out| packet.encode_within(version, max, out).is_ok());
        }
        self.end_connection(now, key, reason, detail);
    }

    /// Ends the connections of so many clients and tells MQTT 5 clients what to use instead; returns how many there
    /// were.
    pub fn evict(&mut self, now: Now, clients: usize, whom: Evicted) -> usize {
        let connections = self.desk.connections.iter();
        let of_client = connections.filter(|(_, it)| {
            let wanted = whom == Evicted::Everyone || it.version == Version::V5;
            wanted && it.phase == Phase::Open && it.session.is_some() && it.listener != UPLINK_LISTENER
        });
        let keys: Vec<ConnectionKey> = of_client.map(|(key, _)| key).take(clients).collect();
        for key in &keys {
            self.close_connection(now, *key, Reason::UseAnotherServer, None);
        }
        self.after_frame(now);
        keys.len()
    }

    /// Ends a connection without a word to the client: it said goodbye, is gone, or was told already.
    pub(crate) fn end_connection(&mut self, now: Now, key: ConnectionKey, reason: Reason, detail: Option<String>) {
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        if connection.phase == Phase::Closing {
            return;
        }
        if connection.listener == PRINCIPAL_LISTENER {
            return answering!(self).refuse_all_of_principal(key, reason);
        }
        if !self.fan_outs.is_empty() {
            self.finish_fan_out(now, key);
        }
        self.desk.connections.drop_withheld(key);
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        connection.phase = Phase::Closing;
        let connection_listener = connection.listener;
        let session = connection.session.take();
        if let Some(extra) = connection.extra.take() {
            self.desk.memory.held -= extra.aliases_in.bytes();
            self.end_admission(key, &extra);
            if let Some(rate) = &extra.rate {
                self.desk.timers.cancel(rate.waits_until, Timer::Rate(key));
            }
            if let Some(packet) = extra.packet_left {
                self.desk.memory.held -= packet.bytes() as u64;
                self.desk.memory.input_bytes -= packet.bytes() as u64;
            }
            if let Some(parked) = extra.parked {
                self.desk.timers.cancel(parked.until, Timer::Parked(key));
                self.desk.memory.held -= parked.bytes.len() as u64;
                self.desk.memory.input_bytes -= parked.bytes.len() as u64;
            }
        }
        self.uplinks.forget_waiting(key);
        self.observers.forget_waiting(key);
        let of_uplink = connection_listener == UPLINK_LISTENER;
        self.desk.connections.set_connection_timer(&mut self.desk.timers, key, Millis::NEVER);
        self.desk.events.push_back(Event::Close { key, reason });
        if of_uplink {
            uplinking!(self).lose_uplink(now, key, reason, detail.as_deref());
            return;
        }
        let Some(session) = session else {
            self.desk.counters.connects_refused[reason.number()] += 1;
            let detail = detail.unwrap_or_default();
            self.desk.events.push_back(Event::Log(LogEvent::Refused { key, reason, detail }));
            return;
        };
        self.desk.counters.disconnects[reason.number()] += 1;
        if let Some(session) = self.desk.sessions.get(session.0) {
            let client_id = session.client_id.to_string();
            self.desk.events.push_back(Event::Log(LogEvent::Disconnected { key, client_id, reason }));
        }
        // A relayed client whose edge has ended comes back by another one.
        let relayed = self.desk.settings.listener(connection_listener).is_some_and(|listener| listener.relayed);
        let sent_on = reason == Reason::UseAnotherServer || relayed && reason == Reason::ConnectionLost;
        ending!(self).detach_session(now, session, reason, sent_on);
    }

    /// CONNECT timeout or keep-alive: asked again only when it fires, so that packets cost no timer work.
    pub(crate) fn handle_connection_timer(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        connection.timer = Millis::NEVER;
        match connection.phase {
            Phase::Closing => {}
            Phase::AwaitConnect | Phase::AwaitConnAck | Phase::Authenticating | Phase::AwaitHome | Phase::AwaitAuth => {
                self.close_connection(now, key, Reason::ConnectTimeout, None);
            }
            Phase::Open => {
                let proof_ends = connection.extra.as_ref().and_then(|extra| extra.proof_ends).unwrap_or(Millis::NEVER);
                let deadline = keep_alive_deadline(connection.last_seen, connection.keep_alive).min(proof_ends);
                if proof_ends <= now.monotonic {
                    self.close_connection(now, key, Reason::ProofExpired, None);
                } else if connection.paused && connection.is_parked() {
                    // Its silence is our doing; it is asked again later.
                    let later = keep_alive_deadline(now.monotonic, connection.keep_alive).min(proof_ends);
                    self.desk.connections.set_connection_timer(&mut self.desk.timers, key, later);
                } else if deadline <= now.monotonic {
                    self.close_connection(now, key, Reason::KeepAliveTimeout, None);
                } else {
                    self.desk.connections.set_connection_timer(&mut self.desk.timers, key, deadline);
                }
            }
        }
    }

    /// Ends every connection because the server stops: MQTT 5 clients are told ([MQTT-3.14]), wills go as configured.
    pub fn begin_shutdown(&mut self, now: Now) {
        self.publish_last_wills(now);
        let keys: Vec<ConnectionKey> = self.desk.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.end_waiting(now, key, Reason::ServerShuttingDown);
        }
        self.after_frame(now);
    }
}

impl SessionEnding<'_> {
    /// A session has lost its connection; where its client was sent on, what it misses by that is kept for a while.
    fn detach_session(&mut self, now: Now, key: SessionKey, reason: Reason, sent_on: bool) {
        let Some(session) = self.desk.sessions.get_mut(key.0) else { return };
        session.connection = None;
        let expiry = session.expiry_seconds;
        // Nothing goes out over the connection any more. The client itself may watch who goes, and behind a DISCONNECT
        // nothing may follow ([MQTT-3.14.4-1]).
        let event = self.sys.client_event(now, self.desk, key, Some(reason));
        publishing!(self).publish_client_event(now, event);
        let Some(session) = self.desk.sessions.get_mut(key.0) else { return };
        if let Some(flow) = session.flow.as_mut() {
            self.desk.to_unpark.append(&mut flow.blocking);
            flow.to_resend = 0;
        }
        let (tenant, payer) = (session.tenant, session.payer(self.settings));
        self.desk.tenants.release(tenant, Holding::Connections, 1);
        self.desk.sessions_connected -= 1;
        self.desk.meters.disconnect(payer, now.monotonic);
        self.fetches.suspend_fetches(&mut self.desk.sessions, key);
        self.schedule_will(now, key, reason);
        if expiry == 0 {
            self.end_session(now, key, reason);
            return;
        }
        self.groups.announce_presence(self.desk, self.links, key, false);
        let ends_at = if expiry == u32::MAX { Millis::NEVER } else { now.monotonic.plus_seconds(expiry) };
        let Some(session) = self.desk.sessions.get_mut(key.0) else { return };
        session.settle();
        if sent_on {
            session.rare_mut().sent_on_until = Some(now.monotonic.plus(SENT_ON_KEEP_MS));
        }
        if ends_at != Millis::NEVER {
            session.rare_mut().ends_at = Some(ends_at);
            self.desk.timers.set(ends_at, Timer::SessionEnd(key));
        }
        self.desk.sessions.store_session(&mut self.desk.journal, key);
    }

    pub(crate) fn handle_session_timer(&mut self, now: Now, key: SessionKey) {
        if let Some(rare) = self.desk.sessions.get_mut(key.0).and_then(|session| session.rare.as_mut()) {
            rare.ends_at = None;
        }
        self.desk.counters.sessions_expired += 1;
        self.end_session(now, key, Reason::SessionExpired);
    }

    /// Ends a session: its will is published, its subscriptions go, and what it was still owed goes back to shared
    /// groups or is counted as dropped. Many subscriptions and messages are removed [in steps](crate::connection::ending).
    ///
    /// What is addressed to a mobile node outlives its session.
    pub(crate) fn end_session(&mut self, now: Now, key: SessionKey, reason: Reason) {
        if self.nodes.keeps_mailbox(self.desk, key) {
            self.begin_mailbox(now, key, reason);
            return;
        }
        self.end_will_and_timers(now, key);
        self.fetches.end_fetches(&mut self.desk.sessions, key);
        subscribing!(self).set_standing(now, key, Standing::Client);
        self.desk.sessions.end_exchanges(&mut self.desk.exchanges, key);
        let Some(mut session) = self.desk.withdraw_session(key) else { return };
        if let Some(stored) = session.stored {
            self.desk.journal.delete(Key::Session(stored));
        }
        self.desk.tenants.release(session.tenant, Holding::Subscriptions, session.subscriptions());
        // The groups that get messages back must not take the session for a member.
        for membership in session.take_owing_memberships() {
            subscribing!(self).leave_home(now, key, &membership);
        }
        let ending = dealing!(self).begin_ending(now, key, session, reason);
        self.endings.begin(now, ending, &mut subscribing!(self));
    }

    /// Publishes the will of a session that ends, if it waits.
    pub(crate) fn end_will_and_timers(&mut self, now: Now, key: SessionKey) {
        let rare = self.desk.sessions.get(key.0).and_then(|session| session.rare.as_ref());
        if rare.is_some_and(|rare| rare.will_due.is_some()) {
            let will = self.desk.replace_will(key, None);
            self.publish_will(now, key, will);
        }
        connecting!(self).cancel_session_timers(key);
    }
}

impl Connecting<'_> {
    /// The client is back: neither its session ends nor its will is published ([MQTT-3.1.3-9]).
    pub(crate) fn cancel_session_timers(&mut self, key: SessionKey) {
        self.desk.replace_will(key, None);
        let Some(rare) = self.desk.sessions.get_mut(key.0).and_then(|session| session.rare.as_mut()) else { return };
        if let Some(due) = rare.will_due.take() {
            self.desk.timers.cancel(due, Timer::Will(key));
        }
        rare.sent_on_until = None;
        if let Some(at) = rare.ends_at.take() {
            self.desk.timers.cancel(at, Timer::SessionEnd(key));
        }
    }
}

impl Dealing<'_> {
    /// Settles the messages in flight and the messages of shared groups of an ended session; the rest is left for steps.
    fn begin_ending(&mut self, now: Now, key: SessionKey, session: Session, reason: Reason) -> EndedSession {
        let reason = match reason {
            Reason::SessionExpired | Reason::SessionDiscarded => reason,
            // A session that was never to outlive its connection gave up its messages by that.
            _ => Reason::SessionDiscarded,
        };
        let (of_uplink, tenant) = (session.is_uplink(), session.tenant);
        let memberships = session.rare.map_or_else(Vec::new, |rare| rare.memberships);
        let (client_id, filters) = (session.client_id, session.filters);
        let mut ending =
            EndedSession { key, tenant, client_id, reason, filters, memberships, queue: VecDeque::new(), of_uplink };
        let Some(mut flow) = session.flow else { return ending };
        if let Some(tail) = flow.tail.take() {
            self.desk.memory.forget_tail(tail.messages, tail.bytes, tail.counted);
            self.desk.counters.dropped[reason.number()] += tail.messages;
        }
        self.desk.blockers.remove(&key.0);
        self.desk.to_unpark.append(&mut flow.blocking);
        self.desk.memory.held -= flow.inflight_bytes;
        for entry in flow.inflight.drain() {
            // A QoS 2 message that was sent may have arrived: nobody else may get it ([MQTT-4.8.2-5]).
            // A broker is no such receiver: by its id the message is delivered once whoever gets it.
            let sent_once = entry.state != State::AwaitPubAck && !of_uplink;
            if entry.state == State::AwaitPubComp && !of_uplink {
                // The receiver has said that it has the message.
                continue;
            }
            match entry.item.delivery {
                Some(delivery) => self.settle_sent(now, key, &ending.client_id, &delivery, sent_once, reason),
                // Only its packet id was left to be released: another broker has the message.
                None if of_uplink => {}
                None => self.desk.counters.drop_message(reason),
            }
        }
        for delivery in flow.queue {
            if delivery.group.is_some() {
                // The session is deleted from the store in this turn, so its group must have the message in this turn.
                self.desk.memory.forget_queued(delivery.cost());
                self.settle_queued(now, key, &ending.client_id, &delivery, reason);
            } else {
                ending.queue.push_back(delivery);
            }
        }
        ending
    }

    /// What becomes of a message that was sent and not acknowledged (`sent_once`: and that may have arrived).
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

    /// What becomes of a message that waited.
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
        self.desk.reports().discard(reason, &delivery.message);
        let message = &delivery.message;
        if self.desk.has_addresses && !message.properties().is_empty() {
            let (topic, properties, fate) = (message.topic(), message.properties(), Fate::Dropped(reason));
            self.desk.reports().tell_fate_named(message.tenant, client_id, topic, properties, message.qos, fate);
        }
        self.desk.reports().tell_given_up(reason, client_id, delivery.message.topic());
    }

    fn return_to_group(&mut self, now: Now, from: SessionKey, delivery: &Delivery) {
        let Some(membership) = delivery.group.as_ref().map(Rc::clone) else { return };
        let mut publication = delivery.message.publication();
        self.give_back(now, &membership, from, &mut publication);
    }
}
