//! The client's side of RFC 6455, as much of it as MQTT over WebSocket needs, with full control over frames.

use crate::outcome::{Outcome, failed};
use crate::tcp::{Reading, open_tcp, read_some, write_all};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The nonce of the example in RFC 6455, section 1.3, and the answer it has to get; so that no SHA-1 is needed here.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Longest head of an HTTP response that is read, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Masking key of every frame sent. A fixed one is fine: nothing here needs to be unpredictable.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Opcodes of frames.
pub(crate) mod opcode {
    pub(crate) const CONTINUATION: u8 = 0x0;
    pub(crate) const TEXT: u8 = 0x1;
    pub(crate) const BINARY: u8 = 0x2;
    pub(crate) const CLOSE: u8 = 0x8;
    pub(crate) const PING: u8 = 0x9;
    pub(crate) const PONG: u8 = 0xa;
}

/// A frame from the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) fin: bool,
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

/// The broker's answer to the opening handshake.
#[derive(Clone, Debug)]
pub(crate) struct Handshake {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Handshake {
    /// The value of a header field, whose name is compared without case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A WebSocket connection after the opening handshake.
#[derive(Debug)]
pub(crate) struct WebSocket {
    stream: TcpStream,
    inbound: Vec<u8>,
}

impl WebSocket {
    /// Opens a connection to `host:port` and asks for `path`, offering these subprotocols.
    pub(crate) fn open(address: &str, path: &str, offer: &str, patience: Duration) -> Outcome<(Self, Handshake)> {
        let mut stream = open_tcp(address, patience)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {offer}\r\n\r\n"
        );
        write_all(&mut stream, request.as_bytes(), patience)?;
        let mut inbound = Vec::new();
        let handshake = read_handshake(&mut stream, &mut inbound, Instant::now() + patience)?;
        if handshake.status == 101 && handshake.header("Sec-WebSocket-Accept") != Some(ACCEPT) {
            return failed("the WebSocket handshake has a wrong Sec-WebSocket-Accept (RFC 6455, section 4.2.2)");
        }
        Ok((Self { stream, inbound }, handshake))
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends one masked frame. `false` means that the broker has closed the connection.
    pub(crate) fn send(&mut self, fin: bool, opcode: u8, payload: &[u8], patience: Duration) -> Outcome<bool> {
        write_all(&mut self.stream, &masked_frame(fin, opcode, payload), patience)
    }

    /// Sends raw bytes, for packets that no correct client would send.
    pub(crate) fn send_raw(&mut self, bytes: &[u8], patience: Duration) -> Outcome<bool> {
        write_all(&mut self.stream, bytes, patience)
    }

    /// Sends the bytes as one binary frame. `false` means that the broker has closed the connection.
    pub(crate) fn write_binary(&mut self, bytes: &[u8], patience: Duration) -> Outcome<bool> {
        self.send(true, opcode::BINARY, bytes, patience)
    }

    /// The next frame, or nothing when the connection was closed without one. A broker's silence is a failure.
    pub(crate) fn next_frame(&mut self, deadline: Instant) -> Outcome<Option<Frame>> {
        loop {
            if let Some((frame, length)) = split_frame(&self.inbound)? {
                self.inbound.drain(..length);
                return Ok(Some(frame));
            }
            match read_some(&mut self.stream, &mut self.inbound, deadline)? {
                Reading::Bytes => {}
                Reading::Closed => return Ok(None),
                Reading::TimedOut => return failed("no WebSocket frame came in time"),
            }
        }
    }

