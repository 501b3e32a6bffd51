//! Connections leave a home whose partition moves, while their clients stay connected: the node with the socket takes
//! the image of the connection to the new home.

use crate::connection::reserving::Reserving;
use crate::connection::terms::PromisedTerms;
use crate::connection::{Connection, Extra, Phase};
use crate::engine::facets::MoveCalls;
use crate::events::reason::Reason;
use crate::ids::{BROKER_LINK_LISTENER, ConnectionKey, PRINCIPAL_LISTENER, Partitions, SessionKey};
use crate::image::connection::{ConnectionImage, RELAY_FRAME_MAX, RELAY_FRAME_ROOM};
use crate::now::{Millis, Now};
use crate::session::Session;
use crate::session::packet_ids::State;
use tidegate_mqtt::PacketId;

/// Minimum lifetime of a session that waits for its connection, seconds: the time for which a node waits for a move.
const MOVED_KEEP_SECONDS: u32 = 10;

/// Longest incomplete packet that goes with a connection, bytes. A client with a longer one connects again.
const TAIL_MAX: usize = 8 * 1024;

/// A connection that has left its home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftConnection {
    /// The state for the new home.
    pub image: ConnectionImage,
    /// The first bytes of an incomplete packet of the client.
    pub tail: Vec<u8>,
}

impl MoveCalls<'_> {
    /// The connections of clients of these partitions that can continue elsewhere. The partitions are about to be held,
    /// and no connection continues here until then. Brokers, bridges, pipelines and publishers within the process cannot
    /// continue elsewhere, where they would count as clients; MQTT 5 clients are left out with `but_v5`.
    pub fn begin_to_leave(&mut self, partitions: Partitions, but_v5: bool) -> Vec<ConnectionKey> {
        self.engine.handover.parting = self.engine.handover.parting.with(partitions);
        let sessions = self.engine.state.sessions.by_partition(self.engine.place.own(partitions));
        let of = |key: &SessionKey| self.engine.state.sessions.get(key.0)?.connection;
        let all = sessions.all().filter_map(of);
        let wanted = |connection: &Connection| {
            may_leave(connection) && !is_never_at_rest(connection) && !(but_v5 && connection.version.is_v5())
        };
        all.filter(|key| self.engine.state.connections.get(*key).is_some_and(wanted)).collect()
    }

    /// True if a connection can leave now. It is asked before [`MoveCalls::leave`], which makes an image.
    pub fn may_leave_now(&self, key: ConnectionKey) -> bool {
        let session = self.engine.state.connections.session_of(key);
        session.is_some_and(|session| self.is_at_rest(key, session))
    }

    /// Ends a connection whose client stays connected to continue elsewhere, once no packet is in progress here: all
    /// packets of the client have been answered, and all output has been written. The caller reads no further input.
    /// The session expects the connection for ten seconds. `None` while a packet is in progress, and always after the
    /// connection has ended.
    pub fn leave(&mut self, now: Now, key: ConnectionKey) -> Option<LeftConnection> {
        self.engine.state.journal.now = now;
        let session = self.engine.state.connections.session_of(key)?;
        if !self.is_at_rest(key, session) {
            return None;
        }
        let mut left = self.image_of_connection(key, session)?;
        if left.image.to_bytes().len() + left.tail.len() + RELAY_FRAME_ROOM > RELAY_FRAME_MAX {
            return None;
        }
        if let Some(session) = self.engine.state.sessions.get_mut(session.0) {
            session.expiry_seconds = session.expiry_seconds.max(MOVED_KEEP_SECONDS);
            // The messages in flight go with the connection: a client that connects again does not get them.
            for (id, _) in &left.image.unkept {
                session.flow_mut().inflight.finish(*id);
            }
        }
        // The will moves with the session.
        self.engine.handover.exporting = true;
        self.engine.end_connection(now, key, Reason::Moved, None);
        self.engine.handover.exporting = false;
        let rare = self.engine.state.sessions.get(session.0).and_then(|session| session.rare.as_ref());
        left.image.expected_until = now.to_unix(rare.and_then(|rare| rare.sent_on_until)?);
        self.engine.after_frame(now);
        Some(left)
    }
}

