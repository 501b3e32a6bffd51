//! AMQP 1.0 [OASIS AMQP 1.0]: one session with one link, to or from a node that copies every message to every receiver.
//! Qpid and Artemis support it.

mod frames;
mod types;

use frames::{Kind, data_head};
use types::{Fields, List, Value};

use super::driver::Bytes;
use super::{Driver, Problem, Role, Sink};
use crate::load::plan::Credentials;

/// The first headers: the login, then the protocol itself.
const SASL_HEADER: &[u8; 8] = b"AMQP\x03\x01\x00\x00";
const AMQP_HEADER: &[u8; 8] = b"AMQP\x00\x01\x00\x00";
/// The largest frame that is taken, in bytes.
const FRAME_MAX: u32 = 256 * 1024;
/// The bytes of a transfer's frame beside the payload, at most.
const TRANSFER_OVERHEAD: usize = 64;
/// The least that a peer may ask frames to be, in bytes.
const FRAME_LEAST: u32 = 512;
/// Messages that may be under way to a subscriber; it allows more when half of them have come.
const CREDIT: u32 = 2000;
/// Frames that the session takes: more than there will be before the next flow says so again.
const WINDOW: u32 = 0x7FFF_FFFF;
/// The largest message that is put together from several frames, in bytes.
const MESSAGE_MAX: usize = 65 * 1024 * 1024;
/// The maximum size of user and password together, in bytes.
const LOGIN_MAX: usize = 255;

const OPEN: u8 = 0x10;
const BEGIN: u8 = 0x11;
const ATTACH: u8 = 0x12;
const FLOW: u8 = 0x13;
const TRANSFER: u8 = 0x14;
const DISPOSITION: u8 = 0x15;
const DETACH: u8 = 0x16;
const END: u8 = 0x17;
const CLOSE: u8 = 0x18;
const ACCEPTED: u8 = 0x24;
const REFUSED: [u64; 3] = [0x25, 0x26, 0x27];
const SOURCE: u8 = 0x28;
const TARGET: u8 = 0x29;
const MECHANISMS: u64 = 0x40;
const INIT: u8 = 0x41;
const OUTCOME: u64 = 0x44;

/// A connection.
pub(super) struct Amqp1 {
    address: String,
    credentials: Option<(String, String)>,
    acknowledged: bool,
    role: Role,
    is_ready: bool,
    product: Option<String>,
    /// Bytes of a frame that the peer takes.
    frame_max: usize,
    /// Seconds between keep-alives, and until the next one; 0 if the peer needs none.
    alive_every_s: u64,
    alive_in_s: u64,
    /// Messages that the peer still takes, and frames that its session still takes.
    credit: u32,
    room: u32,
    /// Messages sent or received on the link, as the protocol counts them.
    count: u32,
    sent_frames: u32,
    received_frames: u32,
    /// Messages sent and not settled yet.
    unsettled: u32,
    /// Messages received since the peer was allowed more.
    since_credit: u32,
    /// Deliveries that are to be accepted: the first and the last.
    accepting: Option<(u32, u32)>,
    /// The received part of a message in several frames, and the number of its delivery.
    partial: Vec<u8>,
    delivery: u32,
    is_settled: bool,
}

impl Amqp1 {
    pub(super) fn new(address: &str, credentials: Option<&Credentials>, acknowledged: bool, role: Role) -> Self {
        Self {
            address: address.to_owned(),
            credentials: credentials.map(|known| (known.username.clone(), known.password.clone())),
            acknowledged,
            role,
            is_ready: false,
            product: None,
            frame_max: FRAME_LEAST as usize,
            alive_every_s: 0,
            alive_in_s: 0,
            credit: 0,
            room: 0,
            count: 0,
            sent_frames: 0,
            received_frames: 0,
            unsettled: 0,
            since_credit: 0,
            accepting: None,
            partial: Vec::new(),
            delivery: 0,
            is_settled: true,
        }
    }

