//! Wills of clients whose session ends with their connection. The connection breaks off when the process dies, and the
//! will that the client was promised with its CONNACK is published by the restart ([MQTT-3.1.2-8]). Wills of sessions
//! that last are stored with these.

use super::session_record::SessionRecord;
use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::memory::MemoryUse;
use crate::session::Will;
use crate::session::table::Sessions;
use tidegate_mqtt::QoS;

/// True if a will must not be lost: one with QoS 0 that is not retained may be lost like any such message.
fn is_kept(will: &Will) -> bool {
    will.message.qos != QoS::AtMostOnce || will.message.retain
}

impl Sessions {
    /// Stores the will of a session that is not stored itself, or deletes the stored will. A full store takes
    /// none.
    pub(crate) fn store_will(&mut self, journal: &mut Journal, key: SessionKey) {
        if !journal.is_on() {
            return;
        }
        let Some(session) = self.get_mut(key.0) else { return };
        // One that reads its queue from the store is stored, too, although it does not last.
        let lasts = session.lasts() || session.is_broker_link() || session.stored.is_some();
        let Some(rare) = session.rare.as_mut() else { return };
        let kept = !lasts && !journal.full && rare.will.as_ref().is_some_and(is_kept);
        if !kept {
            if let Some(stored) = rare.stored_will.take() {
                journal.delete(Key::Will(stored));
            }
            return;
        }
        let stored = *rare.stored_will.get_or_insert_with(|| journal.new_session());
        let now = journal.now;
        journal.put(Key::Will(stored), |out| SessionRecord::write_session(out, now, session));
    }
}

impl Sessions {
    /// Gives a session a will instead of the one it has, and returns that.
    pub(crate) fn replace_will(
        &mut self,
        memory: &mut MemoryUse,
        journal: &mut Journal,
        key: SessionKey,
        will: Option<Will>,
    ) -> Option<Will> {
        let session = self.get_mut(key.0)?;
        if will.is_none() && session.rare.is_none() {
            return None;
        }
        memory.held += will.as_ref().map_or(0, Will::cost);
        let before = std::mem::replace(&mut session.rare_mut().will, will);
        memory.held -= before.as_ref().map_or(0, Will::cost);
        self.store_will(journal, key);
        before
    }
}
