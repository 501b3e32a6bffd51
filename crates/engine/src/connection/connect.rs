//! CONNECT: who comes in, under which name, to which session ([MQTT-3.1]).

mod check;
mod conn_ack;
mod grant;

use crate::cluster::ending::{SessionEnding, ending};
use crate::connection::connecting::{Connecting, connecting};
use crate::publish::publishing::publishing;
use crate::subscribe::subscribing::subscribing;
use tidegate_mqtt::{Connect, Frame};

use self::grant::Granted;
use crate::access::Subject;
use crate::addresses::{SET_BY_BROKER, is_address};
use crate::connection::alias::OutboundAliases;
use crate::connection::input::Flow;
use crate::connection::{EnhancedState, PendingConnect, Phase};
use crate::engine::Engine;
use crate::event::{Accepted, AuthRequest, Enhanced, Event, LogEvent, Verdict};
use crate::ids::{ConnectionKey, SessionKey, TenantId, partition_of};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::homes::Home;
use crate::publish::origin::ORIGIN_PROPERTY;
use crate::session::{FilterList, Session, Standing, Will};
use crate::settings::{Authentication, Holding};
use crate::telling::reason::Reason;

impl Engine {
    pub(crate) fn handle_connect(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Flow {
        let connect = match Connect::decode(frame.first_byte, frame.body) {
            Ok(connect) => connect,
            Err(error) => {
                self.refuse_bad_connect(now, key, &error);
                return Flow::Next;
            }
        };
        let Some(connection) = self.desk.connections.get_mut(key) else { return Flow::Hold };
        connection.version = connect.version;
        // Already the refusal of a CONNECT keeps to it ([MQTT-3.1.2-24]).
        connection.max_packet_out = connect.properties.maximum_packet_size.map_or(u32::MAX, std::num::NonZeroU32::get);
        if let Err(refused) = connecting!(self).check_connect(key, &connect) {
            self.refuse_connect(now, key, refused.reason, refused.detail);
            return Flow::Next;
        }
        if self.uplinks.brokers.config.is_own_uplink(&connect) {
            let detail = "this is the orchestrator itself: one of its brokers has its own address".to_owned();
            self.refuse_connect(now, key, Reason::InvalidClientId, detail);
            return Flow::Next;
        }
        if self.redirecting.is_some() {
            self.refuse_connect(now, key, Reason::UseAnotherServer, String::new());
            return Flow::Next;
        }
        let tenant = connecting!(self).find_tenant(key, connect.username);
        let preset: Option<Box<str>> = connecting!(self).preset_client_id(key).map(Box::from);
        let assigned;
        let asked_for = preset.as_deref().unwrap_or(connect.client_id);
        if let Some(flow) = self.send_home(now, key, tenant, asked_for) {
            return flow;
        }
        let client_id = if asked_for.is_empty() {
            assigned = connecting!(self).assign_client_id(tenant);
            &assigned[..]
        } else {
            asked_for
        };
        let is_of_hub = self.desk.connections.get(key).is_some_and(|connection| connection.is_of_hub);
        if is_of_hub || self.settings.authentication == Authentication::External {
            connecting!(self).ask_for_verdict(key, tenant, client_id, &connect, frame);
            return Flow::Next;
        }
        self.accept_connect(now, key, tenant, client_id, &connect, &Accepted::default());
        Flow::Next
    }

    /// The control plane has decided about a CONNECT.
    pub fn handle_verdict(&mut self, now: Now, key: ConnectionKey, verdict: Verdict) {
        self.desk.journal.now = now;
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        let tenant = connection.tenant;
        let open = connection.phase == Phase::Open;
        let Some(extra) = connection.extra.as_mut() else { return };
        let verdict = match verdict {
            Verdict::Challenge(data) => {
                connecting!(self).challenge(key, &data);
                return;
            }
            verdict if open => {
                self.end_authentication_again(now, key, verdict);
                return;
            }
            verdict => verdict,
        };
        let Some(pending) = extra.pending_connect.take() else { return };
        let client_id = pending.client_id;
        let Some((first_byte, body)) = pending.packet.split_first() else { return };
        match (verdict, Connect::decode(*first_byte, body)) {
            (Verdict::Accept(accepted), Ok(connect)) => {
                self.accept_connect(now, key, tenant, &client_id, &connect, &accepted);
                // It arrived before anyone could pay for it.
                let payer = self.desk.connections.payer_of(key);
                self.desk.meters.count_input(Some(payer), packet_len(body.len()));
            }
            (Verdict::Refuse(reason), _) => self.refuse_connect(now, key, reason, String::new()),
            (_, Err(error)) => self.refuse_bad_connect(now, key, &error),
            (Verdict::Challenge(_), _) => {}
        }
        // What the client sent meanwhile, and what a takeover has set free.
        self.handle_input(now, key, &[]);
        self.after_frame(now);
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
        if self.homes.home_of(&self.desk, partition_of(tenant, client_id)) != Home::Here {
            // It was, when the verdict was asked for.
            return self.refuse_connect(now, key, Reason::NotServedHere, String::new());
        }
        let existing = self.desk.sessions.find_session(tenant, client_id);
        let listener = self.desk.connections.get(key).map_or_else(Default::default, |connection| connection.listener);
        let subject = Subject { tenant, client_id, listener, identity: accepted.identity.as_deref() };
        let allowed = connecting!(self).check_client(subject, existing, connect);
        if let Err(refused) = allowed.and_then(|()| connecting!(self).take_places(tenant, existing)) {
            self.refuse_connect(now, key, refused.reason, refused.detail);
            return;
        }
        self.let_in(now, key, subject, existing, connect, accepted);
        connecting!(self).return_places(tenant);
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
        let mark = self.desk.journal.mark();
        // The old connection ends first, so that its will and its session end as if it had broken off.
        if let Some(old) = existing.and_then(|session| self.desk.sessions.get(session.0)?.connection) {
            self.take_parked(now, old);
            self.close_connection(now, old, Reason::SessionTakenOver, None);
        }
        let Some(granted) = connecting!(self).grant(key, client_id, connect) else { return };
        let (resumed, present) = ending!(self).session_to_resume(now, tenant, client_id, connect.clean_start);
        let session = match resumed {
            Some(session) => {
                connecting!(self).cancel_session_timers(session);
                session
            }
            None => connecting!(self).create_session(tenant, key, client_id),
        };
        connecting!(self).identify(session, accepted.identity.clone());
        let standing = connecting!(self).standing_of(key, connect);
        connecting!(self).bind(now, key, session, connect, &granted);
        subscribing!(self).set_standing(now, session, standing);
        connecting!(self).bound_by_proof(now, key, accepted.identity.as_deref());
        self.desk.sessions.store_session(&mut self.desk.journal, session);
        let promises = self.desk.journal.has_written_since(mark);
        if !connecting!(self).send_conn_ack(key, connect, &granted, present, promises, accepted) {
            let detail = "CONNACK is larger than the client's maximum packet size";
            self.end_connection(now, key, Reason::PacketTooLarge, Some(detail.into()));
            return;
        }
        self.desk.counters.connects_accepted += 1;
        self.desk.events.push_back(Event::Log(LogEvent::Connected {
            key,
            client_id: client_id.to_owned(),
            version: connect.version,
            session_present: present,
        }));
        if let Some(connection) = self.desk.connections.get_mut(key) {
            // What the wait for a verdict needed is over.
            connection.settle();
        }
        let event = self.sys.client_event(now, &mut self.desk, session, None);
        publishing!(self).publish_client_event(now, event);
        if resumed.is_some() {
            self.ask_for_rights_again(now, session);
            self.groups.announce_presence(&self.desk, &mut self.links, session, true);
            self.desk.resume(now.monotonic, &mut self.layouts, session);
        }
    }
}

impl SessionEnding<'_> {
    /// The session that a client goes on with, and whether it is one that the client knows of: not what is kept for a
    /// node whose session has ended.
    fn session_to_resume(
        &mut self,
        now: Now,
        tenant: TenantId,
        client_id: &str,
        clean_start: bool,
    ) -> (Option<SessionKey>, bool) {
        let known = self.desk.sessions.find_session(tenant, client_id);
        let standing = known.and_then(|key| self.desk.sessions.get(key.0)).map(|session| session.standing);
        let present = !clean_start && standing.is_some_and(|standing| standing != Standing::Mailbox);
        if clean_start
            && standing != Some(Standing::Mailbox)
            && let Some(session) = known
        {
            self.end_session(now, session, Reason::SessionDiscarded);
        }
        (self.desk.sessions.find_session(tenant, client_id), present)
    }
}