impl MoveCalls<'_> {
    /// True if no packet of a connection is in progress here.
    fn is_at_rest(&self, key: ConnectionKey, session: SessionKey) -> bool {
        let state = &self.engine.state;
        let (Some(connection), Some(session)) = (state.connections.get(key), state.sessions.get(session.0)) else {
            return false;
        };
        may_leave(connection)
            && !connection.blocked
            && connection.output.as_ref().is_none_or(|output| output.is_empty())
            && connection.tail.as_ref().is_none_or(|tail| tail.len() <= TAIL_MAX)
            && connection.extra.as_ref().is_none_or(|extra| is_extra_at_rest(extra))
            && session.flow.as_ref().is_none_or(|flow| flow.to_resend == 0)
            && session.rare.as_ref().is_none_or(|rare| !rare.awaits_retained())
            && !self.engine.turn_share.holds(key)
            && !state.to_close.iter().any(|(other, ..)| *other == key)
    }

    fn image_of_connection(&self, key: ConnectionKey, session: SessionKey) -> Option<LeftConnection> {
        let connection = self.engine.state.connections.get(key)?;
        let session = self.engine.state.sessions.get(session.0)?;
        let extra = connection.extra.as_deref();
        let aliases_in = extra.into_iter().flat_map(|extra| extra.aliases_in.iter());
        let identity = session.identity.as_deref();
        let promised = connection.promised().copied();
        let settings = &self.engine.state.settings;
        let terms = promised.or_else(|| Some(PromisedTerms::of(settings, settings.listener(connection.listener)?)))?;
        let enhanced = extra.and_then(|extra| extra.enhanced.as_ref());
        let image = ConnectionImage {
            tenant: session.tenant,
            client_id: session.client_id.clone(),
            counted_user: None,
            shown: None,
            proof_ends: identity.and_then(|identity| identity.expires_at),
            proof: identity.and_then(|identity| identity.proof.clone()),
            method: enhanced.map(|enhanced| enhanced.method.clone()),
            terms,
            expected_until: 0,
            expiry_seconds: session.expiry_seconds,
            receive_maximum: session.receive_maximum,
            keep_alive: connection.keep_alive,
            max_packet_out: connection.max_packet_out,
            aliases_out: extra.map_or(0, |extra| extra.aliases_out.maximum()),
            received_before: session.flow.as_ref().map_or(0, |flow| flow.received_before as u32),
            version: connection.version,
            problem_information: connection.problem_information,
            bridge: connection.is_bridge(),
            aliases_in: aliases_in.map(|(alias, topic)| (alias, topic.into())).collect(),
            unkept: unkept_of(session),
        };
        Some(LeftConnection { image, tail: connection.tail.as_deref().cloned().unwrap_or_default() })
    }
}

/// Messages in flight without a kept message. The image of a session has the released ones.
fn unkept_of(session: &Session) -> Vec<(PacketId, State)> {
    let sent = session.flow.iter().flat_map(|flow| flow.inflight.iter());
    let unkept = sent.filter(|entry| !entry.is_whole());
    unkept.map(|entry| (entry.id(), entry.state)).collect()
}

fn may_leave(connection: &Connection) -> bool {
    connection.phase == Phase::Open
        && ![BROKER_LINK_LISTENER, PRINCIPAL_LISTENER].contains(&connection.listener)
        && !connection.is_own()
        && !connection.leaving
}

/// True if a connection will not come to rest, so that waiting is useless.
fn is_never_at_rest(connection: &Connection) -> bool {
    connection.extra.as_deref().is_some_and(|extra| extra.packet_left.is_some())
        || connection.tail.as_ref().is_some_and(|tail| tail.len() > TAIL_MAX)
}

fn is_extra_at_rest(extra: &Extra) -> bool {
    extra.acks.is_empty()
        && extra.parked.is_none()
        && extra.reserving == Reserving::Not
        && extra.withheld_until == Millis::NEVER
        && extra.enhanced.as_ref().is_none_or(|enhanced| !enhanced.running)
        && extra.packet_left.is_none()
        && !extra.suspended
}
