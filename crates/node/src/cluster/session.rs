//! One connection with another node: its bytes, and how far things are.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::Connection;
use tidegate_engine::{Millis, ShardId};

use super::handshake::{Handshake, PeerInfo};
use super::indirect::{CarriedOutput, Indirect};
use super::loss::Loss;
use super::outbox::Outbox;
use super::slots::SessionId;
use super::status::{LinkCounters, LinkState};
use super::view::PeerNode;
use super::wire::{Frame, Portion, put_frame};
use crate::tls::binding;

/// The state of an open session with a node.
#[derive(Debug)]
pub(super) struct Open {
    pub who: PeerInfo,
    /// The numbers of its shards here.
    pub seats: Vec<ShardId>,
    pub outbox: Arc<Outbox>,
    /// Difference to add to its monotonic clock, milliseconds.
    pub shift: i64,
    /// The roster in which it is for the first time.
    pub roster: u64,
    /// Time of the last input.
    pub heard: Millis,
    /// When it is asked for a sign of life next.
    pub next_ping: Millis,
    /// Time of its last reading, or since which no bytes wait.
    pub progress: Millis,
    pub rtt_us: Option<u64>,
    /// True if it knows the interest of this node.
    pub knows: bool,
    /// True if it has confirmed that this node knows its interest.
    pub is_known: bool,
    /// Bytes of its questions that are being answered.
    pub answering_bytes: u64,
    /// Number of its questions in progress.
    pub answering: usize,
    /// Whether this node leaves.
    pub farewell: Farewell,
}

/// How far a node that leaves is with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// It stays.
    No,
    /// A goodbye is to be its last frame.
    Due,
    /// The goodbye is written; the other side closes the connection when it has read it.
    Said,
}

impl Open {
    /// How far things are.
    pub(super) fn state(&self) -> LinkState {
        if self.knows && self.is_known { LinkState::Settled } else { LinkState::Linked }
    }
}

/// How far a session is.
#[derive(Debug)]
pub(super) enum Phase {
    /// The other side has not accepted the connection yet.
    Connecting(PeerNode),
    /// Both sides prove their identity.
    Shaking(Box<Handshake>),
    /// It is known, and waits for numbers that are being given free.
    Seating(PeerInfo),
    /// It is known, and an indirect session is to go on over this connection.
    Merging(PeerInfo),
    /// Its shards and ours talk.
    Open(Box<Open>),
}

impl Phase {
    /// Whether input is processed; otherwise it waits.
    pub(super) fn takes_input(&self) -> bool {
        !matches!(self, Self::Seating(_) | Self::Merging(_))
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    /// Its own connection; without one, another node carries its bytes.
    stream: Option<TcpStream>,
    /// How another node carries its bytes, where one does.
    pub indirect: Option<Box<Indirect>>,
    /// The TLS layer between frames and the socket, where links are encrypted.
    tls: Option<Box<Connection>>,
    pub address: SocketAddr,
    pub phase: Phase,
    /// Until when it must be open.
    pub deadline: Millis,
    /// The beginning of a frame.
    pub input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Carried parts of other sessions in its output.
    carried_output: CarriedOutput,
    /// The poller has reported input, and it is not read completely.
    pub readable: bool,
    /// The other side has closed the connection, or it has failed: read on until that is all there is.
    peer_closed: bool,
    /// The socket takes something.
    pub writable: bool,
    /// Counts not yet added to the counters of its node.
    pub counters: LinkCounters,
}

impl Session {
    pub(super) fn new(
        stream: TcpStream,
        tls: Option<Connection>,
        address: SocketAddr,
        phase: Phase,
        deadline: Millis,
    ) -> Self {
        let writable = !matches!(phase, Phase::Connecting(_));
        Self {
            stream: Some(stream),
            indirect: None,
            tls: tls.map(Box::new),
            address,
            phase,
            deadline,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            carried_output: CarriedOutput::default(),
            readable: false,
            peer_closed: false,
            writable,
            counters: LinkCounters::default(),
        }
    }

    /// One whose bytes another node carries. It is not encrypted once more: the sessions with that node are.
    pub(super) fn carried(indirect: Indirect, address: SocketAddr, phase: Phase, deadline: Millis) -> Self {
        Self {
            stream: None,
            indirect: Some(Box::new(indirect)),
            tls: None,
            address,
            phase,
            deadline,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            carried_output: CarriedOutput::default(),
            readable: false,
            peer_closed: false,
            writable: false,
            counters: LinkCounters::default(),
        }
    }

    /// Takes an event of the poller.
    pub(super) fn note(&mut self, event: &Event) {
        self.peer_closed |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.peer_closed;
        self.writable |= event.is_writable() || event.is_error();
    }

