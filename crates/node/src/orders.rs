//! The messages of other threads to a shard.

mod door;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_engine::{
    Accepted, AuthOutcome, Batch, ClientQuery, ClientSummary, ConnectionKey, DialAttempt, ListenerId, MembershipChange,
    MembershipOutcome, Millis, Partitions, Reason, Settings, ShardId, SlowSession, TenantId,
};

use crate::access::AccessFactory;
use crate::admission::{BanTarget, Seat};
use crate::broker_link::{Dialed, FleetOrder};
use crate::cluster::{PeerNews, RosterOrder, SharedLinks};
use crate::durable::{QueueRead, ShardJournal};
use crate::flight::{FlightAnswer, FlightSubject};
use crate::inbox::{Inbox, InboxSender};
use crate::moves::MoveOrder;
use crate::peer::Peer;
use crate::quic::{QuicBatch, QuicNotice};
use crate::relay::frame::Parcel;
use crate::relay::{ClientOrigin, Detours, NodeHomes, Search};
use crate::report::ShardReport;
use crate::service::ServiceOrder;
use crate::transport::Transport;

pub use self::door::Door;
pub(crate) use self::door::{Admitted, Pass};

/// The sending side of a shard's inbox.
pub(crate) type ShardSender = InboxSender<ToShard>;

/// The receiving side of a shard's inbox.
pub(crate) type ShardInbox = Inbox<ToShard>;

/// A message to a shard. Batches and sockets come from other shards, the rest from the control plane.
#[derive(Debug)]
pub(crate) enum ToShard {
    /// Messages and changes of interest from another engine. Their bytes are bounded by the sender's link limit.
    Batch(Batch),
    /// A connection of a client whose home is here.
    Adopt(Box<Adoption>),
    /// The answer to a request for authentication.
    AuthOutcome { key: ConnectionKey, outcome: AuthOutcome },
    /// A client may come in at the node of its user.
    Pass { key: ConnectionKey, door: Door, accepted: Accepted },
    /// The store has read a part of a queue, or not.
    Read(Box<QueueRead>),
    /// The store has committed all batches of this shard up to this one.
    Committed(u64),
    /// Datagrams for QUIC connections that live here, which arrived at another shard's socket.
    #[cfg_attr(not(feature = "quic"), expect(dead_code, reason = "there are no QUIC connections without the feature"))]
    QuicBatch(Box<QuicBatch>),
    /// Events of a QUIC connection for the shard of its socket.
    QuicNotice(Box<QuicNotice>),
    /// A broker of the fleet was dialed.
    Dialed(DialAttempt, Dialed),
    /// The links to other nodes, for the shard to work.
    WorkLinks(Arc<SharedLinks>),
    /// A request of the control plane.
    Admin(Admin),
}

/// A connection on its way to its client's home.
#[derive(Debug)]
pub(crate) struct Adoption {
    /// The socket, not registered with a poller, and the state of its transport.
    pub transport: Transport,
    /// The listener of the connection.
    pub listener: ListenerId,
    /// Its slot in the count of its address.
    pub seat: Seat,
    /// Its origin, as known when it was accepted.
    pub peer: Peer,
    /// The client's bytes so far, from the first byte of its CONNECT.
    pub bytes: Vec<u8>,
    /// The outcome for the client, if there is one.
    pub admitted: Option<Admitted>,
    /// Its image, where it continues here, until when that may take, and how it has come to this node.
    pub continued: Option<(Parcel, Search, ClientOrigin)>,
}

/// A request of the control plane.
#[derive(Debug)]
pub(crate) enum Admin {
    /// Answer with this shard's numbers, and with the usage of users only on demand: it costs the most.
    Report { by_user: bool, answer: Sender<ShardReport> },
    /// Close the connection of a client and answer whether there was one.
    Disconnect { tenant: TenantId, client_id: Box<str>, reason: Reason, answer: Sender<bool> },
    /// Activate other access rules, or none, and answer when they are active.
    SetAccess { access: Option<AccessFactory>, done: Sender<()> },
    /// Put the limits of other settings in force, and answer when they are.
    SetLimits { settings: Arc<Settings>, done: Sender<()> },
    /// Change the groups of mobile nodes, and answer with the outcome of each change.
    Membership { changes: Vec<MembershipChange>, answer: Sender<Vec<MembershipOutcome>> },
    /// Answer with the recorded events of a subject.
    Why { subject: FlightSubject, tenant: Option<TenantId>, answer: Sender<FlightAnswer> },
    /// Answer with the slowest clients, at most this number.
    Slow { limit: usize, answer: Sender<Vec<SlowSession>> },
    /// Answer with the clients that a query asks for, each with its address.
    Clients { query: ClientQuery, answer: Sender<Vec<(ClientSummary, Option<IpAddr>)>> },
    /// Close the connections that a ban is about and answer how many.
    Enforce { target: BanTarget, answer: Sender<u64> },
    /// End the connections of these users, and say how many there were.
    DisconnectUsers { users: Arc<BTreeSet<String>>, reason: Reason, answer: Sender<u64> },
    /// Publish no wills: another process has taken this one's place, and they are that one's.
    LeaveWills,
    /// Stop accepting, publish the wills of all clients, and report when the resulting messages were sent to the other
    /// shards.
    LastWills { sent: Sender<ShardId> },
    /// Say goodbye to every client and report when the last connection is closed.
    Stop { drained: Sender<ShardId> },
    /// Accept connections: all shards have restored their part of the store.
    Serve(ShardJournal),
    /// The usage of earlier processes that the store has under these keys is in the books.
    ForgetUsage(Vec<Vec<u8>>),
    /// A step of moving partitions.
    Move(MoveOrder),
    /// Activate another table of homes, or none, and answer when it is active.
    Homes { homes: Option<Arc<NodeHomes>>, done: Sender<()> },
    /// Lengthen the lease on the table of homes.
    RenewLease { until: Millis },
    /// Relay clients on these ways around cut connections.
    Detours(Arc<Detours>),
    /// Answer with the partitions that this shard serves.
    Served(Sender<Partitions>),
    /// Put a roster of the cluster's shards in force.
    Roster(Box<RosterOrder>),
    /// Record the arrival or departure of another node.
    PeerNews(Box<PeerNews>),
    /// An order about the fleet, for the shard with the broker links.
    Fleet(FleetOrder),
    /// An order of a service within the process.
    Service(ServiceOrder),
    /// Leave the loop and close the remaining connections.
    Exit,
    /// Panic, so that a test can check the effect of a failing shard on the process.
    #[cfg(test)]
    Panic,
}
