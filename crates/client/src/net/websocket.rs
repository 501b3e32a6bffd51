//! The client's side of WebSocket (RFC 6455), as far as MQTT needs it: binary frames both ways, no extensions. It is
//! without I/O, as the client is; `tungstenite` reads and writes a stream.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::address::write_authority;

/// The longest head of a response, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// The most header lines of a response.
const MAX_HEADERS: usize = 64;
/// The suffix of the key (RFC 6455, section 1.3).
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest payload of a control frame, in bytes.
const MAX_CONTROL: usize = 125;
/// While more bytes than this wait to be written, pings are not answered.
const MAX_WAITING_FOR_PONG: usize = 256 << 10;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// In place of a length: it follows in two bytes.
const LENGTH_16: u8 = 0x7E;
/// In place of a length: it follows in eight bytes.
const LENGTH_64: u8 = 0x7F;

/// The status of a close frame that reports no error (RFC 6455, section 7.4.1).
const NORMAL_CLOSURE: u16 = 1000;

const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A protocol error of the server below MQTT. The transport is then closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketError {
    /// The response is no HTTP response, or its head is too long.
    #[error("the server's answer is no HTTP response")]
    InvalidResponse,
    /// The server does not change to WebSocket.
    #[error("the server answered with HTTP status {status} instead of changing to WebSocket")]
    NotAccepted {
        /// The status.
        status: u16,
    },
    /// The server does not switch to WebSocket with the subprotocol `mqtt` ([MQTT-6.0.0-4]).
    #[error("the server did not accept the WebSocket subprotocol 'mqtt'")]
    WrongHandshake,
    /// A frame is malformed, or not of a kind that MQTT uses ([MQTT-6.0.0-1]).
    #[error("the server sent an invalid WebSocket frame")]
    InvalidFrame,
    /// The server closes the WebSocket.
    #[error("the server closed the WebSocket")]
    Closed,
}

/// How far the WebSocket is.
#[derive(Debug)]
enum State {
    /// The request has been made; the answer must repeat this.
    Handshake { accept: String },
    /// Between two frames.
    Header,
    /// The number of missing bytes of a data frame.
    Data { left: u64 },
}

/// A WebSocket over a stream of bytes.
#[derive(Debug)]
pub struct WebSocket {
    state: State,
    /// The beginning of a head, a header or a control frame that has not arrived in full.
    input: Vec<u8>,
    output: Vec<u8>,
    masks: Masks,
}

