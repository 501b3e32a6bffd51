//! What a packet or a batch has caused beyond its own connection.

use crate::engine::Engine;
use crate::flows::connection::parking::parking;
use crate::flows::publish::publishing::publishing;
use crate::now::Now;

impl Engine {
    /// Works off what a packet or a batch has caused beyond its own connection: queues that filled or emptied, and
    /// connections that a policy closes.
    #[inline]
    pub(crate) fn after_frame(&mut self, now: Now) {
        self.groups.tell_dealt(&mut self.desk, &mut self.links);
        let desk = &self.desk;
        // One comparison in place of six: this runs for each packet.
        let caused = desk.to_park.len()
            | desk.to_unpark.len()
            | desk.to_refill.len()
            | desk.to_close.len()
            | desk.hungry.len()
            | desk.roomy.len();
        if caused == 0 && desk.receipts.is_empty() && !desk.has_dead_letters() && !desk.has_memory_again() {
            return;
        }
        self.work_off(now);
    }

    #[cold]
    fn work_off(&mut self, now: Now) {
        // Whoever has to wait does so from the next packet on, also among packets that had waited themselves.
        while let Some(publisher) = self.desk.to_park.pop() {
            parking!(self).park_publisher(now, publisher);
        }
        // What is worked off may cause more of the same; the outermost call takes it all, so that nothing nests.
        if std::mem::replace(&mut self.working_off, true) {
            return;
        }
        loop {
            if let Some(publisher) = self.desk.to_park.pop() {
                parking!(self).park_publisher(now, publisher);
            } else if let Some((key, reason, detail)) = self.desk.to_close.pop() {
                self.close_connection(now, key, reason, detail);
            } else if let Some(session) = self.desk.to_refill.pop() {
                self.desk.refill(now.monotonic, &mut self.layouts, session);
            } else if let Some(session) = self.desk.hungry.pop() {
                self.fetches.wake(&self.desk, session);
            } else if let Some(publisher) = self.desk.to_unpark.pop() {
                self.unpark_publisher(now, publisher);
            } else if self.desk.has_memory_again() {
                self.desk.release_for_memory();
            } else if let Some(session) = self.desk.roomy.pop() {
                let online = self.desk.sessions.get(session.0).is_some_and(|session| session.connection.is_some());
                self.groups.announce_presence(&self.desk, &mut self.links, session, online);
            } else if !publishing!(self).publish_receipt(now) && !publishing!(self).publish_dead_letter(now) {
                break;
            }
        }
        self.working_off = false;
    }
}
