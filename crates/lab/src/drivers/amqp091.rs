//! AMQP 0-9-1 as in RabbitMQ: publishers publish to a fan-out exchange, and each subscriber has a queue of its own.

use super::driver::Bytes;
use super::{Driver, Problem, Role, Sink};
use crate::load::plan::Credentials;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const FRAME_END: u8 = 0xCE;
/// The bytes of a frame beside its payload.
const FRAME_OVERHEAD: usize = 8;
/// The largest frame that is asked for, in bytes.
const FRAME_MAX: u32 = 128 * 1024;
/// The channel for everything but the connection itself.
const CHANNEL: u16 = 1;
/// Messages that the broker may have under way to a subscriber that acknowledges them.
const PREFETCH: u16 = 1000;

/// The client's capabilities: it accepts a close with the reason of a failed login.
const CAPABILITIES: &[u8] = b"\x0ccapabilitiesF\0\0\0\x1f\x1cauthentication_failure_closet\x01";

/// A method: its class and its number.
type Method = (u16, u16);

const START: Method = (10, 10);
const START_OK: Method = (10, 11);
const TUNE: Method = (10, 30);
const TUNE_OK: Method = (10, 31);
const OPEN: Method = (10, 40);
const OPEN_OK: Method = (10, 41);
const CLOSE: Method = (10, 50);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);
const CHANNEL_CLOSE: Method = (20, 40);
const EXCHANGE_DECLARE: Method = (40, 10);
const EXCHANGE_DECLARE_OK: Method = (40, 11);
const QUEUE_DECLARE: Method = (50, 10);
const QUEUE_DECLARE_OK: Method = (50, 11);
const QUEUE_BIND: Method = (50, 20);
const QUEUE_BIND_OK: Method = (50, 21);
const QOS: Method = (60, 10);
const QOS_OK: Method = (60, 11);
const CONSUME: Method = (60, 20);
const CONSUME_OK: Method = (60, 21);
const PUBLISH: Method = (60, 40);
const DELIVER: Method = (60, 60);
const ACK: Method = (60, 80);
const NACK: Method = (60, 120);
const CONFIRM: Method = (85, 10);
const CONFIRM_OK: Method = (85, 11);

/// A connection.
pub(super) struct Amqp091 {
    exchange: String,
    host: String,
    login: Vec<u8>,
    acknowledged: bool,
    role: Role,
    is_ready: bool,
    product: Option<String>,
    frame_max: usize,
    queue: Vec<u8>,
    /// The first message that the broker has not acknowledged yet.
    unconfirmed: u64,
    /// The frame being received: its tag, the missing bytes, and the received ones.
    tag: u64,
    missing: u64,
    body: Vec<u8>,
}

impl Amqp091 {
    /// `host` is the virtual host; the usual one when it is empty.
    pub(super) fn new(
        exchange: &str,
        host: &str,
        credentials: Option<&Credentials>,
        acknowledged: bool,
        role: Role,
    ) -> Self {
        let (user, password) =
            credentials.map_or(("guest", "guest"), |credentials| (&credentials.username, &credentials.password));
        Self {
            exchange: exchange.to_owned(),
            host: if host.is_empty() { "/" } else { host }.to_owned(),
            login: format!("\0{user}\0{password}").into_bytes(),
            acknowledged,
            role,
            is_ready: false,
            product: None,
            frame_max: FRAME_MAX as usize,
            queue: Vec::new(),
            unconfirmed: 1,
            tag: 0,
            missing: 0,
            body: Vec::new(),
        }
    }

