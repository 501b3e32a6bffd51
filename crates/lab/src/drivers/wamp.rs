//! WAMP's publish and subscribe over a raw socket, packed by `MessagePack`:
//! <https://wamp-proto.org/wamp_latest_ietf.html>. A broker acknowledges publications, and subscribers acknowledge
//! nothing.

mod reader;

use reader::Reader;
use serde_json::{Value, json};

use super::{Driver, Problem, Role, Sink};
use crate::load::plan::Credentials;
use crate::load::record::message_pack;

/// The default realm, as in the examples of routers.
const USUAL_REALM: &str = "realm1";
/// The first byte of both handshakes.
const MAGIC: u8 = 0x7F;
/// Messages of up to 16 MiB, packed by `MessagePack`.
const LONGEST_AND_SERIALIZER: u8 = 0xF2;
/// The size of a handshake, and of a message's header.
const HEAD_LEN: usize = 4;

// Kinds of frames.
const REGULAR: u8 = 0;
const PING: u8 = 1;
const PONG: u8 = 2;

// Messages.
const HELLO: u64 = 1;
const WELCOME: u64 = 2;
const ABORT: u64 = 3;
const CHALLENGE: u64 = 4;
const AUTHENTICATE: u64 = 5;
const GOODBYE: u64 = 6;
const ERROR: u64 = 8;
const PUBLISH: u64 = 16;
const PUBLISHED: u64 = 17;
const SUBSCRIBE: u64 = 32;
const SUBSCRIBED: u64 = 33;
const EVENT: u64 = 36;

/// A connection.
pub(super) struct Wamp {
    realm: String,
    credentials: Option<Credentials>,
    acknowledged: bool,
    role: Role,
    topic: String,
    /// The bytes between a PUBLISH's number and its payload.
    publish_middle: Vec<u8>,
    is_greeted: bool,
    is_ready: bool,
    requests: u64,
    product: Option<String>,
}

impl Wamp {
    /// `realm` is the usual one when it is empty. Who logs in does so by ticket.
    pub(super) fn new(
        topic: &str,
        realm: &str,
        credentials: Option<&Credentials>,
        acknowledged: bool,
        role: Role,
    ) -> Self {
        let mut publish_middle = Vec::new();
        let options = if acknowledged { json!({ "acknowledge": true }) } else { json!({}) };
        message_pack::write(&options, &mut publish_middle);
        message_pack::write(&json!(topic), &mut publish_middle);
        Self {
            realm: if realm.is_empty() { USUAL_REALM } else { realm }.to_owned(),
            credentials: credentials.cloned(),
            acknowledged,
            role,
            topic: topic.to_owned(),
            publish_middle,
            is_greeted: false,
            is_ready: false,
            requests: 0,
            product: None,
        }
    }

    fn hello(&self, out: &mut Vec<u8>) {
        let mut details = json!({ "roles": { "publisher": {}, "subscriber": {} } });
        if let Some(known) = &self.credentials {
            details["authmethods"] = json!(["ticket"]);
            details["authid"] = json!(known.username);
        }
        message(&json!([HELLO, self.realm, details]), out);
    }

    fn on_message(&mut self, body: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        let mut reader = Reader(body);
        reader.array()?;
        match reader.number()? {
            EVENT => {
                for _ in ["subscription", "publication", "details"] {
                    reader.skip()?;
                }
                if reader.array()? == 0 {
                    return Err(Problem::new("an event has no payload; something else publishes to the lab's topic"));
                }
                sink.message(reader.bytes()?);
            }
            PUBLISHED => sink.acknowledged(u64::from(self.acknowledged)),
            WELCOME => self.on_welcome(&mut reader, out)?,
            CHALLENGE => {
                let ticket = self.credentials.as_ref().map_or("", |known| &known.password);
                message(&json!([AUTHENTICATE, ticket, {}]), out);
            }
            SUBSCRIBED => self.is_ready = true,
            ERROR => on_error(&mut reader, sink)?,
            ABORT | GOODBYE => {
                reader.skip()?;
                return Err(ended(&reader.text()?));
            }
            _ => {}
        }
        Ok(())
    }

