//! Wills of clients whose session ends with their connection. The connection breaks off when the process dies, and the
//! will that the client was promised with its CONNACK is published by the restart ([MQTT-3.1.2-8]). Wills of sessions
//! that last are stored with these.

use crate::cluster::ending::SessionEnding;
use crate::durable::Journal;
use crate::session::table::Sessions;
use tidegate_mqtt::QoS;

use crate::desk::Timer;
use crate::ids::SessionKey;
use crate::now::Now;
use crate::session::{FilterList, Session, Standing, Will};
use crate::wire::WireError;

use super::keys::{Key, StoredSession};
use super::session_record::SessionRecord;

/// Whether somebody counts on a will: one with QoS 0 that is not retained may be lost like any such message.
fn is_kept(will: &Will) -> bool {
    will.message.qos != QoS::AtMostOnce || will.message.retain
}

impl Sessions {
    /// Stores the will of a session that is not stored itself, or forgets the one that is stored. A full store takes
    /// none.
    pub(crate) fn store_will(&mut self, journal: &mut Journal, key: SessionKey) {
        if !journal.is_on() {
            return;
        }
        let Some(session) = self.get_mut(key.0) else { return };
        let lasts = session.lasts() || session.is_uplink();
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

impl SessionEnding<'_> {
    /// Takes in the will of a client that was connected when the process ended: as a session that ends at once.
    pub(crate) fn restore_will(&mut self, now: Now, number: StoredSession, value: &[u8]) -> Result<(), WireError> {
        let record = SessionRecord::read(value, now)?;
        if self.desk.sessions.find_session(record.tenant, &record.client_id).is_some() {
            return Err(WireError { reading: "a client id that no other session has" });
        }
        let will = record.will.ok_or(WireError { reading: "a will" })?;
        let mut session = Session {
            client_id: record.client_id,
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: record.expiry_seconds,
            tenant: record.tenant,
            listener: record.listener,
            receive_maximum: record.receive_maximum,
            rights_epoch: 0,
            standing: Standing::Client,
            stored: None,
            identity: record.identity,
        };
        let at = now.monotonic;
        let rare = session.rare_mut();
        rare.will = Some(will);
        rare.stored_will = Some(number);
        (rare.will_due, rare.ends_at) = (Some(at), Some(at));
        let key = self.desk.insert_session(session);
        self.desk.timers.set(at, Timer::Will(key));
        self.desk.timers.set(at, Timer::SessionEnd(key));
        Ok(())
    }
}
