//! Events that were not reported.

mod clients;
mod sys;

use crate::engine::facets::ShardQuestions;
use crate::ids::TenantId;

impl ShardQuestions<'_> {
    /// Dropped, denied or delayed messages of a client since its last reported one
    /// ([`LogEvent::Dropped`](crate::LogEvent::Dropped), [`LogEvent::Denied`](crate::LogEvent::Denied),
    /// [`LogEvent::Delayed`](crate::LogEvent::Delayed)); only of clients with such events lately.
    /// Without a tenant, of this client id in all tenants.
    pub fn omitted(&self, tenant: Option<TenantId>, client_id: &str) -> u64 {
        self.engine.state.event_limit.omitted(tenant, client_id)
    }
}
