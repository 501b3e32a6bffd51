//! Reading and writing a socket once.

use std::io::{self, IoSlice, Read, Write};

use tidegate_engine::Output;
use tidegate_pipe::PipeEnd;

use super::{Input, Wrote};
use crate::limits::SLICES_PER_WRITE;

/// Reads once into `buffer`.
pub(super) fn read(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<Input> {
    loop {
        return match stream.read(buffer) {
            Ok(0) => Ok(Input::Closed),
            Ok(length) => Ok(Input::Bytes { payload: 0..length, full: length == buffer.len() }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Input::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}

/// Reads a pipe once. One that is not empty, or has ended, counts as a full buffer: no later event reports that.
pub(super) fn read_pipe(end: &mut PipeEnd, buffer: &mut [u8]) -> io::Result<Input> {
    Ok(match read(end, buffer)? {
        Input::Bytes { payload, .. } => Input::Bytes { payload, full: end.has_more() },
        other => other,
    })
}

/// Writes `output` once, as far as the socket takes it.
pub(super) fn write_output(stream: &mut impl Write, output: &mut Output) -> io::Result<Wrote> {
    let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
    let filled = output.slices(&mut slices);
    let slices = slices.get(..filled).unwrap_or_default();
    let offered: usize = slices.iter().map(|slice| slice.len()).sum();
    if offered == 0 {
        return Ok(Wrote::All);
    }
    let written = write_slices(stream, slices)?;
    output.advance(written);
    Ok(if written < offered {
        Wrote::Blocked
    } else if !output.is_writable() {
        // All, or all but output that waits for a commit.
        Wrote::All
    } else {
        Wrote::Some
    })
}

/// Writes once and returns how many bytes the socket took, 0 when it would block. Taking less than it was offered means
/// that its buffer is full; it reports when there is room again.
pub(super) fn write_slices(stream: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        let outcome = match slices {
            // Most outputs are one piece, and `send` is cheaper than `sendmsg`.
            [only] => stream.write(only),
            _ => stream.write_vectored(slices),
        };
        match outcome {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => return Ok(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
