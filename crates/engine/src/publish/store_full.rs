//! While the store has no room: only what would have to be stored is refused.

use tidegate_mqtt::{QoS, RawPublish};

use crate::engine::Engine;
use crate::event::Attempt;
use crate::ids::{ConnectionKey, SessionKey};
use crate::message::Publication;
use crate::now::Now;
use crate::publish::admission::Wanted;
use crate::telling::reason::Reason;
use crate::topics::RouteSlot;

impl Engine {
    /// Whether the store would have to take a PUBLISH above QoS 0 in, as far as this shard knows: as a retained value,
    /// for a session that lasts, or to remember that its publisher has sent it.
    pub(super) fn has_to_be_stored(
        &self,
        session: SessionKey,
        slot: RouteSlot,
        publication: &Publication<'_>,
        raw: &RawPublish<'_>,
    ) -> bool {
        if raw.retain && !raw.payload.is_empty() {
            return true;
        }
        (raw.qos == QoS::ExactlyOnce && self.desk.sessions.is_stored(session))
            || self.has_to_be_stored_for_receivers(slot, &Wanted::of(publication))
    }

    /// Whether a receiver of this shard would have a message stored. Of members of a shared group that are on other
    /// shards it is not known, and what is dealt to them is stored on its way: they count as such.
    pub(crate) fn has_to_be_stored_for_receivers(&self, slot: RouteSlot, wanted: &Wanted<'_>) -> bool {
        if wanted.qos == QoS::AtMostOnce {
            return false;
        }
        let (_, route) = self.cache.get(slot);
        let mut targets = route.targets().iter().filter(|target| target.qos() != QoS::AtMostOnce);
        targets.any(|target| self.desk.sessions.is_stored(target.session))
            || route.groups().iter().any(|group| {
                let mut members = self.groups.members(*group);
                members.any(|(shard, session)| {
                    shard != self.place.shard || self.desk.sessions.is_stored(SessionKey(session))
                })
            })
    }

    /// The store has no room for what a message has to be kept as. An MQTT 5 publisher is told; another one could only
    /// be told that all is well, so its connection ends, and it has the message still.
    #[cold]
    pub(super) fn refuse_for_full_store(&mut self, now: Now, key: ConnectionKey, topic: &str, raw: &RawPublish<'_>) {
        self.desk.counters.drop_message(Reason::StoreFull);
        if let Some(session) = self.desk.session_of(key) {
            self.desk.tell_denied(Attempt::Publish, session, topic, Reason::StoreFull);
        }
        let Some(connection) = self.desk.connections.get(key) else { return };
        if !connection.version.is_v5() && raw.packet_id.is_some() {
            self.close_connection(now, key, Reason::StoreFull, None);
            return;
        }
        let mark = self.desk.journal.mark();
        self.answer_publish(now, key, raw, Err(Reason::StoreFull), 0, mark);
    }
}
