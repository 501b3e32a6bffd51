//! A subscription over a WebSocket: messages as JSON, which the client acknowledges.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use serde_json::Value;
use tidegate_client::{Delivery, Event, Message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::ended;
use crate::counters::{OpenCount, Way};
use crate::message_json::object;
use crate::session::Session;
use crate::websocket::{CloseCode, Decoder, Frame, Opcode, put, put_close};
use tidegate_visitor::Failure;

/// Bytes that wait for the socket. Beyond it nothing more is read from the broker and from the client.
const MAX_WAITING: usize = 1 << 20;
/// Bytes that are read at once.
const READ_SIZE: usize = 4 << 10;
/// Silence after which the client is pinged.
const BEAT: Duration = Duration::from_secs(15);
/// Silence of the client after which the connection ends.
const SILENT: Duration = Duration::from_secs(60);

/// The messages of a subscription on their way to a client.
pub(crate) struct Subscription<D> {
    /// Bytes for the socket, and how many of them were written.
    out: Vec<u8>,
    written: usize,
    decoder: Decoder,
    /// Whether a message counts as acknowledged when it is written to the socket.
    is_automatic: bool,
    /// The number of the last message.
    number: u64,
    /// Messages that the client has not acknowledged, with their numbers.
    unacknowledged: VecDeque<(u64, D)>,
}

impl<D> Subscription<D> {
    pub(crate) fn new(is_automatic: bool) -> Self {
        Self {
            out: Vec::new(),
            written: 0,
            decoder: Decoder::default(),
            is_automatic,
            number: 0,
            unacknowledged: VecDeque::new(),
        }
    }

    /// Bytes that wait for the socket.
    fn waiting(&self) -> &[u8] {
        self.out.get(self.written..).unwrap_or_default()
    }

    /// Whether more may wait for the socket: then messages are taken from the broker, and bytes from the client.
    fn has_room(&self) -> bool {
        self.waiting().len() < MAX_WAITING
    }

    /// The socket has taken `count` bytes. The rest moves once, when it is the smaller part.
    fn advance(&mut self, count: usize) {
        self.written += count;
        if self.written * 2 >= self.out.len() {
            self.out.drain(..self.written.min(self.out.len()));
            self.written = 0;
        }
    }

    /// Puts a message in; the delivery that is acknowledged with it.
    fn put(&mut self, fields: serde_json::Map<String, Value>, delivery: Option<D>) -> Option<D> {
        self.number += 1;
        let mut fields = fields;
        fields.insert("id".to_owned(), self.number.into());
        put(&mut self.out, Opcode::Text, Value::Object(fields).to_string().as_bytes());
        if self.is_automatic {
            return delivery;
        }
        self.unacknowledged.extend(delivery.map(|delivery| (self.number, delivery)));
        None
    }

    /// Takes bytes of the client; the deliveries that they acknowledge, and whether the client closes. Of several pings
    /// the last one is answered (RFC 6455, section 5.5.3).
    ///
    /// # Errors
    /// How and why the connection ends.
    fn take(&mut self, bytes: &[u8]) -> Result<(Vec<D>, bool), (CloseCode, &'static str)> {
        self.decoder.push(bytes);
        let (mut acknowledged, mut ping) = (Vec::new(), None);
        let closes = loop {
            match self.decoder.next() {
                Ok(None) => break false,
                Ok(Some(Frame::Close)) => break true,
                Ok(Some(Frame::Ping(payload))) => ping = Some(payload),
                Ok(Some(Frame::Pong)) => {}
                Ok(Some(Frame::Message(text))) => acknowledged.extend(self.acknowledge(&text)?),
                Err(code) => return Err((code, "")),
            }
        };
        if let Some(payload) = ping {
            put(&mut self.out, Opcode::Pong, &payload);
        }
        Ok((acknowledged, closes))
    }

    /// Takes `{"ack":N}`: all messages up to this number.
    fn acknowledge(&mut self, text: &[u8]) -> Result<Vec<D>, (CloseCode, &'static str)> {
        let number = serde_json::from_slice::<Value>(text).ok().and_then(|value| value.get("ack")?.as_u64());
        let number = number.filter(|number| *number <= self.number);
        let Some(number) = number else {
            return Err((CloseCode::Policy, "a message of the client is {\"ack\":ID} with the id of a message"));
        };
        let count = self.unacknowledged.partition_point(|(other, _)| *other <= number);
        Ok(self.unacknowledged.drain(..count).map(|(_, delivery)| delivery).collect())
    }
}

/// Hands the messages of a session on until either side ends.
///
/// # Errors
/// When the socket fails.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite,
    mut session: Session,
    early: Vec<Message>,
    (mut subscription, held): (Subscription<Delivery>, &OpenCount),
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut buffer = [0; READ_SIZE];
    for message in &early {
        hand_on(&mut session, &mut subscription, message, held);
    }
    let (mut heard_at, mut beat_at) = (Instant::now(), Instant::now() + BEAT);
    let (code, why): (CloseCode, Cow<'static, str>) = loop {
        let (has_output, has_room) = (!subscription.waiting().is_empty(), subscription.has_room());
        tokio::select! {
            event = session.next(), if has_room => match event {
                Event::Message(message) => hand_on(&mut session, &mut subscription, &message, held),
                Event::Disconnected(why) => break (CloseCode::Policy, told_end(why.into()).into()),
                _ => {}
            },
            count = reader.read(&mut buffer), if has_room => {
                let count = count?;
                if count == 0 {
                    return Ok(());
                }
                heard_at = Instant::now();
                match subscription.take(buffer.get(..count).unwrap_or_default()) {
                    Ok((acknowledged, closes)) => {
                        for delivery in acknowledged {
                            session.acknowledge(delivery);
                        }
                        session.flush();
                        if closes {
                            break (CloseCode::GoingAway, "".into());
                        }
                    }
                    Err((code, why)) => break (code, why.into()),
                }
            }
            count = writer.write(subscription.waiting()), if has_output => match count? {
                0 => return Ok(()),
                count => subscription.advance(count),
            },
            () = tokio::time::sleep_until(beat_at) => {
                if heard_at.elapsed() > SILENT {
                    return Ok(());
                }
                put(&mut subscription.out, Opcode::Ping, b"");
                beat_at = Instant::now() + BEAT;
            }
            _ = stop.changed() => break (CloseCode::GoingAway, "the listener stops".into()),
        }
    };
    if !session.is_over() {
        session.leave(false).await;
    }
    put_close(&mut subscription.out, code, &why);
    writer.write_all(subscription.waiting()).await?;
    writer.shutdown().await
}

