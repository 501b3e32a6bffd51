//! The sessions of a shard, by their number and by their client id.

use crate::ids::Partitions;
use crate::ids::SessionKey;
use crate::ids::TenantId;
use crate::ids::hash_name;
use crate::ids::partition_of;
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::session::Session;
use crate::slab::Slab;
use hashbrown::HashTable;
use std::ops::Deref;

/// All sessions of a shard.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Slab<Session>,
    by_client: HashTable<u32>,
}

impl Deref for Sessions {
    type Target = Slab<Session>;

    #[inline]
    fn deref(&self) -> &Slab<Session> {
        &self.table
    }
}

impl Sessions {
    #[inline]
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Session> {
        self.table.get_mut(key)
    }

    /// Adds a session. The caller has made sure that its client id is new.
    pub(crate) fn insert(&mut self, session: Session) -> u32 {
        let hash = hash_name(session.tenant, &session.client_id);
        let key = self.table.insert(session);
        let table = &self.table;
        self.by_client.insert_unique(hash, key, |key| {
            table.get(*key).map_or(0, |session| hash_name(session.tenant, &session.client_id))
        });
        key
    }

    /// Takes a session out of both tables. No other session gets its key before [`Sessions::release`].
    pub(crate) fn withdraw(&mut self, key: u32) -> Option<Session> {
        let session = self.table.withdraw(key)?;
        let hash = hash_name(session.tenant, &session.client_id);
        if let Ok(entry) = self.by_client.find_entry(hash, |other| *other == key) {
            entry.remove();
        }
        Some(session)
    }

    /// Nothing refers to the key of a session that was withdrawn any more.
    pub(crate) fn release(&mut self, key: u32) {
        self.table.release(key);
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.table.shrink();
        self.table.values_mut().for_each(Session::shrink);
        let table = &self.table;
        self.by_client
            .shrink_to_fit(|key| table.get(*key).map_or(0, |session| hash_name(session.tenant, &session.client_id)));
    }

    /// The session of a client id.
    pub(crate) fn find_session(&self, tenant: TenantId, client_id: &str) -> Option<SessionKey> {
        let table = &self.table;
        self.by_client
            .find(hash_name(tenant, client_id), |key| {
                table.get(*key).is_some_and(|session| session.tenant == tenant && &*session.client_id == client_id)
            })
            .map(|key| SessionKey(*key))
    }

    /// Whether a session is that of the client whose id has this hash.
    pub(crate) fn is_named(&self, key: SessionKey, hash: u64) -> bool {
        self.get(key.0).is_some_and(|session| hash_name(session.tenant, &session.client_id) == hash)
    }

    /// Forgets a subscription in the store.
    pub(crate) fn forget_subscription(&mut self, journal: &mut Journal, key: SessionKey, filter: &str) {
        if let Some(stored) = self.get(key.0).and_then(|session| session.stored) {
            journal.delete(Key::Subscription(stored, filter));
        }
    }

    /// How many messages wait for a session, and how many it was sent and has not acknowledged.
    pub(crate) fn owed_by(&self, key: SessionKey) -> (u64, u64) {
        let flow = self.get(key.0).and_then(|session| session.flow.as_ref());
        flow.map_or((0, 0), |flow| (flow.queue.len() as u64, flow.inflight.len() as u64))
    }

    /// Whether a session outlives the process.
    pub(crate) fn is_stored(&self, key: SessionKey) -> bool {
        self.get(key.0).is_some_and(|session| session.stored.is_some())
    }
}

impl Session {
    /// Whether its client is at home in one of these partitions.
    pub(crate) fn is_of(&self, partitions: Partitions) -> bool {
        partitions.has(partition_of(self.tenant, &self.client_id))
    }
}
