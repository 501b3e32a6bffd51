//! The shell brings a part of a queue from the store.

use crate::engine::facets::StoreCalls;
use crate::event::LoadedQueue;
use crate::flows::contexts::reading;
use crate::ids::{SessionKey, TenantId, partition_of};
use crate::now::Now;
use crate::records::stored::read_entry;
use crate::session::tail::{ReadFailure, Unread};

impl StoreCalls<'_> {
    /// Takes a part of a queue that [`Event::ReadQueue`](crate::Event::ReadQueue) asked for.
    pub fn handle_read(&mut self, now: Now, loaded: &LoadedQueue) {
        self.engine.state.journal.now = now;
        let Some(key) = self.engine.state.sessions.wanted_by(loaded.tenant, &loaded.client_id, loaded.session) else {
            return;
        };
        let mut taken = 0;
        for (pair_key, value) in &loaded.entries {
            match read_entry(pair_key, value, now, loaded.tenant) {
                Some(read) if read.session.0.get() == loaded.session => {
                    taken += reading!(self.engine).take_read(now.monotonic, key, read);
                }
                _ => {
                    reading!(self.engine).give_up_tail(key);
                    break;
                }
            }
        }
        if let Some(session) = self.engine.state.sessions.get_mut(key.0) {
            session.count_tail(&mut self.engine.state.memory);
        }
        self.go_on_after_read(now, key, taken);
    }

    /// A part of a queue cannot be read.
    pub fn fail_read(&mut self, now: Now, tenant: TenantId, client_id: &str, session: u64, failure: ReadFailure) {
        let Some(key) = self.engine.state.sessions.wanted_by(tenant, client_id, session) else { return };
        match failure {
            ReadFailure::Busy => reading!(self.engine).read_later(key, Unread::Busy),
            ReadFailure::Lost => reading!(self.engine).give_up_tail(key),
        }
        self.engine.after_frame(now);
    }

    fn go_on_after_read(&mut self, now: Now, key: SessionKey, taken: u64) {
        let flow = self.engine.state.sessions.get_mut(key.0).and_then(|session| session.flow.as_mut());
        let Some(tail) = flow.and_then(|flow| flow.tail.as_mut()) else { return };
        tail.loading = false;
        // Messages committed after the store had looked are not covered by this answer.
        let (left, seen) = (tail.messages, tail.seen);
        if left == 0 {
            reading!(self.engine).drop_tail(key);
        } else if taken > 0 {
            let state = &mut self.engine.state;
            if let Some(session) = state.sessions.get_mut(key.0) {
                let moves = state.moving.has(partition_of(session.tenant, &session.client_id));
                session.load_next_to_move(moves, &state.journal, &mut state.events);
            }
        } else if seen {
            // Everything is committed, and there is less than was written.
            reading!(self.engine).give_up_tail(key);
        } else {
            reading!(self.engine).read_later(key, Unread::Uncommitted);
        }
        self.engine.state.refill(now.monotonic, &mut self.engine.layouts, key);
        self.engine.after_frame(now);
    }
}
