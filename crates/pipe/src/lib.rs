//! A connection between two threads of a process, for code that works with sockets.
//!
//! Bytes lie in the memory of the process. A pair of Unix sockets carries no bytes of the stream: an end writes one byte
//! to it, its *bell*, when the other end waits. So a batch costs one wake-up, however long it is, and a batch for a thread
//! that is at work costs none.

mod lane;

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use mio::event::Source;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};

use self::lane::{Lane, Taken};

/// Bytes that one direction holds at most. An end whose bytes find no room waits until half of it is free.
pub const CAPACITY: usize = 256 * 1024;

/// Rings for bytes, and rings for room, that lie in a bell at most: the end removes them then. A Unix socket holds more.
const MOST_RINGS: u32 = 64;

/// One end. It behaves as a socket that does not block: a poller reports it as readable when it has waited for bytes
/// or for room, and one of these has come. So an owner that waits for room reads, and asks [`PipeEnd::has_room`] then.
#[derive(Debug)]
pub struct PipeEnd {
    incoming: Arc<Lane>,
    outgoing: Arc<Lane>,
    /// The other end writes a byte here when this one waits.
    bell: UnixStream,
    /// Reads since the bell was emptied. Each may have been the reason of one ring.
    reads: u32,
    /// Times that room was found since then. Each was the reason of one ring.
    rooms: u32,
    /// Whether the last read has left bytes, or the end.
    has_more: bool,
    /// Whether a write has found no room for all its bytes, and none has come since, as far as this end knows.
    is_blocked: bool,
}

/// The two ends of a new connection.
///
/// # Errors
/// When the system has no sockets left.
pub fn pair() -> io::Result<(PipeEnd, PipeEnd)> {
    let (one, other) = (Arc::new(Lane::default()), Arc::new(Lane::default()));
    let (bell, other_bell) = UnixStream::pair()?;
    let end = |incoming: &Arc<Lane>, outgoing: &Arc<Lane>, bell| {
        let (incoming, outgoing) = (Arc::clone(incoming), Arc::clone(outgoing));
        PipeEnd { incoming, outgoing, bell, reads: 0, rooms: 0, has_more: false, is_blocked: false }
    };
    Ok((end(&one, &other, bell), end(&other, &one, other_bell)))
}

impl PipeEnd {
    /// Ends the stream in this direction, behind all that is written.
    pub fn shutdown_write(&self) {
        if self.outgoing.end() {
            self.ring();
        }
    }

    /// Whether a write that finds no room is over: there is some again, or there always was.
    pub fn has_room(&mut self) -> bool {
        if self.is_blocked && !self.outgoing.is_room_awaited() {
            self.is_blocked = false;
            self.rooms += 1;
            if self.rooms > MOST_RINGS {
                self.thin_bell();
            }
        }
        !self.is_blocked
    }

    /// Whether the last read has left something: the poller reports no bytes and no end that came before it.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Takes rings for room away where the owner does not read. One for bytes, which the poller may not have reported,
    /// looks like these: so some stay.
    fn thin_bell(&mut self) {
        let mut rings = [0; MOST_RINGS as usize / 2];
        let thinned = (&self.bell).read(&mut rings).unwrap_or_default();
        self.rooms = self.rooms.saturating_sub(u32::try_from(thinned).unwrap_or(u32::MAX));
    }

    fn empty_bell(&self) {
        let mut rings = [0; 2 * MOST_RINGS as usize];
        // An end that has gone has no more rings.
        while matches!((&self.bell).read(&mut rings), Ok(1..)) {}
    }

    /// Wakes the other end.
    fn ring(&self) {
        // A full bell is loud already, and an end that has gone needs none.
        let _ = (&self.bell).write(&[0]);
    }
}

impl Read for PipeEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.reads += 1;
        if self.reads > MOST_RINGS {
            // Before the look at the bytes: a ring for these may go, and a later one stays.
            self.empty_bell();
            (self.reads, self.rooms) = (1, 0);
        }
        let (taken, rings) = self.incoming.take(buffer);
        if rings {
            self.ring();
        }
        self.has_more = matches!(taken, Taken::Bytes(_, true));
        match taken {
            Taken::Bytes(count, _) => Ok(count),
            Taken::End => Ok(0),
            Taken::Nothing => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for PipeEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let (added, rings) = self.outgoing.add(slices).ok_or(ErrorKind::BrokenPipe)?;
        if rings {
            self.ring();
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        self.is_blocked = added < offered;
        if added == 0 && self.is_blocked {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(added)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.outgoing.end();
        self.incoming.leave();
        // With rings in it, its end would look like a failure to the other one. The end of the bell is the last ring.
        self.empty_bell();
    }
}

impl Source for PipeEnd {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.bell.register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.bell.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.bell.deregister(registry)
    }
}

#[cfg(test)]
mod tests;
