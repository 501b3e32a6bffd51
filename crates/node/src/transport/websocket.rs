//! A WebSocket on its socket: the codec decides, this reads and writes.

use std::io::{self, IoSlice};
use std::sync::Arc;

use tidegate_engine::{Output, Reason};

use super::stream::Stream;
use super::tls::Tls;
use super::{Ended, Input, Wrote};
use crate::limits::SLICES_PER_WRITE;
use crate::websocket::{CloseCode, Endpoint, Site};

/// A WebSocket over TCP or TLS.
pub(crate) struct WebSocket {
    stream: Stream,
    endpoint: Endpoint,
}

// An idle WebSocket connection costs the shell this much more than a TCP connection.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<WebSocket>() <= 112);

impl WebSocket {
    pub(super) fn new(stream: Stream, site: Arc<Site>) -> Self {
        Self { stream, endpoint: Endpoint::new(site) }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.endpoint.is_waiting() || self.stream.tls().is_some_and(Tls::is_waiting)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.endpoint.has_ended() || self.stream.tls().is_some_and(Tls::has_ended)
    }

    pub(super) fn close(&mut self, reason: Reason) {
        self.endpoint.close(close_code(reason));
        if let Some(tls) = self.stream.tls_mut() {
            tls.close();
        }
    }

    /// Reads once and leaves the MQTT bytes together in `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        let (payload, full, below) = match self.stream.read(buffer)? {
            Input::Bytes { payload, full } => (payload, full, None),
            Input::Last { payload, ended } => (payload, false, Some(ended)),
            other => return Ok(other),
        };
        let received = self.endpoint.receive(buffer.get_mut(payload).unwrap_or_default());
        Ok(match below.or(received.ended.map(Ended::WebSocket)) {
            Some(ended) => Input::Last { payload: received.payload, ended },
            None => Input::Bytes { payload: received.payload, full },
        })
    }

    /// Writes pending output in one frame, with control frames around it.
    pub(super) fn write(&mut self, mut output: Option<&mut Output>, scratch: &mut [u8]) -> io::Result<Wrote> {
        if let Some(tls) = self.stream.tls_mut() {
            if !tls.flush()? {
                return Ok(Wrote::Blocked);
            }
            if !tls.can_send() {
                return Ok(Wrote::All);
            }
        }
        let waiting = output.as_deref().map_or(0, Output::writable_len);
        let outgoing = self.endpoint.outgoing();
        let in_frame = outgoing.prepare(waiting);
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        let filled = match output.as_deref() {
            Some(output) if in_frame > 0 => output.slices(&mut slices),
            _ => 0,
        };
        let slices = slices.get(..filled).unwrap_or_default();
        let mut pieces = [IoSlice::new(&[]); SLICES_PER_WRITE + 1];
        let (count, offered) = join(&mut pieces, outgoing.prefix(), slices, in_frame);
        if offered == 0 {
            return self.stream.tls_mut().map_or(Ok(Wrote::All), Tls::finish);
        }
        let sent = self.stream.send(pieces.get(..count).unwrap_or_default(), scratch)?;
        let of_output = self.endpoint.outgoing().written(sent.bytes);
        if let Some(output) = output.as_deref_mut() {
            output.advance(of_output);
        }
        if sent.blocked {
            return Ok(Wrote::Blocked);
        }
        let more = sent.bytes < offered || output.is_some_and(|output| output.is_writable()) || self.is_waiting();
        Ok(if more { Wrote::Some } else { Wrote::All })
    }
}

/// Puts the prefix and then the output up to the end of the open frame into `pieces`. Returns the number of pieces and
/// of their bytes.
fn join<'a>(
    pieces: &mut [IoSlice<'a>],
    prefix: &'a [u8],
    output: &'a [IoSlice<'a>],
    mut in_frame: usize,
) -> (usize, usize) {
    let of_output = output.iter().map(|slice| {
        let part = slice.get(..in_frame).unwrap_or(slice);
        in_frame -= part.len();
        part
    });
    let (mut count, mut bytes) = (0, 0);
    let parts = std::iter::once(prefix).chain(of_output).filter(|part| !part.is_empty());
    for (piece, part) in pieces.iter_mut().zip(parts) {
        *piece = IoSlice::new(part);
        count += 1;
        bytes += part.len();
    }
    (count, bytes)
}

/// The close code for a WebSocket client, beside the DISCONNECT packet.
fn close_code(reason: Reason) -> CloseCode {
    match reason {
        Reason::NormalDisconnect | Reason::DisconnectWithWill => CloseCode::NORMAL,
        Reason::ServerShuttingDown | Reason::UseAnotherServer => CloseCode::GOING_AWAY,
        Reason::MalformedPacket | Reason::ProtocolError => CloseCode::PROTOCOL_ERROR,
        Reason::PacketTooLarge => CloseCode::TOO_BIG,
        _ => CloseCode::POLICY_VIOLATION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_no_more_than_was_promised_when_it_began() {
        let output = [IoSlice::new(b"abc"), IoSlice::new(b"defg")];
        for in_frame in 0..=7 {
            let mut pieces = [IoSlice::new(&[]); 3];
            let (count, bytes) = join(&mut pieces, b"><", &output, in_frame);
            let joined: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.to_vec()).collect();
            assert_eq!(joined, b"><abcdefg"[..2 + in_frame]);
            assert_eq!(bytes, joined.len());
        }
    }

    #[test]
    fn an_empty_prefix_is_no_piece() {
        let output = [IoSlice::new(b"abc")];
        let mut pieces = [IoSlice::new(&[]); 3];
        assert_eq!(join(&mut pieces, b"", &output, 3), (1, 3));
    }
}