    /// Logs in by the first mechanism of the peer that the credentials allow.
    fn log_in(&self, mut fields: Fields<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
        let offered = fields.next()?.texts();
        let has = |name: &[u8]| offered.contains(&name);
        let (mechanism, response) = match &self.credentials {
            Some((user, password)) if has(b"PLAIN") => ("PLAIN", format!("\0{user}\0{password}")),
            _ if has(b"ANONYMOUS") => ("ANONYMOUS", String::new()),
            _ if has(b"PLAIN") => ("PLAIN", "\0guest\0guest".to_owned()),
            _ => {
                let offered: Vec<_> = offered.iter().map(|name| String::from_utf8_lossy(name)).collect();
                let text =
                    format!("the broker lets clients in by {} only: allow PLAIN or ANONYMOUS", offered.join(", "));
                return Err(Problem::new(text));
            }
        };
        if response.len() > LOGIN_MAX {
            return Err(Problem::new("user and password are longer than 253 bytes together: take shorter ones"));
        }
        let init = List::new(INIT).symbol(mechanism).binary(response.as_bytes());
        frames::write(Kind::Sasl, &init, &[], out);
        Ok(())
    }

    /// Opens connection, session and link, without waiting for answers in between.
    fn open(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(AMQP_HEADER);
        // No name of a host: it would choose among virtual hosts.
        let open = List::new(OPEN).string(&format!("tidegate-lab-{:016x}", unique())).null().uint(FRAME_MAX).ushort(0);
        frames::write(Kind::Amqp, &open, &[], out);
        let begin = List::new(BEGIN).null().uint(0).uint(WINDOW).uint(WINDOW).uint(0);
        frames::write(Kind::Amqp, &begin, &[], out);
        let receives = self.role == Role::Subscribe;
        let settled = u8::from(!self.acknowledged);
        let attach = List::new(ATTACH).string("lab").uint(0).bool(receives).ubyte(settled).ubyte(0);
        // `topic` asks for a copy for each subscriber, where a broker has queues of the same name, too.
        let node = |list: List| list.string(&self.address).uint(0).null().uint(0).bool(false).null();
        let (source, target) = if receives {
            let source = node(List::new(SOURCE)).null().null().null().null().symbol("topic");
            (source, List::new(TARGET))
        } else {
            (List::new(SOURCE), node(List::new(TARGET)).symbol("topic"))
        };
        let attach = attach.list(&source).list(&target).null().null();
        let attach = if receives { attach } else { attach.uint(0) };
        frames::write(Kind::Amqp, &attach, &[], out);
    }

    fn on_sasl(&self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        let (performative, mut fields) = Fields(body).described()?;
        match performative {
            Some(MECHANISMS) => self.log_in(fields, out),
            Some(OUTCOME) if fields.next()? == Value::Number(0) => {
                self.open(out);
                Ok(())
            }
            _ => Err(Problem::new("the broker does not let the lab in: check user and password in its address")),
        }
    }

    fn on_frame(&mut self, body: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        let mut bytes = Bytes(body);
        let (Some(performative), Value::Several(mut fields)) = types::read(&mut bytes)? else { return Ok(()) };
        match u8::try_from(performative).unwrap_or_default() {
            OPEN => self.on_open(fields)?,
            BEGIN => {
                self.received_frames = fields.nth(1)?.number().unwrap_or_default() as u32;
                self.room = fields.next()?.number().unwrap_or_default() as u32;
            }
            ATTACH => self.on_attach(fields, out)?,
            FLOW => self.on_flow(fields, out)?,
            TRANSFER => self.on_transfer(fields, bytes.0, out, sink)?,
            DISPOSITION if self.role == Role::Publish => self.on_disposition(fields, out, sink)?,
            DETACH => return Err(reason(&mut fields, 2, "the broker takes the link away")?),
            END => return Err(reason(&mut fields, 0, "the broker ends the session")?),
            CLOSE => return Err(reason(&mut fields, 0, "the broker closes the connection")?),
            _ => {}
        }
        Ok(())
    }

    fn on_open(&mut self, mut fields: Fields<'_>) -> Result<(), Problem> {
        let frame_max = fields.nth(2)?.number().map_or(FRAME_MAX, |theirs| theirs as u32);
        self.frame_max = frame_max.clamp(FRAME_LEAST, FRAME_MAX) as usize;
        // Twice as often as needed.
        self.alive_every_s = fields.nth(1)?.number().map_or(0, |idle_ms| (idle_ms / 2000).max(1));
        self.alive_in_s = self.alive_every_s;
        let Value::Several(mut properties) = fields.nth(4)? else { return Ok(()) };
        let (mut product, mut version) = (None, None);
        while !properties.0.is_empty() {
            let (name, value) = (properties.next()?.text(), properties.next()?.text());
            match name {
                b"product" => product = Some(String::from_utf8_lossy(value).into_owned()),
                b"version" => version = Some(String::from_utf8_lossy(value).into_owned()),
                _ => {}
            }
        }
        self.product = version.map(|version| product.map_or(version.clone(), |product| format!("{product} {version}")));
        Ok(())
    }

