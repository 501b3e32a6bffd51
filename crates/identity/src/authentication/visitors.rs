//! Clients over HTTP and CoAP: their rights are also asked for outside their sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_engine::{Accepted, Identity, TenantId};
use tidegate_node::Door;

/// Clients over HTTP and CoAP, by their client ids, which no other client has; with their tenant and identity
/// once the broker has let them in.
#[derive(Clone, Debug, Default)]
pub struct Visitors(Arc<Mutex<HashMap<String, Option<Visitor>>>>);

/// A client over HTTP or CoAP that the broker has let in.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its user name and role; `None` for an anonymous client.
    pub identity: Option<Identity>,
    /// The way to the node of its user, where each user has one.
    pub door: Option<Door>,
}

impl Visitors {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Option<Visitor>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is about to connect.
    pub fn expect(&self, client_id: &str) {
        self.all().insert(client_id.to_owned(), None);
    }

    /// A client has disconnected.
    pub fn forget(&self, client_id: &str) {
        self.all().remove(client_id);
    }

    /// A client that this process has let in.
    pub fn get(&self, client_id: &str) -> Option<Visitor> {
        self.all().get(client_id).cloned().flatten()
    }

    /// Remembers an accepted client, if it is expected: other clients connect over MQTT.
    pub fn note(&self, client_id: &str, tenant: TenantId, accepted: &Accepted, door: Option<&Door>) {
        if let Some(place) = self.all().get_mut(client_id) {
            *place = Some(Visitor { tenant, identity: accepted.identity.as_deref().cloned(), door: door.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_over_http_are_noted_until_they_leave() {
        let visitors = Visitors::default();
        visitors.expect("http-1");
        assert!(visitors.get("http-1").is_none(), "it is not let in yet");
        let identity = Identity { user_name: Some("ann".to_owned()), ..Identity::default() };
        let accepted = Accepted { identity: Some(Arc::new(identity)), ..Accepted::default() };
        for client_id in ["http-1", "mqtt"] {
            visitors.note(client_id, TenantId(2), &accepted, None);
        }
        let noted = visitors.get("http-1").unwrap();
        assert_eq!((noted.tenant, noted.identity), (TenantId(2), accepted.identity.as_deref().cloned()));
        assert!(visitors.get("mqtt").is_none());
        visitors.forget("http-1");
        assert!(visitors.get("http-1").is_none());
    }
}