    /// Has the poller report events of its connection.
    pub(super) fn register(&mut self, registry: &Registry, id: SessionId) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let (token, interest) = (Token(id as usize), Interest::READABLE | Interest::WRITABLE);
        // Its connection may have been another session's.
        let _ = registry.deregister(stream);
        registry.register(stream, token, interest)
    }

    /// Has the poller forget its connection.
    pub(super) fn deregister(&mut self, registry: &Registry) {
        if let Some(stream) = &mut self.stream {
            // Dropping the socket does the same; only a poller that is broken would mind.
            let _ = registry.deregister(stream);
        }
    }

    /// Whether it has a connection of its own, and no other node carries its bytes.
    pub(super) fn is_direct(&self) -> bool {
        self.indirect.as_ref().is_none_or(|indirect| !indirect.is_carried())
    }

    /// The session that carries the output of this one, if another node does.
    pub(super) fn carrier(&self) -> Option<SessionId> {
        self.indirect.as_ref().filter(|indirect| indirect.writes).map(|indirect| indirect.carrier)
    }

    /// Takes over a connection that both sides have proven, with its pending input and output.
    pub(super) fn continue_over(&mut self, direct: &mut Self) {
        let Some(indirect) = &mut self.indirect else { return };
        indirect.writes = false;
        indirect.put_ahead(std::mem::take(&mut direct.input));
        if let Phase::Open(open) = &self.phase {
            open.outbox.note_added(direct.unwritten());
        }
        self.output = [direct.left(), self.left()].concat();
        self.written = 0;
        (direct.output, direct.written) = (Vec::new(), 0);
        (self.stream, self.tls) = (direct.stream.take(), direct.tls.take());
        self.address = direct.address;
        (self.readable, self.writable, self.peer_closed) = (true, true, direct.peer_closed);
        self.counters.add(&std::mem::take(&mut direct.counters));
    }

