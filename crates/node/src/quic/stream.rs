//! Reading and writing the one stream of a connection, between the shard's buffer and that of QUIC.

use std::io::{self, IoSlice};

use quinn_proto::{ReadError, ReadableError, StreamId, WriteError};
use tidegate_engine::Output;

use super::connection::{Quic, QuicFailure};
use crate::limits::SLICES_PER_WRITE;
use crate::socket_io::{Input, Wrote};

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// There is no more at the moment, or no more room.
    Pause,
    /// The client has ended its side.
    End,
}

impl Quic {
    /// Reads once into `buffer`.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Input<QuicFailure> {
        let (filled, stop) = self.fill(buffer);
        if stop == Stop::End {
            self.ended = true;
        }
        let full = filled == buffer.len();
        match filled {
            // The end after these bytes is found by the next read, which no other event would cause.
            1.. => Input::Bytes { payload: 0..filled, full: full || self.ended },
            0 if !self.ended => Input::Blocked,
            0 => match self.failure.take() {
                Some(failure) => Input::Last { payload: 0..0, ended: failure },
                None => Input::Closed,
            },
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> (usize, Stop) {
        let Some(stream) = self.stream else { return (0, Stop::Pause) };
        let mut receiving = self.connection.recv_stream(stream);
        let mut chunks = match receiving.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return (0, Stop::End),
        };
        let (mut filled, mut stop) = (0, Stop::Pause);
        while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
            match chunks.next(room.len()) {
                Ok(Some(chunk)) => {
                    if let Some(place) = room.get_mut(..chunk.bytes.len()) {
                        place.copy_from_slice(&chunk.bytes);
                    }
                    filled += chunk.bytes.len();
                }
                Err(ReadError::Blocked) => break,
                // The end of the stream, or its reset: there is no more input in both cases.
                Ok(None) | Err(ReadError::Reset(_)) => {
                    stop = Stop::End;
                    break;
                }
            }
        }
        // The client learns with the next datagram that it may send more.
        let _ = chunks.finalize();
        (filled, stop)
    }

    /// Takes as much of `output` as may be under way; it leaves when the turn ends.
    pub(crate) fn write(&mut self, output: Option<&mut Output>) -> io::Result<Wrote> {
        let (Some(output), Some(stream)) = (output.filter(|output| output.is_writable()), self.stream) else {
            return Ok(Wrote::All);
        };
        if self.connection.is_closed() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        let filled = output.slices(&mut slices);
        let (mut written, mut blocked) = (0, false);
        for slice in slices.get(..filled).unwrap_or_default() {
            let taken = self.offer(stream, slice)?;
            written += taken;
            blocked = taken < slice.len();
            if blocked {
                break;
            }
        }
        output.advance(written);
        Ok(match (blocked, output.is_writable()) {
            (true, _) => Wrote::Blocked,
            (false, true) => Wrote::Some,
            (false, false) => Wrote::All,
        })
    }

    /// Offers bytes until all are taken or the stream refuses: only after a refusal it reports that there is room
    /// again.
    fn offer(&mut self, stream: StreamId, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            match self.connection.send_stream(stream).write(rest) {
                Ok(count) => taken += count,
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
        }
        Ok(taken)
    }
}
