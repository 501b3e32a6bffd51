//! CoAP [RFC 7252] with observed resources [RFC 7641]: a message is a PUT, and everybody who observes the resource is
//! notified of its new state. Bytes are whole datagrams with their length before them; the connection puts them on UDP.

use tidegate_coap::message::{Code, Kind, Message, Token, option};

use super::driver::Bytes;
use super::{Driver, Problem, Role, Sink};

/// Confirmable messages that wait for their acknowledgement at a time [RFC 7252, 4.7: NSTART].
const NSTART: usize = 1;
/// Messages that are not confirmable and not answered yet, so that the broker's socket does not run over.
const UNANSWERED: usize = 32;
/// How often a confirmable message is sent again (`MAX_RETRANSMIT` of RFC 7252); each wait is twice as
/// long.
const RETRANSMITS: u32 = 4;
/// The first wait, in seconds (`ACK_TIMEOUT`).
const FIRST_WAIT_S: u32 = 2;
/// The content format `application/octet-stream`.
const OCTETS: u8 = 42;
/// More blocks follow [RFC 7959, 2.2].
const MORE: u8 = 8;
/// The initial content of a resource.
const NOTHING: &[u8] = b"-";

/// A request without an answer yet.
struct Asked {
    purpose: Purpose,
    id: u16,
    token: Token,
    confirmable: bool,
    /// How it is sent again, how often it was, and for how many seconds it is still waited for.
    datagram: Vec<u8>,
    again: u32,
    wait_s: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Ping,
    Make,
    Observe,
    Publish,
}

/// A client.
pub(super) struct Coap {
    path: Vec<String>,
    acknowledged: bool,
    role: Role,
    is_ready: bool,
    next: u32,
    asked: Vec<Asked>,
    /// The token of the observation.
    observed: Token,
}

impl Coap {
    /// `path` has the segments of the resource.
    pub(super) fn new(path: Vec<String>, acknowledged: bool, role: Role) -> Self {
        Self { path, acknowledged, role, is_ready: false, next: 1, asked: Vec::new(), observed: Token::default() }
    }

    fn ask(&mut self, purpose: Purpose, payload: &[u8], out: &mut Vec<u8>) {
        let confirmable = self.acknowledged || purpose != Purpose::Publish;
        let mut message = Message::empty(Kind::NonConfirmable, self.next as u16);
        if confirmable {
            message.kind = Kind::Confirmable;
        }
        if purpose != Purpose::Ping {
            message.code = if purpose == Purpose::Observe { Code::GET } else { Code::PUT };
            message.token = Token::new(&self.next.to_be_bytes());
            message.options = self.path.iter().map(|part| (option::URI_PATH, part.as_bytes().to_vec())).collect();
        }
        if purpose == Purpose::Observe {
            message.options.push((option::OBSERVE, Vec::new()));
        }
        if !payload.is_empty() {
            message.options.push((option::CONTENT_FORMAT, vec![OCTETS]));
            message.payload = payload.to_vec();
        }
        self.next = self.next.wrapping_add(1);
        let (id, token, datagram) = (message.id, message.token, message.encode());
        framed(&datagram, out);
        let datagram = if confirmable { datagram } else { Vec::new() };
        self.asked.push(Asked { purpose, id, token, confirmable, datagram, again: 0, wait_s: FIRST_WAIT_S });
    }