    /// Whether a connection that was begun is there.
    pub(super) fn is_connected(&self) -> io::Result<bool> {
        let Some(stream) = &self.stream else { return Ok(false) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => {
                // Small frames go at once; whether that can be set changes nothing else.
                let _ = stream.set_nodelay(true);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next bytes to send.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The part of the output that is not written.
    pub(super) fn left(&self) -> &[u8] {
        self.output.get(self.written..).unwrap_or_default()
    }

    /// Bytes of the output that are not written.
    pub(super) fn unwritten(&self) -> usize {
        self.output.len() - self.written
    }

    /// Appends a frame to the output.
    pub(super) fn put(&mut self, frame: &Frame<'_>) {
        let before = self.output.len();
        put_frame(frame, &mut self.output);
        if let Phase::Open(open) = &self.phase {
            open.outbox.note_added(self.output.len() - before);
        }
    }

    /// Puts a carried part of another session behind the queued output.
    pub(super) fn put_carried(&mut self, portion: Portion<'_>) {
        let before = self.output.len();
        self.put(&Frame::Carried(portion));
        self.carried_output.add(before..self.output.len());
    }

    /// Bytes of the output that it carries for others and that are not written.
    pub(super) fn waiting_carried(&mut self) -> u64 {
        self.carried_output.waiting(self.written) as u64
    }

    /// Tells the other side why there will be no session, as far as its socket takes it at once.
    pub(super) fn say_no(&mut self, loss: &Loss, now: Millis) {
        if let Some(refusal) = loss.refusal() {
            self.put(&Frame::Refusal(refusal));
            // The connection closes, whether this arrives or not.
            let _ = self.write(now);
        }
    }

    /// A value that only both ends of this connection know; empty without encryption.
    pub(super) fn binding(&self) -> Result<Vec<u8>, Loss> {
        Ok(self.tls.as_deref().map(binding).transpose()?.unwrap_or_default())
    }

    /// Reads once; `None` without input.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Loss> {
        if let Some(indirect) = &mut self.indirect {
            let length = indirect.read(buffer);
            if length > 0 {
                self.counters.bytes_in += length as u64;
                return Ok(Some(length));
            }
            if !indirect.is_carried() {
                self.indirect = None;
            } else if indirect.reads && indirect.is_over {
                return Err(Loss::Closed);
            } else if indirect.reads {
                self.readable = false;
                return Ok(None);
            }
        }
        if self.tls.is_some() {
            return self.read_tls(buffer);
        }
        let Some(stream) = &mut self.stream else {
            self.readable = false;
            return Ok(None);
        };
        loop {
            match stream.read(buffer) {
                Ok(0) => return Err(Loss::Closed),
                Ok(length) => {
                    self.counters.bytes_in += length as u64;
                    // A read that leaves room has emptied the socket; the poller reports later bytes.
                    self.readable = length == buffer.len() || self.peer_closed;
                    return Ok(Some(length));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Loss::Io(error)),
            }
        }
    }

    fn read_tls(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Loss> {
        let (Some(tls), Some(stream)) = (&mut self.tls, &mut self.stream) else { return Ok(None) };
        loop {
            match tls.reader().read(buffer) {
                Ok(0) => return Err(Loss::Closed),
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Loss::Closed),
                Err(error) => return Err(Loss::Io(error)),
            }
            match tls.read_tls(stream) {
                Ok(0) => return Err(Loss::Closed),
                Ok(length) => self.counters.bytes_in += length as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Loss::Io(error)),
            }
            if let Err(error) = tls.process_new_packets() {
                // The other side hears why, if its socket takes that.
                let _ = tls.write_tls(stream);
                return Err(error.into());
            }
        }
    }

    /// Encrypts the output, as far as the socket takes the result.
    fn write_tls(&mut self, now: Millis) -> Result<(), Loss> {
        while self.writable {
            let (Some(tls), Some(stream)) = (&mut self.tls, &mut self.stream) else { return Ok(()) };
            if tls.wants_write() {
                match tls.write_tls(stream) {
                    Ok(0) => return Err(Loss::Closed),
                    Ok(length) => {
                        self.counters.bytes_out += length as u64;
                        if let Phase::Open(open) = &mut self.phase {
                            open.progress = now;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Loss::Io(error)),
                }
                continue;
            }
            if tls.is_handshaking() || !self.refill(now)? {
                return Ok(());
            }
            let (Some(tls), left) = (&mut self.tls, self.output.get(self.written..).unwrap_or_default()) else {
                return Ok(());
            };
            let length = tls.writer().write(left)?;
            self.written += length;
            if let Phase::Open(open) = &mut self.phase {
                open.outbox.note_written(length);
            }
        }
        Ok(())
    }

    /// Whether the socket has not taken all that is to be sent.
    fn waits(&self) -> bool {
        self.unwritten() > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes pending frames as far as the socket accepts them; the outbox of the shards is one write.
    pub(super) fn write(&mut self, now: Millis) -> Result<(), Loss> {
        if self.carrier().is_some() {
            return Ok(());
        }
        if self.tls.is_some() {
            return self.write_tls(now);
        }
        if !self.refill(now)? {
            return Ok(());
        }
        while self.writable {
            let Some(stream) = &mut self.stream else { return Ok(()) };
            match stream.write(self.output.get(self.written..).unwrap_or_default()) {
                Ok(0) => return Err(Loss::Closed),
                Ok(length) => self.advance(now, length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Loss::Io(error)),
            }
            if !self.refill(now)? {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn advance(&mut self, now: Millis, length: usize) {
        self.written += length;
        self.counters.bytes_out += length as u64;
        if let Phase::Open(open) = &mut self.phase {
            open.outbox.note_written(length);
            open.progress = now;
        }
    }

    /// Takes the send queue once all earlier bytes are written; returns true if there are bytes to write.
    pub(super) fn refill(&mut self, now: Millis) -> Result<bool, Loss> {
        if self.written < self.output.len() {
            return Ok(true);
        }
        self.output.clear();
        self.carried_output.clear();
        self.written = 0;
        if let Phase::Open(open) = &mut self.phase {
            open.progress = now;
            let taken = open.outbox.take(&mut self.output).map_err(|over| Loss::Overflow(over.limit))?;
            self.counters.batches_out += taken.batches;
            self.counters.messages_out += taken.messages;
        }
        Ok(!self.output.is_empty())
    }

    /// Whether everything that waited has been written.
    pub(super) fn is_flushed(&self) -> bool {
        let waits = matches!(&self.phase, Phase::Open(open) if open.outbox.waiting() > 0);
        !waits && !self.waits()
    }

    /// The reason of its end, if it is over, when all input up to `heard` was reported.
    pub(super) fn overdue(&self, heard: Millis, peer_timeout: Duration, stall_timeout: Duration) -> Option<Loss> {
        let Phase::Open(open) = &self.phase else { return None };
        if let Some(over) = open.outbox.overflown() {
            return Some(Loss::Overflow(over.limit));
        }
        if heard >= after(open.heard, peer_timeout) && !self.readable {
            return Some(Loss::Silent(peer_timeout.as_millis()));
        }
        let stalled = self.waits() && heard >= after(open.progress, stall_timeout);
        stalled.then_some(Loss::Stalled(stall_timeout.as_millis()))
    }

    /// When it has to be looked at next although nothing happens.
    pub(super) fn due(&self, peer_timeout: Duration, stall_timeout: Duration) -> Millis {
        let Phase::Open(open) = &self.phase else { return self.deadline };
        let stall = if self.waits() { after(open.progress, stall_timeout) } else { Millis::NEVER };
        after(open.heard, peer_timeout).min(open.next_ping).min(stall)
    }
}

/// A time so much later.
pub(super) fn after(from: Millis, wait: Duration) -> Millis {
    from.plus(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}
