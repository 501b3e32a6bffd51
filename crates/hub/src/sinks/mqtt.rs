//! Another broker: each record is published, and the batch is done when the broker has acknowledged all of it.

use std::collections::HashSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_client::net::{Address, Driver, SocketOptions, Step};
use tidegate_client::{
    Disconnected, Event, MessageProperties, Options, Publish, PublishError, PublishToken, QoS, ReasonCode,
    TopicNameBuf, UndeliveredCause, Version,
};

use super::{Sink, SinkError};
use crate::message::HOPS_PROPERTY;
use crate::open_error::OpenError;
use crate::record::Record;
use crate::time::wall_clock;

/// Messages under way to the broker at once.
const WINDOW: NonZeroU16 = NonZeroU16::MIN.saturating_add(999);

/// Which broker, and how records are published.
#[derive(Clone, Debug)]
pub struct MqttSettings {
    /// Where it is.
    pub address: Address,
    /// How sockets are made.
    pub socket: SocketOptions,
    /// The client ids of the lanes, each another: two connections of one client id would end each other.
    pub client_ids: Vec<String>,
    /// The user name.
    pub user_name: Option<String>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// The topic of all records, where it is not that of each.
    pub topic: Option<String>,
    /// 1 or 2.
    pub qos: QoS,
    /// RETAIN.
    pub retain: bool,
    /// Time for a batch.
    pub timeout: Duration,
}

pub(super) struct MqttSink {
    settings: MqttSettings,
    client_id: String,
    driver: Driver,
    connected: bool,
    /// Whether messages of the last batch may still be under way: the connection is of no use for another one.
    unsettled: bool,
    /// Ids of records that the broker has accepted out of batches that failed: these come again without them.
    accepted: HashSet<String>,
}

impl MqttSink {
    pub(super) fn new(settings: &MqttSettings, lane: usize) -> Result<Self, OpenError> {
        let settings = settings.clone();
        let missing = || OpenError::setting("client_id", format!("lane {lane} has none"));
        let client_id = settings.client_ids.get(lane).cloned().ok_or_else(missing)?;
        if let Some(topic) = &settings.topic {
            TopicNameBuf::new(topic.as_str())
                .map_err(|error| OpenError::part(format!("the topic `{topic}`"), &error))?;
        }
        let driver = driver(&settings, &client_id).map_err(|error| OpenError::setting("url", error.to_string()))?;
        Ok(Self { settings, client_id, driver, connected: false, unsettled: false, accepted: HashSet::new() })
    }

    fn topic(&self, record: &Record) -> Result<TopicNameBuf, SinkError> {
        let text = self.settings.topic.as_deref().unwrap_or(record.topic());
        TopicNameBuf::new(text).map_err(|error| SinkError::Refused(format!("the topic `{text}`: {error}")))
    }

    /// A new client, with nothing left of a batch that failed: that comes again.
    fn restart(&mut self) -> Result<(), SinkError> {
        self.driver = driver(&self.settings, &self.client_id).map_err(SinkError::away)?;
        (self.connected, self.unsettled) = (false, false);
        Ok(())
    }

    fn next_event(&mut self, deadline: Instant) -> Result<Event, SinkError> {
        loop {
            match self.driver.next(Some(deadline)) {
                Ok(Step::Event(event)) => return Ok(event),
                Ok(Step::Woken) => {}
                Ok(Step::Deadline) => return Err(SinkError::Away("the broker does not answer".to_owned())),
                Err(error) => return Err(SinkError::away_by(&error)),
            }
        }
    }

    fn connect(&mut self, deadline: Instant) -> Result<(), SinkError> {
        self.driver.connect().map_err(|error| SinkError::away_by(&error))?;
        loop {
            match self.next_event(deadline)? {
                Event::Connected(_) => {
                    self.connected = true;
                    return Ok(());
                }
                Event::Disconnected(why) => return Err(SinkError::Away(said(&why))),
                _ => {}
            }
        }
    }

    /// Takes the events since the last batch, without a wait: the broker may have closed the connection.
    fn look(&mut self) -> Result<(), SinkError> {
        while let Some(event) = self.driver.ready().map_err(SinkError::away)? {
            if let Event::Disconnected(why) = event {
                return Err(SinkError::Away(said(&why)));
            }
        }
        Ok(())
    }

