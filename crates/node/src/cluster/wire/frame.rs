//! Frames: found, read and written.

use super::carried::Portion;
use super::error::FrameError;
use super::hello::{Hello, Refusal};
use crate::secret::PROOF_BYTES;

/// Longest frame of a handshake, bytes: no node sends a longer one.
pub const MAX_GREETING_BYTES: usize = 512;

/// Longest frame of a session, bytes. A batch holds the records of one turn for another shard: at most the credit of a
/// link, and one message more, which may be as long as MQTT allows.
pub const MAX_FRAME_BYTES: usize = 512 * 1024 * 1024;

/// The type and the version of a first record of TLS.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 3];
/// Length and kind.
const HEAD_BYTES: usize = 5;

/// Bytes in front of a batch: length, kind, and the numbers of both shards.
pub const BATCH_HEAD_BYTES: usize = HEAD_BYTES + 4;

const HELLO: u8 = 1;
const PROOF: u8 = 2;
const REFUSAL: u8 = 3;
const BATCH: u8 = 16;
const PING: u8 = 17;
const PONG: u8 = 18;
const GOODBYE: u8 = 19;
const SETTLED: u8 = 20;
const QUESTION: u8 = 21;
const ANSWER: u8 = 22;
const CARRY: u8 = 23;
const CARRIED: u8 = 24;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The introduction; the first frame of each side.
    Hello(Hello),
    /// That the speaker knows the secret; the second frame of each side.
    Proof([u8; PROOF_BYTES]),
    /// That there will be no session; the last frame.
    Refusal(Refusal),
    /// Records of one shard of the sender for one of the receiver, each shard by its number within its node.
    Batch {
        /// The shard that wrote it.
        from: u16,
        /// The receiving shard.
        to: u16,
        /// As [`Batch::write_to`](tidegate_engine::Batch::write_to) makes it.
        batch: &'a [u8],
    },
    /// Asks for a [`Frame::Pong`].
    Ping {
        /// When it was sent, on the monotonic clock of the speaker, microseconds.
        sent: u64,
    },
    /// Answers a [`Frame::Ping`].
    Pong {
        /// The number of the ping.
        of: u64,
    },
    /// The listener knows the interest of all clients of the sender.
    Settled,
    /// Something that the process around the listener answers.
    Question {
        /// The sender's number of the question.
        number: u64,
        /// The question.
        body: &'a [u8],
    },
    /// The answer to a [`Frame::Question`].
    Answer {
        /// The number of the question.
        number: u64,
        /// The answer; empty if the node has none.
        body: &'a [u8],
    },
    /// Asks the listener to carry something to a third node.
    Carry(Portion<'a>),
    /// Something that the speaker was asked to carry by a third node.
    Carried(Portion<'a>),
    /// The node leaves: it has sent all its records.
    Goodbye,
}

/// The first frame of some bytes and how many it takes; `None` when it is not whole yet. Frames longer than `limit` are
/// refused as soon as their length is there.
///
/// # Errors
/// When the bytes are no frame.
pub fn split_frame(bytes: &[u8], limit: usize) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > limit {
        if bytes.starts_with(&TLS_HANDSHAKE) {
            return Err(FrameError::Tls);
        }
        return Err(FrameError::Length { length, limit });
    }
    let Some((kind, body)) = rest.get(..length).and_then(<[u8]>::split_first) else { return Ok(None) };
    Ok(Some((read(*kind, body)?, length + 4)))
}

fn read(kind: u8, body: &[u8]) -> Result<Frame<'_>, FrameError> {
    Ok(match kind {
        HELLO => Frame::Hello(Hello::read(body)?),
        PROOF => Frame::Proof(body.try_into().map_err(|_| FrameError::Body("a proof"))?),
        REFUSAL => Frame::Refusal(Refusal::read(body)?),
        BATCH => {
            let (numbers, batch) = body.split_first_chunk::<4>().ok_or(FrameError::Body("a batch"))?;
            let [from, and_from, to, and_to] = *numbers;
            Frame::Batch { from: u16::from_le_bytes([from, and_from]), to: u16::from_le_bytes([to, and_to]), batch }
        }
        PING => Frame::Ping { sent: read_time(body)? },
        PONG => Frame::Pong { of: read_time(body)? },
        QUESTION => {
            let (number, body) = read_numbered(body)?;
            Frame::Question { number, body }
        }
        ANSWER => {
            let (number, body) = read_numbered(body)?;
            Frame::Answer { number, body }
        }
        CARRY => Frame::Carry(Portion::read(body)?),
        CARRIED => Frame::Carried(Portion::read(body)?),
        SETTLED if body.is_empty() => Frame::Settled,
        GOODBYE if body.is_empty() => Frame::Goodbye,
        SETTLED | GOODBYE => return Err(FrameError::Body("the end of a frame")),
        other => return Err(FrameError::Kind(other)),
    })
}

fn read_numbered(body: &[u8]) -> Result<(u64, &[u8]), FrameError> {
    let (number, rest) = body.split_first_chunk().ok_or(FrameError::Body("the number of a question"))?;
    Ok((u64::from_le_bytes(*number), rest))
}

fn read_time(body: &[u8]) -> Result<u64, FrameError> {
    body.try_into().map(u64::from_le_bytes).map_err(|_| FrameError::Body("a time"))
}

/// Appends a frame.
pub fn put_frame(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    match frame {
        Frame::Hello(hello) => {
            out.push(HELLO);
            hello.write(out);
        }
        Frame::Proof(proof) => {
            out.push(PROOF);
            out.extend_from_slice(proof);
        }
        Frame::Refusal(refusal) => out.extend_from_slice(&[REFUSAL, refusal.code()]),
        Frame::Batch { from, to, batch } => {
            put_batch_head(*from, *to, out);
            out.extend_from_slice(batch);
        }
        Frame::Ping { sent } => {
            out.push(PING);
            out.extend_from_slice(&sent.to_le_bytes());
        }
        Frame::Pong { of } => {
            out.push(PONG);
            out.extend_from_slice(&of.to_le_bytes());
        }
        Frame::Question { number, body } => put_numbered(QUESTION, *number, body, out),
        Frame::Answer { number, body } => put_numbered(ANSWER, *number, body, out),
        Frame::Carry(portion) => put_portion(CARRY, portion, out),
        Frame::Carried(portion) => put_portion(CARRIED, portion, out),
        Frame::Settled => out.push(SETTLED),
        Frame::Goodbye => out.push(GOODBYE),
    }
    put_length(at, out);
}

fn put_numbered(kind: u8, number: u64, body: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(body);
}

fn put_portion(kind: u8, portion: &Portion<'_>, out: &mut Vec<u8>) {
    out.push(kind);
    portion.write(out);
}

/// Begins a frame with a batch, which is appended next, and returns its place for [`end_batch`]: so it is not copied.
pub fn begin_batch(from: u16, to: u16, out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    put_batch_head(from, to, out);
    at
}

/// Ends a frame that [`begin_batch`] has begun at this place.
pub fn end_batch(at: usize, out: &mut [u8]) {
    put_length(at, out);
}

fn put_batch_head(from: u16, to: u16, out: &mut Vec<u8>) {
    out.push(BATCH);
    out.extend_from_slice(&from.to_le_bytes());
    out.extend_from_slice(&to.to_le_bytes());
}

fn put_length(at: usize, out: &mut [u8]) {
    let length = out.len().saturating_sub(at + 4) as u32;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}