/// The reason of a close, for people.
fn told_end(failure: Failure) -> String {
    let (status, value) = ended(failure);
    format!("the broker has ended the session: {} ({})", value["reason"].as_str().unwrap_or_default(), status.as_u16())
}

fn hand_on(session: &mut Session, subscription: &mut Subscription<Delivery>, message: &Message, held: &OpenCount) {
    let before = subscription.out.len();
    if let Some(delivery) = subscription.put(object(message), message.delivery) {
        session.acknowledge(delivery);
    }
    held.counters().count_sent(Way::WebSocket, 1, (subscription.out.len() - before) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a client, under a mask of zeros.
    fn text(text: &str) -> Vec<u8> {
        [&[0x81, 0x80 | text.len() as u8, 0, 0, 0, 0][..], text.as_bytes()].concat()
    }

    #[test]
    fn an_acknowledgement_covers_all_messages_before() {
        let mut subscription = Subscription::new(false);
        for delivery in [Some('a'), None, Some('b'), Some('c')] {
            assert_eq!(subscription.put(serde_json::Map::new(), delivery), None);
        }
        assert!(subscription.out.starts_with(b"\x81\x08{\"id\":1}\x81\x08{\"id\":2}"));
        assert_eq!(subscription.take(&text("{\"ack\":3}")), Ok((vec!['a', 'b'], false)));
        assert_eq!(subscription.take(&text("{\"ack\":3}")), Ok((vec![], false)));
        assert_eq!(subscription.take(&text("{\"ack\":4}")), Ok((vec!['c'], false)));
    }

    #[test]
    fn other_texts_end_the_connection() {
        for wrong in ["{\"ack\":2}", "{\"ack\":-1}", "{}", "ack"] {
            let mut subscription = Subscription::new(false);
            subscription.put(serde_json::Map::new(), Some(()));
            assert!(matches!(subscription.take(&text(wrong)), Err((CloseCode::Policy, _))), "{wrong}");
        }
    }

    #[test]
    fn a_client_may_leave_acknowledgements_to_the_listener() {
        let mut subscription = Subscription::new(true);
        assert_eq!(subscription.put(serde_json::Map::new(), Some('a')), Some('a'));
        assert!(subscription.unacknowledged.is_empty());
    }

    #[test]
    fn a_ping_is_answered_and_a_close_ends() {
        let mut subscription = Subscription::<()>::new(false);
        assert_eq!(subscription.take(&[0x89, 0x81, 0, 0, 0, 0, b'x', 0x88, 0x80, 0, 0, 0, 0]), Ok((vec![], true)));
        assert_eq!(subscription.out, b"\x8a\x01x");
    }

    #[test]
    fn only_the_last_of_several_pings_is_answered() {
        let mut subscription = Subscription::<()>::new(false);
        let pings = [&[0x89, 0x81, 0, 0, 0, 0, b'x'][..], &[0x89, 0x81, 0, 0, 0, 0, b'y']].concat();
        assert_eq!(subscription.take(&pings.repeat(500)), Ok((vec![], false)));
        assert_eq!(subscription.waiting(), b"\x8a\x01y");
    }

    #[test]
    fn bytes_that_wait_are_bounded_and_move_seldom() {
        let mut subscription = Subscription::<()>::new(false);
        put(&mut subscription.out, Opcode::Text, &vec![b'x'; MAX_WAITING]);
        assert!(!subscription.has_room());
        let before = subscription.out.len();
        subscription.advance(100);
        assert!(subscription.has_room());
        assert_eq!((subscription.out.len(), subscription.waiting().len()), (before, before - 100));
        subscription.advance(before / 2);
        assert_eq!((subscription.written, subscription.out.len()), (0, before - 100 - before / 2));
        subscription.advance(subscription.out.len());
        assert!(subscription.waiting().is_empty() && subscription.out.is_empty());
    }
}
