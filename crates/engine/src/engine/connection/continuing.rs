//! A connection that has left another node continues here.

use crate::connection::alias::OutboundAliases;
use crate::connection::connect::grant::Granted;
use crate::connection::input::Flow;
use crate::connection::terms::PromisedTerms;
use crate::connection::{Connection, EnhancedState, Phase};
use crate::engine::facets::{HomeCalls, ShardQuestions};
use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::connecting;
use crate::flows::contexts::ending;
use crate::flows::contexts::publishing;
use crate::flows::contexts::subscribing;
use crate::identity::Identity;
use crate::ids::{ConnectionKey, PartitionId, SessionKey, counted_for};
use crate::image::connection::{
    CONTINUE, CONTINUED, ConnectionImage, EDGE_STOPS, NotContinued, RELAY_FRAME, RELAY_FRAME_MAX,
};
use crate::now::{Millis, Now};
use crate::orchestrator::homes::Home;
use crate::session::{InFlight, Standing};
use crate::settings::Settings;
use crate::state::open_output;
use crate::sys::ClientNews;
use std::sync::Arc;
use tidegate_mqtt::{Connect, ConnectProperties, Disconnect, PacketType, ReasonCode, Version, split_frame, varint};

/// Maximum difference of the times at which two nodes expect a connection, milliseconds: they read their clocks in
/// turns.
const EXPECTED_WITHIN_MS: u64 = 50;

/// True if these bytes begin the frame by which another node brings a connection to continue here.
pub(crate) fn begins_continuation(settings: &Settings, connection: &Connection, bytes: &[u8]) -> bool {
    connection.phase == Phase::AwaitConnect
        && bytes.first() == Some(&RELAY_FRAME)
        && settings.listener(connection.listener).is_some_and(|listener| listener.relayed)
}

/// True if these bytes are the frame of an edge that stops, or its beginning.
pub(crate) fn is_end_of_edge(settings: &Settings, connection: &Connection, bytes: &[u8]) -> bool {
    connection.phase == Phase::Open
        && EDGE_STOPS.starts_with(bytes)
        && settings.listener(connection.listener).is_some_and(|listener| listener.relayed)
}

impl HomeCalls<'_> {
    /// The edge of a client stops: the client has time to connect by another edge before its will is published.
    #[cold]
    pub(crate) fn end_of_edge(&mut self, now: Now, key: ConnectionKey) {
        let session = self.engine.state.connections.session_of(key);
        self.engine.waiting().take_parked(now, key);
        self.engine.handover.exporting = true;
        self.engine.end_connection(now, key, Reason::UseAnotherServer, None);
        self.engine.handover.exporting = false;
        if let Some(session) = session {
            self.engine.moves().schedule_will_of_moved(now, session);
        }
    }

    /// Takes the frame with the image of a connection, and asks the shell for its proof.
    pub(crate) fn take_continuation(&mut self, key: ConnectionKey, bytes: &[u8]) -> Result<(Flow, usize), Refused> {
        let malformed = || Refused::new(Reason::MalformedPacket, "no image of a connection");
        let (length, behind) = match varint::decode(bytes.get(1..).unwrap_or_default()) {
            Ok(Some((length, bytes))) => (length as usize, 1 + bytes),
            Ok(None) => return Ok((Flow::Hold, 0)),
            Err(_) => return Err(malformed()),
        };
        if length > RELAY_FRAME_MAX {
            return Err(malformed());
        }
        let Some(body) = bytes.get(behind..behind + length) else { return Ok((Flow::Hold, 0)) };
        let Some((&[CONTINUE, low, high], proven)) = body.split_first_chunk::<3>() else { return Err(malformed()) };
        let partition = PartitionId(u16::from_le_bytes([low, high]));
        if self.engine.homes.home_of(&self.engine.state, partition) != Home::Here {
            return Err(Refused::new(Reason::NotServedHere, String::new()));
        }
        let shard = self.engine.place.home_of(partition);
        if shard != self.engine.place.shard {
            return Ok((Flow::HandOver(shard), 0));
        }
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            connection.phase = Phase::Authenticating;
        }
        self.engine.state.events.push_back(Event::Continue { key, proven: proven.to_vec() });
        Ok((Flow::Next, behind + length))
    }

    /// The client of an image as its session says, with the proof that it has shown. The caller decides whether that is
    /// accepted here.
    ///
    /// # Errors
    /// As [`HomeCalls::continue_connection`].
    pub fn identity_of(&self, now: Now, image: &ConnectionImage) -> Result<Option<Arc<Identity>>, NotContinued> {
        let session = self.session_of_image(now, image)?;
        let identity = self.engine.state.sessions.get(session.0).and_then(|session| session.identity.as_deref());
        let proven = |identity: &Identity| {
            Arc::new(Identity { expires_at: image.proof_ends, proof: image.proof.clone(), ..identity.clone() })
        };
        Ok(identity.map(proven))
    }

    /// Whether the session of an image has never left this node since its client was accepted here: its move was called
    /// off.
    pub fn is_of_here(&self, now: Now, image: &ConnectionImage) -> bool {
        let session = self.session_of_image(now, image).ok().and_then(|key| self.engine.state.sessions.get(key.0));
        let known = session.and_then(|session| session.identity.as_ref()?.proof.as_ref());
        known.is_some() && known == image.proof.as_ref()
    }

    /// Ties a connection that has left another node to its session, which the partition has brought. Nothing is sent again
    /// and the client gets no packet for it. `tell` sends [`CONTINUED`] before all else, to the node with the socket.
    ///
    /// # Errors
    /// When the session is not here, or does not expect this connection, or when the terms of the connection cannot be
    /// kept. The connection stays as it is.
    pub fn continue_connection(
        &mut self,
        now: Now,
        key: ConnectionKey,
        image: &ConnectionImage,
        tell: bool,
    ) -> Result<(), NotContinued> {
        self.engine.state.journal.now = now;
        let session = self.session_of_image(now, image)?;
        let identity = self.identity_of(now, image)?;
        let narrower = self.terms_beyond_listener(key, image.terms)?;
        let counted = counted_for(image.tenant, &image.client_id);
        // Its last home admitted the client. That node's announced use may still have it, so a check would count it twice.
        connecting!(self.engine).add_places(counted);
        if let Some(session) = self.engine.state.sessions.get_mut(session.0) {
            session.identity = identity;
        }
        self.bind_continued(now, key, session, image, tell);
        if let Some(connection) = self.engine.state.connections.get_mut(key).filter(|_| narrower.is_some()) {
            connection.extra_mut().promised = narrower.map(Box::new);
        }
        connecting!(self.engine).return_places(counted);
        // A packet whose beginning came with the image is completed by later input.
        self.engine.handle_input(now, key, &[]);
        self.engine.after_frame(now);
        Ok(())
    }
}

