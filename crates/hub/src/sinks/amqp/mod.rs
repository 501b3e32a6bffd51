//! An exchange or a queue of AMQP 0-9-1, as in `RabbitMQ`. Messages are kept on disk by the server, and a batch is done
//! when the server has confirmed each message of it (publisher confirms). A message that no queue takes returns and is
//! tried again later, without the messages that the server has.

mod wire;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use self::wire::{Arguments, CHANNEL, FRAME_OVERHEAD, Method, Publication};
use super::place::Ids;
use super::socket::{ServiceUrl, Socket, share_of};
use super::{Sink, SinkError, tls};
use crate::open_error::OpenError;
use crate::record::Record;

/// Usual ports, without and with TLS.
const PORTS: (u16, u16) = (5672, 5671);
/// Largest frame that is asked for, bytes.
const FRAME_MAX: u32 = 128 << 10;
/// Messages that are sent before their confirmations are waited for.
const WINDOW: usize = 1_000;
/// Longest name of a queue, an exchange or a routing key, bytes.
const MAX_NAME: usize = 255;

/// Which server, and where messages go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmqpSettings {
    /// `amqp://[USER:PASSWORD@]HOST[:PORT][/VHOST]`, or `amqps://` for TLS.
    pub url: String,
    /// Authorities that are trusted; without a file, the system's.
    pub ca_file: Option<PathBuf>,
    /// The queue, which is made when it is not there; empty for the exchange.
    pub queue: String,
    /// The exchange, which has to be there.
    pub exchange: String,
    /// The routing key of all messages; empty is the topic of each, with points for slashes.
    pub routing_key: String,
    /// Time for a batch.
    pub timeout: Duration,
}

impl AmqpSettings {
    /// Reads the address, or names the key whose value is of no use, and why.
    pub(super) fn check(&self) -> Result<ServiceUrl, (&'static str, String)> {
        let form = || ("url", "`url` is amqp://[USER:PASSWORD@]HOST[:PORT][/VHOST], or amqps://... for TLS".to_owned());
        let url = ServiceUrl::parse(&self.url, ("amqp", PORTS.0), ("amqps", PORTS.1)).ok_or_else(form)?;
        for (key, name) in [("queue", &self.queue), ("exchange", &self.exchange), ("routing_key", &self.routing_key)] {
            if name.len() > MAX_NAME {
                return Err((key, format!("`{key}` has at most {MAX_NAME} bytes")));
            }
        }
        if !url.secure && self.ca_file.is_some() {
            return Err(("ca", "`ca` is for TLS: begin the URL with amqps://".to_owned()));
        }
        Ok(url)
    }
}

pub(super) struct AmqpSink {
    settings: AmqpSettings,
    url: ServiceUrl,
    tls: Option<Arc<ClientConfig>>,
    ids: Ids,
    open: Option<AmqpChannel>,
    /// Ids of records that the server has out of batches that failed: these come again without them.
    accepted: HashSet<String>,
}

/// An open channel that confirms messages.
#[derive(Debug)]
struct AmqpChannel {
    socket: Socket,
    frame_max: usize,
    /// The number of the next message on this channel, counted from 1.
    next: u64,
}

/// A frame of the server.
enum Frame {
    Method(Method, Vec<u8>),
    /// The header of a returned message.
    Header(Vec<u8>),
    /// Heartbeats, and bodies of returned messages.
    Other,
}

impl AmqpSink {
    pub(super) fn new(settings: &AmqpSettings, ids: Ids) -> Result<Self, OpenError> {
        let url = settings.check()?;
        let tls = if url.secure { Some(tls::client(settings.ca_file.as_deref())?) } else { None };
        Ok(Self { settings: settings.clone(), url, tls, ids, open: None, accepted: HashSet::new() })
    }

