//! The running sums of an engine are checked against sums over all items.

use crate::audit::Findings;
use crate::audit::checks::auditing;
use crate::engine::Engine;
use crate::ids::SessionKey;

impl Engine {
    /// Compares everything that is kept as a running sum, or in two places, with what it stands for, and looks for
    /// those who wait for nothing; returns what is wrong. For tests, between two calls of the engine: it looks at all
    /// there is.
    pub fn audit(&self) -> Vec<String> {
        let mut found = Findings::default();
        auditing!(self).audit_sums(&mut found);
        auditing!(self).audit_timers(&mut found);
        self.fetches.audit(&self.state, &mut |what| found.0.push(what));
        for (key, connection) in self.state.connections.iter() {
            auditing!(self).audit_connection(&mut found, key, connection);
        }
        for (key, session) in self.state.sessions.iter() {
            auditing!(self).audit_session(&mut found, SessionKey(key), session);
            auditing!(self).audit_flow(&mut found, SessionKey(key), session);
        }
        self.groups.audit((self.place.shard, &self.links.roster), &self.state, &mut |what| found.0.push(what));
        self.endings.audit(&mut |what| found.0.push(what));
        self.state.tenants.audit(&self.state.sessions, &mut |what| found.0.push(what));
        self.retained.values.audit(&mut |what| found.0.push(what));
        self.admissions.audit(&self.state, self.links.roster.is_alone(), &mut |what| found.0.push(what));
        self.observers.audit(&mut |what| found.0.push(what));
        self.principals.audit(&self.state.connections, &mut |what| found.0.push(what));
        found.0
    }
}
