//! Wills are restored.

use crate::durable::session_record::SessionRecord;
use crate::flows::contexts::SessionEnding;
use crate::journal::keys::{Key, StoredSession};
use crate::now::Now;
use crate::session::{FilterList, Session, Standing};
use crate::timers::Timer;
use crate::wire::WireError;

impl SessionEnding<'_> {
    /// Takes in the will of a client that was connected when the process ended: as a session that ends at once.
    pub(crate) fn restore_will(&mut self, now: Now, number: StoredSession, value: &[u8]) -> Result<(), WireError> {
        let record = SessionRecord::read(value, now)?;
        if let Some(key) = self.state.sessions.find_session(record.tenant, &record.client_id) {
            let stored = self.state.sessions.get(key.0).and_then(|session| session.stored);
            stored.ok_or(WireError { reading: "a client id that no other session has" })?;
            // Earlier programs stored the will of a mobile node with its session, and alone.
            self.state.journal.delete(Key::Will(number));
            return Ok(());
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
        let key = self.state.insert_session(session);
        self.state.timers.set(at, Timer::Will(key));
        self.state.timers.set(at, Timer::SessionEnd(key));
        Ok(())
    }
}
