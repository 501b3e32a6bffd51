//! The publisher waits for a pipeline, though its queue has room.

use crate::connection::Connection;
use crate::session::overflow::Arriving;
use crate::session::pace::PACED_MS;
use crate::settings::overflow::Bounds;
use crate::state::overflow::FullQueue;
use crate::timers::Timer;

impl FullQueue<'_> {
    /// A message enters the queue. If that is long and belongs to a pipeline, the publisher waits with its next one.
    pub(super) fn pace(&mut self) {
        let Arriving { to, publisher, bounds, .. } = *self.arriving;
        let Some(session) = self.state.sessions.get_mut(to.0) else { return };
        let connection = session.connection.and_then(|key| self.state.connections.get(key));
        let is_of_hub = connection.is_some_and(Connection::is_of_hub);
        let Some(flow) = session.flow.as_mut().filter(|_| is_of_hub) else { return };
        let waiting = flow.waiting().0;
        let is_free = flow.pace.holds() || flow.full_at.is_none() && !flow.block_given_up;
        let Some(publisher) = publisher.filter(|_| is_free && flow.pace.is_due(self.now, waiting)) else { return };
        if !flow.pace.holds() {
            flow.full_at = Some(Bounds { max_messages: flow.pace.begin(self.now, waiting), ..bounds });
        }
        if flow.blocking.contains(&publisher) {
            return;
        }
        flow.blocking.push(publisher);
        self.state.blockers.insert(to.0);
        self.state.to_park.push(publisher);
        if self.state.pace_timer.is_none() {
            let at = self.now.plus(PACED_MS);
            self.state.pace_timer = Some(at);
            self.state.timers.set(at, Timer::Pace);
        }
    }
}