    fn on_method(&mut self, bytes: &mut Bytes<'_>, out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        let on_channel = |method, arguments: &[u8], out: &mut Vec<u8>| send(CHANNEL, method, arguments, out);
        match (bytes.u16()?, bytes.u16()?) {
            START => self.on_start(bytes, out),
            TUNE => self.on_tune(bytes, out)?,
            OPEN_OK => on_channel(CHANNEL_OPEN, &[0], out),
            CHANNEL_OPEN_OK => {
                let mut arguments = vec![0, 0];
                short(self.exchange.as_bytes(), &mut arguments);
                short(b"fanout", &mut arguments);
                // Neither passive nor durable nor internal; no arguments.
                arguments.extend_from_slice(&[0, 0, 0, 0, 0]);
                on_channel(EXCHANGE_DECLARE, &arguments, out);
            }
            EXCHANGE_DECLARE_OK if self.role == Role::Subscribe => {
                // Exclusive, and deleted with its consumer; the broker gives the name.
                on_channel(QUEUE_DECLARE, &[0, 0, 0, 0b1100, 0, 0, 0, 0], out);
            }
            EXCHANGE_DECLARE_OK if self.acknowledged => on_channel(CONFIRM, &[0], out),
            QUEUE_DECLARE_OK => {
                self.queue = bytes.short()?.to_vec();
                let mut arguments = vec![0, 0];
                short(&self.queue, &mut arguments);
                short(self.exchange.as_bytes(), &mut arguments);
                arguments.extend_from_slice(&[0, 0, 0, 0, 0, 0]);
                on_channel(QUEUE_BIND, &arguments, out);
            }
            QUEUE_BIND_OK => {
                let mut arguments = vec![0, 0, 0, 0];
                arguments.extend_from_slice(&PREFETCH.to_be_bytes());
                arguments.push(0);
                on_channel(QOS, &arguments, out);
            }
            QOS_OK => {
                let mut arguments = vec![0, 0];
                short(&self.queue, &mut arguments);
                arguments.push(0);
                arguments.push(if self.acknowledged { 0 } else { 0b10 });
                arguments.extend_from_slice(&[0, 0, 0, 0]);
                on_channel(CONSUME, &arguments, out);
            }
            EXCHANGE_DECLARE_OK | CONFIRM_OK | CONSUME_OK => self.is_ready = true,
            DELIVER => {
                bytes.short()?;
                self.tag = bytes.u64()?;
            }
            ACK => self.on_confirmed(bytes, |count| sink.acknowledged(count))?,
            NACK => self.on_confirmed(bytes, |count| sink.refused(count))?,
            CLOSE | CHANNEL_CLOSE => {
                let code = bytes.u16()?;
                let hint = match code {
                    403 => "; check user and password: amqp://USER:PASSWORD@HOST",
                    402 | 530 => "; check the virtual host: amqp://HOST/VIRTUAL-HOST",
                    _ => "",
                };
                return Err(Problem::new(format!("{code} {}{hint}", String::from_utf8_lossy(bytes.short()?))));
            }
            _ => {}
        }
        Ok(())
    }

    /// Authenticates by the first mechanism that both sides know.
    fn on_start(&mut self, bytes: &mut Bytes<'_>, out: &mut Vec<u8>) {
        let mut start = Bytes(bytes.0);
        self.product = product(&mut start).unwrap_or_default();
        let mut arguments = (CAPABILITIES.len() as u32).to_be_bytes().to_vec();
        arguments.extend_from_slice(CAPABILITIES);
        let (mechanism, login): (&[u8], &[u8]) =
            if wants_anonymous(bytes) { (b"ANONYMOUS", b"") } else { (b"PLAIN", &self.login) };
        short(mechanism, &mut arguments);
        arguments.extend_from_slice(&(login.len() as u32).to_be_bytes());
        arguments.extend_from_slice(login);
        short(b"en_US", &mut arguments);
        send(0, START_OK, &arguments, out);
    }

    fn on_tune(&mut self, bytes: &mut Bytes<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
        let channels = bytes.u16()?;
        let frame_max = match bytes.u32()? {
            0 => FRAME_MAX,
            theirs => theirs.clamp(4096, FRAME_MAX),
        };
        self.frame_max = frame_max as usize;
        let mut arguments = channels.to_be_bytes().to_vec();
        arguments.extend_from_slice(&frame_max.to_be_bytes());
        // No heartbeats: a connection that is measured is never idle for long.
        arguments.extend_from_slice(&[0, 0]);
        send(0, TUNE_OK, &arguments, out);
        let mut arguments = Vec::new();
        short(self.host.as_bytes(), &mut arguments);
        arguments.extend_from_slice(&[0, 0]);
        send(0, OPEN, &arguments, out);
        Ok(())
    }