    /// Appends the payload of data frames; answers pings; a close frame counts as closed.
    pub(crate) fn read_binary(&mut self, into: &mut Vec<u8>, deadline: Instant) -> Outcome<Reading> {
        loop {
            if let Some((frame, length)) = split_frame(&self.inbound)? {
                self.inbound.drain(..length);
                match frame.opcode {
                    opcode::BINARY | opcode::CONTINUATION if frame.payload.is_empty() => {}
                    opcode::BINARY | opcode::CONTINUATION => {
                        into.extend_from_slice(&frame.payload);
                        return Ok(Reading::Bytes);
                    }
                    opcode::PING => {
                        self.send(true, opcode::PONG, &frame.payload, Duration::from_secs(5))?;
                    }
                    opcode::PONG => {}
                    opcode::CLOSE => return Ok(Reading::Closed),
                    other => {
                        return failed(format!(
                            "MQTT-6.0.0-1 (3.1.1: MQTT-6.0-1): a frame with opcode {other} instead of a binary one"
                        ));
                    }
                }
                continue;
            }
            match read_some(&mut self.stream, &mut self.inbound, deadline)? {
                Reading::Bytes => {}
                other => return Ok(other),
            }
        }
    }
}

/// A frame as a client has to send it: masked.
pub(crate) fn masked_frame(fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(fin, opcode, payload.len(), 0x80);
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// A frame without a mask, which a client must not send.
pub(crate) fn unmasked_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(true, opcode, payload.len(), 0);
    bytes.extend_from_slice(payload);
    bytes
}

fn head(fin: bool, opcode: u8, length: usize, mask_bit: u8) -> Vec<u8> {
    let mut bytes = vec![(u8::from(fin) << 7) | opcode];
    match length {
        0..=125 => bytes.push(mask_bit | length as u8),
        126..=0xffff => {
            bytes.push(mask_bit | 0x7e);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(mask_bit | 0x7f);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes
}

/// Splits the first complete frame of a server off, with its length on the wire.
fn split_frame(bytes: &[u8]) -> Outcome<Option<(Frame, usize)>> {
    let [first, second, rest @ ..] = bytes else {
        return Ok(None);
    };
    if second & 0x80 != 0 {
        return failed("a server must not mask its frames (RFC 6455, section 5.1)");
    }
    let wide = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some(length_bytes) = rest.get(..wide) else {
        return Ok(None);
    };
    let length = match wide {
        0 => usize::from(second & 0x7f),
        _ => length_bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)),
    };
    let Some(payload) = rest.get(wide..wide + length) else {
        return Ok(None);
    };
    let frame = Frame { fin: first & 0x80 != 0, opcode: first & 0x0f, payload: payload.to_vec() };
    Ok(Some((frame, 2 + wide + length)))
}

/// Reads the head of the HTTP response; later bytes stay in `inbound`.
fn read_handshake(stream: &mut TcpStream, inbound: &mut Vec<u8>, deadline: Instant) -> Outcome<Handshake> {
    let end = loop {
        if let Some(end) = inbound.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if inbound.len() > HEAD_BYTES_MAX {
            return failed("the head of the WebSocket handshake does not end");
        }
        match read_some(stream, inbound, deadline)? {
            Reading::Bytes => {}
            // A connection closed without an answer is a refusal too, with status 0.
            Reading::Closed => {
                return Ok(Handshake { status: 0, headers: Vec::new() });
            }
            Reading::TimedOut => return failed("no answer to the WebSocket handshake"),
        }
    };
    let head = String::from_utf8_lossy(inbound.get(..end).unwrap_or_default()).into_owned();
    inbound.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    match status {
        Some(status) => Ok(Handshake { status, headers }),
        None => failed(format!("the answer to the WebSocket handshake is not HTTP: {head}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_each_length_form_are_split() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let bytes = unmasked_frame(opcode::BINARY, &vec![7; length]);
            assert!(matches!(split_frame(&bytes[..bytes.len() - 1]), Ok(None)), "{length}");
            let Ok(Some((frame, taken))) = split_frame(&bytes) else {
                panic!("no frame of {length} bytes");
            };
            assert_eq!((frame.payload.len(), taken), (length, bytes.len()));
        }
    }

    #[test]
    fn a_masked_frame_hides_its_payload() {
        let frame = masked_frame(true, opcode::BINARY, &[0, 0]);
        assert_eq!(frame, [0x82, 0x82, 0x37, 0xfa, 0x21, 0x3d, 0x37, 0xfa]);
    }
}
