//! What other threads put before a shard, and how they wake it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::Waker;
use tidegate_engine::{
    Accepted, Batch, ClientQuery, ClientSummary, ConnectionKey, DialAttempt, ListenerId, MembershipChange,
    MembershipOutcome, Millis, Partitions, Reason, Settings, ShardId, SlowSession, TenantId, Verdict,
};

use crate::access::AccessFactory;
use crate::admission::{BanTarget, Seat};
use crate::cluster::{PeerNews, RosterOrder};
use crate::durable::{QueueRead, ShardJournal};
use crate::flight::{FlightAnswer, FlightSubject};
use crate::identities::{Admitted, Door};
use crate::moves::MoveOrder;
use crate::observer::Peer;
use crate::quic::{QuicBatch, QuicNotice};
use crate::relay::NodeHomes;
use crate::report::ShardReport;
use crate::service::ServiceOrder;
use crate::shard::wake::Gate;
use crate::transport::Transport;
use crate::uplink::{Dialed, FleetOrder};

/// Something put before a shard. Batches and sockets come from other shards, the rest from the control plane.
#[derive(Debug)]
pub(crate) enum ToShard {
    /// Messages and changes of interest from another engine. Their bytes are bounded by the sender's link limit.
    Batch(Batch),
    /// A connection whose client has its home here.
    Adopt(Box<Adoption>),
    /// The answer to a request for authentication.
    Verdict { key: ConnectionKey, verdict: Verdict },
    /// A client may come in at the node of its user.
    Pass { key: ConnectionKey, door: Door, accepted: Accepted },
    /// The store has read a part of a queue, or not.
    Read(Box<QueueRead>),
    /// The store has committed all batches of this shard up to this one.
    Committed(u64),
    /// Datagrams for QUIC connections that live here, which arrived at another shard's socket.
    QuicBatch(Box<QuicBatch>),
    /// What a QUIC connection tells its socket's shard.
    QuicNotice(Box<QuicNotice>),
    /// A broker of the fleet was dialed.
    Dialed(DialAttempt, Dialed),
    /// A request of the control plane.
    Admin(Admin),
}

/// A connection on its way to its client's home.
#[derive(Debug)]
pub(crate) struct Adoption {
    /// The socket, registered with no poller, and what its transport knows.
    pub transport: Transport,
    /// The listener that it came through.
    pub listener: ListenerId,
    /// Its place among those of its address.
    pub seat: Seat,
    /// Where it comes from, as was known when it was accepted.
    pub peer: Peer,
    /// What the client has sent so far, from the first byte of its CONNECT.
    pub bytes: Vec<u8>,
    /// What was decided about the client, where that is done.
    pub admitted: Option<Admitted>,
}

