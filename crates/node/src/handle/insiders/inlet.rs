//! Clients of other protocols: a part of the process serves them, and connects each to the node by a socket within the
//! process.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use rustls::ServerConfig;
use tidegate_engine::{ListenerId, Now, Partitions, Principal, Reason, RetainedValue, ShardId};
use tidegate_pipe::PipeEnd;

use super::NodeInsiders;
use super::silent::SilentNodes;
use crate::handle::{NoAnswer, NodeHandle, wait};
use crate::orders::{Admin, Door, ToShard};
use crate::service::{Inside, ServiceOrder};
use crate::tls::TlsFacts;

/// Connections are dealt to the shards in turn; each is then handed to the home of its client.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The start of a TLS handshake at a listener that another part of the process serves.
pub struct TlsStart {
    /// The configuration that is in force now.
    pub config: Arc<ServerConfig>,
    /// The place among the handshakes under way, free when this is dropped.
    pub slot: Box<dyn Any + Send>,
}

impl std::fmt::Debug for TlsStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsStart")
    }
}

/// The way into a node for clients of other protocols.
#[derive(Clone, Debug)]
pub struct Inlet {
    pub(super) node: NodeHandle,
    /// Clones share it.
    pub(super) silent: Arc<SilentNodes>,
}

impl Inlet {
    /// Into this node.
    pub fn new(node: NodeHandle) -> Self {
        Self { node, silent: Arc::default() }
    }

    /// The time on the node's clocks.
    pub fn now(&self) -> Now {
        self.node.now()
    }

    /// Connects a client at this address to a listener. The bytes of the socket are MQTT. The limits of the listener's
    /// connections hold for this one: if the connection is refused at accept, the socket is closed. `tls` is the TLS
    /// session of the client, which says as much of its tenant as that of an MQTT client.
    ///
    /// # Errors
    /// When the system has no sockets left.
    pub fn connect(&self, listener: ListenerId, client: SocketAddr, tls: Option<TlsFacts>) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        self.node.insiders().enter(Inside::socket(theirs, listener, client, tls.map(Arc::new)));
        Ok(ours)
    }

    /// The partitions whose clients this node serves at the moment; clients of others are passed to their nodes.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn served(&self) -> Result<Partitions, NoAnswer> {
        self.node.served()
    }

    /// Begins a TLS handshake at a listener; `None` when as many are under way as the listener works on at once, or when
    /// it speaks no TLS.
    pub fn begin_tls(&self, listener: ListenerId) -> Option<TlsStart> {
        let (config, slot) = self.node.tls.get(usize::from(listener.0))?.begin()?;
        Some(TlsStart { config, slot: Box::new(slot) })
    }

    /// The retained message of a topic for a principal, which need not be registered, or why the principal does not get
    /// it: [`Reason::NotAuthorized`], or [`Reason::NotServedHere`] when another node of a cluster has the topic.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn retained(
        &self,
        principal: &Principal,
        topic: &str,
    ) -> Result<Result<Option<RetainedValue>, Reason>, NoAnswer> {
        let shard = self.node.home(principal.tenant, topic);
        read_retained(shard, |message| self.node.tell(shard, message), principal, topic)
    }
}

impl NodeInsiders<'_> {
    /// Gives a connection to a shard.
    fn enter(&self, inside: Inside) {
        let turn = NEXT.fetch_add(1, Ordering::Relaxed) % usize::from(self.node.shards().max(1));
        self.tell_services(ShardId(turn as u16), ServiceOrder::Enter(Box::new(inside)));
    }

    /// Connects a part of the process to a listener as a client, without a socket. The bytes of the pipe are MQTT. Limits
    /// and bans do not hold for it, but the client is authenticated like others. A node that does not serve yet, or no
    /// more, drops its end.
    ///
    /// # Errors
    /// When the system has no sockets left.
    pub fn connect(&self, listener: ListenerId) -> io::Result<PipeEnd> {
        let (ours, theirs) = tidegate_pipe::pair()?;
        self.enter(Inside::pipe(theirs, listener));
        Ok(ours)
    }
}

impl Door {
    /// The retained message of a topic at the node of the user, for a principal, or why the principal does not get it.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn retained(
        &self,
        principal: &Principal,
        topic: &str,
    ) -> Result<Result<Option<RetainedValue>, Reason>, NoAnswer> {
        read_retained(ShardId(0), |message| self.inbox().send(message), principal, topic)
    }
}

/// Asks a shard for the retained message of a topic.
fn read_retained(
    shard: ShardId,
    tell: impl FnOnce(ToShard),
    principal: &Principal,
    topic: &str,
) -> Result<Result<Option<RetainedValue>, Reason>, NoAnswer> {
    let (answer, answers) = channel();
    let (principal, topic) = (Box::new(principal.clone()), topic.to_owned());
    tell(ToShard::Admin(Admin::Service(ServiceOrder::ReadRetained { principal, topic, answer })));
    wait(shard, &answers)
}
