//! Frames of a WebSocket (RFC 6455) at a server: whole text messages in, text messages out.
//!
//! The decoder of MQTT over WebSocket hands bytes on in place and knows no text; here messages are few and small.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

/// Longest message that is taken from a client, bytes.
pub(crate) const MAX_MESSAGE: usize = 4 << 10;
/// Longest payload of a control frame, bytes (section 5.5).
const MAX_CONTROL: usize = 125;
/// The suffix of the key before it is hashed (section 1.3).
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a connection is closed (section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseCode {
    /// The listener stops.
    GoingAway = 1001,
    /// The client has broken the protocol.
    ProtocolError = 1002,
    /// The client has sent a message that means nothing here.
    Policy = 1008,
    /// A message of the client is too long.
    TooLong = 1009,
}

/// A frame or message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A whole message.
    Message(Vec<u8>),
    /// To be answered with the same payload.
    Ping(Vec<u8>),
    /// A sign of life.
    Pong,
    /// The client closes.
    Close,
}

/// Kinds of frames (section 11.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// A message of text.
    Text = 1,
    /// The end.
    Close = 8,
    /// A question whether the other side lives.
    Ping = 9,
    /// Its answer.
    Pong = 10,
}

/// The value of `Sec-WebSocket-Accept` for a key.
pub(crate) fn accept(key: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(ACCEPT_SUFFIX);
    STANDARD.encode(context.finish())
}

/// Appends a frame of a server.
pub(crate) fn put(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    out.push(0x80 | opcode as u8);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if usize::from(length) <= MAX_CONTROL => out.push(length),
        (_, Ok(length)) => {
            out.push(126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// Appends the frame that closes a connection, with a reason for people.
pub(crate) fn put_close(out: &mut Vec<u8>, code: CloseCode, why: &str) {
    let mut end = why.len().min(MAX_CONTROL - 2);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    let mut payload = (code as u16).to_be_bytes().to_vec();
    payload.extend_from_slice(why.get(..end).unwrap_or_default().as_bytes());
    put(out, Opcode::Close, &payload);
}

/// Takes the frames of a client apart.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    input: Vec<u8>,
    /// Bytes of the input that were taken.
    taken: usize,
    /// The message so far, when its last frame has not come.
    message: Option<Vec<u8>>,
}

impl Decoder {
    /// Takes bytes. Call [`Decoder::next`] until it has no more frames before the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.input.drain(..self.taken.min(self.input.len()));
        self.taken = 0;
        self.input.extend_from_slice(bytes);
    }

    /// The next frame or message that is complete.
    ///
    /// # Errors
    /// How the connection is to be closed.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, CloseCode> {
        loop {
            let Some((head, payload)) = self.take_frame()? else { return Ok(None) };
            let is_last = head & 0x80 != 0;
            match head & 0x0f {
                8 => return Ok(Some(Frame::Close)),
                9 => return Ok(Some(Frame::Ping(payload))),
                10 => return Ok(Some(Frame::Pong)),
                kind @ 0..=2 => {
                    if (kind == 0) != self.message.is_some() {
                        return Err(CloseCode::ProtocolError);
                    }
                    let message = self.message.get_or_insert_default();
                    message.extend_from_slice(&payload);
                    if message.len() > MAX_MESSAGE {
                        return Err(CloseCode::TooLong);
                    }
                    if let Some(message) = self.message.take_if(|_| is_last) {
                        return Ok(Some(Frame::Message(message)));
                    }
                }
                _ => return Err(CloseCode::ProtocolError),
            }
        }
    }

    /// The first byte and the payload of the next frame, when it is complete.
    fn take_frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, CloseCode> {
        let [head, second, rest @ ..] = self.input.get(self.taken..).unwrap_or_default() else { return Ok(None) };
        // A client masks, and no extension was agreed on.
        if second & 0x80 == 0 || head & 0x70 != 0 {
            return Err(CloseCode::ProtocolError);
        }
        let is_control = head & 0x08 != 0;
        let (length, rest) = match second & 0x7f {
            126 => {
                let Some((length, rest)) = rest.split_first_chunk::<2>() else { return Ok(None) };
                (usize::from(u16::from_be_bytes(*length)), rest)
            }
            127 => return Err(CloseCode::TooLong),
            length => (usize::from(length), rest),
        };
        if is_control && (length > MAX_CONTROL || head & 0x80 == 0) {
            return Err(CloseCode::ProtocolError);
        }
        if length > MAX_MESSAGE {
            return Err(CloseCode::TooLong);
        }
        let Some((mask, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some(masked) = rest.get(..length) else { return Ok(None) };
        let payload = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        let (head, left) = (*head, rest.len() - length);
        self.taken = self.input.len() - left;
        Ok(Some((head, payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a client.
    fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut bytes = vec![head];
        if payload.len() < 126 {
            bytes.push(0x80 | payload.len() as u8);
        } else {
            bytes.push(0xfe);
            bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        }
        bytes.extend_from_slice(&mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    #[test]
    fn the_example_of_the_standard_is_accepted() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frames_are_whole_wherever_their_bytes_are_cut() {
        let bytes = [
            frame(0x01, b"{\"a\""),
            frame(0x89, b"hi"),
            frame(0x80, b":1}"),
            frame(0x81, &[b'x'; 300]),
            frame(0x8a, b""),
            frame(0x88, b"\x03\xe8"),
        ]
        .concat();
        let expected = [
            Frame::Ping(b"hi".to_vec()),
            Frame::Message(b"{\"a\":1}".to_vec()),
            Frame::Message(vec![b'x'; 300]),
            Frame::Pong,
            Frame::Close,
        ];
        for step in [1, 2, 7, bytes.len()] {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for part in bytes.chunks(step) {
                decoder.push(part);
                while let Some(frame) = decoder.next().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, expected, "{step}");
        }
    }

    #[test]
    fn wrong_and_long_frames_close_the_connection() {
        let cases = [
            (vec![0x81, 0x01, b'x'], CloseCode::ProtocolError),
            (frame(0xc1, b"x"), CloseCode::ProtocolError),
            (frame(0x80, b"x"), CloseCode::ProtocolError),
            (frame(0x83, b"x"), CloseCode::ProtocolError),
            (frame(0x09, b"x"), CloseCode::ProtocolError),
            (frame(0x89, &[0; 126]), CloseCode::ProtocolError),
            (vec![0x81, 0xff], CloseCode::TooLong),
            (frame(0x81, &[0; MAX_MESSAGE + 1]), CloseCode::TooLong),
            ([frame(0x01, &[0; MAX_MESSAGE]), frame(0x80, b"x")].concat(), CloseCode::TooLong),
            ([frame(0x01, b"x"), frame(0x81, b"x")].concat(), CloseCode::ProtocolError),
        ];
        for (bytes, code) in cases {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert_eq!(decoder.next(), Err(code), "{bytes:?}");
        }
    }

    #[test]
    fn frames_of_a_server_have_the_shortest_length() {
        for (length, head) in
            [(1, &[0x81, 1][..]), (126, &[0x81, 126, 0, 126]), (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0])]
        {
            let mut out = Vec::new();
            put(&mut out, Opcode::Text, &vec![b'x'; length]);
            assert!(out.starts_with(head) && out.len() == head.len() + length, "{length}");
        }
        let mut out = Vec::new();
        put_close(&mut out, CloseCode::Policy, &"ä".repeat(100));
        assert_eq!((out[0], usize::from(out[1])), (0x88, out.len() - 2));
        assert!(std::str::from_utf8(&out[4..]).is_ok() && out.len() <= 127);
    }
}
