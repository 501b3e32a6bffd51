//! The connections of a shard.

use crate::connection::{Connection, Phase};
use crate::ids::{ConnectionKey, SessionKey};
use crate::limits::usage::Payer;
use crate::now::Now;
use crate::session::table::Sessions;
use crate::slab::GenSlab;
use std::ops::{Deref, DerefMut};
use tidegate_mqtt::PacketId;

/// All connections of a shard, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    table: GenSlab<Connection>,
}

impl Deref for Connections {
    type Target = GenSlab<Connection>;

    #[inline]
    fn deref(&self) -> &GenSlab<Connection> {
        &self.table
    }
}

impl DerefMut for Connections {
    #[inline]
    fn deref_mut(&mut self) -> &mut GenSlab<Connection> {
        &mut self.table
    }
}

impl Connections {
    /// The payer of a connection.
    #[inline]
    pub(crate) fn payer_of(&self, key: ConnectionKey) -> Payer {
        self.get(key).map_or(Payer::NONE, |connection| connection.payer)
    }

    /// Notes that whole packets have arrived, and returns their payer. Only whole packets show that a
    /// client is alive ([MQTT-3.1.2-22]): a part of one may be all that ever comes.
    #[inline]
    pub(crate) fn note_arrival(&mut self, now: Now, key: ConnectionKey, taken: usize) -> Option<Payer> {
        let connection = self.get_mut(key).filter(|_| taken > 0)?;
        connection.last_seen = now.monotonic;
        Some(connection.payer)
    }
}

impl Connections {
    /// The session of an open connection.
    #[inline]
    pub(crate) fn session_of(&self, key: ConnectionKey) -> Option<SessionKey> {
        let connection = self.get(key)?;
        if connection.phase == Phase::Open { connection.session } else { None }
    }
}

impl Connections {
    /// Whether a PUBREC for this packet id waits for confirmations.
    pub(crate) fn answers_pub_rec(&self, key: ConnectionKey, id: PacketId) -> bool {
        let extra = self.get(key).and_then(|connection| connection.extra.as_ref());
        extra.is_some_and(|extra| extra.acks.has_pub_rec(id))
    }
}

impl Connections {
    /// Whether a client wants reason strings ([MQTT-3.1.2-29]).
    pub(crate) fn wants_reasons(&self, key: ConnectionKey) -> bool {
        let connection = self.get(key);
        connection.is_some_and(|connection| connection.version.is_v5() && connection.problem_information)
    }
}

impl Connections {
    /// Whether a session would send the next message at once.
    pub(crate) fn have_room_for(&self, sessions: &Sessions, high_water: usize, to: SessionKey) -> bool {
        let Some(session) = sessions.get(to.0) else { return false };
        let Some(connection) = session.connection.and_then(|key| self.get(key)) else { return false };
        session.flow.as_ref().is_none_or(|flow| flow.queue.is_empty()) && connection.output_len() <= high_water / 2
    }
}
