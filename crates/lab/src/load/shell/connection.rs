//! A connection: bytes in, bytes out, whatever lies between MQTT and TCP.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::Registry;
use mio::net::TcpStream;

use super::layers::{LayerSettings, Layers};
use crate::load::core::Output;

/// Room that a read has at least, beside the rest of an incomplete packet.
const ROOM: usize = 64 * 1024;

/// Bytes that are sealed at a time.
const SEALED_AT_ONCE: usize = 64 * 1024;

pub(crate) struct Connection {
    stream: TcpStream,
    is_connected: bool,
    /// True if the core knows that MQTT may begin.
    is_reported: bool,
    /// The received part of an incomplete packet.
    partial: Vec<u8>,
    layers: Option<Box<Layers>>,
    /// The poller has said that the other side has ended it.
    ends: bool,
}

/// The result of a read.
pub(crate) struct Brought {
    /// Bytes of MQTT in the buffer.
    pub(crate) len: usize,
    /// Whether there may be more.
    pub(crate) is_full: bool,
    /// Whether nothing will come any more.
    pub(crate) is_closed: bool,
}

impl Connection {
    pub(in crate::load) fn layered(stream: TcpStream, layers: Option<Layers>) -> Self {
        let layers = layers.map(Box::new);
        Self { stream, is_connected: false, is_reported: false, partial: Vec::new(), layers, ends: false }
    }

    /// A connection within TLS.
    pub(crate) fn within(stream: TcpStream, layers: &LayerSettings) -> Self {
        Self::layered(stream, Some(layers.begin()))
    }

    /// A connection without layers.
    pub(crate) fn plain(stream: TcpStream) -> Self {
        Self::layered(stream, None)
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether the connection has been made by now.
    pub(crate) fn connect(&mut self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => self.is_connected = true,
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
        Ok(self.is_connected)
    }

    /// Whether MQTT may begin; true once.
    pub(crate) fn has_opened(&mut self) -> bool {
        let is_open = self.is_connected && self.layers.as_ref().is_none_or(|layers| layers.is_open());
        is_open && !std::mem::replace(&mut self.is_reported, true)
    }

    /// Whether the layers have something to say themselves.
    pub(crate) fn has_own_output(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.has_output())
    }

    /// The other side has ended it: its last bytes are to be read up to the end. The poller reports the end once, with
    /// any amount of input before it.
    pub(crate) fn note_end(&mut self) {
        self.ends = true;
    }

    /// Reads once, behind the incomplete packet, at most `limit` bytes.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) -> io::Result<Brought> {
        let before = self.partial.len();
        if buffer.len() < before + ROOM {
            buffer.resize(before + 4 * ROOM, 0);
        }
        buffer[..before].copy_from_slice(&self.partial);
        let mut brought = Brought { len: before, is_full: false, is_closed: false };
        if let Some(layers) = &mut self.layers {
            let mut plain = Vec::new();
            let (count, is_full) = layers.read(&mut self.stream, &mut plain)?;
            brought.is_closed = count == Some(0);
            brought.is_full = is_full || (self.ends && count.is_some_and(|count| count > 0));
            brought.len += plain.len();
            if buffer.len() < brought.len {
                buffer.resize(brought.len, 0);
            }
            buffer[before..brought.len].copy_from_slice(&plain);
            return Ok(brought);
        }
        let end = buffer.len().min(before.saturating_add(limit));
        match self.stream.read(&mut buffer[before..end]) {
            Ok(count) => {
                brought.is_closed = count == 0;
                brought.is_full = before + count == end || (self.ends && count > 0);
                brought.len += count;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(brought)
    }

    /// Keeps the incomplete packet.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            // Most connections have nothing left most of the time, and own no buffer then.
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        }
    }

    /// Writes as much as the connection takes.
    pub(crate) fn flush(&mut self, output: &mut Output, keep: bool) -> io::Result<()> {
        if let Some(layers) = &mut self.layers {
            if !self.is_connected {
                return Ok(());
            }
            layers.write(&mut self.stream)?;
            // Sealed bytes can wait, others are sealed once there is room: the next event continues.
            while layers.is_open() && output.len() > 0 && !layers.is_crowded() {
                let part = output.len().min(SEALED_AT_ONCE);
                layers.seal(&output.rest()[..part])?;
                output.wrote(part, keep);
                layers.write(&mut self.stream)?;
            }
            return Ok(());
        }
        while self.is_connected && output.len() > 0 {
            match self.stream.write(output.rest()) {
                Ok(count) => output.wrote(count, keep),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the layers' own output.
    pub(crate) fn flush_own(&mut self) -> io::Result<()> {
        match &mut self.layers {
            Some(layers) if self.is_connected => layers.write(&mut self.stream),
            _ => Ok(()),
        }
    }

    /// Writes the last bytes, and ends the output.
    pub(crate) fn say_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(layers) = &mut self.layers {
            layers.seal(bytes)?;
            layers.say_last();
            layers.write(&mut self.stream)?;
        } else {
            self.stream.write_all(bytes)?;
        }
        self.stream.shutdown(Shutdown::Write)
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) {
        // A descriptor that is about to be closed leaves the poll automatically, too.
        let _ = registry.deregister(&mut self.stream);
    }
}

#[cfg(test)]
mod tests {
    use mio::{Events, Interest, Poll, Token};

    use super::*;

    /// The last bytes of a broker and the end of its connection come together, and the poller reports both with one
    /// event.
    #[test]
    fn an_end_that_comes_with_the_last_bytes_is_noticed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut broker, _) = listener.accept().unwrap();
        broker.write_all(b"goodbye").unwrap();
        drop(broker);
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(8));
        poll.registry().register(&mut stream, Token(0), Interest::READABLE).unwrap();
        let mut connection = Connection::plain(stream);
        while !events.iter().any(mio::event::Event::is_read_closed) {
            poll.poll(&mut events, None).unwrap();
        }
        connection.note_end();
        let mut buffer = Vec::new();
        let first = connection.read(&mut buffer, usize::MAX).unwrap();
        assert!(first.len == 7 && first.is_full && !first.is_closed, "there is more to be read: the end");
        let last = connection.read(&mut buffer, usize::MAX).unwrap();
        assert!(last.is_closed && !last.is_full);
    }
}