impl Connecting<'_> {
    /// The client id that a client has whatever it asks for.
    fn preset_client_id(&self, key: ConnectionKey) -> Option<&str> {
        self.desk.connections.get(key)?.extra.as_ref()?.preset.as_ref()?.client_id.as_deref()
    }

    /// A client id that no session has, at home on this shard.
    fn assign_client_id(&mut self, tenant: TenantId) -> String {
        loop {
            self.assigned.next += 1;
            let mixed = crate::hash::hash_bytes(self.assigned.seed, &self.assigned.next.to_le_bytes());
            let name = format!("auto-{mixed:016x}");
            let partition = partition_of(tenant, &name);
            let here = self.links.place.owns(partition) && self.homes.home_of(self.desk, partition) == Home::Here;
            if here && self.desk.sessions.find_session(tenant, &name).is_none() {
                return name;
            }
        }
    }

    /// Lets the control plane decide. Until then nothing of this client is worked on.
    fn ask_for_verdict(
        &mut self,
        key: ConnectionKey,
        tenant: TenantId,
        client_id: &str,
        connect: &Connect<'_>,
        frame: &Frame<'_>,
    ) {
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        connection.phase = Phase::Authenticating;
        let listener = connection.listener;
        let mut pending = vec![frame.first_byte];
        pending.extend_from_slice(frame.body);
        let extra = connection.extra_mut();
        extra.pending_connect = Some(Box::new(PendingConnect { packet: pending, client_id: client_id.into() }));
        let enhanced = connect.properties.authentication_method.map(|method| {
            extra.enhanced = Some(Box::new(EnhancedState { method: method.into(), running: true }));
            let data = connect.properties.authentication_data.unwrap_or_default().to_vec();
            Enhanced { method: method.to_owned(), data }
        });
        let request = AuthRequest {
            tenant,
            listener,
            client_id: client_id.to_owned(),
            user_name: connect.username.map(str::to_owned),
            password: connect.password.map(<[u8]>::to_vec),
            enhanced,
            again: false,
        };
        self.desk.events.push_back(Event::Authenticate { key, request });
    }

    /// Whether the client is a mobile node: through such a listener, and under a name by which others know it.
    fn standing_of(&self, key: ConnectionKey, connect: &Connect<'_>) -> Standing {
        let listener =
            self.desk.connections.get(key).and_then(|connection| self.desk.settings.listener(connection.listener));
        let named = !connect.client_id.is_empty() || self.preset_client_id(key).is_some();
        let is_node = named && self.desk.settings.addresses.is_some() && listener.is_some_and(|it| it.mobile_nodes);
        if is_node { Standing::Node } else { Standing::Client }
    }

    fn create_session(&mut self, tenant: TenantId, key: ConnectionKey, client_id: &str) -> SessionKey {
        let listener = self.desk.connections.get(key).map_or_else(Default::default, |connection| connection.listener);
        self.desk.insert_session(Session {
            client_id: client_id.into(),
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: 0,
            tenant,
            listener,
            receive_maximum: u16::MAX,
            rights_epoch: self.rules.epoch(),
            standing: Standing::Client,
            stored: None,
            identity: None,
        })
    }

    /// Ties connection and session together with what this CONNECT says.
    fn bind(&mut self, now: Now, key: ConnectionKey, to: SessionKey, connect: &Connect<'_>, granted: &Granted<'_>) {
        let will = connect.will.as_ref().map(|will| self.will_of(to, will));
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        connection.phase = Phase::Open;
        connection.session = Some(to);
        if let Some(extra) = &mut connection.extra {
            extra.preset = None;
            if let Some(enhanced) = &mut extra.enhanced {
                enhanced.running = false;
            }
        }
        connection.keep_alive = granted.keep_alive;
        connection.bridge = connect.bridge;
        connection.problem_information = connect.properties.request_problem_information.unwrap_or(true);
        let (listener, tenant) = (connection.listener, connection.tenant);
        let payer = if connection.is_of_hub { TenantId::UPLINK } else { tenant };
        connection.payer = payer;
        let ours = self.desk.settings.listeners.get(usize::from(listener.0));
        let aliases = connect
            .properties
            .topic_alias_maximum
            .unwrap_or(0)
            .min(ours.map_or(0, |listener| listener.topic_alias_maximum_out));
        if aliases > 0 {
            connection.aliases_out = true;
            connection.extra_mut().aliases_out = OutboundAliases::new(aliases);
        }
        if let Some(session) = self.desk.sessions.get_mut(to.0) {
            session.connection = Some(key);
            session.expiry_seconds = granted.expiry_seconds;
            session.receive_maximum = granted.receive_maximum;
            session.listener = listener;
        }
        if will.is_some() {
            self.desk.replace_will(to, will);
        }
        self.desk.tenants.add(tenant, Holding::Connections);
        self.desk.sessions_connected += 1;
        self.desk.meters.connect(payer, now.monotonic);
        let deadline = keep_alive_deadline(now.monotonic, granted.keep_alive);
        self.desk.connections.set_connection_timer(&mut self.desk.timers, key, deadline);
    }

    fn will_of(&self, session: SessionKey, will: &tidegate_mqtt::Will<'_>) -> Will {
        let (tenant, publisher) = self.desk.sessions.get(session.0).map_or((TenantId::DEFAULT, 0), |session| {
            (session.tenant, crate::ids::hash_name(session.tenant, &session.client_id))
        });
        let mut forwarded = Vec::new();
        if is_address(&self.desk.settings, will.topic.as_str()) {
            will.properties.copy_forwardable_without(SET_BY_BROKER, &mut forwarded);
        } else {
            will.properties.copy_forwardable_without(&[ORIGIN_PROPERTY], &mut forwarded);
        }
        let message = Publication::new(
            tenant,
            will.topic.as_str(),
            will.qos,
            will.retain,
            &forwarded,
            Millis::NEVER,
            will.payload,
            publisher,
        )
        .keep();
        Will {
            message,
            delay_seconds: will.properties.delay_interval.unwrap_or(0),
            expiry_seconds: will.properties.message_expiry,
        }
    }
}

/// The length of a packet whose body is so long.
fn packet_len(body: usize) -> usize {
    1 + tidegate_mqtt::varint::len(u32::try_from(body).unwrap_or(u32::MAX)) + body
}

/// When a silent connection is given up: after one and a half times the keep-alive time ([MQTT-3.1.2-22]).
pub(crate) fn keep_alive_deadline(last_seen: Millis, keep_alive: u16) -> Millis {
    if keep_alive == 0 { Millis::NEVER } else { last_seen.plus(u64::from(keep_alive) * 1500) }
}