/// A request of the control plane.
#[derive(Debug)]
pub(crate) enum Admin {
    /// Answer with this shard's numbers.
    Report(Sender<ShardReport>),
    /// Close the connection of a client and answer whether there was one.
    Disconnect { tenant: TenantId, client_id: Box<str>, reason: Reason, answer: Sender<bool> },
    /// Put other access rules in force, or none, and answer when they are.
    SetAccess { access: Option<AccessFactory>, done: Sender<()> },
    /// Put the limits of other settings in force, and answer when they are.
    SetLimits { settings: Arc<Settings>, done: Sender<()> },
    /// Change the groups of mobile nodes, and answer with what came of each change.
    Membership { changes: Vec<MembershipChange>, answer: Sender<Vec<MembershipOutcome>> },
    /// Answer with what is remembered about a subject.
    Why { subject: FlightSubject, answer: Sender<FlightAnswer> },
    /// Answer with the slowest clients, so many at most.
    Slow { limit: usize, answer: Sender<Vec<SlowSession>> },
    /// Answer with the clients that a query asks for, each with its address.
    Clients { query: ClientQuery, answer: Sender<Vec<(ClientSummary, Option<IpAddr>)>> },
    /// Close the connections that a ban is about and answer how many.
    Enforce { target: BanTarget, answer: Sender<u64> },
    /// End the connections of these users, and say how many there were.
    DisconnectUsers { users: Arc<BTreeSet<String>>, reason: Reason, answer: Sender<u64> },
    /// Publish no wills: another process has taken this one's place, and they are that one's.
    LeaveWills,
    /// Stop accepting, publish the wills of all clients, and report when what they cause is before the other shards.
    LastWills { sent: Sender<ShardId> },
    /// Say goodbye to every client and report when the last connection is closed.
    Stop { drained: Sender<ShardId> },
    /// Take connections: all shards have taken in what there was.
    Serve(ShardJournal),
    /// A step of moving partitions.
    Move(MoveOrder),
    /// Put another table of homes in force, or none, and answer when it is.
    Homes { homes: Option<Arc<NodeHomes>>, done: Sender<()> },
    /// Lengthen the lease on the table of homes.
    RenewLease { until: Millis },
    /// Answer with the partitions that this shard serves.
    Served(Sender<Partitions>),
    /// Put a roster of the cluster's shards in force.
    Roster(Box<RosterOrder>),
    /// Remember that another node came or went.
    PeerNews(Box<PeerNews>),
    /// Something about the fleet, for the shard that has the uplinks.
    Fleet(FleetOrder),
    /// Something that a service within the process wants.
    Service(ServiceOrder),
    /// Leave the loop and close what is left.
    Exit,
    /// Panic, so that a test sees what a failing shard does to the process.
    #[cfg(test)]
    Panic,
}

/// The sending side of a shard's inbox, or of another thread's that works like one.
#[derive(Debug)]
pub(crate) struct InboxSender<T = ToShard> {
    queue: Sender<T>,
    gate: Arc<Gate>,
    waker: Arc<Waker>,
}

impl<T> Clone for InboxSender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), gate: Arc::clone(&self.gate), waker: Arc::clone(&self.waker) }
    }
}

/// The receiving side, owned by the thread.
#[derive(Debug)]
pub(crate) struct Inbox<T = ToShard> {
    queue: Receiver<T>,
    gate: Arc<Gate>,
    /// Whether the last drain was cut off by its bound.
    more: bool,
}

/// An inbox whose owner sleeps in the poll that `waker` belongs to.
pub(crate) fn inbox<T>(waker: Waker) -> (InboxSender<T>, Inbox<T>) {
    let (sender, receiver) = channel();
    let gate = Arc::new(Gate::default());
    let sender = InboxSender { queue: sender, gate: Arc::clone(&gate), waker: Arc::new(waker) };
    (sender, Inbox { queue: receiver, gate, more: false })
}

impl<T> InboxSender<T> {
    /// Puts something before the thread and wakes it if it sleeps. What comes too late for a shard that has left its
    /// loop is dropped: its connections are closed.
    pub(crate) fn send(&self, message: T) {
        if self.queue.send(message).is_ok() {
            self.wake();
        }
    }

    /// Wakes the thread if it sleeps, for something that it finds elsewhere.
    pub(crate) fn wake(&self) {
        if self.gate.notify()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "a thread could not be woken");
        }
    }
}

impl<T> Inbox<T> {
    /// Tells senders that no wake-up is needed, right after a poll: what they put is found by [`Inbox::next`].
    pub(crate) fn awake(&mut self) {
        self.more |= self.gate.wake_up();
    }

    /// The next message; the caller bounds how many it takes per turn.
    pub(crate) fn next(&mut self) -> Option<T> {
        if !self.more {
            return None;
        }
        let message = self.queue.try_recv().ok();
        self.more = message.is_some();
        message
    }

    /// Whether something may wait.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Whether the thread may sleep: nothing waits, and who puts something from now on wakes it.
    pub(crate) fn may_sleep(&mut self) -> bool {
        !self.more && self.gate.fall_asleep()
    }
}
