//! Connections end: by their transport, by a command, by a limit, by a timer.

use crate::connection::Phase;
use crate::connection::close::Evicted;
use crate::connection::connect::keep_alive_deadline;
use crate::engine::Engine;
use crate::engine::facets::{ControlCalls, ShardQuestions, TimerCalls};
use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::answering;
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::ending;
use crate::ids::BROKER_LINK_LISTENER;
use crate::ids::{ConnectionKey, ListenerId, PRINCIPAL_LISTENER, SessionKey, TenantId};
use crate::now::{Millis, Now};
use crate::session::Session;
use crate::state::pub_acks::Gathered;
use crate::timers::Timer;
use tidegate_mqtt::{Disconnect, PacketType, Version};

impl Engine {
    /// The transport of a connection is gone.
    pub fn handle_transport_closed(&mut self, now: Now, key: ConnectionKey) {
        if self.turn_share.ends_later(key) {
            return;
        }
        self.waiting().take_parked(now, key);
        self.end_connection(now, key, Reason::ConnectionLost, None);
        self.after_frame(now);
    }

    /// The transport of a connection has failed in a way that has a reason of its own, such as a certificate that is
    /// missing. Where there is a client already, its connection is lost as any other.
    pub fn handle_transport_failed(&mut self, now: Now, key: ConnectionKey, reason: Reason, detail: &str) {
        let heard = self.state.connections.session_of(key).is_some();
        if heard {
            return self.handle_transport_closed(now, key);
        }
        self.end_connection(now, key, reason, Some(detail.to_owned()));
        self.after_frame(now);
    }
}

impl ShardQuestions<'_> {
    /// Whether a connection has not sent a CONNECT.
    pub fn is_unheard(&self, key: ConnectionKey) -> bool {
        self.engine.state.connections.get(key).is_some_and(|connection| connection.phase == Phase::AwaitConnect)
    }

    /// Whether no client is let in now on any listener, since the broker stops or has no memory left.
    pub fn refuses_connections(&self) -> bool {
        self.engine.stopping || self.engine.state.memory.is_far_over_ceiling()
    }

    /// Whether a listener has as many connections as it may have, so that the next one is refused.
    pub fn is_listener_full(&self, listener: ListenerId) -> bool {
        let open = self.engine.state.connections_by_listener.get(usize::from(listener.0)).copied().unwrap_or(0);
        let limit = self.engine.state.settings.listener(listener).map_or(0, |listener| listener.max_connections);
        limit != 0 && open >= limit
    }
}

impl ControlCalls<'_> {
    /// Closes a connection without any input so far. The shell counts and reports it. Returns true if it was such a
    /// connection.
    pub fn close_unheard(&mut self, key: ConnectionKey, reason: Reason) -> bool {
        let unheard = |connection: &&mut crate::connection::Connection| connection.phase == Phase::AwaitConnect;
        let Some(connection) = self.engine.state.connections.get_mut(key).filter(unheard) else { return false };
        self.engine.state.memory.connect_bytes -= connection.unfinished_connect();
        connection.phase = Phase::Closing;
        connection.extra = None;
        self.engine.state.connections.set_connection_timer(&mut self.engine.state.timers, key, Millis::NEVER);
        self.engine.state.events.push_back(Event::Close { key, reason });
        true
    }

    /// Ends the connection of a client by name; returns whether there was one.
    pub fn disconnect_client(&mut self, now: Now, tenant: TenantId, client_id: &str, reason: Reason) -> bool {
        let session = self.engine.state.sessions.find_session(tenant, client_id);
        let Some(session) = session else { return false };
        let Some(key) = self.engine.state.sessions.get(session.0).and_then(|session| session.connection) else {
            self.forget_moving(session);
            return false;
        };
        self.engine.close_connection(now, key, reason, None);
        self.engine.after_frame(now);
        true
    }

    /// Ends the connections of all clients with a proven user name that `is_meant`; returns their number. Visits every
    /// session.
    pub fn disconnect_users(&mut self, now: Now, is_meant: impl Fn(TenantId, &str) -> bool, reason: Reason) -> u64 {
        let name_is_meant = |session: &Session| {
            let name = session.identity.as_ref().and_then(|identity| identity.user_name.as_deref());
            name.is_some_and(|name| is_meant(session.tenant, name))
        };
        let sessions = self.engine.state.sessions.iter().filter(|(_, session)| name_is_meant(session));
        let meant: Vec<_> = sessions.map(|(key, session)| (SessionKey(key), session.connection)).collect();
        let mut ended = 0;
        for (session, connection) in meant {
            match connection {
                Some(key) => self.engine.close_connection(now, key, reason, None),
                None => self.forget_moving(session),
            }
            ended += u64::from(connection.is_some());
        }
        self.engine.after_frame(now);
        ended
    }
}

