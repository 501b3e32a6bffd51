//! One end of a relay: a transport and its pending output.

use std::io;

use mio::event::Event as Readiness;
use mio::{Registry, Token};
use tidegate_engine::Output;

use super::HOME_ENDED;
#[cfg(feature = "quic")]
use crate::quic::News;
use crate::transport::{Input, Transport, Wrote};

/// Bytes of a client that are read before its connection is brought to a new home. Further ones follow when that home
/// has the connection.
pub(crate) const READ_AHEAD_BYTES: usize = 8 * 1024;

/// One end of a relay.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts about a socket")]
pub(crate) struct End {
    transport: Transport,
    output: Output,
    /// The transport may be readable.
    readable: bool,
    /// The peer has closed its side: read the rest.
    peer_closed: bool,
    /// Its input has ended.
    ended: bool,
    /// It takes no output until its next readiness.
    blocked: bool,
    /// The poller knows that it is blocked.
    shown_blocked: bool,
    /// The transport is closing its output.
    closing: bool,
    /// Its output has ended.
    shut: bool,
    /// The connection is in progress.
    connecting: bool,
}

impl End {
    /// An end that may be readable already.
    pub(crate) fn of(transport: Transport) -> Self {
        Self::with_output(transport, Output::default())
    }

    /// The same with pending output.
    pub(crate) fn with_output(transport: Transport, output: Output) -> Self {
        Self {
            transport,
            output,
            readable: true,
            peer_closed: false,
            ended: false,
            blocked: false,
            shown_blocked: false,
            closing: false,
            shut: false,
            connecting: false,
        }
    }

    /// An end whose connection is in progress: the poller reports it as writable, or its failure.
    pub(crate) fn connecting(transport: Transport) -> Self {
        Self { readable: false, blocked: true, shown_blocked: true, connecting: true, ..Self::of(transport) }
    }

    /// Whether the connection is in progress.
    pub(crate) fn is_connecting(&self) -> bool {
        self.connecting
    }

    /// Handles readiness from the poller.
    pub(crate) fn note(&mut self, event: &Readiness) {
        self.connecting = false;
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.peer_closed |= event.is_read_closed() || event.is_error();
        if event.is_writable() || event.is_error() || self.transport.has_room() {
            self.blocked = false;
        }
    }

    /// Handles the events of a QUIC connection.
    #[cfg(feature = "quic")]
    pub(crate) fn note_news(&mut self, news: News) {
        self.readable |= news.readable || news.ended;
        self.peer_closed |= news.ended;
        self.blocked &= !news.writable;
    }

    pub(crate) fn transport_mut(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// The transport, of an end without pending output.
    pub(crate) fn into_transport(self) -> Transport {
        self.transport
    }

    /// The transport has failed.
    pub(crate) fn fail(&mut self) {
        self.connecting = false;
        self.ended = true;
        self.shut = true;
        self.output = Output::default();
    }

    /// Whether the peer has closed its side, with or without input that was not read.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.peer_closed || self.ended
    }

    /// Whether its input has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether its input and output have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.shut
    }

    /// Adapts the poller's interest after output was blocked or unblocked.
    pub(crate) fn show_blocked(&mut self, registry: &Registry, token: Token) {
        if self.blocked != self.shown_blocked && !self.shut {
            self.shown_blocked = self.blocked;
            if self.transport.set_blocked(registry, token, self.blocked).is_err() {
                self.fail();
            }
        }
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty() || self.transport.is_waiting()
    }

    /// Writes pending output, as far as the transport accepts it.
    pub(crate) fn flush(&mut self, buffer: &mut [u8]) {
        while !self.blocked && !self.shut && self.has_output() {
            match self.transport.write(Some(&mut self.output), buffer) {
                Ok(Wrote::Blocked) => self.blocked = true,
                Ok(Wrote::All) => break,
                Ok(Wrote::Some) => {}
                Err(_) => self.fail(),
            }
        }
        if self.output.is_empty() && self.output.capacity() > 0 {
            // An idle relay owns no buffer.
            self.output = Output::default();
        }
    }

    /// Appends bytes to the output.
    pub(crate) fn append(&mut self, last: &[u8]) {
        if !self.shut {
            self.output.append(last);
        }
    }

    /// Ends the output.
    pub(crate) fn finish(&mut self, buffer: &mut [u8]) {
        if !self.closing {
            self.closing = true;
            self.transport.close(HOME_ENDED);
        }
        self.flush(buffer);
        if !self.shut && !self.has_output() {
            self.shut = true;
            self.transport.shutdown_write();
        }
    }
}