impl HomeCalls<'_> {
    /// A connection has come that its session does not expect. If its client has connected again meanwhile, it had lost
    /// this connection or has replaced it: its will is published ([MQTT-3.1.2-8]). `rest` are the bytes of the client
    /// behind the image. A DISCONNECT among them deletes the will ([MQTT-3.1.2-10]).
    pub fn end_unexpected(&mut self, now: Now, image: &ConnectionImage, rest: &[u8]) {
        self.engine.state.journal.now = now;
        let Some(key) = self.engine.state.sessions.find_session(image.tenant, &image.client_id) else { return };
        let rare = self.engine.state.sessions.get(key.0).and_then(|session| session.rare.as_ref());
        let distance = |until: &Millis| now.to_unix(*until).abs_diff(image.expected_until);
        let untils = rare.iter().flat_map(|rare| &rare.former_wills).map(|former| former.expected_until);
        let nearest = untils.min_by_key(distance).filter(|until| distance(until) <= EXPECTED_WITHIN_MS);
        let will = connecting!(self.engine).take_former_will(key, |until| Some(until) == nearest);
        let will = will.filter(|_| !says_goodbye(image.version, rest));
        ending!(self.engine).publish_will(now, key, will);
        self.engine.after_frame(now);
    }
}

impl ShardQuestions<'_> {
    /// The bytes of a connection that were not taken: those behind the image of a connection that is not continued.
    pub fn unread_input(&self, key: ConnectionKey) -> Vec<u8> {
        let connection = self.engine.state.connections.get(key);
        connection.and_then(|connection| connection.tail.as_deref().cloned()).unwrap_or_default()
    }
}