impl ControlCalls<'_> {
    /// A connection that is on its way to this home does not continue here. It is not known whether there is one.
    fn forget_moving(&mut self, key: SessionKey) {
        if let Some(rare) = self.engine.state.sessions.get_mut(key.0).and_then(|session| session.rare.as_mut()) {
            rare.sent_on_until = None;
        }
    }
}

impl Engine {
    /// A packet was refused: its sender is notified and the connection ends ([MQTT-4.13.1-1]).
    pub(crate) fn refuse(&mut self, now: Now, key: ConnectionKey, refused: Refused) {
        if let Some(session) =
            self.state.connections.session_of(key).and_then(|session| self.state.sessions.get(session.0))
        {
            let (client_id, tenant) = (session.client_id.to_string(), session.tenant);
            let detail = refused.detail.clone();
            self.state.events.push_back(Event::Log(LogEvent::BadPacket { key, client_id, tenant, detail }));
        }
        self.close_connection(now, key, refused.reason, Some(refused.detail));
    }

    /// Ends a connection from this side: an MQTT 5 client gets a DISCONNECT with the reason.
    pub(crate) fn close_connection(&mut self, now: Now, key: ConnectionKey, reason: Reason, detail: Option<String>) {
        self.close_towards(now, key, reason, detail, None);
    }

    /// The same with another server for the client to use; `None` leaves that to the table of homes, the drain and the
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
            // The client's own messages of this kind are sent before the DISCONNECT.
            self.pipeline().finish_fan_out(now, key);
        }
        Gathered(&mut self.state).write();
        let Some(connection) = self.state.connections.get(key) else { return };
        if connection.listener == BROKER_LINK_LISTENER {
            self.broker_links.brokers.say_goodbye(&mut self.state, key, false);
        } else if connection.phase == Phase::Open && connection.version.is_v5() && connection.session.is_some() {
            let redirects = matches!(reason, Reason::UseAnotherServer | Reason::ServerShuttingDown);
            let home =
                reference.map(str::to_owned).or_else(|| self.homes.reference_of_home(&self.state, connection.session));
            let reference = home.or_else(|| self.questions().reference_for(connection.listener)).filter(|_| redirects);
            let text = detail.as_deref().filter(|text| !text.is_empty()).unwrap_or(reason.text());
            let packet = Disconnect {
                reason_string: Some(text),
                server_reference: reference.as_deref(),
                ..Disconnect::new(reason.code_of_disconnect())
            };
            let (version, max) = (connection.version, connection.max_packet_out);
            self.state.send(key, PacketType::Disconnect, |out| packet.encode_within(version, max, out).is_ok());
        }
        self.end_connection(now, key, reason, detail);
    }
}

impl ControlCalls<'_> {
    /// Ends the connections of up to this number of clients and redirects MQTT 5 clients; returns how many there
    /// were.
    pub fn evict(&mut self, now: Now, clients: usize, clients_of: Evicted) -> usize {
        let connections = self.engine.state.connections.iter();
        let of_client = connections.filter(|(_, it)| {
            let wanted = clients_of == Evicted::Everyone || it.version == Version::V5;
            wanted && it.phase == Phase::Open && it.session.is_some() && it.listener != BROKER_LINK_LISTENER
        });
        let keys: Vec<ConnectionKey> = of_client.map(|(key, _)| key).take(clients).collect();
        for key in &keys {
            self.engine.close_connection(now, *key, Reason::UseAnotherServer, None);
        }
        self.engine.after_frame(now);
        keys.len()
    }
}