    fn on_welcome(&mut self, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
        reader.skip()?;
        for _ in 0..reader.map()? {
            if reader.text()? == "agent" {
                self.product = Some(reader.text()?);
            } else {
                reader.skip()?;
            }
        }
        match self.role {
            Role::Publish => self.is_ready = true,
            Role::Subscribe => message(&json!([SUBSCRIBE, 1, {}, self.topic]), out),
        }
        Ok(())
    }
}

/// An ERROR of the broker about a message is counted; about any other request it ends the connection.
fn on_error(reader: &mut Reader<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
    let asked = reader.number()?;
    reader.skip()?;
    reader.skip()?;
    let why = reader.text()?;
    if asked != PUBLISH {
        return Err(Problem::new(format!("the broker refuses: {why}; see its rights for realm and topic")));
    }
    sink.refused(1);
    Ok(())
}

/// The reason of the end of a session, with a remedy.
fn ended(reason: &str) -> Problem {
    let hint = match reason {
        "wamp.error.no_such_realm" => "name one that it has: wamp://HOST/REALM",
        "wamp.error.no_auth_method" | "wamp.error.not_authorized" | "wamp.error.authentication_failed" => {
            "check user and ticket: wamp://USER:TICKET@HOST"
        }
        _ => "see its log",
    };
    Problem::new(format!("the broker ends the session: {reason}; {hint}"))
}

/// Checks the answer to the handshake.
fn greeted(answer: [u8; HEAD_LEN]) -> Result<(), Problem> {
    match answer {
        [MAGIC, said, 0, 0] if said & 0x0F == LONGEST_AND_SERIALIZER & 0x0F => Ok(()),
        [MAGIC, said @ (0x00 | 0x10 | 0x20 | 0x30 | 0x40), ..] => {
            let why = match said >> 4 {
                1 => "it does not speak MessagePack",
                2 => "it takes no messages of 16 MiB",
                4 => "it has too many connections",
                _ => "it does not say why",
            };
            Err(Problem::new(format!("the broker refuses the raw socket: {why}")))
        }
        _ => Err(Problem::new(
            "the server does not speak WAMP over a raw socket; check the port, it is not that of WebSocket",
        )),
    }
}

/// Appends a message in its frame.
fn message(value: &Value, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    message_pack::write(value, &mut body);
    frame(REGULAR, &[&body], out);
}

fn frame(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&(u32::from(kind) << 24 | len as u32).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

impl Driver for Wamp {
    fn opened(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[MAGIC, LONGEST_AND_SERIALIZER, 0, 0]);
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut taken = 0;
        while let Some((head, rest)) = bytes[taken..].split_first_chunk::<HEAD_LEN>() {
            if !self.is_greeted {
                greeted(*head)?;
                self.is_greeted = true;
                self.hello(out);
                taken += HEAD_LEN;
                continue;
            }
            let [kind, len @ ..] = *head;
            let len = len.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let Some(body) = rest.get(..len) else { break };
            match kind & 0x07 {
                REGULAR => self.on_message(body, out, sink)?,
                PING => frame(PONG, &[body], out),
                _ => {}
            }
            taken += HEAD_LEN + len;
        }
        Ok(taken)
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.requests += 1;
        // An array of five with the number first; its last element is an array of the payload alone.
        let mut before = vec![0x95, PUBLISH as u8];
        message_pack::write(&json!(self.requests), &mut before);
        before.extend_from_slice(&self.publish_middle);
        before.extend_from_slice(&[0x91, 0xC6]);
        before.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        frame(REGULAR, &[&before, payload], out);
    }

    fn product(&self) -> Option<String> {
        self.product.clone()
    }
}

#[cfg(test)]
mod tests;
