//! The way of a client from the node that has asked who it is to the node of its user.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::Accepted;

use super::ShardSender;

/// Keeps the node of a user as long as a client is on its way there.
#[derive(Debug)]
pub(crate) struct Pass;

/// The way to the node of a user.
#[derive(Clone)]
pub struct Door {
    inbox: ShardSender,
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
    /// To the only shard of a node.
    pub(crate) fn new(inbox: &ShardSender, pass: &Arc<Pass>) -> Self {
        Self { inbox: inbox.clone(), pass: Arc::clone(pass) }
    }

    /// The inbox of that shard.
    pub(crate) fn inbox(&self) -> &ShardSender {
        &self.inbox
    }

    /// The inbox, and the pass of a client that takes this way.
    pub(crate) fn into_parts(self) -> (ShardSender, Arc<Pass>) {
        (self.inbox, self.pass)
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}