impl Engine {
    /// Ends a connection without a packet to the client: it has disconnected, is gone, or has got its DISCONNECT.
    pub(crate) fn end_connection(&mut self, now: Now, key: ConnectionKey, reason: Reason, detail: Option<String>) {
        Gathered(&mut self.state).write();
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        if connection.phase == Phase::Closing {
            return;
        }
        if connection.listener == PRINCIPAL_LISTENER {
            return answering!(self).refuse_all_of_principal(key, reason);
        }
        if !self.fan_outs.is_empty() {
            self.pipeline().finish_fan_out(now, key);
        }
        self.state.connections.drop_withheld(key);
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        self.state.memory.connect_bytes -= connection.unfinished_connect();
        connection.phase = Phase::Closing;
        let connection_listener = connection.listener;
        let session = connection.session.take();
        if let Some(extra) = connection.extra.take() {
            self.state.memory.held -= extra.aliases_in.bytes();
            self.pipeline().end_admission(key, &extra);
            if let Some(rate) = &extra.rate {
                self.state.timers.cancel(rate.waits_until, Timer::Rate(key));
            }
            if let Some(packet) = extra.packet_left {
                self.state.memory.held -= packet.bytes() as u64;
                self.state.memory.input_bytes -= packet.bytes() as u64;
            }
            if let Some(parked) = extra.parked {
                self.state.timers.cancel(parked.until, Timer::Parked(key));
                self.state.memory.held -= parked.bytes.len() as u64;
                self.state.memory.input_bytes -= parked.bytes.len() as u64;
            }
        }
        self.broker_links.forget_waiting(key);
        self.services.observers.forget_waiting(key);
        let of_broker_link = connection_listener == BROKER_LINK_LISTENER;
        self.state.connections.set_connection_timer(&mut self.state.timers, key, Millis::NEVER);
        self.state.events.push_back(Event::Close { key, reason });
        if of_broker_link {
            broker_linking!(self).lose_broker_link(now, key, reason, detail.as_deref());
            return;
        }
        let Some(session) = session else {
            self.state.counters.connects_refused[reason.number()] += 1;
            let detail = detail.unwrap_or_default();
            self.state.events.push_back(Event::Log(LogEvent::Refused { key, reason, detail }));
            return;
        };
        // A connection that continues at another node has not ended.
        self.state.counters.disconnects[reason.number()] += u64::from(reason != Reason::Moved);
        if let Some(session) = self.state.sessions.get(session.0) {
            let (client_id, tenant) = (session.client_id.to_string(), session.tenant);
            self.state.events.push_back(Event::Log(LogEvent::Disconnected { key, client_id, tenant, reason }));
        }
        // A relayed client whose edge has ended returns by another one.
        let relayed = self.state.settings.listener(connection_listener).is_some_and(|listener| listener.relayed);
        let sent_on =
            matches!(reason, Reason::UseAnotherServer | Reason::Moved) || relayed && reason == Reason::ConnectionLost;
        ending!(self).detach_session(now, session, reason, sent_on);
    }
}

impl TimerCalls<'_> {
    /// CONNECT timeout or keep-alive: asked again only when it fires, so that packets cost no timer work.
    pub(crate) fn handle_connection_timer(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        connection.timer = Millis::NEVER;
        match connection.phase {
            Phase::Closing => {}
            Phase::AwaitConnect | Phase::AwaitConnAck | Phase::Authenticating | Phase::AwaitHome | Phase::AwaitAuth => {
                self.engine.close_connection(now, key, Reason::ConnectTimeout, None);
            }
            Phase::Open => {
                let proof_ends = connection.extra.as_ref().and_then(|extra| extra.proof_ends).unwrap_or(Millis::NEVER);
                let deadline = keep_alive_deadline(connection.last_seen, connection.keep_alive).min(proof_ends);
                if proof_ends <= now.monotonic {
                    self.engine.close_connection(now, key, Reason::ProofExpired, None);
                } else if connection.paused && connection.is_parked() {
                    // Its silence is our doing; it is asked again later.
                    let later = keep_alive_deadline(now.monotonic, connection.keep_alive).min(proof_ends);
                    self.engine.state.connections.set_connection_timer(&mut self.engine.state.timers, key, later);
                } else if deadline <= now.monotonic {
                    self.engine.close_connection(now, key, Reason::KeepAliveTimeout, None);
                } else {
                    self.engine.state.connections.set_connection_timer(&mut self.engine.state.timers, key, deadline);
                }
            }
        }
    }
}

impl ControlCalls<'_> {
    /// Ends every connection because the server stops: MQTT 5 clients get a DISCONNECT ([MQTT-3.14]), wills are
    /// published as configured.
    pub fn begin_shutdown(&mut self, now: Now) {
        self.publish_last_wills(now);
        let keys: Vec<ConnectionKey> = self.engine.state.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.engine.waiting().end_waiting(now, key, Reason::ServerShuttingDown);
        }
        self.engine.after_frame(now);
    }
}
