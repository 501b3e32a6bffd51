//! The way of a client from the node that has asked who it is to the node of its user.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{Accepted, ConnectionKey, Principal, Reason, RetainedValue, ShardId, Verdict};

use crate::handle::NoAnswer;
use crate::observer::Answer;
use crate::observer::Peer;
use crate::service::inside::read_retained;
use crate::shard::facets::AcceptCalls;
use crate::shard::inbox::{Adoption, InboxSender, ToShard};
use crate::shard::table::Flags;

/// Keeps the node of a user as long as a client is on its way there.
#[derive(Debug)]
pub(crate) struct Pass;

/// The way to the node of a user.
#[derive(Clone)]
pub struct Door {
    inbox: InboxSender,
    pass: Arc<Pass>,
}

/// An admitted client.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) accepted: Accepted,
    /// The user's node has to stay until the client has a session.
    pub(crate) pass: Arc<Pass>,
}

impl Door {
    pub(super) fn new(inbox: &InboxSender, pass: &Arc<Pass>) -> Self {
        Self { inbox: inbox.clone(), pass: Arc::clone(pass) }
    }

    /// The retained message of a topic at the node of the user, for a principal, or why the principal does not get it.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn retained(
        &self,
        principal: &Principal,
        topic: &str,
    ) -> Result<Result<Option<RetainedValue>, Reason>, NoAnswer> {
        read_retained(ShardId(0), |message| self.inbox.send(message), principal, topic)
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}

impl Answer {
    /// Passes the client to the node of its user. It has no effect if the client has disconnected.
    pub fn pass_to(self, door: Door, accepted: Accepted) {
        self.shard.send(ToShard::Pass { key: self.key, door, accepted });
    }
}

impl AcceptCalls<'_> {
    /// A client was accepted: its connection goes to the node of its user.
    pub(crate) fn pass_through(&mut self, key: ConnectionKey, door: Door, accepted: Accepted) {
        self.shard.gate.forget_pending(key);
        let listener = self.shard.table.listener(key);
        let Some(bytes) = self.shard.engine.homes().leave_admitted(key) else { return };
        let peer = self.shard.table.peer(key).unwrap_or(Peer::Gone);
        let Some((flags, mut transport, seat)) = self.shard.table.remove(key) else { return };
        let deregistered =
            if flags.has(Flags::REGISTERED) { transport.deregister(self.shard.poll.registry()) } else { Ok(()) };
        if deregistered.is_err() {
            self.shard.admission().free_seat(seat);
            self.shard.shared.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            return;
        }
        self.shard.counters.handed_over += 1;
        let Door { inbox, pass } = door;
        let admitted = Some(Admitted { accepted, pass });
        inbox.send(ToShard::Adopt(Box::new(Adoption {
            transport,
            listener,
            seat,
            peer,
            bytes,
            admitted,
            continued: None,
        })));
    }

    /// The verdict for the client whose CONNECT is being processed, from the node that accepted its connection.
    pub(crate) fn take_admitted(&mut self) -> Option<Verdict> {
        self.shard.admitting.take().map(Verdict::Accept)
    }
}
