//! A turn of the links.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use mio::net::TcpListener;
use mio::{Events, Poll, Token};
use ring::rand::{SecureRandom, SystemRandom};
use tidegate_engine::{Millis, Now, ShardId, ShardPosition};

use super::handshake::{Freshness, Handshake, LocalNode};
use super::loss::Loss;
use super::peer::Peer;
use super::questions::Questions;
use super::rosters::Rosters;
use super::session::{Farewell, Phase, Session, after};
use super::settings::{Carried, LinkLimits};
use super::slots::{SessionId, Slots};
use super::table::{LinkTable, MAX_STRANGERS};
use super::to_links::{LISTENER, ToLinks, WAKER};
use super::to_shards::ShardDoor;
use super::wire::{Frame, NONCE_BYTES};
use super::{ClusterSettings, ClusterView, PeerNode};
use crate::clock::Clock;
use crate::inbox::Inbox;
use crate::shortage::Shortage;
use crate::tls::LinkTls;

/// Connections that are accepted at a time; the others are accepted in the next turn.
const ACCEPTS_PER_TURN: usize = 16;
/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;
/// Reads from one session in a turn, so that the others are served, too.
const READS_PER_TURN: usize = 4;

/// The sessions with all other nodes.
pub(super) struct Links {
    pub(super) poll: Poll,
    pub(super) now: Now,
    /// Time at which the poller had reported everything that had arrived. Silence is counted up to this time: bytes
    /// that came during a stop of the process are still in the sockets.
    pub(super) heard: Millis,
    inbox: Inbox<ToLinks>,
    listener: TcpListener,
    /// True if a connection may be waiting to be accepted.
    may_accept: bool,
    pub(super) local: LocalNode,
    /// The messages that shards exchange with shards of other nodes.
    pub(super) carried: Carried,
    tls: Option<LinkTls>,
    pub(super) limits: LinkLimits,
    pub(super) clock: Clock,
    pub(super) shards: Vec<ShardDoor>,
    pub(super) view: Arc<ClusterView>,
    pub(super) table: LinkTable,
    pub(super) slots: Slots,
    pub(super) rosters: Rosters,
    /// By how much the wall clock of a node that was linked is ahead, milliseconds.
    pub(super) clock_lead_ms: u64,
    buffer: Box<[u8]>,
    random: SystemRandom,
    pub(super) refused: u64,
    pub(super) strangers: Shortage,
    pub(super) questions: Questions,
    /// The caller that waits until all goodbyes are sent.
    leaving: Option<Sender<()>>,
}

impl Links {
    pub(super) fn new(
        poll: Poll,
        inbox: Inbox<ToLinks>,
        listener: TcpListener,
        settings: ClusterSettings,
        clock: Clock,
        shards: Vec<ShardDoor>,
    ) -> Self {
        let own = shards.len() as u16;
        let slots = Slots::new(own);
        let ClusterSettings { name, incarnation, secret, tls, limits, carried, .. } = settings;
        Self {
            poll,
            now: clock.now(),
            heard: Millis(0),
            inbox,
            listener,
            may_accept: false,
            local: LocalNode { name, incarnation, shards: own, most_shards: slots.len(), secret },
            carried,
            tls,
            limits,
            clock,
            shards,
            view: Arc::new(ClusterView::alone()),
            table: LinkTable::default(),
            slots,
            rosters: Rosters::new(own),
            clock_lead_ms: 0,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            random: SystemRandom::new(),
            refused: 0,
            strangers: Shortage::default(),
            questions: Questions::default(),
            leaving: None,
        }
    }

    /// Whether nothing is left to do until something happens.
    pub(super) fn is_idle(&self) -> bool {
        let works =
            |session: &Session| session.readable && session.phase.takes_input() || self.table.may_hand_over(session);
        let waits = self.may_accept || !self.table.notices.is_empty() || !self.table.ended.is_empty();
        !waits && !self.table.sessions.values().any(works)
    }