impl WebSocket {
    /// A WebSocket that has a request to send.
    pub fn new(host: &str, port: u16, path: &str) -> Self {
        let mut masks = Masks::new();
        let mut nonce = [0; 16];
        for part in nonce.chunks_mut(4) {
            part.copy_from_slice(&masks.next());
        }
        let key = data_encoding::BASE64.encode(&nonce);
        let mut authority = String::new();
        // Writing to a String cannot fail.
        let _ = write_authority(&mut authority, host, port);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
        );
        Self {
            state: State::Handshake { accept: accept_of(&key) },
            input: Vec::new(),
            output: request.into_bytes(),
            masks,
        }
    }

    /// Whether the server has accepted the WebSocket.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Handshake { .. })
    }

    /// The bytes to write.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Notes the number of bytes that were written.
    pub fn advance_output(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }

    /// Puts bytes of MQTT into a frame.
    pub fn wrap(&mut self, payload: &[u8]) {
        if !payload.is_empty() {
            self.frame(BINARY, payload);
        }
    }

    /// Says farewell, unless the handshake is still going on.
    pub(super) fn close(&mut self) {
        if self.is_open() {
            self.frame(CLOSE, &NORMAL_CLOSURE.to_be_bytes());
        }
    }

    /// A frame of a client is masked (RFC 6455, section 5.3).
    fn frame(&mut self, opcode: u8, payload: &[u8]) {
        let mask = self.masks.next();
        self.output.push(FINAL | opcode);
        match payload.len() {
            len @ ..=125 => self.output.push(MASKED | len as u8),
            len @ 126..=0xFFFF => {
                self.output.push(MASKED | LENGTH_16);
                self.output.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                self.output.push(MASKED | LENGTH_64);
                self.output.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        self.output.extend_from_slice(&mask);
        let masked = payload.iter().zip(mask.iter().cycle());
        self.output.extend(masked.map(|(byte, mask)| byte ^ mask));
    }

    /// Takes bytes from the socket, cut anywhere, and appends the bytes of MQTT among them to `payload`.
    ///
    /// # Errors
    /// When the server breaks the protocol, refuses or closes the WebSocket.
    pub fn handle_input(&mut self, bytes: &[u8], payload: &mut Vec<u8>) -> Result<(), WebSocketError> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut rest = &input[..];
        while let Some(consumed) = self.step(rest, payload)? {
            rest = rest.get(consumed..).unwrap_or(&[]);
        }
        self.input = rest.to_vec();
        Ok(())
    }

    /// Takes the next thing off the front of `input` and returns its length; `None` when more bytes are needed.
    fn step(&mut self, input: &[u8], payload: &mut Vec<u8>) -> Result<Option<usize>, WebSocketError> {
        match &self.state {
            State::Handshake { accept } => {
                let len = handshake(input, accept)?;
                if len.is_some() {
                    self.state = State::Header;
                }
                Ok(len)
            }
            State::Header => self.header(input),
            State::Data { left } => {
                let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                payload.extend_from_slice(input.get(..count).unwrap_or(&[]));
                let left = left - count as u64;
                self.state = if left == 0 { State::Header } else { State::Data { left } };
                Ok((left == 0 || count > 0).then_some(count))
            }
        }
    }

    fn header(&mut self, input: &[u8]) -> Result<Option<usize>, WebSocketError> {
        let &[first, second, ref rest @ ..] = input else {
            return Ok(None);
        };
        // No extension was agreed on, and a server does not mask (RFC 6455, section 5.1).
        if first & RESERVED != 0 || second & MASKED != 0 {
            return Err(WebSocketError::InvalidFrame);
        }
        let (len, length_bytes) = match second {
            LENGTH_16 => match rest.first_chunk() {
                Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2),
                None => return Ok(None),
            },
            LENGTH_64 => match rest.first_chunk() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 8),
                None => return Ok(None),
            },
            len => (u64::from(len), 0),
        };
        let header = 2 + length_bytes;
        match first & 0x0F {
            CONTINUATION | BINARY => {
                self.state = State::Data { left: len };
                Ok(Some(header))
            }
            opcode @ (CLOSE | PING | PONG) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                if first & FINAL == 0 || len > MAX_CONTROL {
                    return Err(WebSocketError::InvalidFrame);
                }
                let Some(body) = input.get(header..header + len) else {
                    return Ok(None);
                };
                match opcode {
                    CLOSE => return Err(WebSocketError::Closed),
                    // A server that pings and does not read gets no more answers than it has room for.
                    PING if self.output.len() < MAX_WAITING_FOR_PONG => self.frame(PONG, body),
                    _ => {}
                }
                Ok(Some(header + len))
            }
            _ => Err(WebSocketError::InvalidFrame),
        }
    }
}

/// Reads the head of the response; its length when it is there in full and changes to WebSocket.
fn handshake(input: &[u8], accept: &str) -> Result<Option<usize>, WebSocketError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let len = match response.parse(input) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => return Err(WebSocketError::InvalidResponse),
    };
    let status = response.code.unwrap_or(0);
    if status != 101 {
        return Err(WebSocketError::NotAccepted { status });
    }
    let header = |name: &str| {
        let mut headers = response.headers.iter();
        let found = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::trim)
    };
    let upgraded = header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
    let accepted = header("sec-websocket-accept") == Some(accept);
    let mqtt = header("sec-websocket-protocol") == Some("mqtt");
    if upgraded && accepted && mqtt { Ok(Some(len)) } else { Err(WebSocketError::WrongHandshake) }
}

/// The required answer to a key (RFC 6455, section 4.2.2).
fn accept_of(key: &str) -> String {
    let mut digest = sha1_smol::Sha1::new();
    digest.update(key.as_bytes());
    digest.update(ACCEPT_SUFFIX.as_bytes());
    data_encoding::BASE64.encode(&digest.digest().bytes())
}

/// Unpredictable masks: a keyed hash of a counter, with a random key of the system.
#[derive(Debug)]
struct Masks {
    state: RandomState,
    counter: u64,
}

impl Masks {
    fn new() -> Self {
        Self { state: RandomState::new(), counter: 0 }
    }

    fn next(&mut self) -> [u8; 4] {
        self.counter += 1;
        let mut hasher = self.state.build_hasher();
        hasher.write_u64(self.counter);
        (hasher.finish() as u32).to_be_bytes()
    }
}

#[cfg(test)]
mod tests;
