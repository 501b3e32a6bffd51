//! Clients: lists of them, their recent events, bans and disconnections.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use tidegate_engine::{
    ClientQuery, ClientSummary, Reason, ShardId, ShardPosition, SlowSession, TenantId, partition_of,
};

use super::{ANSWER_TIMEOUT, NoAnswer, NodeHandle, wait_until};
use crate::admission::{Ban, BanError, BanRecord, BanTarget};
use crate::flight::{FlightAnswer, FlightSubject};
use crate::inner::Within;
use crate::orders::{Admin, ShardSender, ToShard};

/// The clients of a node. Every call waits for the shards.
#[derive(Debug)]
pub struct NodeClients<'n> {
    node: &'n NodeHandle,
}

impl NodeHandle {
    /// The calls around clients.
    pub const fn clients(&self) -> NodeClients<'_> {
        NodeClients { node: self }
    }
}

impl NodeClients<'_> {
    /// The recent events of a client, a topic or an address; with a tenant, only events of its clients.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn why(&self, subject: &FlightSubject, tenant: Option<TenantId>) -> Result<FlightAnswer, NoAnswer> {
        let mut story = FlightAnswer::default();
        for answer in self.node.ask_all(|answer| Admin::Why { subject: subject.clone(), tenant, answer })? {
            story.merge(answer);
        }
        Ok(story)
    }

    /// The clients that delay most messages, the worst first, `limit` at most: connected clients that have acknowledged
    /// nothing for long although messages wait, and clients with a full queue.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn slow_sessions(&self, limit: usize) -> Result<Vec<SlowSession>, NoAnswer> {
        let mut all: Vec<SlowSession> =
            self.node.ask_all(|answer| Admin::Slow { limit, answer })?.into_iter().flatten().collect();
        all.sort_by_key(|slow| Reverse((slow.waiting_ms, slow.queued_messages)));
        all.truncate(limit);
        Ok(all)
    }

    /// The clients that a query asks for, in the order of tenants and client ids, each with its address while it is
    /// connected. Looks at every session.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn list(&self, query: &ClientQuery) -> Result<Vec<(ClientSummary, Option<IpAddr>)>, NoAnswer> {
        let asked = self.node.ask_all(|answer| Admin::Clients { query: query.clone(), answer })?;
        let mut all: Vec<_> = asked.into_iter().flatten().collect();
        all.sort_by(|(one, _), (other, _)| (one.tenant, &one.client_id).cmp(&(other.tenant, &other.client_id)));
        all.truncate(query.limit);
        Ok(all)
    }

    /// Adds a ban, and closes the matching connections: of a client id (an MQTT 5 client receives
    /// [`Reason::AdministrativeAction`]), of an address, and of a user name while its connections are counted. Returns
    /// their number, once the ban is in the store.
    ///
    /// # Errors
    /// When the ban is refused; then no connection is closed. With [`BanError::NotKept`] it is active, but not in the
    /// store.
    pub fn ban(&self, ban: Ban) -> Result<u64, BanError> {
        let target = ban.target.clone();
        self.node.admission.ban(self.node.now(), ban)?;
        // The ban holds; a shard that does not answer in time closes its connections all the same.
        let ended = self.close_connections_of(&target);
        self.keep_bans()?;
        Ok(ended.unwrap_or_default())
    }

    /// Ends a ban; returns whether there was one, once the store knows.
    ///
    /// # Errors
    /// When it is one of the configuration. With [`BanError::NotKept`] it has ended, but not in the store.
    pub fn unban(&self, target: &BanTarget) -> Result<bool, BanError> {
        let there_was_one = self.node.admission.unban(self.node.now(), target)?;
        self.keep_bans()?;
        Ok(there_was_one)
    }

    /// Takes in a change of a ban that all nodes of a cluster share, unless a later one is known, as [`Self::ban`] and
    /// [`Self::unban`] would. Returns whether it changed anything, and how many connections were closed.
    ///
    /// # Errors
    /// As of [`Self::ban`].
    pub fn apply_ban(&self, record: BanRecord) -> Result<(bool, u64), BanError> {
        let banned = record.ban.is_some().then(|| record.target.clone());
        if !self.node.admission.apply_ban(self.node.now(), record)? {
            return Ok((false, 0));
        }
        let ended = banned.and_then(|target| self.close_connections_of(&target).ok());
        self.keep_bans()?;
        Ok((true, ended.unwrap_or_default()))
    }

    /// Closes the connections of a client, a user or an address, without a ban; says how many there were.
    ///
    /// # Errors
    /// When a shard does not answer; it closes them all the same.
    pub fn close_connections_of(&self, target: &BanTarget) -> Result<u64, NoAnswer> {
        let ended = self.node.ask_all(|answer| Admin::Enforce { target: target.clone(), answer })?;
        Ok(ended.into_iter().sum())
    }

    fn keep_bans(&self) -> Result<(), BanError> {
        if self.node.stored_bans.wait(ANSWER_TIMEOUT) { Ok(()) } else { Err(BanError::NotKept) }
    }

    /// Closes all connections with one of these user names, of all tenants, with a reason, which an MQTT 5 client
    /// receives. Returns their number.
    ///
    /// # Errors
    /// When a shard does not answer; it closes its connections in its next turn, if it has one.
    pub fn disconnect_users(&self, users: BTreeSet<String>, reason: Reason) -> Result<u64, NoAnswer> {
        let users = Arc::new(users);
        let ended = self.node.ask_all(|answer| Admin::DisconnectUsers { users: Arc::clone(&users), reason, answer })?;
        Ok(ended.into_iter().sum())
    }

    /// Closes the connection of a client with a reason, which an MQTT 5 client receives. Returns whether there was one.
    ///
    /// # Errors
    /// When the client's home shard does not answer.
    pub fn disconnect_client(&self, tenant: TenantId, client_id: &str, reason: Reason) -> Result<bool, NoAnswer> {
        let place = ShardPosition { shard: ShardId(0), shards: self.node.shards() };
        let home = place.home_of(partition_of(tenant, client_id));
        let ask = |inbox: &ShardSender| {
            let (answer, answers) = channel();
            inbox.send(ToShard::Admin(Admin::Disconnect { tenant, client_id: client_id.into(), reason, answer }));
            answers
        };
        let here = ask(self.node.inboxes.get(usize::from(home.0)).ok_or(NoAnswer { shard: home })?);
        let inner: Vec<_> = self.node.identities().map(Within::inboxes).unwrap_or_default().iter().map(ask).collect();
        let until = Instant::now() + ANSWER_TIMEOUT;
        let found = inner.iter().filter(|answers| wait_until(ShardId(0), answers, until).unwrap_or(false)).count();
        Ok(wait_until(home, &here, until)? || found > 0)
    }
}