    fn publish(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let deadline = Instant::now() + self.settings.timeout;
        self.unsettled = true;
        if self.connected && self.look().is_err() {
            self.restart()?;
            self.unsettled = true;
        }
        if !self.connected {
            self.connect(deadline)?;
        }
        let mut waiting: Vec<(PublishToken, &str)> = Vec::with_capacity(batch.len());
        for record in batch.iter().filter(|record| !self.accepted.contains(record.id())) {
            let mut publish = Publish::new(self.topic(record)?, record.body())
                .with_qos(self.settings.qos)
                .with_retain(self.settings.retain);
            publish.properties = properties_of(record, wall_clock());
            let token = self.driver.client().publish(Instant::now(), publish);
            let token = token.map_err(|error| unsendable(&error))?;
            waiting.push((token, record.id()));
        }
        let mut failed = None;
        while !waiting.is_empty() {
            match self.next_event(deadline)? {
                Event::Published(published) => {
                    let Some(at) = waiting.iter().position(|(token, _)| *token == published.token) else { continue };
                    let (_, id) = waiting.remove(at);
                    if published.reason_code.is_error() {
                        let why = published.reason_string.unwrap_or_else(|| published.reason_code.text().to_owned());
                        let why = format!("the broker refuses a message: {why}");
                        let error = self.judge(published.reason_code, why);
                        failed = Some(match failed.take() {
                            Some(before) => weightier(before, error),
                            None => error,
                        });
                    } else {
                        self.accepted.insert(id.to_owned());
                    }
                }
                Event::Undelivered(it) => return Err(undelivered(&it.cause)),
                Event::Disconnected(why) => return Err(self.ended(&why)),
                _ => {}
            }
        }
        self.unsettled = false;
        failed.map_or(Ok(()), Err)
    }

    /// Whether a record is to blame for the answer to a message, which no retry mends.
    fn judge(&self, code: ReasonCode, why: String) -> SinkError {
        // Where the settings name the topic, they are to blame for it.
        let topic_of_record = self.settings.topic.is_none();
        match code {
            ReasonCode::PacketTooLarge | ReasonCode::PayloadFormatInvalid => SinkError::Refused(why),
            ReasonCode::TopicNameInvalid | ReasonCode::NotAuthorized if topic_of_record => SinkError::Refused(why),
            ReasonCode::ImplementationSpecificError => SinkError::Limited(why),
            // Only a retained message fills a place for good. Another one finds a queue that is full.
            ReasonCode::QuotaExceeded if self.settings.retain => SinkError::Limited(why),
            _ => SinkError::Away(why),
        }
    }

    /// Why the connection has ended while records were under way.
    fn ended(&self, why: &Disconnected) -> SinkError {
        let Disconnected::ByServer(it) = why else { return SinkError::Away(said(why)) };
        match (it.reason_code, self.judge(it.reason_code, said(why))) {
            // It may be about the connection.
            (ReasonCode::NotAuthorized, SinkError::Refused(why)) => SinkError::Limited(why),
            (_, SinkError::Limited(why)) => SinkError::Away(why),
            (_, error) => error,
        }
    }
}

/// The properties of a record: of a message that is sent as it came, its own; and the number of pipelines in any case.
/// `now` is in Unix milliseconds.
fn properties_of(record: &Record, now: u64) -> MessageProperties {
    let mut properties = MessageProperties::default();
    if record.is_as_it_came() {
        let message = &record.message;
        properties.content_type.clone_from(&message.content_type);
        properties.message_expiry = message.expiry(now);
        properties.response_topic = message.response_topic.as_deref().and_then(|topic| TopicNameBuf::new(topic).ok());
        properties.correlation_data.clone_from(&message.correlation_data);
        properties.user_properties.clone_from(&message.user_properties);
    }
    properties.user_properties.push((HOPS_PROPERTY.to_owned(), record.hops().to_string()));
    properties
}

/// The error that decides about a batch: while the broker refuses for a time, no record is to blame, and a record that it
/// refuses for ever is looked for before one that reaches a limit.
fn weightier(one: SinkError, other: SinkError) -> SinkError {
    let weight = |error: &SinkError| match error {
        SinkError::Limited(_) => 0,
        SinkError::Refused(_) => 1,
        SinkError::Away(_) => 2,
    };
    if weight(&one) >= weight(&other) { one } else { other }
}

/// A record that cannot be sent is to blame, unless the broker does not take what the settings say.
fn unsendable(error: &PublishError) -> SinkError {
    match error {
        PublishError::InvalidTopic(_) | PublishError::Encode(_) => SinkError::Refused(error.to_string()),
        _ => SinkError::away(error),
    }
}

fn undelivered(cause: &UndeliveredCause) -> SinkError {
    match cause {
        UndeliveredCause::NotSendable(error) => unsendable(error),
        UndeliveredCause::SessionLost | UndeliveredCause::ConnectionLost => SinkError::away(cause),
    }
}