    /// Whether nothing is left to do until something happens. Once this is so, the next sender of a message wakes the
    /// poller.
    pub(super) fn may_sleep(&mut self) -> bool {
        self.is_idle() && self.inbox.may_sleep()
    }

    /// Whether messages may wait. Later ones are found by the next call.
    pub(super) fn has_mail(&mut self) -> bool {
        self.inbox.awake();
        self.inbox.has_more()
    }

    /// Time of the next work.
    pub(super) fn deadline(&self) -> Millis {
        let (peer, stall) = (self.limits.peer_timeout, self.limits.stall_timeout);
        let sessions = self.table.sessions.values().map(|session| session.due(peer, stall));
        let attempts = self.to_dial().map(|peer| peer.retry_at);
        sessions.chain(attempts).min().unwrap_or(Millis::NEVER)
    }

    /// Processes the events.
    pub(super) fn turn(&mut self, events: &Events) {
        self.inbox.awake();
        self.now = self.clock.now();
        for event in events {
            match event.token() {
                WAKER => {}
                LISTENER => self.may_accept = true,
                Token(session) => {
                    let Some(session) = self.table.sessions.get_mut(&(session as SessionId)) else { continue };
                    session.note(event);
                }
            }
        }
        self.accept();
        while let Some(message) = self.inbox.next() {
            self.take(message);
        }
        self.with_sessions(Self::serve);
        self.dial_due();
        // After all reading: a node whose frames arrived in time is not silent because this thread was late.
        self.with_sessions(Self::look_after);
        self.end_goodbyes();
        self.write_out();
    }

    /// Does something with every session. Ends a session where it fails, and sessions that others have ended.
    pub(super) fn with_sessions(&mut self, work: impl Fn(&mut Self, SessionId, &mut Session) -> Result<(), Loss>) {
        let mut next = 0;
        while let Some(id) = self.table.sessions.range(next..).next().map(|(id, _)| *id) {
            next = id + 1;
            // It is out of the table while it is worked, for that may end others.
            let Some(mut session) = self.table.sessions.remove(&id) else { continue };
            match work(self, id, &mut session) {
                Ok(()) => drop(self.table.sessions.insert(id, session)),
                Err(loss) => self.lose(id, session, &loss),
            }
        }
        for (id, loss) in std::mem::take(&mut self.table.ended) {
            self.lose_session(id, &loss);
        }
    }

    /// Writes pending frames, as far as sockets and carrying nodes accept them.
    pub(super) fn write_out(&mut self) {
        for (id, loss) in self.table.hand_over(self.now.monotonic) {
            self.lose_session(id, &loss);
        }
        self.with_sessions(|links, _, session| session.write(links.now.monotonic));
    }

    fn take(&mut self, message: ToLinks) {
        match message {
            ToLinks::View { view, done } => {
                self.set_view(view);
                let number = self.push_rosters();
                self.rosters.wait(number, done);
            }
            ToLinks::Status(answer) => {
                // The waiting caller may have given up.
                let _ = answer.send(self.status());
            }
            ToLinks::NodeOf { partition, answer } => {
                let home = self.view.homes.get(usize::from(partition.0)).cloned().flatten();
                // The waiting caller may have given up.
                let _ = answer.send(home);
            }
            ToLinks::Listen { listener, links } => self.listen_to_peers(listener, links),
            ToLinks::Ask { node, body, answer } => self.ask(&node, &body, answer),
            ToLinks::Answer { session, number, asked_bytes, body } => {
                Questions::give_answer(self.table.sessions.get_mut(&session), number, asked_bytes, &body);
            }
            ToLinks::HasRoster { shard, number } => self.rosters.note_received(shard, number),
            ToLinks::Settled { shard, number } => self.rosters.note_settled(shard, number),
            ToLinks::Broken { slot, error } => {
                if let Some(id) = self.slots.holder(slot) {
                    self.lose_session(id, &Loss::Records(error));
                }
            }
            ToLinks::Goodbye(done) => {
                self.leaving = Some(done);
                self.with_sessions(|links, _, session| {
                    if let Phase::Open(open) = &mut session.phase {
                        open.farewell = Farewell::Due;
                    }
                    // The inbox of the shards goes out first.
                    session.write(links.now.monotonic)
                });
            }
        }
    }