    fn on_attach(&mut self, mut fields: Fields<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
        let mut is_there = false;
        if self.role == Role::Subscribe {
            // A source that is not there is the begin of a refusal: the reason comes with the detach.
            let mut source = fields;
            source.nth(4)?;
            is_there = source.described()?.0 == Some(u64::from(SOURCE));
            self.count = fields.nth(9)?.number().unwrap_or_default() as u32;
        }
        if is_there {
            self.allow(out);
            self.is_ready = true;
        }
        Ok(())
    }

    /// Allows the peer as many messages as at the begin.
    fn allow(&mut self, out: &mut Vec<u8>) {
        self.since_credit = 0;
        self.flow(CREDIT, out);
    }

    fn flow(&self, credit: u32, out: &mut Vec<u8>) {
        let flow = List::new(FLOW).uint(self.received_frames).uint(WINDOW).uint(self.sent_frames).uint(WINDOW);
        let flow = flow.uint(0).uint(self.count).uint(credit);
        frames::write(Kind::Amqp, &flow, &[], out);
    }

    fn on_flow(&mut self, mut fields: Fields<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
        let mut next = || fields.next().map(|value| value.number().map(|number| number as u32));
        let (taken, window) = (next()?.unwrap_or_default(), next()?.unwrap_or_default());
        next()?;
        next()?;
        self.room = left(taken.wrapping_add(window), self.sent_frames);
        let (handle, count, credit) = (next()?, next()?, next()?);
        if handle.is_some() && self.role == Role::Publish {
            let until = count.unwrap_or_default().wrapping_add(credit.unwrap_or_default());
            self.credit = left(until, self.count);
            self.is_ready |= self.credit > 0;
        }
        // After `available` and `drain`: whether the peer requests the state.
        if fields.nth(2)?.is_true() && self.is_ready {
            let allowed = CREDIT.saturating_sub(self.since_credit);
            self.flow(if self.role == Role::Subscribe { allowed } else { self.credit }, out);
        }
        Ok(())
    }

    fn on_transfer(
        &mut self,
        mut fields: Fields<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
        sink: &mut dyn Sink,
    ) -> Result<(), Problem> {
        self.received_frames = self.received_frames.wrapping_add(1);
        let delivery = fields.nth(1)?.number();
        if let Some(delivery) = delivery.filter(|_| self.partial.is_empty()) {
            self.delivery = delivery as u32;
            self.is_settled = false;
        }
        self.is_settled |= fields.nth(2)?.is_true();
        let continues = fields.next()?.is_true();
        if fields.nth(3)?.is_true() {
            self.partial.clear();
            return Ok(());
        }
        if continues {
            self.partial.extend_from_slice(payload);
            let is_too_long = self.partial.len() > MESSAGE_MAX;
            return if is_too_long { Err(Problem::new("a message does not end")) } else { Ok(()) };
        }
        if self.partial.is_empty() {
            sink.message(frames::payload(payload)?);
        } else {
            self.partial.extend_from_slice(payload);
            sink.message(frames::payload(&self.partial)?);
            self.partial.clear();
        }
        self.count = self.count.wrapping_add(1);
        self.since_credit += 1;
        if !self.is_settled {
            self.accept(self.delivery, out);
        }
        Ok(())
    }

    /// Accepts a delivery, together with the earlier ones.
    fn accept(&mut self, delivery: u32, out: &mut Vec<u8>) {
        let first = match self.accepting {
            Some((first, last)) if last.wrapping_add(1) == delivery => first,
            _ => {
                self.settle(out);
                delivery
            }
        };
        self.accepting = Some((first, delivery));
    }

    fn settle(&mut self, out: &mut Vec<u8>) {
        if let Some((first, last)) = self.accepting.take() {
            let disposition = List::new(DISPOSITION).bool(true).uint(first).uint(last).bool(true);
            frames::write(Kind::Amqp, &disposition.list(&List::new(ACCEPTED)), &[], out);
        }
    }