    /// The broker has taken a message, or all up to it.
    fn on_confirmed(&mut self, bytes: &mut Bytes<'_>, tell: impl FnOnce(u64)) -> Result<(), Problem> {
        let tag = bytes.u64()?;
        if bytes.u8()? & 1 == 0 {
            // Single ones may come in any order; only their number counts.
            self.unconfirmed += 1;
            tell(1);
        } else if tag >= self.unconfirmed {
            tell(tag + 1 - self.unconfirmed);
            self.unconfirmed = tag + 1;
        }
        Ok(())
    }

    fn on_header(&mut self, bytes: &mut Bytes<'_>, out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        bytes.take(4)?;
        self.missing = bytes.u64()?;
        self.body.clear();
        if self.missing == 0 {
            self.on_body(&[], out, sink);
        }
        Ok(())
    }

    fn on_body(&mut self, body: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) {
        self.missing = self.missing.saturating_sub(body.len() as u64);
        if self.missing > 0 {
            self.body.extend_from_slice(body);
            return;
        }
        if self.body.is_empty() {
            sink.message(body);
        } else {
            self.body.extend_from_slice(body);
            sink.message(&self.body);
            self.body.clear();
        }
        if self.acknowledged {
            let mut arguments = self.tag.to_be_bytes().to_vec();
            arguments.push(0);
            send(CHANNEL, ACK, &arguments, out);
        }
    }
}

/// Whether the broker's START offers only anonymous access.
fn wants_anonymous(bytes: &mut Bytes<'_>) -> bool {
    let mut mechanisms = || {
        bytes.take(2)?;
        let properties = bytes.u32()?;
        bytes.take(properties as usize)?;
        let len = bytes.u32()?;
        bytes.take(len as usize)
    };
    let known = mechanisms().unwrap_or_default();
    let mut words = known.split(|byte| *byte == b' ');
    words.clone().any(|word| word == b"ANONYMOUS") && !words.any(|word| word == b"PLAIN")
}

