//! The consequences of a packet or a batch for other connections.

use crate::engine::Engine;
use crate::engine::facets::ShardQuestions;
use crate::flows::contexts::ending;
use crate::flows::contexts::parking;
use crate::flows::contexts::publishing;
use crate::now::Now;
use crate::publish::dead_letter::DeadLetters;
use crate::state::pub_acks::Gathered;

impl Engine {
    /// Handles the consequences of a packet or a batch for other connections: queues that filled or emptied, and
    /// connections that a policy closes.
    #[inline]
    pub(crate) fn after_frame(&mut self, now: Now) {
        if self.questions().has_consequences() {
            self.work_off(now);
        }
    }

    #[cold]
    fn work_off(&mut self, now: Now) {
        if self.groups.kept.has_done() {
            self.groups.tell_dealt(&mut self.state, &mut self.links);
        }
        Gathered(&mut self.state).write();
        // A publisher waits from its next packet on, also when that packet is a parked one.
        while let Some(publisher) = self.state.to_park.pop() {
            parking!(self).park_publisher(now, publisher);
        }
        // One consequence may cause others. The outermost call handles them all, so that calls do not nest.
        if std::mem::replace(&mut self.working_off, true) {
            return;
        }
        loop {
            if let Some(publisher) = self.state.to_park.pop() {
                parking!(self).park_publisher(now, publisher);
            } else if let Some((key, reason, detail)) = self.state.to_close.pop() {
                self.close_connection(now, key, reason, detail);
            } else if let Some(session) = self.state.to_refill.pop() {
                self.state.refill(now.monotonic, &mut self.layouts, session);
            } else if let Some(session) = self.state.needs_fetch.pop() {
                self.retaining.fetches.wake(&self.state, session);
            } else if let Some(publisher) = self.state.to_unpark.pop() {
                self.waiting().unpark_publisher(now, publisher);
            } else if self.state.overload.has_memory_again(&self.state.memory) {
                let waiting = std::mem::take(&mut self.state.overload).waiting;
                self.state.to_unpark.extend(waiting);
            } else if let Some(session) = self.state.has_capacity.pop() {
                let online = self.state.sessions.get(session.0).is_some_and(|session| session.connection.is_some());
                self.groups.announce_presence(&self.state, &mut self.links, session, online);
            } else if !ending!(self).publish_receipt(now) && !publishing!(self).publish_dead_letter(now) {
                break;
            }
        }
        self.working_off = false;
    }
}

impl ShardQuestions<'_> {
    /// Whether the packets so far have consequences for other connections that are not handled yet.
    #[inline]
    pub(crate) fn has_consequences(self) -> bool {
        let state = &self.engine.state;
        // One comparison in place of six: this runs for each packet.
        let caused = state.to_park.len()
            | state.to_unpark.len()
            | state.to_refill.len()
            | state.to_close.len()
            | state.needs_fetch.len()
            | state.has_capacity.len();
        caused != 0
            || self.engine.groups.kept.has_done()
            || !state.receipts.is_empty()
            || state.dead_letters.as_ref().is_some_and(DeadLetters::has_waiting)
            || state.overload.has_memory_again(&state.memory)
    }
}
