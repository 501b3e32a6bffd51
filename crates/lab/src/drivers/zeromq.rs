//! ZeroMQ's publishers and subscribers without a broker [ZMTP 3.0, mechanism NULL].

use super::driver::Bytes;
use super::{Driver, Problem, Role, Sink};

const GREETING_LEN: usize = 64;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// The longest frame, in bytes.
const LONGEST: u64 = 1 << 30;

/// A connection.
pub(super) struct ZeroMq {
    role: Role,
    greeted: bool,
    is_ready: bool,
}

impl ZeroMq {
    pub(super) const fn new(role: Role) -> Self {
        Self { role, greeted: false, is_ready: false }
    }

    const fn socket_type(&self) -> &'static [u8] {
        match self.role {
            Role::Publish => b"PUB",
            Role::Subscribe => b"SUB",
        }
    }

    /// The command after the greeting: READY with the type of the socket.
    fn ready(&self, out: &mut Vec<u8>) {
        let mut body = b"\x05READY\x0BSocket-Type".to_vec();
        body.extend_from_slice(&(self.socket_type().len() as u32).to_be_bytes());
        body.extend_from_slice(self.socket_type());
        frame(COMMAND, &body, out);
    }

    fn on_greeting(&mut self, greeting: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        if greeting[0] != 0xFF || greeting[9] & 1 == 0 || greeting[10] < 3 {
            return Err(Problem::new("the peer does not speak ZMTP 3"));
        }
        if !greeting[12..].starts_with(b"NULL\0") {
            return Err(Problem::new("the peer wants more than the mechanism NULL"));
        }
        self.greeted = true;
        self.ready(out);
        Ok(())
    }

    fn on_frame(&mut self, flags: u8, body: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        if flags & COMMAND != 0 {
            if body.starts_with(b"\x05ERROR") {
                return Err(Problem::new(String::from_utf8_lossy(body)));
            }
            if body.starts_with(b"\x05READY") && self.role == Role::Subscribe {
                // A subscription to every message: a frame that begins with 1.
                frame(0, &[1], out);
                self.is_ready = true;
            }
        } else if self.role == Role::Subscribe {
            if flags & MORE == 0 {
                sink.message(body);
            }
        } else if body.first() == Some(&1) {
            self.is_ready = true;
        }
        Ok(())
    }
}

fn frame(flags: u8, body: &[u8], out: &mut Vec<u8>) {
    if let Ok(len) = u8::try_from(body.len()) {
        out.extend_from_slice(&[flags, len]);
    } else {
        out.push(flags | LONG);
        out.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    out.extend_from_slice(body);
}

/// A frame: its flags, its body, and how long it is.
type Frame<'a> = (u8, &'a [u8], usize);

/// The frame at the begin of some bytes, once all of it is there.
fn split(bytes: &[u8]) -> Result<Option<Frame<'_>>, Problem> {
    let mut reader = Bytes(bytes);
    let Ok(flags) = reader.u8() else { return Ok(None) };
    let len = if flags & LONG == 0 { reader.u8().map(u64::from) } else { reader.u64() };
    let Ok(len) = len else { return Ok(None) };
    if len > LONGEST {
        return Err(Problem::new("a frame is longer than any that was sent"));
    }
    let Ok(body) = reader.take(len as usize) else { return Ok(None) };
    Ok(Some((flags, body, bytes.len() - reader.0.len())))
}

impl Driver for ZeroMq {
    fn opened(&mut self, out: &mut Vec<u8>) {
        let mut greeting = [0; GREETING_LEN];
        greeting[0] = 0xFF;
        greeting[9] = 0x7F;
        greeting[10] = 3;
        greeting[12..16].copy_from_slice(b"NULL");
        out.extend_from_slice(&greeting);
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut taken = 0;
        if !self.greeted {
            let Some(greeting) = bytes.get(..GREETING_LEN) else { return Ok(0) };
            self.on_greeting(greeting, out)?;
            taken = GREETING_LEN;
        }
        while let Some((flags, body, len)) = split(&bytes[taken..])? {
            self.on_frame(flags, body, out, sink)?;
            taken += len;
        }
        Ok(taken)
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        frame(0, payload, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{Noted, feed};
    use super::*;

    #[test]
    fn a_publisher_and_a_subscriber_find_each_other() {
        for piece in [1, 7, 1000] {
            let (mut publisher, mut subscriber) = (ZeroMq::new(Role::Publish), ZeroMq::new(Role::Subscribe));
            let mut noted = Noted::default();
            let (mut from_publisher, mut from_subscriber) = (Vec::new(), Vec::new());
            publisher.opened(&mut from_publisher);
            subscriber.opened(&mut from_subscriber);
            assert_eq!(from_publisher.len(), 64);
            for _ in 0..2 {
                let answer = feed(&mut subscriber, &std::mem::take(&mut from_publisher), piece, &mut noted);
                from_subscriber.extend(answer);
                from_publisher = feed(&mut publisher, &std::mem::take(&mut from_subscriber), piece, &mut noted);
            }
            let answer = feed(&mut subscriber, &from_publisher, piece, &mut noted);
            feed(&mut publisher, &answer, piece, &mut noted);
            assert!(publisher.is_ready() && subscriber.is_ready());
            let mut out = Vec::new();
            publisher.publish(b"short", &mut out);
            publisher.publish(&[7; 300], &mut out);
            feed(&mut subscriber, &out, piece, &mut noted);
            assert_eq!(noted.messages, [b"short".to_vec(), vec![7; 300]]);
        }
    }

    #[test]
    fn another_protocol_is_recognised() {
        let mut driver = ZeroMq::new(Role::Subscribe);
        assert!(driver.received(&[0; 64], &mut Vec::new(), &mut Noted::default()).is_err());
    }
}
