//! Events of single messages, for operators who look for one of them: a bounded number, the rest is counted.

pub(crate) mod clients;
pub(crate) mod counters;
pub(crate) mod outcome;
pub(crate) mod reason;
pub(crate) mod refused;
pub(crate) mod sums;

use crate::ids::{ConnectionKey, TenantId, hash_name};
use crate::now::Millis;
use std::collections::BTreeMap;

/// Reported events of messages per client and second; the next reported event has the number of omitted ones.
pub(crate) const EVENTS_PER_CLIENT: u32 = 10;

/// Events of messages reported per second of all clients of a shard.
const EVENTS_PER_SHARD: u32 = 200;

/// Clients with a count of omitted events. Events of further clients are omitted until the second is over.
const CLIENTS: usize = 1024;

/// The reported events of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    second: u64,
    told: u32,
    /// Events omitted since the last reported one.
    omitted: u64,
}

/// The bound on reported events.
#[derive(Debug, Default)]
pub(crate) struct EventLimit {
    second: u64,
    told: u32,
    /// By the hash of the client id, and the tenant.
    clients: BTreeMap<(u64, TenantId), Tally>,
    /// Names of principals, which have no session that has one.
    pub(crate) principals: BTreeMap<ConnectionKey, Box<str>>,
}

impl EventLimit {
    /// A principal has this name.
    pub(crate) fn name_principal(&mut self, key: ConnectionKey, name: &str) {
        self.principals.insert(key, name.into());
    }

    /// A principal is gone.
    pub(crate) fn forget_principal(&mut self, key: ConnectionKey) {
        self.principals.remove(&key);
    }

    /// Counts an event of a client; returns the number of omitted events before it, or `None` if this one is omitted.
    pub(crate) fn take(&mut self, now: Millis, tenant: TenantId, client_id: &str) -> Option<u64> {
        let second = now.0 / 1000;
        if self.second != second {
            self.second = second;
            self.told = 0;
        }
        let name = (name_of(client_id), tenant);
        if self.clients.len() >= CLIENTS && !self.clients.contains_key(&name) {
            self.clients.retain(|_, tally| tally.second == second);
            if self.clients.len() >= CLIENTS {
                return None;
            }
        }
        let tally = self.clients.entry(name).or_default();
        if tally.second != second {
            *tally = Tally { second, told: 0, ..*tally };
        }
        if tally.told >= EVENTS_PER_CLIENT || self.told >= EVENTS_PER_SHARD {
            tally.omitted += 1;
            return None;
        }
        tally.told += 1;
        self.told += 1;
        Some(std::mem::take(&mut tally.omitted))
    }

    /// The number of omitted events of a client since its last reported one; of that client id in all tenants without
    /// a tenant.
    pub(crate) fn omitted(&self, tenant: Option<TenantId>, client_id: &str) -> u64 {
        let name = name_of(client_id);
        let (first, last) = (tenant.unwrap_or(TenantId(0)), tenant.unwrap_or(TenantId(u16::MAX)));
        self.clients.range((name, first)..=(name, last)).map(|(_, tally)| tally.omitted).sum()
    }
}

/// A query for a client may name its id alone.
fn name_of(client_id: &str) -> u64 {
    hash_name(TenantId::DEFAULT, client_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_client_are_bounded_per_second() {
        let mut event_limit = EventLimit::default();
        let told = (0..100).filter(|_| event_limit.take(Millis(1500), TenantId::DEFAULT, "a").is_some()).count();
        assert_eq!((told, event_limit.omitted(None, "a")), (EVENTS_PER_CLIENT as usize, 90));
        assert_eq!(event_limit.take(Millis(1999), TenantId::DEFAULT, "b"), Some(0), "others have their own share");
        assert_eq!(event_limit.take(Millis(2000), TenantId::DEFAULT, "a"), Some(90));
        assert_eq!(
            (event_limit.omitted(None, "a"), event_limit.omitted(None, "b"), event_limit.omitted(None, "c")),
            (0, 0, 0)
        );
    }

    #[test]
    fn events_of_one_client_id_are_counted_by_tenant() {
        let mut event_limit = EventLimit::default();
        for _ in 0..=EVENTS_PER_CLIENT {
            event_limit.take(Millis(0), TenantId(1), "a");
        }
        assert_eq!(
            event_limit.take(Millis(0), TenantId(2), "a"),
            Some(0),
            "the other tenant has its own share of events"
        );
        let omitted = |tenant| event_limit.omitted(tenant, "a");
        assert_eq!((omitted(Some(TenantId(1))), omitted(Some(TenantId(2))), omitted(None)), (1, 0, 1));
    }

    #[test]
    fn events_of_all_clients_are_bounded_per_second() {
        let mut event_limit = EventLimit::default();
        let name = |n: usize| format!("c{n}");
        let told = (0..10_000).filter(|n| event_limit.take(Millis(0), TenantId::DEFAULT, &name(*n)).is_some()).count();
        assert_eq!(told, EVENTS_PER_SHARD as usize);
        assert_eq!((event_limit.clients.len(), event_limit.omitted(None, &name(CLIENTS - 1))), (CLIENTS, 1));
        assert_eq!(
            event_limit.take(Millis(1000), TenantId::DEFAULT, "new"),
            Some(0),
            "clients of the last second make room"
        );
        assert_eq!(event_limit.clients.len(), 1);
    }
}