    /// Appends a goodbye to the written frames, and reports when the other sides have read all: the other side closes
    /// the connection then. If this side closed it with unread input, the connection would be reset, and frames in
    /// transit to the other side would be lost.
    fn end_goodbyes(&mut self) {
        if self.leaving.is_none() {
            return;
        }
        self.write_out();
        self.with_sessions(|links, id, session| {
            // The sessions that it carries end first.
            let flushed = session.is_flushed() && !links.table.carries(id);
            if let Phase::Open(open) = &mut session.phase
                && flushed
                && open.farewell == Farewell::Due
            {
                open.farewell = Farewell::Said;
                session.put(&Frame::Goodbye);
            }
            Ok(())
        });
        let ends = |session: &Session| matches!(&session.phase, Phase::Open(open) if open.farewell != Farewell::No);
        if !self.table.sessions.values().any(ends)
            && let Some(done) = self.leaving.take()
        {
            let _ = done.send(());
        }
    }

    fn accept(&mut self) {
        if !self.may_accept {
            return;
        }
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    // Small frames go at once; whether that can be set changes nothing else.
                    let _ = stream.set_nodelay(true);
                    if let Some(oldest) = self.table.surplus_stranger() {
                        self.lose_session(oldest, &Loss::Displaced(MAX_STRANGERS));
                    }
                    let phase = Phase::Shaking(Box::new(Handshake::listen()));
                    let deadline = after(self.now.monotonic, self.limits.handshake_timeout);
                    match self.tls.as_ref().map(LinkTls::listen).transpose() {
                        Ok(tls) => drop(self.begin(Session::new(stream, tls, address, phase, deadline))),
                        Err(error) => self.refuse(&format!("{address}: {error}")),
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.may_accept = false;
                    return;
                }
                Err(error) => {
                    // The next knock, or the next peer's attempt, is the next try.
                    self.may_accept = false;
                    self.refuse(&format!("cannot accept a connection: {error}"));
                    return;
                }
            }
        }
    }

    /// Counts a connection that did not become a session, and tells the log now and then.
    pub(super) fn refuse(&mut self, why: &str) {
        self.refused += 1;
        if let Some(times) = self.strangers.note(self.now.monotonic) {
            tracing::warn!(times, "a connection for nodes of the cluster is refused: {why}");
        }
    }

    /// Takes a new connection into the table; returns its number, unless the poller refuses it.
    fn begin(&mut self, mut session: Session) -> Option<SessionId> {
        if let Err(error) = session.register(self.poll.registry(), self.table.next_session) {
            self.refuse(&format!("{}: {error}", session.address));
            return None;
        }
        Some(self.table.add(session))
    }

    /// Nodes that are to be connected to from here.
    fn to_dial(&self) -> impl Iterator<Item = &Peer> {
        let (own, leaves) = (&self.local.name, self.leaving.is_some());
        self.table.peers.values().filter(move |peer| !leaves && self.table.is_to_dial(own, peer))
    }

    /// Connects to the nodes that are due.
    fn dial_due(&mut self) {
        let due = self.to_dial().filter(|peer| peer.retry_at <= self.now.monotonic);
        let due: Vec<PeerNode> = due.map(|peer| peer.node.clone()).collect();
        for node in due {
            let carriers = self.table.carriers(&node.name, self.now.monotonic);
            let Some(peer) = self.table.peers.get_mut(&node.name) else { continue };
            peer.back_off(self.now.monotonic, &self.limits);
            let probes = peer.session.is_some();
            let goes_around = !probes && std::mem::take(&mut peer.goes_around);
            let turn = peer.turns.checked_rem(carriers.len()).filter(|_| goes_around);
            let Some(carrier) = turn.and_then(|turn| carriers.get(turn)) else {
                self.dial(node, !carriers.is_empty());
                continue;
            };
            peer.turns += 1;
            let deadline = after(self.now.monotonic, self.limits.handshake_timeout);
            match self.freshness() {
                Ok(freshness) => self.table.dial_around(&self.local, node, carrier.clone(), freshness, deadline),
                Err(loss) => self.table.note_failure(&node.name, &loss, self.now.monotonic),
            }
        }
    }

    /// Connects to a node: for a session, or for an indirect session to go on. Where another node could carry the
    /// session, the connection is not waited for as long.
    fn dial(&mut self, node: PeerNode, could_go_around: bool) {
        let LinkLimits { handshake_timeout, indirect_after, .. } = self.limits;
        let patience = if could_go_around { handshake_timeout.min(indirect_after) } else { handshake_timeout };
        let deadline = after(self.now.monotonic, patience);
        let (name, address) = (node.name.clone(), node.address);
        let tls = self.tls.as_ref().map(|tls| tls.dial(address.ip())).transpose();
        let connecting = mio::net::TcpStream::connect(address).map_err(Loss::Io);
        let id = match connecting.and_then(|stream| Ok((stream, tls?))) {
            Ok((stream, tls)) => self.begin(Session::new(stream, tls, address, Phase::Connecting(node), deadline)),
            Err(loss) => {
                self.table.note_failure(&name, &loss, self.now.monotonic);
                None
            }
        };
        let Some(peer) = self.table.peers.get_mut(&name) else { return };
        if peer.session.is_some() {
            peer.probe = id;
        } else {
            peer.session = id;
        }
    }

    /// The clocks, and a nonce.
    pub(super) fn freshness(&self) -> Result<Freshness, Loss> {
        let mut nonce = [0; NONCE_BYTES];
        self.random.fill(&mut nonce).map_err(|_| Loss::Random)?;
        Ok(Freshness { nonce, monotonic: self.clock.micros(), unix: self.clock.now().unix })
    }

    /// Reads a session as far as a turn allows.
    pub(super) fn serve(&mut self, id: SessionId, session: &mut Session) -> Result<(), Loss> {
        if matches!(session.phase, Phase::Connecting(_)) {
            return self.go_on_connecting(session);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.read(id, session, &mut buffer);
        self.buffer = buffer;
        outcome
    }

    fn read(&mut self, id: SessionId, session: &mut Session, buffer: &mut [u8]) -> Result<(), Loss> {
        if let Phase::Seating(_) = session.phase {
            self.take_seats(id, session)?;
            // The frames that it had sent behind the handshake.
            let input = std::mem::take(&mut session.input);
            session.input = self.take_frames(id, session, &input)?.to_vec();
        }
        for _ in 0..READS_PER_TURN {
            if !session.readable || !session.phase.takes_input() {
                return Ok(());
            }
            let Some(length) = session.read(buffer)? else { return Ok(()) };
            let read = buffer.get(..length).unwrap_or_default();
            if session.input.is_empty() {
                let rest = self.take_frames(id, session, read)?;
                session.input.extend_from_slice(rest);
            } else {
                let mut input = std::mem::take(&mut session.input);
                input.extend_from_slice(read);
                let left = self.take_frames(id, session, &input)?.len();
                let whole = input.len() - left;
                input.drain(..whole);
                if input.is_empty() {
                    // Between frames no memory is kept.
                    input = Vec::new();
                }
                session.input = input;
            }
        }
        Ok(())
    }

    fn go_on_connecting(&mut self, session: &mut Session) -> Result<(), Loss> {
        if !session.writable || !session.is_connected()? {
            return Ok(());
        }
        let Phase::Connecting(node) = &session.phase else { return Ok(()) };
        let (node, freshness, continues) = (node.clone(), self.freshness()?, self.table.to_continue(&node.name));
        let shaking = Handshake::dial(&self.local, node, continues, freshness, session.output());
        session.phase = Phase::Shaking(Box::new(shaking));
        session.deadline = after(self.now.monotonic, self.limits.handshake_timeout);
        Ok(())
    }

    /// The place of a shard in its process.
    pub(super) fn place(&self, shard: ShardId) -> ShardPosition {
        ShardPosition { shard, shards: self.shards.len() as u16 }
    }
}
