//! The thread of the links: one event loop for the sessions with all other nodes.
//!
//! Shards never touch a session's socket. They put batches into its [`Outbox`](super::outbox::Outbox) and wake this
//! thread, which writes what has gathered meanwhile at once; what comes is decoded here and put before the shard that
//! it is for. Rosters go the same way, so that their place among the batches is right by itself.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mio::{Events, Token};
use tidegate_engine::{ShardId, WireError};

use super::links::Links;
use super::slots::SessionId;
use super::{AskError, ClusterStatus, ClusterView, NodeName, PeerEvent};
use crate::clock::time_until;
use crate::inbox::InboxSender;

/// Something put before the thread of the links.
#[derive(Debug)]
pub(crate) enum ToLinks {
    /// Put a view in force, and say so when all shards have it.
    View { view: Arc<ClusterView>, done: Sender<()> },
    /// Answer how the links are.
    Status(Sender<ClusterStatus>),
    /// Tell of sessions and questions.
    Listen { listener: Sender<PeerEvent>, links: LinksSender },
    /// Ask another node.
    Ask { node: NodeName, body: Vec<u8>, answer: Sender<Result<Vec<u8>, AskError>> },
    /// Answer a question.
    Answer { session: SessionId, number: u64, asked_bytes: u64, body: Vec<u8> },
    /// A shard has a roster, and has handed the others what it had to say before.
    Heard { shard: ShardId, number: u64 },
    /// The nodes of a roster know what is wanted on a shard.
    Settled { shard: ShardId, number: u64 },
    /// Another node's shard has sent what cannot be read.
    Broken { slot: ShardId, error: WireError },
    /// Say goodbye to all behind all that waits, and report when they have read it.
    Goodbye(Sender<()>),
    /// End all sessions as they are.
    Exit,
}

/// Puts something before the thread of the links, or wakes it for what is in an outbox.
pub(crate) type LinksSender = InboxSender<ToLinks>;

/// Readiness events taken from the poller at once.
const EVENTS: usize = 256;

pub(super) const WAKER: Token = Token(0);
pub(super) const LISTENER: Token = Token(1);

/// The running thread. Dropping it ends all sessions as they are.
#[derive(Debug)]
pub(crate) struct LinksThread {
    sender: LinksSender,
    thread: Option<JoinHandle<()>>,
}

impl LinksThread {
    /// Starts the thread. `alarm` is kept by it and dropped when it ends.
    pub(super) fn start<A: Send + 'static>(
        sender: LinksSender,
        alarm: A,
        make: impl FnOnce() -> Links + Send + 'static,
    ) -> io::Result<Self> {
        let body = move || {
            let _alarm = alarm;
            run(make());
        };
        let thread = Builder::new().name("links".into()).spawn(body)?;
        Ok(Self { sender, thread: Some(thread) })
    }

    /// Says goodbye to all other nodes, behind all that waits for them, until they have read it; at most so long.
    pub(crate) fn say_goodbye(&self, limit: Duration) {
        let (done, said) = channel();
        self.sender.send(ToLinks::Goodbye(done));
        // Who does not take it in time is cut off.
        let _ = said.recv_timeout(limit);
    }
}

impl Drop for LinksThread {
    fn drop(&mut self) {
        self.sender.send(ToLinks::Exit);
        if let Some(thread) = self.thread.take() {
            // A panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn run(mut links: Links) {
    let mut events = Events::with_capacity(EVENTS);
    while !links.has_ended() {
        let timeout =
            if links.may_sleep() { time_until(links.deadline(), links.now.monotonic) } else { Some(Duration::ZERO) };
        let asked = links.now.monotonic;
        match links.poll.poll(&mut events, timeout) {
            Ok(()) if events.iter().count() < EVENTS => links.heard = asked,
            Ok(()) => {}
            // A signal, such as the one that ends a stop of the process, is no event of ours.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => tracing::error!(%error, "polling the links failed"),
        }
        links.turn(&events);
    }
}
