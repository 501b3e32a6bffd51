//! The running sums of an engine are checked against sums over all items.

use crate::audit::Findings;
use crate::audit::checks::auditing;
use crate::engine::facets::ShardQuestions;
use crate::ids::SessionKey;

impl ShardQuestions<'_> {
    /// Compares every running sum, and everything that is kept in two places, with its source, and looks for waiters
    /// that no owner will release; returns the faults. For tests, between two calls of the engine: it looks at the
    /// whole state.
    pub fn audit(&self) -> Vec<String> {
        let mut found = Findings::default();
        auditing!(self.engine).audit_sums(&mut found);
        auditing!(self.engine).audit_timers(&mut found);
        self.engine.retaining.fetches.audit(&self.engine.state, &mut |fault| found.0.push(fault));
        for (key, connection) in self.engine.state.connections.iter() {
            auditing!(self.engine).audit_connection(&mut found, key, connection);
        }
        for (key, session) in self.engine.state.sessions.iter() {
            auditing!(self.engine).audit_session(&mut found, SessionKey(key), session);
            auditing!(self.engine).audit_flow(&mut found, SessionKey(key), session);
        }
        self.engine.groups.audit(
            (self.engine.place.shard, &self.engine.links.roster),
            &self.engine.state,
            &mut |fault| found.0.push(fault),
        );
        self.engine.endings.audit(&mut |fault| found.0.push(fault));
        self.engine.state.tenants.audit(&self.engine.state.sessions, &mut |fault| found.0.push(fault));
        self.engine.retaining.store.values.audit(&mut |fault| found.0.push(fault));
        self.engine
            .admissions
            .audit(&self.engine.state, self.engine.links.roster.count() == 1, &mut |fault| found.0.push(fault));
        self.engine.services.observers.audit(&mut |fault| found.0.push(fault));
        self.engine.services.principals.audit(&self.engine.state.connections, &mut |fault| found.0.push(fault));
        found.0
    }
}
