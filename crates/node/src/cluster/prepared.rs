//! Parts of the links that exist before the shards: a listening socket for other nodes, and an inbox.

use std::io;
use std::net::SocketAddr;

use mio::net::TcpListener;
use mio::{Interest, Poll, Waker};

use super::links::Links;
use super::to_links::{LISTENER, LinksSender, ToLinks, WAKER};
use super::to_shards::ShardDoor;
use super::work::LinksThread;
use super::{ClusterSettings, LinksHandle};
use crate::clock::Clock;
use crate::inbox::{Inbox, inbox};

/// Other nodes cannot be waited for.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen for other nodes of the cluster on {address}: {source}; is the port taken, or the address another machine's?"
)]
pub struct LinkBindError {
    /// The address that was tried.
    pub address: SocketAddr,
    /// The error of the system.
    pub source: io::Error,
}

/// Links without their thread.
pub(crate) struct PreparedLinks {
    settings: ClusterSettings,
    listener: TcpListener,
    address: SocketAddr,
    poll: Poll,
    sender: LinksSender,
    inbox: Inbox<ToLinks>,
}

impl PreparedLinks {
    /// Listens where the settings say; who connects waits until the thread is there.
    pub(crate) fn open(settings: &ClusterSettings) -> Result<Self, LinkBindError> {
        let address = settings.listen;
        Self::try_open(settings).map_err(|source| LinkBindError { address, source })
    }

    fn try_open(settings: &ClusterSettings) -> io::Result<Self> {
        let mut listener = TcpListener::bind(settings.listen)?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (sender, inbox) = inbox(Waker::new(poll.registry(), WAKER)?);
        Ok(Self { settings: settings.clone(), listener, address, poll, sender, inbox })
    }

    /// The control plane's hold on them.
    pub(crate) fn handle(&self) -> LinksHandle {
        LinksHandle { sender: self.sender.clone(), address: self.address }
    }

    /// For shards.
    pub(crate) fn sender(&self) -> LinksSender {
        self.sender.clone()
    }

    /// Starts the thread. `alarm` is kept by it and dropped when it ends.
    pub(crate) fn start<A: Send + 'static>(
        self,
        clock: Clock,
        shards: Vec<ShardDoor>,
        alarm: A,
    ) -> io::Result<LinksThread> {
        let Self { settings, listener, poll, sender, inbox, .. } = self;
        LinksThread::start(sender, alarm, Links::new(poll, inbox, listener, settings, clock, shards))
    }
}
