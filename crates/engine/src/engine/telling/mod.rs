//! Events that were not reported.

mod clients;
mod sys;

use crate::engine::facets::ShardQuestions;

impl ShardQuestions<'_> {
    /// How many messages of a client were dropped, denied or delayed since the last of which that was told
    /// ([`LogEvent::Dropped`](crate::LogEvent::Dropped), [`LogEvent::Denied`](crate::LogEvent::Denied), [`LogEvent::Delayed`](crate::LogEvent::Delayed)); only of clients that this happened to
    /// lately.
    pub fn untold(&self, client_id: &str) -> u64 {
        self.engine.state.telling.untold(client_id)
    }
}
