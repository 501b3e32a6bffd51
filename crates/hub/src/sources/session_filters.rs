//! The filters that a broker in this process keeps of a session.

use std::fmt;
use std::sync::Arc;

/// A question to the broker.
type Ask = dyn Fn(&str) -> Vec<String> + Send + Sync;

/// Finds the filters of a session by its client id.
#[derive(Clone)]
pub struct SessionFilters(Arc<Ask>);

impl SessionFilters {
    /// `ask` returns the filters of a client id at the broker. It may wait for a bounded time, and returns an empty list if
    /// the broker does not answer.
    pub fn through(ask: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// The filters of a session.
    pub(super) fn of(&self, client_id: &str) -> Vec<String> {
        (self.0)(client_id)
    }
}

impl fmt::Debug for SessionFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionFilters").finish_non_exhaustive()
    }
}