    fn connect(&self, deadline: Instant) -> Result<AmqpChannel, SinkError> {
        let mut last = SinkError::away("there is no server");
        let servers = &self.url.servers;
        for (at, left) in servers.iter().zip((1..=servers.len()).rev()) {
            let until = share_of(Instant::now(), deadline, left);
            let opened = Socket::connect(at, self.tls.as_ref(), until).and_then(|socket| {
                let mut connection = AmqpChannel { socket, frame_max: FRAME_MAX as usize, next: 1 };
                connection.log_in(&self.url)?;
                connection.prepare(&self.settings)?;
                Ok(connection)
            });
            match opened {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where a record goes: the exchange and the routing key.
    fn route(&self, record: &Record) -> Result<(&str, String), SinkError> {
        let AmqpSettings { queue, exchange, routing_key, .. } = &self.settings;
        if !queue.is_empty() {
            return Ok(("", queue.clone()));
        }
        let key = if routing_key.is_empty() { record.topic().replace('/', ".") } else { routing_key.clone() };
        if key.len() > MAX_NAME {
            return Err(SinkError::Refused(format!("a routing key has at most {MAX_NAME} bytes, and this topic more")));
        }
        Ok((exchange, key))
    }

    fn publish(&mut self, connection: &mut AmqpChannel, records: &[Arc<Record>]) -> Result<(), SinkError> {
        let mut out = Vec::new();
        let mut window = Window::default();
        for record in records.iter().filter(|record| !self.accepted.contains(record.id())) {
            let (exchange, routing_key) = self.route(record)?;
            let (id, body) = (self.ids.of(record.id()), record.body());
            let content_type =
                if record.original().is_some() { "application/octet-stream" } else { "application/json" };
            let publication = Publication {
                exchange,
                routing_key: &routing_key,
                id: &id,
                topic: record.topic(),
                hops: record.hops(),
                content_type,
                timestamp: record.timestamp(),
                body: &body,
            };
            publication.encode(connection.frame_max, &mut out);
            let sent = Sent { record: record.id().to_owned(), id: wire::cut(id.as_bytes()).to_vec() };
            window.unconfirmed.insert(connection.next, sent);
            connection.next += 1;
        }
        connection.socket.send(&out)?;
        let outcome = connection.wait(&mut window);
        self.accepted.extend(window.kept());
        outcome.map_err(|error| match error {
            // The record has the routing key, and others have another one.
            SinkError::Away(why) if why.contains(TOPIC_REFUSED) && self.has_keys_of_records() => {
                SinkError::Refused(why)
            }
            error => error,
        })
    }

    /// Whether a record is sent with its own routing key.
    fn has_keys_of_records(&self) -> bool {
        self.settings.queue.is_empty() && self.settings.routing_key.is_empty()
    }
}

impl AmqpChannel {
    fn read(&mut self) -> Result<Frame, SinkError> {
        let unexpected = || SinkError::away("the answer is not that of an AMQP 0-9-1 server");
        let mut head = [0; wire::FRAME_HEAD];
        self.socket.receive(&mut head)?;
        let len = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let fits = head[0] <= wire::HEARTBEAT && len <= self.frame_max.saturating_sub(FRAME_OVERHEAD);
        if !fits {
            return Err(unexpected());
        }
        let mut payload = vec![0; len + 1];
        self.socket.receive(&mut payload)?;
        if payload.pop() != Some(wire::FRAME_END) {
            return Err(unexpected());
        }
        match head[0] {
            wire::METHOD => {}
            wire::HEADER => return Ok(Frame::Header(payload)),
            _ => return Ok(Frame::Other),
        }
        let mut arguments = Arguments(&payload);
        let method = (arguments.u16()?, arguments.u16()?);
        let arguments = arguments.0.to_vec();
        if matches!(method, wire::CLOSE | wire::CHANNEL_CLOSE) {
            return Err(closed(&mut Arguments(&arguments)));
        }
        Ok(Frame::Method(method, arguments))
    }

    /// Waits for a method.
    fn expect(&mut self, expected: Method) -> Result<Vec<u8>, SinkError> {
        loop {
            match self.read()? {
                Frame::Method(method, arguments) if method == expected => return Ok(arguments),
                Frame::Method(..) => return Err(SinkError::away("the server answers out of turn")),
                Frame::Header(_) | Frame::Other => {}
            }
        }
    }

    fn call(&mut self, channel: u16, method: Method, arguments: &[u8], answer: Method) -> Result<(), SinkError> {
        self.socket.send(&wire::method(channel, method, arguments))?;
        self.expect(answer).map(drop)
    }

    fn log_in(&mut self, url: &ServiceUrl) -> Result<(), SinkError> {
        self.socket.send(b"AMQP\0\0\x09\x01")?;
        self.expect(wire::START)?;
        let (user, password) = url.login.as_ref().map_or(("guest", "guest"), |(user, word)| (user, word));
        let mut arguments = Vec::new();
        wire::long(wire::CAPABILITIES, &mut arguments);
        wire::short(b"PLAIN", &mut arguments);
        wire::long(format!("\0{user}\0{password}").as_bytes(), &mut arguments);
        wire::short(b"en_US", &mut arguments);
        self.socket.send(&wire::method(0, wire::START_OK, &arguments))?;
        let tune = self.expect(wire::TUNE)?;
        let mut tune = Arguments(&tune);
        let (channels, frame_max) = (tune.u16()?, tune.u32()?);
        // 0 is no limit of the server.
        let frame_max = if frame_max == 0 { FRAME_MAX } else { frame_max.min(FRAME_MAX) };
        self.frame_max = frame_max as usize;
        let mut arguments = channels.to_be_bytes().to_vec();
        arguments.extend_from_slice(&frame_max.to_be_bytes());
        // Without heartbeats: between batches the connection is silent.
        arguments.extend_from_slice(&[0, 0]);
        self.socket.send(&wire::method(0, wire::TUNE_OK, &arguments))?;
        let mut arguments = Vec::new();
        let host = url.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
        wire::short(host.as_bytes(), &mut arguments);
        arguments.extend_from_slice(&[0, 0]);
        self.call(0, wire::OPEN, &arguments, wire::OPEN_OK)
    }

    /// Opens the channel, and makes the queue or looks for the exchange.
    fn prepare(&mut self, settings: &AmqpSettings) -> Result<(), SinkError> {
        self.call(CHANNEL, wire::CHANNEL_OPEN, &[0], wire::CHANNEL_OPEN_OK)?;
        let mut arguments = vec![0, 0];
        if !settings.queue.is_empty() {
            wire::short(settings.queue.as_bytes(), &mut arguments);
            // Passive: a queue with other properties is used as it is.
            arguments.extend_from_slice(&[0b0_0001, 0, 0, 0, 0]);
            let found = self.call(CHANNEL, wire::QUEUE_DECLARE, &arguments, wire::QUEUE_DECLARE_OK);
            if found.is_err() {
                self.make_queue(&settings.queue, found)?;
            }
        } else if !settings.exchange.is_empty() {
            wire::short(settings.exchange.as_bytes(), &mut arguments);
            wire::short(b"", &mut arguments);
            arguments.extend_from_slice(&[0b0_0001, 0, 0, 0, 0]);
            self.call(CHANNEL, wire::EXCHANGE_DECLARE, &arguments, wire::EXCHANGE_DECLARE_OK)?;
        }
        self.call(CHANNEL, wire::CONFIRM, &[0], wire::CONFIRM_OK)
    }

    /// Makes a durable queue on a new channel: the server has closed the one on which it did not find the queue.
    fn make_queue(&mut self, queue: &str, found: Result<(), SinkError>) -> Result<(), SinkError> {
        if !matches!(&found, Err(SinkError::Away(why)) if why.contains(NOT_FOUND)) {
            return found;
        }
        self.socket.send(&wire::method(CHANNEL, wire::CHANNEL_CLOSE_OK, &[]))?;
        self.call(CHANNEL, wire::CHANNEL_OPEN, &[0], wire::CHANNEL_OPEN_OK)?;
        let mut arguments = vec![0, 0];
        wire::short(queue.as_bytes(), &mut arguments);
        arguments.extend_from_slice(&[0b0_0010, 0, 0, 0, 0]);
        self.call(CHANNEL, wire::QUEUE_DECLARE, &arguments, wire::QUEUE_DECLARE_OK)
    }

    /// Waits until the server has said of each message whether it has it.
    fn wait(&mut self, window: &mut Window) -> Result<(), SinkError> {
        while !window.unconfirmed.is_empty() {
            let (method, arguments) = match self.read()? {
                Frame::Method(method, arguments) => (method, arguments),
                Frame::Header(header) => {
                    window.returned.insert(wire::message_id(&header)?);
                    continue;
                }
                Frame::Other => continue,
            };
            let mut arguments = Arguments(&arguments);
            match method {
                wire::ACK | wire::NACK => {
                    let (tag, multiple) = (arguments.u64()?, arguments.u8()? & 1 == 1);
                    window.answer(tag, multiple, method == wire::ACK);
                }
                wire::RETURN => {
                    let (_, why) = (arguments.u16()?, arguments.short()?);
                    let (exchange, key) = (arguments.short()?, arguments.short()?);
                    window.failed = Some(format!("no queue takes `{key}` from the exchange `{exchange}` ({why})"));
                }
                _ => return Err(SinkError::away("the server answers out of turn")),
            }
        }
        window.failed.take().map_or(Ok(()), |why| Err(SinkError::Away(why)))
    }
}

/// A message that was sent.
#[derive(Debug)]
struct Sent {
    /// The id of its record.
    record: String,
    /// Its id as the server has it.
    id: Vec<u8>,
}

/// Messages that were sent together.
#[derive(Debug, Default)]
struct Window {
    /// By their numbers on the channel.
    unconfirmed: BTreeMap<u64, Sent>,
    confirmed: Vec<Sent>,
    /// Ids of messages that no queue takes: the server returns them before it confirms them.
    returned: HashSet<Vec<u8>>,
    failed: Option<String>,
}

impl Window {
    /// The server has, or has not, the message of a number, or `multiple` ones up to it. 0 means all.
    fn answer(&mut self, tag: u64, multiple: bool, kept: bool) {
        let done: Vec<Sent> = match (multiple, tag) {
            (true, 0) => std::mem::take(&mut self.unconfirmed).into_values().collect(),
            (true, tag) => {
                let later = self.unconfirmed.split_off(&tag.saturating_add(1));
                std::mem::replace(&mut self.unconfirmed, later).into_values().collect()
            }
            (false, tag) => self.unconfirmed.remove(&tag).into_iter().collect(),
        };
        if kept {
            self.confirmed.extend(done);
        } else {
            self.failed = Some("the server could not keep a message".to_owned());
        }
    }

    /// The records that the server keeps; none of them where it returned a message that is not known.
    fn kept(self) -> Vec<String> {
        let all = || self.confirmed.iter().chain(self.unconfirmed.values());
        if self.returned.iter().any(|id| all().all(|sent| sent.id != *id)) {
            return Vec::new();
        }
        let kept = self.confirmed.iter().filter(|sent| !self.returned.contains(&sent.id));
        kept.map(|sent| sent.record.clone()).collect()
    }
}

/// How servers name an exchange or a queue that is not there.
const NOT_FOUND: &str = "NOT_FOUND";
/// How `RabbitMQ` says that the user may not write with a routing key.
const TOPIC_REFUSED: &str = "access to topic";

/// Why the server has closed the channel or the connection, and whether a message is to blame.
fn closed(arguments: &mut Arguments<'_>) -> SinkError {
    let (Ok(code), Ok(text)) = (arguments.u16(), arguments.short()) else {
        return SinkError::away("the server has closed the connection");
    };
    let said = format!("the server has closed the connection: {text} ({code})");
    // Content too large, or larger than the server's `max_message_size`.
    let is_too_large = code == 311 || (code == 406 && text.contains("message size"));
    if is_too_large { SinkError::Refused(said) } else { SinkError::Away(said) }
}

impl Sink for AmqpSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let deadline = Instant::now() + self.settings.timeout;
        let mut connection = match self.open.take() {
            Some(connection) => connection,
            None => self.connect(deadline)?,
        };
        connection.socket.set_deadline(deadline);
        for records in batch.chunks(WINDOW) {
            self.publish(&mut connection, records)?;
        }
        self.open = Some(connection);
        // The other half of a batch that failed may still come.
        for record in batch {
            self.accepted.remove(record.id());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::super::socket::ServerAddress;
    use super::*;
    use crate::message::Message;
    use crate::record::Content;

    fn sink(settings: AmqpSettings) -> Result<AmqpSink, OpenError> {
        let url = if settings.url.is_empty() { "amqp://h".to_owned() } else { settings.url };
        AmqpSink::new(&AmqpSettings { url, ..settings }, Ids::default())
    }

    #[test]
    fn a_record_goes_to_the_queue_or_by_its_topic() {
        let record = |topic: &str| record(Message { topic: topic.to_owned(), ..Message::default() });
        let route = |settings: AmqpSettings, topic: &str| {
            let sink = sink(settings).unwrap();
            sink.route(&record(topic)).map(|(exchange, key)| format!("{exchange} {key}"))
        };
        let exchange = AmqpSettings { exchange: "amq.topic".to_owned(), ..AmqpSettings::default() };
        assert_eq!(route(exchange.clone(), "a/b").unwrap(), "amq.topic a.b");
        assert!(matches!(route(exchange.clone(), &"x".repeat(256)), Err(SinkError::Refused(_))));
        assert_eq!(
            route(AmqpSettings { routing_key: "k".to_owned(), ..exchange.clone() }, "a/b").unwrap(),
            "amq.topic k"
        );
        assert_eq!(route(AmqpSettings { queue: "q".to_owned(), ..exchange }, "a/b").unwrap(), " q");
    }

    fn record(message: Message) -> Record {
        Record::new(Arc::new(message), Content::default())
    }

    /// A returned message, as the server sends it.
    fn returned(record: &Record) -> Vec<u8> {
        let mut arguments = vec![1, 56];
        for text in ["NO_ROUTE", "x", "a.b"] {
            wire::short(text.as_bytes(), &mut arguments);
        }
        let mut out = wire::method(CHANNEL, wire::RETURN, &arguments);
        let id = Ids::default().of(record.id());
        let publication = Publication {
            exchange: "x",
            routing_key: "a.b",
            id: &id,
            topic: "a/b",
            hops: 1,
            content_type: "t",
            timestamp: 0,
            body: b"{}",
        };
        let mut sent = Vec::new();
        publication.encode(FRAME_MAX as usize, &mut sent);
        let publish = FRAME_OVERHEAD + u32::from_be_bytes([sent[3], sent[4], sent[5], sent[6]]) as usize;
        out.extend_from_slice(&sent[publish..]);
        out
    }

    fn answer(method: Method, tag: u64, multiple: bool) -> Vec<u8> {
        let mut arguments = tag.to_be_bytes().to_vec();
        arguments.push(u8::from(multiple));
        wire::method(CHANNEL, method, &arguments)
    }

    /// Writes a batch on a new channel whose server has given its answers already. Returns the outcome, and the sent bytes.
    fn write(sink: &mut AmqpSink, batch: &[Arc<Record>], answers: &[Vec<u8>]) -> (Result<(), SinkError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = ServerAddress { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        let socket = Socket::connect(&at, None, Instant::now() + Duration::from_secs(30)).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(&answers.concat()).unwrap();
        sink.open = Some(AmqpChannel { socket, frame_max: FRAME_MAX as usize, next: 1 });
        let outcome = sink.write(batch);
        sink.open = None;
        let mut sent = Vec::new();
        peer.read_to_end(&mut sent).unwrap();
        (outcome, String::from_utf8_lossy(&sent).into_owned())
    }

    #[test]
    fn only_messages_that_the_server_does_not_have_come_again() {
        let settings = AmqpSettings { timeout: Duration::from_secs(30), ..AmqpSettings::default() };
        let mut sink = sink(settings).unwrap();
        let ids = ["kept-1", "returned", "kept-2", "nacked"];
        let batch = ids.map(|id| Arc::new(record(Message { id: id.to_owned(), ..Message::default() })));
        let answers = [returned(&batch[1]), answer(wire::ACK, 3, true), answer(wire::NACK, 4, false)];
        let (outcome, sent) = write(&mut sink, &batch, &answers);
        assert!(matches!(outcome, Err(SinkError::Away(_))), "{outcome:?}");
        assert!(ids.iter().all(|id| sent.contains(id)));
        let (outcome, sent) = write(&mut sink, &batch, &[answer(wire::ACK, 0, true)]);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(sent.contains("returned") && sent.contains("nacked") && !sent.contains("kept"), "{sent}");
        assert!(sink.accepted.is_empty());
    }

    #[test]
    fn only_a_routing_key_of_its_own_blames_a_record() {
        let text =
            "ACCESS_REFUSED - write access to topic 'a.b' in exchange 'amq.topic' in vhost '/' refused for user 'u'";
        let mut arguments = 403_u16.to_be_bytes().to_vec();
        wire::short(text.as_bytes(), &mut arguments);
        let answers = [wire::method(CHANNEL, wire::CHANNEL_CLOSE, &arguments)];
        let batch = [Arc::new(record(Message { topic: "a/b".to_owned(), ..Message::default() }))];
        let settings = AmqpSettings {
            exchange: "amq.topic".to_owned(),
            timeout: Duration::from_secs(30),
            ..AmqpSettings::default()
        };
        let (outcome, _) = write(&mut sink(settings.clone()).unwrap(), &batch, &answers);
        assert!(matches!(&outcome, Err(SinkError::Refused(why)) if why.contains("'a.b'")), "{outcome:?}");
        let fixed = AmqpSettings { routing_key: "a.b".to_owned(), ..settings };
        let (outcome, _) = write(&mut sink(fixed).unwrap(), &batch, &answers);
        assert!(matches!(outcome, Err(SinkError::Away(_))), "{outcome:?}");
    }

    #[test]
    fn a_silent_server_leaves_time_for_the_others() {
        let (silent, closed) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let url = format!("amqp://127.0.0.1:{},127.0.0.1:{}", port(&silent), port(&closed));
        let other = std::thread::spawn(move || drop(closed.accept().unwrap()));
        let settings = AmqpSettings { url, timeout: Duration::from_secs(4), ..AmqpSettings::default() };
        let why = sink(settings).unwrap().write(&[Arc::default()]).unwrap_err().to_string();
        other.join().unwrap();
        assert!(!why.contains("in time"), "{why}");
    }

    #[test]
    fn a_reason_says_whether_a_message_is_to_blame() {
        let judge = |code: u16, text: &str| {
            let mut arguments = code.to_be_bytes().to_vec();
            wire::short(text.as_bytes(), &mut arguments);
            closed(&mut Arguments(&arguments))
        };
        assert!(matches!(
            judge(406, "PRECONDITION_FAILED - message size 9 is larger than configured max size 1"),
            SinkError::Refused(_)
        ));
        assert!(matches!(judge(311, "CONTENT_TOO_LARGE"), SinkError::Refused(_)));
        assert!(matches!(judge(404, "NOT_FOUND - no exchange 'x'"), SinkError::Away(_)));
        assert!(matches!(closed(&mut Arguments(b"")), SinkError::Away(_)));
    }

    #[test]
    fn settings_that_are_of_no_use_are_refused() {
        let url = |url: &str| sink(AmqpSettings { url: url.to_owned(), ..AmqpSettings::default() });
        assert!(url("amqp://u:p@h:1/v").is_ok());
        assert!(url("h:5672").is_err_and(|why| why.to_string().contains("amqp://")));
        let ca_file = Some(PathBuf::from("ca.pem"));
        assert!(
            sink(AmqpSettings { ca_file, ..AmqpSettings::default() })
                .is_err_and(|why| why.to_string().contains("amqps://"))
        );
        assert!(sink(AmqpSettings { queue: "q".repeat(256), ..AmqpSettings::default() }).is_err());
    }
}
