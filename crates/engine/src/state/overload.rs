//! Publishers wait while the shard holds too much memory.

use crate::event::Delay;
use crate::ids::SessionKey;
use crate::session::{BlockedPublisher, Session};
use crate::state::ShardState;

impl ShardState {
    /// A message was queued: above the mark, an eighth below the ceiling, its publisher waits, if there is a client
    /// that may empty the queue. What waiting publishers have sent does not count: it goes when they may go on.
    #[inline]
    pub(crate) fn note_queued(&mut self, to: SessionKey, publisher: Option<BlockedPublisher>) {
        let ceiling = self.settings.limits.memory_ceiling;
        if ceiling != 0 && self.memory.taken() - self.memory.input_bytes > ceiling - ceiling / 8 {
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
}
