//! Decodes frames of a client as their bytes arrive. It buffers headers and control frames only.

use std::ops::Range;

use super::close_code::{CloseCode, Violation};
use super::frame::{CONTROL_MAX, HEADER_MAX, Header, Opcode, header, header_length};
use super::mask::Mask;

/// The largest MQTT packet, 256 MiB and its header; no frame has a reason to be longer.
pub const FRAME_MAX: u64 = 268_435_455 + 5;

/// A decoded item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Unmasked payload of binary frames, as a range of the input.
    Payload(Range<usize>),
    /// A ping, to be answered with the same payload.
    Ping(Box<[u8]>),
    /// The peer closes with this code, or without one. Later bytes are ignored.
    Close(Option<CloseCode>),
}

/// Takes frames apart.
#[derive(Debug, Default)]
pub struct Decoder {
    stage: Stage,
    /// Whether a binary message was begun and not ended.
    in_message: bool,
}

#[derive(Debug)]
enum Stage {
    Header {
        bytes: [u8; HEADER_MAX],
        have: u8,
    },
    Data {
        left: u64,
        mask: Mask,
    },
    /// Boxed, for few frames are of this kind and every connection pays for the largest.
    Control(Box<Control>),
    Closed,
}

/// A control frame as far as it has arrived.
#[derive(Debug)]
struct Control {
    opcode: Opcode,
    left: usize,
    mask: Mask,
    payload: Vec<u8>,
}

impl Control {
    /// Takes the bytes of the frame and returns their number.
    fn take(&mut self, input: &mut [u8]) -> usize {
        let length = self.left.min(input.len());
        let bytes = input.get_mut(..length).unwrap_or_default();
        self.mask.apply(bytes);
        self.payload.extend_from_slice(bytes);
        self.left -= length;
        length
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::Header { bytes: [0; HEADER_MAX], have: 0 }
    }
}

impl Decoder {
    /// Takes the next item out of `input[*at..]`, unmasking payload in place, and moves `at` behind it. `None` when the
    /// input is used up.
    ///
    /// # Errors
    /// When the client broke the protocol. The connection must then be closed; the decoder returns no more items.
    pub fn next(&mut self, input: &mut [u8], at: &mut usize) -> Result<Option<Item>, Violation> {
        let result = self.advance(input, at);
        if matches!(result, Err(_) | Ok(Some(Item::Close(_)))) {
            self.stage = Stage::Closed;
        }
        result
    }

    fn advance(&mut self, input: &mut [u8], at: &mut usize) -> Result<Option<Item>, Violation> {
        loop {
            let rest = input.get_mut(*at..).unwrap_or_default();
            match &mut self.stage {
                Stage::Closed => {
                    *at += rest.len();
                    return Ok(None);
                }
                Stage::Header { bytes, have } => {
                    let Some(header) = take_header(bytes, have, rest, at)? else {
                        return Ok(None);
                    };
                    self.stage = self.begin(header)?;
                }
                Stage::Data { left: 0, .. } => self.stage = Stage::default(),
                Stage::Data { .. } if rest.is_empty() => return Ok(None),
                Stage::Data { left, mask } => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    mask.apply(rest.get_mut(..length).unwrap_or_default());
                    *left -= length as u64;
                    let start = *at;
                    *at += length;
                    return Ok(Some(Item::Payload(start..*at)));
                }
                Stage::Control(control) => {
                    *at += control.take(rest);
                    if control.left > 0 {
                        return Ok(None);
                    }
                    let (opcode, payload) = (control.opcode, std::mem::take(&mut control.payload));
                    self.stage = Stage::default();
                    match opcode {
                        Opcode::Ping => return Ok(Some(Item::Ping(payload.into()))),
                        Opcode::Close => return close(&payload).map(Some),
                        // An unsolicited pong is a heartbeat and needs no answer.
                        _ => {}
                    }
                }
            }
        }
    }

    /// The stage that follows a header.
    fn begin(&mut self, header: Header) -> Result<Stage, Violation> {
        let mask = Mask::new(header.mask);
        match header.opcode {
            Opcode::Continuation if !self.in_message => return Err(Violation::NothingToContinue),
            Opcode::Binary if self.in_message => return Err(Violation::UnfinishedMessage),
            Opcode::Text => return Err(Violation::TextFrame),
            Opcode::Continuation | Opcode::Binary => {}
            Opcode::Close | Opcode::Ping | Opcode::Pong => {
                let left = usize::try_from(header.length).unwrap_or(CONTROL_MAX).min(CONTROL_MAX);
                let control = Control { opcode: header.opcode, left, mask, payload: Vec::with_capacity(left) };
                return Ok(Stage::Control(Box::new(control)));
            }
        }
        if header.length > FRAME_MAX {
            return Err(Violation::FrameTooLong);
        }
        // The message ends with this frame's last byte; the flag is not read before that.
        self.in_message = !header.last;
        Ok(Stage::Data { left: header.length, mask })
    }
}

/// Collects a header. Its first two bytes give its length, so that a bad one is refused before the rest arrives.
fn take_header(
    bytes: &mut [u8; HEADER_MAX],
    have: &mut u8,
    input: &[u8],
    at: &mut usize,
) -> Result<Option<Header>, Violation> {
    let mut input = input.iter();
    loop {
        let length = match (*have, &*bytes) {
            (0 | 1, _) => 2,
            (_, &[first, second, ..]) => header_length(first, second)?,
        };
        let held = usize::from(*have);
        if held == length && held > 2 {
            return header(bytes.get(..held).unwrap_or_default()).map(Some);
        }
        let Some(byte) = input.next() else { return Ok(None) };
        if let Some(place) = bytes.get_mut(held) {
            *place = *byte;
        }
        *have += 1;
        *at += 1;
    }
}

fn close(payload: &[u8]) -> Result<Item, Violation> {
    let code = match payload {
        [] => None,
        [_] => return Err(Violation::CloseFrame),
        [high, low, reason @ ..] => {
            let number = u16::from_be_bytes([*high, *low]);
            let code = CloseCode::received(number).ok_or(Violation::CloseFrame)?;
            std::str::from_utf8(reason).map_err(|_| Violation::CloseReason)?;
            Some(code)
        }
    };
    Ok(Item::Close(code))
}
