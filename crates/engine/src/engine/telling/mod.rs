//! Events that were not reported.

mod clients;
mod sys;

use crate::engine::facets::ShardQuestions;

impl ShardQuestions<'_> {
    /// Dropped, denied or delayed messages of a client since its last reported one
    /// ([`LogEvent::Dropped`](crate::LogEvent::Dropped), [`LogEvent::Denied`](crate::LogEvent::Denied),
    /// [`LogEvent::Delayed`](crate::LogEvent::Delayed)); only of clients with such events lately.
    pub fn omitted(&self, client_id: &str) -> u64 {
        self.engine.state.telling.omitted(client_id)
    }
}