impl HomeCalls<'_> {
    /// The session of an image, if it is here and still waits for this connection.
    fn session_of_image(&self, now: Now, image: &ConnectionImage) -> Result<SessionKey, NotContinued> {
        let partition = image.partition();
        let is_here = self.engine.questions().home_to_continue_at(partition) == Home::Here;
        if !is_here || !self.engine.place.owns(partition) {
            return Err(NotContinued::NotHere);
        }
        self.expected_session(now, image).ok_or(NotContinued::NotExpected)
    }

    /// The terms of a connection, where its listener here has narrower ones.
    fn terms_beyond_listener(
        &self,
        key: ConnectionKey,
        terms: PromisedTerms,
    ) -> Result<Option<PromisedTerms>, NotContinued> {
        let state = &self.engine.state;
        let listener = state.connections.get(key).and_then(|it| state.settings.listener(it.listener));
        let here = PromisedTerms::of(&state.settings, listener.ok_or(NotContinued::NotExpected)?);
        if !terms.can_be_kept(here) {
            return Err(NotContinued::Refused(Reason::UseAnotherServer));
        }
        Ok(Some(terms).filter(|terms| !terms.are_within(here)))
    }

    /// The session of an image, if it still waits for this connection.
    fn expected_session(&self, now: Now, image: &ConnectionImage) -> Option<SessionKey> {
        let key = self.engine.state.sessions.find_session(image.tenant, &image.client_id)?;
        let session = self.engine.state.sessions.get(key.0).filter(|session| session.connection.is_none())?;
        let until = now.to_unix(session.rare.as_ref()?.sent_on_until?);
        (until.abs_diff(image.expected_until) <= EXPECTED_WITHIN_MS).then_some(key)
    }

    fn bind_continued(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        image: &ConnectionImage,
        tell: bool,
    ) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        connection.version = image.version;
        connection.max_packet_out = image.max_packet_out;
        connection.tenant = image.tenant;
        if tell {
            open_output(connection, key, &mut self.engine.state.to_write, &mut self.engine.state.pool)
                .append(&CONTINUED);
        }
        let kept = self.engine.state.sessions.get(session.0);
        let will = kept.and_then(|session| session.will().cloned());
        let identity = kept.and_then(|session| session.identity.clone());
        let connect = connect_of(image);
        // The client has its standing from its first home.
        let standing = kept.map_or(Standing::Client, |session| session.standing);
        let granted = Granted {
            client_id: &image.client_id,
            assigned: false,
            keep_alive: image.keep_alive,
            expiry_seconds: image.expiry_seconds,
            receive_maximum: image.receive_maximum,
        };
        connecting!(self.engine).cancel_session_timers(session);
        connecting!(self.engine).bind(now, key, session, &connect, &granted);
        self.engine.state.sessions.replace_will(
            &mut self.engine.state.memory,
            &mut self.engine.state.journal,
            session,
            will,
        );
        let has_addresses = self.engine.state.settings.addresses.is_some();
        let standing = if has_addresses { standing } else { Standing::Client };
        subscribing!(self.engine).set_standing(now, session, standing);
        connecting!(self.engine).bound_by_proof(now, key, identity.as_deref());
        self.engine.control().name_user(key, identity.as_deref().and_then(|identity| identity.user_name.as_deref()));
        self.restore_connection(now, key, session, image);
        self.engine.state.sessions.store_session(&mut self.engine.state.journal, session);
        self.engine.state.events.push_back(Event::Log(LogEvent::Connected {
            key,
            client_id: image.client_id.to_string(),
            tenant: image.tenant,
            version: image.version,
            session_present: true,
        }));
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            connection.settle();
        }
        let event = self.engine.sys.client_event(now, &mut self.engine.state, session, ClientNews::Continued);
        publishing!(self.engine).publish_client_event(now, event);
        self.engine.control().ask_for_rights_again(now, session);
        self.engine.groups.announce_presence(&self.engine.state, &mut self.engine.links, session, true);
        self.engine.state.refill(now.monotonic, &mut self.engine.layouts, session);
    }

    /// Restores state that a CONNECT does not contain: topic aliases, and messages in flight that are not sent again.
    fn restore_connection(&mut self, now: Now, key: ConnectionKey, session: SessionKey, image: &ConnectionImage) {
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            if !image.aliases_in.is_empty() {
                connection.extra_mut().aliases_in = image.inbound_aliases();
                self.engine.state.memory.held += connection.extra_mut().aliases_in.bytes();
            }
            if let Some(method) = &image.method {
                let enhanced = EnhancedState { method: method.clone(), running: false };
                connection.extra_mut().enhanced = Some(Box::new(enhanced));
            }
            connection.aliases_out = image.aliases_out > 0;
            if image.aliases_out > 0 {
                connection.extra_mut().aliases_out = OutboundAliases::new(image.aliases_out);
            }
        }
        let Some(session) = self.engine.state.sessions.get_mut(session.0) else { return };
        if session.flow.is_none() && image.unkept.is_empty() {
            return;
        }
        let flow = session.flow_mut();
        for (id, state) in &image.unkept {
            flow.inflight.restore(*id, *state, InFlight::default());
        }
        flow.received_before = (image.received_before as usize).min(flow.received.len());
        flow.waiting_since = now.monotonic;
    }
}

/// Whether whole packets among these bytes are followed by a DISCONNECT that deletes the will ([MQTT-3.14.4-3]).
fn says_goodbye(version: Version, mut bytes: &[u8]) -> bool {
    while let Ok(Some(frame)) = split_frame(bytes, u32::MAX) {
        if frame.packet_type() == PacketType::Disconnect {
            let packet = Disconnect::decode(version, frame.first_byte, frame.body);
            return packet.is_ok_and(|packet| packet.reason_code == ReasonCode::Success);
        }
        bytes = bytes.get(frame.total_len..).unwrap_or_default();
    }
    false
}

/// The CONNECT of a client with such a connection.
fn connect_of(image: &ConnectionImage) -> Connect<'_> {
    Connect {
        version: image.version,
        bridge: image.bridge,
        clean_start: false,
        keep_alive: image.keep_alive,
        client_id: &image.client_id,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties {
            request_problem_information: Some(image.problem_information),
            ..ConnectProperties::default()
        },
    }
}