    fn on_message(&mut self, message: &Message, out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        if message.kind == Kind::Confirmable {
            framed(&Message::empty(Kind::Acknowledgement, message.id).encode(), out);
        }
        let is_piggybacked = matches!(message.kind, Kind::Acknowledgement | Kind::Reset);
        let place = self.asked.iter().position(|asked| {
            if is_piggybacked {
                asked.id == message.id
            } else {
                asked.token == message.token && asked.purpose != Purpose::Ping
            }
        });
        let Some(place) = place else {
            if message.token == self.observed && is_observed(message) {
                return deliver(message, sink);
            }
            return Ok(());
        };
        if message.kind == Kind::Acknowledgement && message.code == Code::EMPTY {
            // The answer comes later as a separate message.
            self.asked[place].datagram.clear();
            return Ok(());
        }
        let asked = self.asked.swap_remove(place);
        match asked.purpose {
            Purpose::Ping => self.is_ready = true,
            Purpose::Publish if is_success(message) => sink.acknowledged(u64::from(self.acknowledged)),
            Purpose::Publish => sink.refused(1),
            Purpose::Make if is_success(message) => self.ask(Purpose::Observe, &[], out),
            Purpose::Observe if is_success(message) && is_observed(message) => {
                self.observed = asked.token;
                self.is_ready = true;
            }
            Purpose::Observe if is_success(message) => {
                return Err(Problem::new("the resource cannot be observed; take another path: coap://HOST/PATH"));
            }
            Purpose::Make | Purpose::Observe => {
                let text = format!(
                    "the server answers {} to the request of a subscriber; let it create resources",
                    message.code
                );
                return Err(Problem::new(text));
            }
        }
        Ok(())
    }
}

fn is_success(message: &Message) -> bool {
    message.code.class() == 2
}

fn is_observed(message: &Message) -> bool {
    message.options.iter().any(|(number, _)| *number == option::OBSERVE)
}

fn deliver(message: &Message, sink: &mut dyn Sink) -> Result<(), Problem> {
    let is_block = |value: &[u8]| value.last().is_some_and(|last| last & MORE != 0);
    if message.options.iter().any(|(number, value)| *number == option::BLOCK2 && is_block(value)) {
        return Err(Problem::new("a message is longer than a block; take smaller ones"));
    }
    if message.payload != NOTHING {
        sink.message(&message.payload);
    }
    Ok(())
}

/// A datagram with its length before it.
fn framed(datagram: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
    out.extend_from_slice(datagram);
}

