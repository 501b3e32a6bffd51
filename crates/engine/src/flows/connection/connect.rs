//! A CONNECT is let in, and its session is bound.

use crate::addresses::SET_BY_BROKER;
use crate::connection::alias::OutboundAliases;
use crate::connection::connect::grant::Granted;
use crate::connection::connect::keep_alive_deadline;
use crate::connection::{EnhancedState, Peer, PendingConnect, Phase};
use crate::event::{AuthRequest, Enhanced, Event};
use crate::events::reason::Reason;
use crate::flows::contexts::Connecting;
use crate::flows::contexts::SessionEnding;
use crate::ids::{ConnectionKey, SessionKey, TenantId, partition_of};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::homes::Home;
use crate::session::{FilterList, Session, Standing, Will};
use crate::settings::{Holding, QUEUE_CLIENT_PREFIX};
use crate::topics::address_name::is_address;
use crate::topics::origin::{HOPS_PROPERTY, ORIGIN_PROPERTY};
use tidegate_mqtt::{Connect, Frame};

impl SessionEnding<'_> {
    /// The session that a client resumes, and whether the client knows it: a mailbox of an ended session is unknown to
    /// the client.
    pub(crate) fn session_to_resume(
        &mut self,
        now: Now,
        tenant: TenantId,
        client_id: &str,
        clean_start: bool,
    ) -> (Option<SessionKey>, bool) {
        let known = self.state.sessions.find_session(tenant, client_id);
        let standing = known.and_then(|key| self.state.sessions.get(key.0)).map(|session| session.standing);
        let present = !clean_start && standing.is_some_and(|standing| standing != Standing::Mailbox);
        if clean_start
            && standing != Some(Standing::Mailbox)
            && let Some(session) = known
        {
            self.end_session(now, session, Reason::SessionDiscarded);
        }
        (self.state.sessions.find_session(tenant, client_id), present)
    }
}

impl Connecting<'_> {
    /// The client id that replaces the one in a client's CONNECT.
    pub(crate) fn preset_client_id(&self, key: ConnectionKey) -> Option<&str> {
        self.state.connections.get(key)?.extra.as_ref()?.preset.as_ref()?.client_id.as_deref()
    }

    /// A client id that no session has, at home on this shard.
    pub(crate) fn assign_client_id(&mut self, tenant: TenantId) -> String {
        loop {
            self.state.assigned.next += 1;
            let mixed = crate::hash::hash_bytes(self.state.assigned.seed, &self.state.assigned.next.to_le_bytes());
            let name = format!("auto-{mixed:016x}");
            let partition = partition_of(tenant, &name);
            let here = self.links.place.owns(partition) && self.homes.home_of(self.state, partition) == Home::Here;
            if here && self.state.sessions.find_session(tenant, &name).is_none() {
                return name;
            }
        }
    }

    /// Lets the control plane decide. Until then nothing of this client is worked on.
    pub(crate) fn request_authentication(
        &mut self,
        key: ConnectionKey,
        tenant: TenantId,
        client_id: &str,
        connect: &Connect<'_>,
        frame: &Frame<'_>,
    ) {
        let Some(connection) = self.state.connections.get_mut(key) else { return };
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
        self.state.events.push_back(Event::Authenticate { key, request });
    }

    /// Whether the client is a mobile node: its listener admits nodes, and its name is known to others.
    pub(crate) fn standing_of(&self, key: ConnectionKey, connect: &Connect<'_>) -> Standing {
        let listener =
            self.state.connections.get(key).and_then(|connection| self.state.settings.listener(connection.listener));
        let named = !connect.client_id.is_empty() || self.preset_client_id(key).is_some();
        // Also a listener for relayed clients has sessions of queues.
        let named = named && !connect.client_id.starts_with(QUEUE_CLIENT_PREFIX);
        let admits = listener.is_some_and(|it| it.mobile_nodes && it.speaks_mqtt());
        let is_node = named && admits && self.state.settings.addresses.is_some();
        if is_node { Standing::Node } else { Standing::Client }
    }

    pub(crate) fn create_session(&mut self, tenant: TenantId, key: ConnectionKey, client_id: &str) -> SessionKey {
        let listener = self.state.connections.get(key).map_or_else(Default::default, |connection| connection.listener);
        self.state.insert_session(Session {
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

    /// Connects a connection with its session by the values of this CONNECT.
    pub(crate) fn bind(
        &mut self,
        now: Now,
        key: ConnectionKey,
        to: SessionKey,
        connect: &Connect<'_>,
        granted: &Granted<'_>,
    ) {
        let will = connect.will.as_ref().map(|will| self.will_of(to, will));
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        connection.phase = Phase::Open;
        connection.session = Some(to);
        if let Some(extra) = &mut connection.extra {
            extra.preset = None;
            if let Some(enhanced) = &mut extra.enhanced {
                enhanced.running = false;
            }
        }
        connection.keep_alive = granted.keep_alive;
        if connect.bridge && !connection.is_of_hub() {
            connection.peer = if connection.is_own() { Peer::OwnBridge } else { Peer::Bridge };
        }
        connection.problem_information = connect.properties.request_problem_information.unwrap_or(true);
        let (listener, tenant) = (connection.listener, connection.tenant);
        let user = self.state.sessions.get(to.0).and_then(|session| session.identity.as_ref()?.user_name.as_deref());
        let user = user.filter(|_| self.state.settings.usage_by_user);
        let pays = if connection.is_of_hub() { TenantId::BROKER_LINK } else { tenant };
        let payer = self.state.meters.payer(pays, user);
        connection.payer = payer;
        let ours = self.state.settings.listeners.get(usize::from(listener.0));
        let aliases = connect
            .properties
            .topic_alias_maximum
            .unwrap_or(0)
            .min(ours.map_or(0, |listener| listener.topic_alias_maximum_out));
        if aliases > 0 {
            connection.aliases_out = true;
            connection.extra_mut().aliases_out = OutboundAliases::new(aliases);
        }
        let mut counted = tenant;
        if let Some(session) = self.state.sessions.get_mut(to.0) {
            counted = session.counted_for();
            session.connection = Some(key);
            session.expiry_seconds = granted.expiry_seconds;
            session.receive_maximum = granted.receive_maximum;
            if session.listener != listener {
                // Rules may name the listener: the rights are asked for again.
                session.rights_epoch = 0;
            }
            session.listener = listener;
        }
        if will.is_some() {
            self.state.sessions.replace_will(&mut self.state.memory, &mut self.state.journal, to, will);
        }
        self.state.tenants.add(counted, Holding::Connections);
        self.state.sessions_connected += 1;
        self.state.meters.connect(payer, now.monotonic);
        let deadline = keep_alive_deadline(now.monotonic, granted.keep_alive);
        self.state.connections.set_connection_timer(&mut self.state.timers, key, deadline);
    }

    fn will_of(&self, session: SessionKey, will: &tidegate_mqtt::Will<'_>) -> Will {
        let (tenant, publisher) = self.state.sessions.get(session.0).map_or((TenantId::DEFAULT, 0), |session| {
            (session.tenant, crate::ids::hash_name(session.tenant, &session.client_id))
        });
        let mut forwarded = Vec::new();
        if is_address(&self.state.settings, will.topic.as_str()) {
            let [to, number, origin] = SET_BY_BROKER;
            will.properties.copy_forwardable_without(&[to, number, origin, HOPS_PROPERTY], &mut forwarded);
        } else {
            will.properties.copy_forwardable_without(&[ORIGIN_PROPERTY, HOPS_PROPERTY], &mut forwarded);
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
