//! Publishers wait while the shard holds too much memory.

use crate::desk::Desk;
use crate::event::Delay;
use crate::ids::SessionKey;
use crate::limits::overload::Overload;
use crate::session::{BlockedPublisher, Session};

impl Desk {
    /// A message was queued: above the mark, an eighth below the ceiling, its publisher waits, if there is a client
    /// that may empty the queue. What waiting publishers have sent does not count: it goes when they may go on.
    #[inline]
    pub(crate) fn note_queued(&mut self, to: SessionKey, publisher: Option<BlockedPublisher>) {
        let ceiling = self.settings.limits.memory_ceiling;
        if ceiling != 0 && self.memory.held - self.memory.input_bytes > ceiling - ceiling / 8 {
            self.hold_publisher(to, publisher);
        }
    }

    #[cold]
    fn hold_publisher(&mut self, to: SessionKey, publisher: Option<BlockedPublisher>) {
        let takes = |session: &Session| session.connection.is_some();
        let held = !self.overload.given_up && self.sessions.get(to.0).is_some_and(takes);
        let Some(publisher) = publisher.filter(|_| held) else { return };
        if self.overload.waiting.insert(publisher) {
            self.to_park.push(publisher);
            if publisher.shard == self.shard {
                self.reports().tell_delayed(Delay::Memory, publisher.connection);
            }
        }
    }

    /// Whether those who wait for memory may go on: a quarter below the ceiling.
    #[inline]
    pub(crate) fn has_memory_again(&self) -> bool {
        let Overload { waiting, given_up } = &self.overload;
        let held = self.memory.held - self.memory.input_bytes;
        (*given_up || !waiting.is_empty()) && held <= self.settings.limits.memory_ceiling / 4 * 3
    }

    /// Lets those go on who waited for memory.
    pub(crate) fn release_for_memory(&mut self) {
        let waiting = std::mem::take(&mut self.overload).waiting;
        self.to_unpark.extend(waiting);
    }
}