impl End {
    /// Reads once. With a read, the sign of room may have gone.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        let input = self.transport.read(buffer);
        self.blocked &= !self.transport.has_room();
        input
    }

    /// Appends input that has come, until there are [`READ_AHEAD_BYTES`]. So a new home that does not continue the
    /// connection of a client finds a DISCONNECT.
    pub(crate) fn read_ahead(&mut self, out: &mut Vec<u8>, buffer: &mut [u8]) {
        while self.readable && !self.ended && out.len() < READ_AHEAD_BYTES {
            match self.read(buffer) {
                Ok(Input::Bytes { payload, full }) => {
                    self.readable = full || self.peer_closed;
                    out.extend_from_slice(buffer.get(payload).unwrap_or_default());
                }
                Ok(Input::Last { payload, .. }) => {
                    self.ended = true;
                    out.extend_from_slice(buffer.get(payload).unwrap_or_default());
                }
                Ok(Input::Blocked | Input::Introduced) => {
                    self.readable = false;
                    self.ended |= self.peer_closed;
                }
                Ok(Input::Closed) => self.ended = true,
                Err(_) => self.fail(),
            }
        }
    }

    /// Ends the output, and drops the input. Returns whether there is more to do at once.
    pub(crate) fn finish_and_discard(&mut self, buffer: &mut [u8]) -> bool {
        self.finish(buffer);
        if self.readable && !self.ended {
            match self.read(buffer) {
                Ok(Input::Bytes { full, .. }) => self.readable = full || self.peer_closed,
                Ok(Input::Blocked | Input::Introduced) => {
                    self.readable = false;
                    self.ended |= self.peer_closed;
                }
                Ok(Input::Last { .. } | Input::Closed) => self.ended = true,
                Err(_) => self.fail(),
            }
        }
        self.readable && !self.ended
    }
}

/// Moves bytes from one end to the other: one read, if the other has no pending output. Returns whether there is more
/// to do at once. `sift` appends the bytes read to the output, and returns true after the last bytes.
pub(crate) fn carry(
    from: &mut End,
    to: &mut End,
    buffer: &mut [u8],
    mut sift: impl FnMut(&[u8], &mut Output) -> bool,
) -> bool {
    to.flush(buffer);
    if from.readable && !from.ended && (!to.has_output() || to.shut) {
        match from.read(buffer) {
            Ok(Input::Bytes { payload, full }) => {
                from.readable = full || from.peer_closed;
                if to.take(buffer, payload, &mut sift) {
                    from.fail();
                }
            }
            Ok(Input::Last { payload, .. }) => {
                to.take(buffer, payload, &mut sift);
                from.ended = true;
            }
            Ok(Input::Blocked | Input::Introduced) => {
                from.readable = false;
                from.ended |= from.peer_closed;
            }
            Ok(Input::Closed) => from.ended = true,
            Err(_) => from.fail(),
        }
        to.flush(buffer);
        // A pong, or an answer to a handshake.
        from.flush(buffer);
    }
    from.readable && !from.ended && (!to.has_output() || to.shut)
}

impl End {
    /// Bytes for an end whose output has ended are dropped. Returns whether these were the last bytes for it.
    fn take(
        &mut self,
        buffer: &[u8],
        payload: std::ops::Range<usize>,
        sift: &mut impl FnMut(&[u8], &mut Output) -> bool,
    ) -> bool {
        match buffer.get(payload).filter(|_| !self.shut) {
            Some(bytes) => sift(bytes, &mut self.output),
            None => false,
        }
    }
}