fn driver(settings: &MqttSettings, client_id: &str) -> std::io::Result<Driver> {
    let mut options = Options::new(client_id);
    options.version = Version::V5;
    // Between batches the connection is silent.
    options.keep_alive = 0;
    options.username.clone_from(&settings.user_name);
    options.password.clone_from(&settings.password);
    options.max_in_flight = WINDOW;
    options.max_queued_messages = usize::MAX;
    options.max_queued_bytes = usize::MAX;
    Driver::new(options, settings.address.clone(), settings.socket.clone())
}

fn said(why: &Disconnected) -> String {
    match why {
        Disconnected::Refused(it) | Disconnected::ByServer(it) => {
            let text = it.reason_string.as_deref().unwrap_or(it.reason_code.text());
            format!("the broker has ended the connection: {text}")
        }
        Disconnected::Protocol(error) => error.to_string(),
        Disconnected::ConnectTimeout => "the broker does not answer CONNECT in time".to_owned(),
        _ => "the broker has closed the connection".to_owned(),
    }
}

impl Sink for MqttSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let outcome = self.publish(batch);
        if self.unsettled {
            self.restart()?;
        }
        if outcome.is_ok() {
            for record in batch {
                self.accepted.remove(record.id());
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use tidegate_client::Dismissal;

    use super::*;
    use crate::message::Message;
    use crate::record::{Content, WholeMessage};

    /// A broker that gives these reason codes to the messages that come, and gives their topics. With codes that
    /// PUBACK cannot have it ends the connection.
    fn serve(codes: Vec<u8>) -> (Address, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut topics, mut codes) = (Vec::new(), codes.into_iter().peekable());
            while codes.peek().is_some() {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 2];
                while codes.peek().is_some() && stream.read_exact(&mut head).is_ok() {
                    let mut body = vec![0; usize::from(head[1])];
                    stream.read_exact(&mut body).unwrap();
                    match head[0] >> 4 {
                        1 => stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap(),
                        3 => {
                            let end = 2 + usize::from(body[1]);
                            topics.push(String::from_utf8(body[2..end].to_vec()).unwrap());
                            let code = codes.next().unwrap();
                            if matches!(code, 0x8b | 0x95) {
                                stream.write_all(&[0xe0, 1, code]).unwrap();
                                break;
                            }
                            stream.write_all(&[0x40, 3, body[end], body[end + 1], code]).unwrap();
                        }
                        _ => break,
                    }
                }
            }
            topics
        });
        (Address::Tcp { host: "127.0.0.1".into(), port }, thread)
    }

    fn sink(address: Address) -> MqttSink {
        let settings = MqttSettings {
            address,
            socket: SocketOptions::default(),
            client_ids: vec!["c".into()],
            user_name: None,
            password: None,
            topic: None,
            qos: QoS::AtLeastOnce,
            retain: false,
            timeout: Duration::from_secs(30),
        };
        MqttSink::new(&settings, 0).unwrap()
    }

    fn record(id: &str) -> Arc<Record> {
        let message = Message { id: id.to_owned(), topic: id.to_owned(), ..Message::default() };
        Arc::new(Record::new(Arc::new(message), Content::default()))
    }

    #[test]
    fn only_a_code_that_blames_the_record_is_a_refusal() {
        let (address, _broker) = serve(vec![0x97, 0x80, 0x91, 0x8b, 0x83, 0x87, 0x90, 0x99, 0x95, 0]);
        let mut sink = sink(address);
        for _ in 0..4 {
            let outcome = sink.write(&[record("a")]);
            assert!(matches!(outcome, Err(SinkError::Away(_))), "{outcome:?}");
        }
        assert!(matches!(sink.write(&[record("a")]), Err(SinkError::Limited(_))));
        for _ in 0..4 {
            let outcome = sink.write(&[record("a")]);
            assert!(matches!(outcome, Err(SinkError::Refused(_))), "{outcome:?}");
        }
        assert_eq!(sink.write(&[record("a")]), Ok(()));
    }

    #[test]
    fn a_topic_of_the_settings_blames_no_record() {
        let (address, _broker) = serve(vec![0x87, 0x90, 0x99]);
        let mut sink = sink(address);
        sink.settings.topic = Some("t".to_owned());
        for _ in 0..2 {
            assert!(matches!(sink.write(&[record("a")]), Err(SinkError::Away(_))));
        }
        assert!(matches!(sink.write(&[record("a")]), Err(SinkError::Refused(_))));
    }

    #[test]
    fn an_end_of_the_connection_for_rights_is_tried_again() {
        let sink = sink(Address::Tcp { host: "127.0.0.1".into(), port: 1 });
        let by_server = |code| {
            let dismissal = Dismissal {
                reason_code: code,
                reason_string: None,
                server_reference: None,
                user_properties: Vec::new(),
            };
            sink.ended(&Disconnected::ByServer(Box::new(dismissal)))
        };
        assert!(matches!(by_server(ReasonCode::NotAuthorized), SinkError::Limited(_)));
        assert!(matches!(by_server(ReasonCode::ImplementationSpecificError), SinkError::Away(_)));
        assert!(matches!(by_server(ReasonCode::PacketTooLarge), SinkError::Refused(_)));
        assert!(matches!(sink.ended(&Disconnected::TransportClosed), SinkError::Away(_)));
    }

    #[test]
    fn a_message_that_is_sent_as_it_came_keeps_its_properties() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let message = Message {
            content_type: Some("text/plain".to_owned()),
            response_topic: Some("answers".to_owned()),
            correlation_data: Some(vec![7]),
            expires_at: Some(9_000),
            user_properties: vec![pair("unit", "C")],
            hops: 1,
            ..Message::default()
        };
        let record = Record::new(Arc::new(message), Content::Whole(WholeMessage::default()));
        let kept = properties_of(&record, 6_500);
        assert_eq!((kept.message_expiry, kept.correlation_data), (Some(3), Some(vec![7])));
        assert_eq!(kept.response_topic, TopicNameBuf::new("answers").ok());
        assert_eq!(kept.content_type.as_deref(), Some("text/plain"));
        assert_eq!(kept.user_properties, [pair("unit", "C"), pair(HOPS_PROPERTY, "2")]);
        for changed in
            [Record { content: Content::default(), ..record.clone() }, Record { encoded: Some(Vec::new()), ..record }]
        {
            let hops = vec![pair(HOPS_PROPERTY, "2")];
            let only_hops = MessageProperties { user_properties: hops, ..MessageProperties::default() };
            assert_eq!(properties_of(&changed, 0), only_hops);
        }
    }

    #[test]
    fn only_a_retained_message_reaches_a_limit() {
        let (address, _broker) = serve(vec![0x97, 0x97, 0x99, 0x97, 0x80, 0]);
        let mut sink = sink(address);
        sink.settings.retain = true;
        assert!(matches!(sink.write(&[record("a")]), Err(SinkError::Limited(_))));
        assert!(matches!(sink.write(&["a", "b"].map(record)), Err(SinkError::Refused(_))));
        assert!(matches!(sink.write(&["a", "b"].map(record)), Err(SinkError::Away(_))));
        assert_eq!(sink.write(&[record("a")]), Ok(()));
    }

    #[test]
    fn a_broker_that_lacks_a_feature_blames_no_record() {
        assert!(matches!(unsendable(&PublishError::RetainNotSupported), SinkError::Away(_)));
        let cause = UndeliveredCause::NotSendable(PublishError::QosNotSupported { maximum: QoS::AtMostOnce });
        assert!(matches!(undelivered(&cause), SinkError::Away(_)));
        assert!(matches!(undelivered(&UndeliveredCause::SessionLost), SinkError::Away(_)));
        let topic = TopicNameBuf::new("a/#").unwrap_err();
        assert!(matches!(unsendable(&PublishError::InvalidTopic(topic)), SinkError::Refused(_)));
    }

    #[test]
    fn a_record_without_rights_does_not_stop_the_others() {
        let (address, broker) = serve(vec![0, 0x87, 0, 0]);
        let mut sink = sink(address);
        let all = ["a", "secret", "c"].map(record);
        assert!(matches!(sink.write(&all), Err(SinkError::Refused(_))));
        assert!(sink.connected, "all are answered");
        assert_eq!(sink.write(&all[..1]), Ok(()));
        assert_eq!(sink.write(&all[2..]), Ok(()));
        assert_eq!(sink.write(&[record("d")]), Ok(()));
        assert_eq!(broker.join().unwrap(), ["a", "secret", "c", "d"]);
    }

    #[test]
    fn what_the_broker_has_accepted_is_not_published_again() {
        // `b` is refused for a time, and `c` for ever.
        let (address, broker) = serve(vec![0, 0x97, 0x99, 0, 0x99, 0x99, 0]);
        let mut sink = sink(address);
        let all = ["a", "b", "c"].map(record);
        assert!(matches!(sink.write(&all), Err(SinkError::Away(_))));
        assert!(matches!(sink.write(&all), Err(SinkError::Refused(_))));
        assert_eq!(sink.write(&all[..2]), Ok(()));
        assert!(matches!(sink.write(&all[2..]), Err(SinkError::Refused(_))));
        assert!(sink.accepted.is_empty());
        assert_eq!(sink.write(&all[..1]), Ok(()), "it is a new one");
        assert_eq!(broker.join().unwrap(), ["a", "b", "c", "b", "c", "c", "a"]);
    }
}