    /// The peer has taken messages, or has not.
    fn on_disposition(
        &mut self,
        mut fields: Fields<'_>,
        out: &mut Vec<u8>,
        sink: &mut dyn Sink,
    ) -> Result<(), Problem> {
        let is_receivers = fields.next()?.is_true();
        let first = fields.next()?.number().unwrap_or_default() as u32;
        let last = fields.next()?.number().map_or(first, |last| last as u32);
        let is_settled = fields.next()?.is_true();
        let (outcome, _) = fields.described()?;
        if !is_receivers || (outcome.is_none() && !is_settled) {
            return Ok(());
        }
        let messages = last.wrapping_sub(first).saturating_add(1).min(self.unsettled);
        self.unsettled -= messages;
        if outcome.is_some_and(|outcome| REFUSED.contains(&outcome)) {
            sink.refused(u64::from(messages));
        } else {
            sink.acknowledged(u64::from(messages));
        }
        if !is_settled {
            let settled = List::new(DISPOSITION).bool(false).uint(first).uint(last).bool(true);
            frames::write(Kind::Amqp, &settled, &[], out);
        }
        Ok(())
    }
}

/// The distance to a sequence number with wrap-around; 0 when it is behind, as after a peer reduced its limit.
const fn left(until: u32, from: u32) -> u32 {
    let left = until.wrapping_sub(from);
    if left > WINDOW { 0 } else { left }
}

/// The peer's error, at this position among the fields.
fn reason(fields: &mut Fields<'_>, others: usize, otherwise: &str) -> Result<Problem, Problem> {
    for _ in 0..others {
        fields.next()?;
    }
    let (_, mut error) = fields.described()?;
    let text = |value: Value<'_>| String::from_utf8_lossy(value.text()).into_owned();
    let (condition, description) = (text(error.next()?), text(error.next()?));
    Ok(Problem::new(match (condition.is_empty(), description.is_empty()) {
        (true, _) => otherwise.to_owned(),
        (false, true) => format!("{otherwise}: {condition}"),
        (false, false) => format!("{otherwise}: {condition}: {description}"),
    }))
}

/// A number that no other container of this machine has: a broker may not let in two of the same name.
fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    (u64::from(std::process::id()) << 32) | NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Driver for Amqp1 {
    fn opened(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(SASL_HEADER);
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut rest = Bytes(bytes);
        loop {
            if rest.0.starts_with(b"AMQP") {
                let Some(header) = rest.0.get(..8) else { break };
                if header != SASL_HEADER && header != AMQP_HEADER {
                    let text = "the broker speaks another version of AMQP: try amqp:// for 0-9-1, or another port";
                    return Err(Problem::new(text));
                }
                rest = Bytes(&rest.0[8..]);
                continue;
            }
            match frames::take(&mut rest, FRAME_MAX)? {
                None => break,
                Some(frame) if frame.body.is_empty() => {}
                Some(frame) if frame.is_sasl => self.on_sasl(frame.body, out)?,
                Some(frame) => self.on_frame(frame.body, out, sink)?,
            }
        }
        self.settle(out);
        if self.since_credit >= CREDIT / 2 {
            self.allow(out);
        }
        Ok(bytes.len() - rest.0.len())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn is_full(&self) -> bool {
        self.credit == 0 || self.room == 0
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let part = self.frame_max - TRANSFER_OVERHEAD;
        let mut parts = payload.chunks(part.max(1)).peekable();
        let mut head = data_head(payload.len());
        let delivery = self.count;
        self.count = self.count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
        self.unsettled += u32::from(self.acknowledged);
        loop {
            let bytes = parts.next().unwrap_or_default();
            let transfer = List::new(TRANSFER).uint(0).uint(delivery).binary(&delivery.to_be_bytes()).uint(0);
            let transfer = transfer.bool(!self.acknowledged).bool(parts.peek().is_some());
            frames::write(Kind::Amqp, &transfer, &[&std::mem::take(&mut head), bytes], out);
            self.sent_frames = self.sent_frames.wrapping_add(1);
            self.room = self.room.saturating_sub(1);
            if parts.peek().is_none() {
                return;
            }
        }
    }

    fn each_second(&mut self, out: &mut Vec<u8>) {
        if self.alive_every_s == 0 || !self.is_ready {
            return;
        }
        self.alive_in_s = self.alive_in_s.saturating_sub(1);
        if self.alive_in_s == 0 {
            self.alive_in_s = self.alive_every_s;
            frames::write_empty(out);
        }
    }

    fn product(&self) -> Option<String> {
        self.product.clone()
    }
}

#[cfg(test)]
mod tests;
