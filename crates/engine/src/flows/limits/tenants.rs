//! Connections and sessions of a tenant are counted against its quota.

use crate::connection::Connection;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::Connecting;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::settings::Holding;

impl Connecting<'_> {
    /// The tenant of a client: the preset one, else its user's, else its listener's.
    pub(crate) fn find_tenant(&mut self, key: ConnectionKey, user_name: Option<&str>) -> TenantId {
        let Some(connection) = self.state.connections.get_mut(key) else { return TenantId::DEFAULT };
        let settled = connection.extra.as_ref().and_then(|extra| extra.preset.as_ref()?.settled);
        let of_user = || self.state.settings.tenants.as_ref()?.of_user(connection.tenant, user_name?);
        if let Some(tenant) = settled.or_else(of_user) {
            connection.tenant = tenant;
        }
        connection.tenant
    }

    /// Reserves a connection and a session in the quota of a tenant, until `return_places`. Meanwhile no other shard
    /// gets them, and the client and its session are counted. A client that takes over its own connection or session is
    /// let in at the limit, as are a connection that the broker itself has opened, and a session that `is_passing`: its
    /// listener does not count it after CONNACK.
    pub(crate) fn take_places(
        &mut self,
        key: ConnectionKey,
        tenant: TenantId,
        existing: Option<SessionKey>,
        is_passing: bool,
    ) -> Result<(), Refused> {
        let is_own = self.is_own(key);
        let session = existing.and_then(|session| self.state.sessions.get(session.0));
        let connected = session.is_some_and(|session| session.connection.is_some());
        let uses = &mut self.state.tenants;
        if connected || is_own {
            uses.add(tenant, Holding::Connections);
        } else if !uses.claim(tenant, Holding::Connections) {
            return Err(Refused::new(Reason::TenantConnections, ""));
        }
        if existing.is_some() || is_own || is_passing {
            uses.add(tenant, Holding::Sessions);
        } else if !uses.claim(tenant, Holding::Sessions) {
            uses.release(tenant, Holding::Connections, 1);
            return Err(Refused::new(Reason::TenantSessions, ""));
        }
        Ok(())
    }

    /// Whether the broker itself has opened a connection.
    pub(crate) fn is_own(&self, key: ConnectionKey) -> bool {
        self.state.connections.get(key).is_some_and(Connection::is_own)
    }

    /// Counts a client and its session that were admitted before, until `return_places`.
    pub(crate) fn add_places(&mut self, tenant: TenantId) {
        self.state.tenants.add(tenant, Holding::Connections);
        self.state.tenants.add(tenant, Holding::Sessions);
    }

    /// Gives back the places of `take_places` or `add_places`.
    pub(crate) fn return_places(&mut self, tenant: TenantId) {
        self.state.tenants.release(tenant, Holding::Connections, 1);
        self.state.tenants.release(tenant, Holding::Sessions, 1);
    }
}