impl Driver for Coap {
    fn opened(&mut self, out: &mut Vec<u8>) {
        match self.role {
            Role::Publish => self.ask(Purpose::Ping, &[], out),
            // A resource must exist before it can be observed.
            Role::Subscribe => self.ask(Purpose::Make, NOTHING, out),
        }
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut rest = Bytes(bytes);
        loop {
            let mut reader = rest;
            let Ok(len) = reader.u16() else { break };
            let Ok(datagram) = reader.take(usize::from(len)) else { break };
            let message = Message::decode(datagram)
                .map_err(|_| Problem::new("a datagram is no message of CoAP; check the port"))?;
            self.on_message(&message, out, sink)?;
            rest = reader;
        }
        Ok(bytes.len() - rest.0.len())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn is_full(&self) -> bool {
        self.asked.len() >= if self.acknowledged { NSTART } else { UNANSWERED }
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.ask(Purpose::Publish, payload, out);
    }

    fn each_second(&mut self, out: &mut Vec<u8>) {
        // A non-confirmable request without an answer by now is lost.
        self.asked.retain(|asked| asked.confirmable);
        for asked in &mut self.asked {
            asked.wait_s = asked.wait_s.saturating_sub(1);
            if asked.wait_s == 0 && asked.again < RETRANSMITS {
                asked.again += 1;
                asked.wait_s = FIRST_WAIT_S << asked.again;
                if !asked.datagram.is_empty() {
                    framed(&asked.datagram, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{Noted, feed};
    use super::*;

    fn driver(acknowledged: bool, role: Role) -> Coap {
        Coap::new(vec!["ps".to_owned(), "lab".to_owned()], acknowledged, role)
    }

    fn with_len(datagram: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        framed(datagram, &mut out);
        out
    }

    #[test]
    fn a_subscriber_observes_a_resource_and_acknowledges() {
        for piece in [1, 5, 1000] {
            let (mut driver, mut noted) = (driver(true, Role::Subscribe), Noted::default());
            let mut out = Vec::new();
            driver.opened(&mut out);
            assert_eq!(out, with_len(b"\x44\x03\0\x01\0\0\0\x01\xB2ps\x03lab\x11\x2A\xFF-"));
            // 2.01 in the acknowledgement.
            let said = feed(&mut driver, &with_len(b"\x64\x41\0\x01\0\0\0\x01"), piece, &mut noted);
            assert_eq!(said, with_len(b"\x44\x01\0\x02\0\0\0\x02\x60\x52ps\x03lab"));
            assert!(!driver.is_ready());
            feed(&mut driver, &with_len(b"\x64\x45\0\x02\0\0\0\x02\x61\x05\xFF-"), piece, &mut noted);
            assert!(driver.is_ready());
            let notified = [
                with_len(b"\x44\x45\x12\x34\0\0\0\x02\x61\x06\xFFhi"),
                with_len(b"\x54\x45\x12\x35\0\0\0\x02\x61\x07\xFFyo"),
            ];
            let said = feed(&mut driver, &notified.concat(), piece, &mut noted);
            assert_eq!(said, with_len(b"\x60\0\x12\x34"));
            assert_eq!(noted.messages, [b"hi", b"yo"]);
        }
    }

    #[test]
    fn a_publisher_repeats_unconfirmed_messages() {
        let (mut driver, mut noted) = (driver(true, Role::Publish), Noted::default());
        let mut out = Vec::new();
        driver.opened(&mut out);
        assert_eq!(out, with_len(b"\x40\0\0\x01"), "an empty message, whose reset shows a live server");
        feed(&mut driver, &with_len(b"\x70\0\0\x01"), 100, &mut noted);
        assert!(driver.is_ready() && !driver.is_full());
        let mut sent = Vec::new();
        driver.publish(b"hi", &mut sent);
        assert!(driver.is_full());
        let mut again = Vec::new();
        (0..40).for_each(|_| driver.each_second(&mut again));
        assert_eq!(again, sent.repeat(4), "after 2, 4, 8 and 16 seconds");
        feed(&mut driver, &with_len(b"\x60\0\0\x02"), 100, &mut noted);
        assert_eq!((noted.acknowledged, driver.is_full()), (0, true), "the answer needs no request");
        let said = feed(&mut driver, &with_len(b"\x44\x44\x77\x77\0\0\0\x02"), 100, &mut noted);
        assert_eq!((noted.acknowledged, driver.is_full(), said), (1, false, with_len(b"\x60\0\x77\x77")));
        driver.publish(b"hi", &mut Vec::new());
        feed(&mut driver, &with_len(b"\x64\x86\0\x03\0\0\0\x03"), 100, &mut noted);
        assert_eq!(noted.refused, 1, "4.06");
    }

    #[test]
    fn missing_answers_delay_non_confirmables_for_a_second() {
        let mut driver = driver(false, Role::Publish);
        let mut out = Vec::new();
        (0..UNANSWERED).for_each(|_| driver.publish(b"hi", &mut out));
        assert!(driver.is_full());
        assert_eq!(out[..2 + 2], [0, 20, 0x54, 3]);
        feed(&mut driver, &with_len(b"\x54\x44\x77\x77\0\0\0\x09"), 100, &mut Noted::default());
        assert!(!driver.is_full());
        driver.publish(b"hi", &mut out);
        driver.each_second(&mut out);
        assert!(!driver.is_full());
    }

    #[test]
    fn a_block_with_more_to_come_and_no_message_are_reported() {
        let mut driver = driver(true, Role::Subscribe);
        driver.observed = Token::new(b"\0\0\0\x09");
        for (datagram, why) in [
            (&b"\x54\x45\x12\x34\0\0\0\x09\x61\x07\x61\x2A\xB1\x0E\xFFhi"[..], "longer than a block"),
            (b"\x80\0\0\0", "no message of CoAP"),
        ] {
            let Problem(text) =
                driver.received(&with_len(datagram), &mut Vec::new(), &mut Noted::default()).unwrap_err();
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_server_that_forbids_new_resources_is_reported() {
        let mut driver = driver(true, Role::Subscribe);
        driver.opened(&mut Vec::new());
        let answer = with_len(b"\x64\x84\0\x01\0\0\0\x01");
        let Problem(why) = driver.received(&answer, &mut Vec::new(), &mut Noted::default()).unwrap_err();
        assert!(why.contains("4.04"), "{why}");
    }
}
