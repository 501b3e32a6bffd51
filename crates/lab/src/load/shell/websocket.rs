//! WebSocket between MQTT and its transport [RFC 6455].

use std::io;

use data_encoding::BASE64;

use crate::load::chance::Chance;

/// The longest answer to the handshake, in bytes.
const LONGEST_ANSWER: usize = 16 * 1024;

const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// The length is in the next two bytes.
const MIDDLE: u8 = 126;
/// The length is in the next eight bytes.
const LONG: u8 = 127;

/// WebSocket between MQTT and its transport.
pub(super) struct WebSocket {
    chance: Chance,
    is_open: bool,
    /// The received part of an incomplete answer or frame header.
    partial: Vec<u8>,
    /// The frame that is being read.
    frame: Option<Frame>,
    pong: Option<Vec<u8>>,
}

/// The rest of a frame.
struct Frame {
    code: u8,
    left: u64,
    control: Vec<u8>,
}

impl WebSocket {
    pub(super) const fn new(seed: u64) -> Self {
        Self { chance: Chance::new(seed), is_open: false, partial: Vec::new(), frame: None, pong: None }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// The request.
    pub(super) fn request(&mut self, host: &str, path: &str) -> Vec<u8> {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.chance.number().to_le_bytes());
        key[8..].copy_from_slice(&self.chance.number().to_le_bytes());
        let key = BASE64.encode(&key);
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
        )
        .into_bytes()
    }

    /// Puts bytes into a frame.
    pub(super) fn wrap(&mut self, bytes: &[u8], framed: &mut Vec<u8>) {
        self.frame(BINARY, bytes, framed);
    }

    fn frame(&mut self, code: u8, bytes: &[u8], framed: &mut Vec<u8>) {
        framed.push(FINAL | code);
        match bytes.len() {
            len @ 0..126 => framed.push(MASKED | len as u8),
            len @ 126..65_536 => {
                framed.push(MASKED | MIDDLE);
                framed.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                framed.push(MASKED | LONG);
                framed.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        let mask = (self.chance.number() as u32).to_le_bytes();
        framed.extend_from_slice(&mask);
        framed.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    }

    /// The answer to a ping, if there was one.
    pub(super) fn take_pong(&mut self) -> Option<Vec<u8>> {
        let body = self.pong.take()?;
        let mut framed = Vec::new();
        self.frame(PONG, &body, &mut framed);
        Some(framed)
    }

    /// Takes bytes out of their frames.
    ///
    /// # Errors
    /// When the broker does not answer as a WebSocket does, or closes it.
    pub(super) fn unwrap(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        let joined;
        let mut bytes = bytes;
        if !self.partial.is_empty() {
            let mut before = std::mem::take(&mut self.partial);
            before.extend_from_slice(bytes);
            joined = before;
            bytes = &joined;
        }
        if !self.is_open {
            let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
                self.partial = bytes.to_vec();
                return if bytes.len() > LONGEST_ANSWER { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) };
            };
            if !bytes.starts_with(b"HTTP/1.1 101") {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            self.is_open = true;
            bytes = &bytes[end + 4..];
        }
        self.frames(bytes, plain)
    }

    fn frames(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let mut frame = if let Some(frame) = self.frame.take() {
                frame
            } else if let Some((frame, len)) = header(bytes) {
                bytes = &bytes[len..];
                frame
            } else {
                self.partial = bytes.to_vec();
                return Ok(());
            };
            let count = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
            match frame.code {
                BINARY | CONTINUATION => plain.extend_from_slice(&bytes[..count]),
                _ => frame.control.extend_from_slice(&bytes[..count]),
            }
            bytes = &bytes[count..];
            frame.left -= count as u64;
            if frame.left > 0 {
                self.frame = Some(frame);
                return Ok(());
            }
            match frame.code {
                CLOSE => return Err(io::ErrorKind::ConnectionAborted.into()),
                PING => self.pong = Some(frame.control),
                _ => {}
            }
        }
    }
}

/// Reads the header of a frame; its length.
fn header(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    let (left, len) = match second & 0x7F {
        MIDDLE => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        LONG => (u64::from_be_bytes(*rest.first_chunk()?), 10),
        short => (u64::from(short), 2),
    };
    Some((Frame { code: first & 0x0F, left, control: Vec::new() }, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_pieces_of_any_size_come_out_whole() {
        let mut stream = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_vec();
        stream.extend_from_slice(&[FINAL | BINARY, 3, 1, 2, 3]);
        stream.extend_from_slice(&[FINAL | PING, 1, 9]);
        stream.extend_from_slice(&[FINAL | BINARY, MIDDLE, 1, 0]);
        stream.extend_from_slice(&[7; 256]);
        for size in [1, 2, 7, 1000] {
            let (mut socket, mut plain) = (WebSocket::new(1), Vec::new());
            let mut pongs = 0;
            for piece in stream.chunks(size) {
                socket.unwrap(piece, &mut plain).unwrap();
                pongs += u32::from(socket.take_pong().is_some());
            }
            assert!(socket.is_open());
            assert_eq!((plain.len(), &plain[..4], pongs), (259, &[1, 2, 3, 7][..], 1), "in pieces of {size}");
        }
    }

    #[test]
    fn a_frame_is_masked() {
        let mut framed = Vec::new();
        WebSocket::new(1).wrap(&[0; 200], &mut framed);
        assert_eq!((framed.len(), framed[0], framed[1]), (2 + 2 + 4 + 200, FINAL | BINARY, MASKED | MIDDLE));
        assert_eq!(framed[4..8], framed[8..12], "the mask, applied to zeros");
    }

    #[test]
    fn another_answer_is_an_error() {
        assert!(WebSocket::new(1).unwrap(b"HTTP/1.1 404 Not Found\r\n\r\n", &mut Vec::new()).is_err());
    }
}
