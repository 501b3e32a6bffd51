//! The control plane's hold on a running node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tidegate_engine::{Place, Reason, ShardId, TenantId, partition_of};

use crate::access::AccessFactory;
use crate::inbox::{Admin, InboxSender, ToShard};
use crate::report::NodeReport;
use crate::tls::{PreparedTls, TlsError, TlsListeners, TlsSettings};

/// How long a shard may take to answer. It answers in its next turn, so only one that hangs or is gone takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the shards of a node from any thread. Every call waits for the answer, so asynchronous code makes it on a thread
/// that may block. Nothing is asked unless someone calls: a node that nobody looks at sleeps.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    inboxes: Arc<[InboxSender]>,
    tls: Arc<TlsListeners>,
}

/// A shard did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shard} does not answer: the node is stopping, or the shard hangs")]
pub struct NoAnswer {
    /// The shard.
    pub shard: ShardId,
}

impl NodeHandle {
    pub(crate) fn new(inboxes: Vec<InboxSender>, tls: Arc<TlsListeners>) -> Self {
        Self { inboxes: inboxes.into(), tls }
    }

    #[cfg(test)]
    pub(crate) fn inboxes(&self) -> &[InboxSender] {
        &self.inboxes
    }

    /// Puts the same request before every shard.
    pub(crate) fn tell_all(&self, mut request: impl FnMut() -> Admin) {
        for inbox in &*self.inboxes {
            inbox.send(ToShard::Admin(request()));
        }
    }

    /// Number of shards.
    pub(crate) fn shards(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// What all shards have counted and hold.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn report(&self) -> Result<NodeReport, NoAnswer> {
        // All are asked before the first is waited for, so that they answer side by side.
        let ask = |inbox: &InboxSender| {
            let (answer, answers) = channel();
            inbox.send(ToShard::Admin(Admin::Report(answer)));
            answers
        };
        let asked: Vec<_> = self.inboxes.iter().map(ask).collect();
        let mut report = NodeReport::default();
        for (shard, answers) in (0..).map(ShardId).zip(asked) {
            report.add(wait(shard, &answers)?);
        }
        Ok(report)
    }

    /// Puts other access rules in force on every shard, or none, which allows everything. What connected clients may no
    /// longer do ends in the next turns.
    ///
    /// # Errors
    /// When a shard does not answer; it puts them in force in its next turn, if it has one.
    pub fn set_access(&self, access: Option<&AccessFactory>) -> Result<(), NoAnswer> {
        let ask = |inbox: &InboxSender| {
            let (done, answers) = channel();
            inbox.send(ToShard::Admin(Admin::SetAccess { access: access.cloned(), done }));
            answers
        };
        let asked: Vec<_> = self.inboxes.iter().map(ask).collect();
        (0..).map(ShardId).zip(asked).try_for_each(|(shard, answers)| wait(shard, &answers))
    }

    /// Closes the connection of a client with a reason; an MQTT 5 client is told. Returns whether there was one.
    ///
    /// # Errors
    /// When the client's home shard does not answer.
    pub fn disconnect_client(&self, tenant: TenantId, client_id: &str, reason: Reason) -> Result<bool, NoAnswer> {
        let place = Place { shard: ShardId(0), shards: self.shards() };
        let home = place.home_of(partition_of(tenant, client_id));
        let (answer, answers) = channel();
        let inbox = self.inboxes.get(usize::from(home.0)).ok_or(NoAnswer { shard: home })?;
        inbox.send(ToShard::Admin(Admin::Disconnect { tenant, client_id: client_id.into(), reason, answer }));
        wait(home, &answers)
    }
}

impl NodeHandle {
    /// Reads the files of all TLS listeners again, for connections that begin from now on; connected clients keep what they
    /// have. Returns the number of listeners.
    ///
    /// # Errors
    /// When one file cannot be used. Then every listener keeps what it has.
    pub fn reload_tls(&self) -> Result<usize, TlsError> {
        self.tls.reload()
    }

    /// Reads and checks the files of new settings, by the position of the listener, without using them yet. Settings for
    /// a position that has no TLS listener wait for a restart.
    ///
    /// # Errors
    /// When one file cannot be used.
    pub fn prepare_tls(&self, settings: &BTreeMap<usize, TlsSettings>) -> Result<PreparedTls, TlsError> {
        self.tls.prepare(settings)
    }
}

fn wait<T>(shard: ShardId, answers: &Receiver<T>) -> Result<T, NoAnswer> {
    answers.recv_timeout(ANSWER_TIMEOUT).map_err(|_| NoAnswer { shard })
}