/// The broker's name and version in START; `None` for unexpected types of properties.
fn product(start: &mut Bytes<'_>) -> Result<Option<String>, Problem> {
    start.take(2)?;
    let len = start.u32()?;
    let mut table = Bytes(start.take(len as usize)?);
    let (mut product, mut version) = (None, None);
    while !table.0.is_empty() {
        let name = table.short()?;
        let value = match table.u8()? {
            b't' => table.take(1)?,
            b'I' => table.take(4)?,
            b'S' | b'F' => {
                let len = table.u32()?;
                table.take(len as usize)?
            }
            _ => break,
        };
        match name {
            b"product" => product = Some(String::from_utf8_lossy(value).into_owned()),
            b"version" => version = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
    }
    Ok(version.map(|version| product.map_or(version.clone(), |product| format!("{product} {version}"))))
}

fn short(text: &[u8], out: &mut Vec<u8>) {
    out.push(text.len() as u8);
    out.extend_from_slice(text);
}

fn frame(kind: u8, channel: u16, parts: [&[u8]; 2], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    let len = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(parts[0]);
    out.extend_from_slice(parts[1]);
    out.push(FRAME_END);
}

fn send(channel: u16, (class, number): Method, arguments: &[u8], out: &mut Vec<u8>) {
    let [a, b] = class.to_be_bytes();
    let [c, d] = number.to_be_bytes();
    frame(METHOD, channel, [&[a, b, c, d], arguments], out);
}

impl Driver for Amqp091 {
    fn opened(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"AMQP\x00\x00\x09\x01");
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        if bytes.starts_with(b"AMQP") {
            return Err(Problem::new(
                "the broker speaks another version of AMQP; try amqp1:// for 1.0, or another port",
            ));
        }
        let mut rest = Bytes(bytes);
        loop {
            let mut reader = rest;
            let (Ok(kind), Ok(_), Ok(len)) = (reader.u8(), reader.u16(), reader.u32()) else { break };
            let (Ok(payload), Ok(end)) = (reader.take(len as usize), reader.u8()) else { break };
            if end != FRAME_END {
                return Err(Problem::new("a frame has no end"));
            }
            match kind {
                METHOD => self.on_method(&mut Bytes(payload), out, sink)?,
                HEADER => self.on_header(&mut Bytes(payload), out, sink)?,
                BODY => self.on_body(payload, out, sink),
                _ => {}
            }
            rest = reader;
        }
        Ok(bytes.len() - rest.0.len())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn product(&self) -> Option<String> {
        self.product.clone()
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let mut arguments = vec![0, 0];
        short(self.exchange.as_bytes(), &mut arguments);
        arguments.extend_from_slice(&[0, 0]);
        send(CHANNEL, PUBLISH, &arguments, out);
        // Class, weight, size, and no properties.
        let mut header = [0; 14];
        header[1] = 60;
        header[4..12].copy_from_slice(&(payload.len() as u64).to_be_bytes());
        frame(HEADER, CHANNEL, [&header, &[]], out);
        for part in payload.chunks(self.frame_max - FRAME_OVERHEAD) {
            frame(BODY, CHANNEL, [part, &[]], out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{Noted, feed};
    use super::*;

    fn method(channel: u16, method: Method, arguments: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        send(channel, method, arguments, &mut out);
        out
    }

    /// The broker's side of a handshake, up to the common part of both roles.
    fn greeted(driver: &mut Amqp091, piece: usize, noted: &mut Noted) {
        let start = feed(driver, &method(0, START, &[0, 9, 0, 0, 0, 0]), piece, noted);
        assert!(start.windows(12).any(|window| window == b"\0guest\0guest"));
        let tuned = feed(driver, &method(0, TUNE, &[7, 255, 0, 0, 16, 0, 0, 60]), piece, noted);
        assert_eq!(tuned[..20], method(0, TUNE_OK, &[7, 255, 0, 0, 16, 0, 0, 0])[..20]);
        assert_eq!(feed(driver, &method(0, OPEN_OK, &[0]), piece, noted), method(1, CHANNEL_OPEN, &[0]));
        let declared = feed(driver, &method(1, CHANNEL_OPEN_OK, &[0, 0, 0, 0]), piece, noted);
        assert_eq!(declared, method(1, EXCHANGE_DECLARE, b"\0\0\x03lab\x06fanout\0\0\0\0\0"));
    }

    #[test]
    fn an_anonymous_login_sends_no_name() {
        let (mut driver, mut noted) = (Amqp091::new("lab", "", None, false, Role::Publish), Noted::default());
        let start = [&[0, 9, 0, 0, 0, 0, 0, 0, 0, 19][..], b"ANONYMOUS CRAM-MD5X", &[0, 0, 0, 0]].concat();
        let answer = feed(&mut driver, &method(0, START, &start), 1000, &mut noted);
        assert!(answer.windows(9).any(|window| window == b"ANONYMOUS"));
        let start = [&[0, 9, 0, 0, 0, 0, 0, 0, 0, 15][..], b"PLAIN ANONYMOUS", &[0, 0, 0, 0]].concat();
        let answer = feed(&mut driver, &method(0, START, &start), 1000, &mut noted);
        assert!(answer.windows(5).any(|window| window == b"PLAIN"));
    }

    #[test]
    fn a_subscriber_binds_a_queue_and_acknowledges() {
        for piece in [1, 9, 10_000] {
            let mut noted = Noted::default();
            let mut driver = Amqp091::new("lab", "", None, true, Role::Subscribe);
            greeted(&mut driver, piece, &mut noted);
            let declared = feed(&mut driver, &method(1, EXCHANGE_DECLARE_OK, &[]), piece, &mut noted);
            assert_eq!(declared, method(1, QUEUE_DECLARE, &[0, 0, 0, 12, 0, 0, 0, 0]));
            let bound = feed(&mut driver, &method(1, QUEUE_DECLARE_OK, b"\x01q\0\0\0\0\0\0\0\0"), piece, &mut noted);
            assert_eq!(bound, method(1, QUEUE_BIND, b"\0\0\x01q\x03lab\0\0\0\0\0\0"));
            feed(&mut driver, &method(1, QUEUE_BIND_OK, &[]), piece, &mut noted);
            let consumed = feed(&mut driver, &method(1, QOS_OK, &[]), piece, &mut noted);
            assert_eq!(consumed, method(1, CONSUME, b"\0\0\x01q\0\0\0\0\0\0"));
            assert!(!driver.is_ready());
            let mut stream = method(1, CONSUME_OK, b"\x01c");
            stream.extend(method(1, DELIVER, b"\x01c\0\0\0\0\0\0\0\x05\0\x03lab\0"));
            frame(HEADER, 1, [&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0], &[]], &mut stream);
            frame(BODY, 1, [b"hel", b""], &mut stream);
            frame(BODY, 1, [b"lo", b""], &mut stream);
            let answer = feed(&mut driver, &stream, piece, &mut noted);
            assert_eq!(answer, method(1, ACK, &[0, 0, 0, 0, 0, 0, 0, 5, 0]));
            assert!(driver.is_ready());
            assert_eq!(noted.messages, [b"hello"]);
        }
    }

    #[test]
    fn confirmations_are_counted_one_by_one_and_all_at_once() {
        let (mut driver, mut noted) = (Amqp091::new("lab", "", None, true, Role::Publish), Noted::default());
        greeted(&mut driver, 1000, &mut noted);
        assert_eq!(feed(&mut driver, &method(1, EXCHANGE_DECLARE_OK, &[]), 5, &mut noted), method(1, CONFIRM, &[0]));
        feed(&mut driver, &method(1, CONFIRM_OK, &[]), 5, &mut noted);
        assert!(driver.is_ready());
        let ack = |tag, multiple| method(1, ACK, &[0, 0, 0, 0, 0, 0, 0, tag, multiple]);
        feed(&mut driver, &ack(1, 0), 5, &mut noted);
        assert_eq!(noted.acknowledged, 1);
        feed(&mut driver, &ack(7, 1), 5, &mut noted);
        assert_eq!(noted.acknowledged, 7);
        feed(&mut driver, &method(1, NACK, &[0, 0, 0, 0, 0, 0, 0, 8, 0]), 5, &mut noted);
        assert_eq!((noted.acknowledged, noted.refused), (7, 1));
    }

    #[test]
    fn a_long_message_goes_in_frames() {
        let mut driver = Amqp091::new("lab", "", None, false, Role::Publish);
        driver.frame_max = 108;
        let mut out = Vec::new();
        driver.publish(&[5; 250], &mut out);
        let bodies = out.len() - method(1, PUBLISH, b"\0\0\x03lab\0\0").len() - (14 + FRAME_OVERHEAD);
        assert_eq!(bodies, 250 + 3 * FRAME_OVERHEAD);
    }

    #[test]
    fn the_reason_of_a_close_is_reported() {
        let (mut driver, mut noted) = (Amqp091::new("lab", "", None, false, Role::Publish), Noted::default());
        let closed = method(0, CLOSE, b"\x01\x93\x0eACCESS_REFUSED\0\0\0\0");
        let reported = driver.received(&closed, &mut Vec::new(), &mut noted);
        assert_eq!(
            reported,
            Err(Problem::new("403 ACCESS_REFUSED; check user and password: amqp://USER:PASSWORD@HOST"))
        );
    }
}
