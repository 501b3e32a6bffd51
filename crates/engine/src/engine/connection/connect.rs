//! A CONNECT is taken, authenticated and let in.

use crate::access::Subject;
use crate::connection::input::Flow;
use crate::connection::{Connection, Peer, Phase};
use crate::engine::facets::EntryCalls;
use crate::event::{Accepted, AuthOutcome, Event, LogEvent};
use crate::events::reason::Reason;
use crate::flows::contexts::connecting;
use crate::flows::contexts::ending;
use crate::flows::contexts::publishing;
use crate::flows::contexts::subscribing;
use crate::ids::{ConnectionKey, ListenerId, SessionKey, TenantId, counted_for, partition_of};
use crate::now::Now;
use crate::orchestrator::homes::Home;
use crate::settings::Authentication;
use crate::sys::ClientNews;
use tidegate_mqtt::{Connect, Frame};

impl EntryCalls<'_> {
    /// Takes a connection in that the broker itself has opened, for a bridge or a pipeline. The limits of its listener's
    /// connections, of all sessions, and of its tenant do not refuse it: they are for clients.
    ///
    /// # Errors
    ///
    /// The reason when the connection has to be refused; the shell closes it at once.
    pub fn open_own_connection(&mut self, now: Now, listener: ListenerId) -> Result<ConnectionKey, Reason> {
        self.take_connection(now, listener, true)
    }

    pub(in crate::engine) fn take_connection(
        &mut self,
        now: Now,
        listener: ListenerId,
        is_own: bool,
    ) -> Result<ConnectionKey, Reason> {
        self.engine.state.memory.lower_excess();
        let refused = if self.engine.stopping {
            Some(Reason::ServerShuttingDown)
        } else if self.engine.state.memory.is_far_over_ceiling() {
            Some(Reason::MemoryCeiling)
        } else {
            (!is_own && self.engine.questions().is_listener_full(listener)).then_some(Reason::TooManyConnections)
        };
        if let Some(reason) = refused {
            self.engine.state.counters.connects_refused[reason.number()] += 1;
            return Err(reason);
        }
        let of_settings =
            || self.engine.state.settings.listener(listener).map_or(TenantId::DEFAULT, |listener| listener.tenant);
        let known = self.engine.state.settings.tenants.as_ref().and_then(|tenants| tenants.of_listener(listener));
        let tenant = known.unwrap_or_else(of_settings);
        let mut connection = Connection::new(listener, tenant, now.monotonic);
        connection.peer = match self.engine.state.settings.listener(listener) {
            Some(listener) if listener.for_hub => Peer::Hub,
            _ if is_own => Peer::Own,
            _ => Peer::Client,
        };
        let key = self.engine.state.connections.insert(connection);
        if let Some(open) = self.engine.state.connections_by_listener.get_mut(usize::from(listener.0)) {
            *open += 1;
        }
        self.engine.state.counters.sockets_opened += 1;
        let deadline = now.monotonic.plus(self.engine.state.settings.limits.connect_timeout_ms);
        self.engine.state.connections.set_connection_timer(&mut self.engine.state.timers, key, deadline);
        Ok(key)
    }

    pub(crate) fn handle_connect(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Flow {
        let connect = match Connect::decode(frame.first_byte, frame.body) {
            Ok(connect) => connect,
            Err(error) => {
                self.refuse_bad_connect(now, key, &error);
                return Flow::Next;
            }
        };
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return Flow::Hold };
        connection.version = connect.version;
        // Already the refusal of a CONNECT keeps to it ([MQTT-3.1.2-24]).
        connection.max_packet_out = connect.properties.maximum_packet_size.map_or(u32::MAX, std::num::NonZeroU32::get);
        if let Err(refused) = connecting!(self.engine).check_connect(key, &connect) {
            self.refuse_connect(now, key, refused.reason, refused.detail);
            return Flow::Next;
        }
        if self.engine.broker_links.brokers.config.is_own_broker_link(&connect) {
            let detail = "this is the orchestrator itself: one of its brokers has its own address".to_owned();
            self.refuse_connect(now, key, Reason::InvalidClientId, detail);
            return Flow::Next;
        }
        if self.engine.redirecting.is_some() {
            self.refuse_connect(now, key, Reason::UseAnotherServer, String::new());
            return Flow::Next;
        }
        let tenant = connecting!(self.engine).find_tenant(key, connect.username);
        let preset: Option<Box<str>> = connecting!(self.engine).preset_client_id(key).map(Box::from);
        let assigned;
        let asked_for = preset.as_deref().unwrap_or(connect.client_id);
        if let Some(flow) = self.engine.homes().send_home(now, key, tenant, asked_for) {
            return flow;
        }
        let client_id = if asked_for.is_empty() {
            assigned = connecting!(self.engine).assign_client_id(tenant);
            &assigned[..]
        } else {
            asked_for
        };
        let is_of_hub = self.engine.state.connections.get(key).is_some_and(Connection::is_of_hub);
        if is_of_hub || self.engine.state.settings.authentication == Authentication::External {
            connecting!(self.engine).request_authentication(key, tenant, client_id, &connect, frame);
            return Flow::Next;
        }
        self.accept_connect(now, key, tenant, client_id, &connect, &Accepted::default());
        Flow::Next
    }

    /// The control plane has decided about a CONNECT.
    pub fn handle_auth_outcome(&mut self, now: Now, key: ConnectionKey, outcome: AuthOutcome) {
        self.engine.state.journal.now = now;
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        let tenant = connection.tenant;
        let open = connection.phase == Phase::Open;
        let Some(extra) = connection.extra.as_mut() else { return };
        let outcome = match outcome {
            AuthOutcome::Challenge(data) => {
                connecting!(self.engine).challenge(key, &data);
                return;
            }
            outcome if open => {
                self.end_authentication_again(now, key, outcome);
                return;
            }
            outcome => outcome,
        };
        let Some(pending) = extra.pending_connect.take() else { return };
        let client_id = pending.client_id;
        let Some((first_byte, body)) = pending.packet.split_first() else { return };
        match (outcome, Connect::decode(*first_byte, body)) {
            (AuthOutcome::Accept(accepted), Ok(connect)) => {
                self.accept_connect(now, key, tenant, &client_id, &connect, &accepted);
                // It arrived before its memory could be charged to a client.
                let payer = self.engine.state.connections.payer_of(key);
                self.engine.state.meters.count_input(Some(payer), packet_len(body.len()));
            }
            (AuthOutcome::Refuse(reason), _) => self.refuse_connect(now, key, reason, String::new()),
            (_, Err(error)) => self.refuse_bad_connect(now, key, &error),
            (AuthOutcome::Challenge(_), _) => {}
        }
        // Input that came meanwhile, and the effects of a takeover.
        self.engine.handle_input(now, key, &[]);
        self.engine.after_frame(now);
    }

    fn accept_connect(
        &mut self,
        now: Now,
        key: ConnectionKey,
        tenant: TenantId,
        client_id: &str,
        connect: &Connect<'_>,
        accepted: &Accepted,
    ) {
        if self.engine.homes.home_of(&self.engine.state, partition_of(tenant, client_id)) != Home::Here {
            // It was, when authentication was requested.
            return self.refuse_connect(now, key, Reason::NotServedHere, String::new());
        }
        let existing = self.engine.state.sessions.find_session(tenant, client_id);
        let listener =
            self.engine.state.connections.get(key).map_or_else(Default::default, |connection| connection.listener);
        let subject = Subject { tenant, client_id, listener, identity: accepted.identity.as_deref() };
        let allowed = connecting!(self.engine).check_client(key, subject, existing, connect);
        let is_passing = connecting!(self.engine).is_passing(listener, connect);
        let counted = counted_for(tenant, client_id);
        let take = |()| connecting!(self.engine).take_places(key, counted, existing, is_passing);
        if let Err(refused) = allowed.and_then(take) {
            self.refuse_connect(now, key, refused.reason, refused.detail);
            return;
        }
        self.let_in(now, key, subject, existing, connect, accepted);
        connecting!(self.engine).return_places(counted);
    }

    /// Ties a client that may come in to its session, that of before or a new one.
    fn let_in(
        &mut self,
        now: Now,
        key: ConnectionKey,
        Subject { tenant, client_id, .. }: Subject<'_>,
        existing: Option<SessionKey>,
        connect: &Connect<'_>,
        accepted: &Accepted,
    ) {
        let mark = self.engine.state.journal.mark();
        // The old connection ends first, so that its will and its session end as if it had broken off.
        if let Some(old) = existing.and_then(|session| self.engine.state.sessions.get(session.0)?.connection) {
            self.engine.waiting().take_parked(now, old);
            self.engine.close_connection(now, old, Reason::SessionTakenOver, None);
        }
        let Some(granted) = connecting!(self.engine).grant(key, client_id, connect) else { return };
        let (resumed, present) = ending!(self.engine).session_to_resume(now, tenant, client_id, connect.clean_start);
        let session = match resumed {
            Some(session) => {
                // The last connection may still be on its way, and earlier ones.
                let former = connecting!(self.engine).take_will_of_expected(now, session);
                connecting!(self.engine).cancel_session_timers(session);
                if let Some(former) = former {
                    connecting!(self.engine).keep_former_will(session, former);
                }
                session
            }
            None => connecting!(self.engine).create_session(tenant, key, client_id),
        };
        connecting!(self.engine).identify(session, accepted.identity.clone());
        let standing = connecting!(self.engine).standing_of(key, connect);
        connecting!(self.engine).bind(now, key, session, connect, &granted);
        subscribing!(self.engine).set_standing(now, session, standing);
        connecting!(self.engine).bound_by_proof(now, key, accepted.identity.as_deref());
        self.engine.control().name_user(key, user_of(accepted, connect));
        self.engine.state.sessions.store_session(&mut self.engine.state.journal, session);
        let promises = self.engine.state.journal.has_written_since(mark);
        if !connecting!(self.engine).send_conn_ack(key, connect, &granted, present, promises, accepted) {
            let detail = "CONNACK is larger than the client's maximum packet size";
            self.engine.end_connection(now, key, Reason::PacketTooLarge, Some(detail.into()));
            return;
        }
        self.engine.state.counters.connects_accepted += 1;
        self.engine.state.events.push_back(Event::Log(LogEvent::Connected {
            key,
            client_id: client_id.to_owned(),
            tenant,
            version: connect.version,
            session_present: present,
        }));
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            // The wait for authentication is over, so its state is released.
            connection.settle();
        }
        let event = self.engine.sys.client_event(now, &mut self.engine.state, session, ClientNews::Connected);
        publishing!(self.engine).publish_client_event(now, event);
        if resumed.is_some() {
            self.engine.state.begin_resending(now.monotonic, session);
            self.engine.control().ask_for_rights_again(now, session);
            self.engine.groups.announce_presence(&self.engine.state, &mut self.engine.links, session, true);
            self.engine.state.refill(now.monotonic, &mut self.engine.layouts, session);
        }
    }
}

/// The user name of a client that is let in: as it was proven, or as it is claimed where no provider was asked.
fn user_of<'a>(accepted: &'a Accepted, connect: &Connect<'a>) -> Option<&'a str> {
    match &accepted.identity {
        Some(identity) => identity.user_name.as_deref(),
        None => connect.username,
    }
}

/// The length of a packet with a body of this length.
fn packet_len(body: usize) -> usize {
    1 + tidegate_mqtt::varint::len(u32::try_from(body).unwrap_or(u32::MAX)) + body
}
