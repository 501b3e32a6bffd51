//! The server's end of one WebSocket connection: handshake, then frames. Bytes in, bytes out; no socket.

use std::ops::Range;
use std::sync::Arc;

use super::close_code::{CloseCode, Violation};
use super::decoder::{Decoder, Item};
use super::handshake::{HEAD_MAX, Handshake, Refusal, handshake};
use super::outgoing::Outgoing;
use super::site::Site;

/// The server's end of one connection.
#[derive(Debug)]
pub struct Endpoint {
    phase: Phase,
    outgoing: Outgoing,
}

#[derive(Debug)]
enum Phase {
    Handshake(Box<Request>),
    Open(Decoder),
    /// Whatever arrives is ignored.
    Ended,
}

/// The received part of a request head, and the data for its answer.
#[derive(Debug)]
struct Request {
    held: Vec<u8>,
    /// Its path, and the pages that may connect.
    site: Arc<Site>,
}

/// The result of the bytes of one read.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// Where the MQTT bytes lie in the input, moved together.
    pub payload: Range<usize>,
    /// Set once, when no more input follows: send the pending output, then close.
    pub ended: Option<Ended>,
}

/// Why a WebSocket connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The request was refused.
    #[error("the WebSocket handshake was refused: {0}")]
    Refused(Refusal),
    /// The client broke the protocol.
    #[error("the client broke the WebSocket protocol: {0}")]
    Violation(Violation),
    /// The client sent a close frame.
    #[error("the client closed the WebSocket")]
    Closed,
}

impl Endpoint {
    /// The server's end of a connection to a listener that serves `site`.
    pub fn new(site: Arc<Site>) -> Self {
        Self { phase: Phase::Handshake(Box::new(Request { held: Vec::new(), site })), outgoing: Outgoing::default() }
    }

    /// Takes the bytes of one read. The MQTT bytes among them are unmasked and moved together inside `input`, so that
    /// the caller has one slice, however many frames it came in.
    pub fn receive(&mut self, input: &mut [u8]) -> Received {
        let mut at = 0;
        if let Phase::Handshake(request) = &mut self.phase {
            let Request { held, site } = &mut **request;
            let had = held.len();
            let outcome = if had == 0 {
                handshake(input, site)
            } else {
                let room = HEAD_MAX.saturating_sub(had).min(input.len());
                held.extend_from_slice(input.get(..room).unwrap_or_default());
                handshake(held, site)
            };
            match outcome {
                Handshake::Partial => {
                    if had == 0 {
                        held.extend_from_slice(input);
                    }
                    return Received { payload: 0..0, ended: None };
                }
                Handshake::Accepted { length, response } => {
                    self.outgoing.put_raw(&response);
                    self.phase = Phase::Open(Decoder::default());
                    at = length.saturating_sub(had);
                }
                Handshake::Refused { refusal, response } => {
                    self.outgoing.put_raw(&response);
                    return self.end(0..0, Ended::Refused(refusal));
                }
            }
        }
        self.take_frames(input, at)
    }

    fn take_frames(&mut self, input: &mut [u8], mut at: usize) -> Received {
        let Phase::Open(decoder) = &mut self.phase else {
            return Received { payload: 0..0, ended: None };
        };
        let mut payload: Option<Range<usize>> = None;
        let ended = loop {
            match decoder.next(input, &mut at) {
                Ok(None) => break None,
                Ok(Some(Item::Payload(part))) => match &mut payload {
                    None => payload = Some(part),
                    Some(payload) => {
                        let end = payload.end + part.len();
                        input.copy_within(part, payload.end);
                        payload.end = end;
                    }
                },
                Ok(Some(Item::Ping(body))) => self.outgoing.put_pong(body),
                Ok(Some(Item::Close(code))) => {
                    self.outgoing.put_close(code);
                    break Some(Ended::Closed);
                }
                Err(violation) => {
                    self.outgoing.put_close(Some(violation.code()));
                    break Some(Ended::Violation(violation));
                }
            }
        };
        let payload = payload.unwrap_or(0..0);
        match ended {
            Some(ended) => self.end(payload, ended),
            None => Received { payload, ended: None },
        }
    }

    fn end(&mut self, payload: Range<usize>, ended: Ended) -> Received {
        self.phase = Phase::Ended;
        Received { payload, ended: Some(ended) }
    }

    /// Sends a close frame after the pending output; later input is ignored. A connection that is still in its
    /// handshake gets none.
    pub fn close(&mut self, code: CloseCode) {
        if matches!(self.phase, Phase::Open(_)) {
            self.outgoing.put_close(Some(code));
        }
        self.phase = Phase::Ended;
    }

    /// Whether no more MQTT bytes follow: the handshake failed, or one side has closed.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The framing of the output.
    pub fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    /// Whether bytes other than MQTT's are pending.
    pub fn is_waiting(&self) -> bool {
        self.outgoing.is_waiting()
    }
}
