//! Another broker: each record is published, and the batch is done when the broker has acknowledged all of it.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_client::net::{Address, Driver, SocketOptions, Step};
use tidegate_client::{Disconnected, Event, Options, Publish, PublishToken, QoS, TopicNameBuf, Version};

use super::{Sink, SinkError};
use crate::record::Record;

/// Messages under way to the broker at once.
const WINDOW: NonZeroU16 = NonZeroU16::MIN.saturating_add(999);

/// Which broker, and how records are published.
#[derive(Clone, Debug)]
pub struct MqttSettings {
    /// Where it is.
    pub address: Address,
    /// How sockets are made.
    pub socket: SocketOptions,
    /// The client id.
    pub client_id: String,
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
    driver: Driver,
    connected: bool,
}

impl MqttSink {
    pub(super) fn new(settings: &MqttSettings, lane: usize) -> Result<Self, String> {
        let mut settings = settings.clone();
        if lane > 0 {
            // Two connections of one client id would end each other.
            settings.client_id = format!("{}-{lane}", settings.client_id);
        }
        if let Some(topic) = &settings.topic {
            TopicNameBuf::new(topic.as_str()).map_err(|error| format!("the topic `{topic}`: {error}"))?;
        }
        let driver = driver(&settings).map_err(|error| error.to_string())?;
        Ok(Self { settings, driver, connected: false })
    }

    fn topic(&self, record: &Record) -> Result<TopicNameBuf, SinkError> {
        let text = self.settings.topic.as_ref().unwrap_or(&record.topic);
        TopicNameBuf::new(text.as_str()).map_err(|error| SinkError::Refused(format!("the topic `{text}`: {error}")))
    }

    /// A new client, with nothing left of a batch that failed: that comes again.
    fn restart(&mut self) -> Result<(), SinkError> {
        self.driver = driver(&self.settings).map_err(SinkError::away)?;
        self.connected = false;
        Ok(())
    }

    fn next_event(&mut self, deadline: Instant) -> Result<Event, SinkError> {
        loop {
            match self.driver.next(Some(deadline)) {
                Ok(Step::Event(event)) => return Ok(event),
                Ok(Step::Woken) => {}
                Ok(Step::Deadline) => return Err(SinkError::Away("the broker does not answer".to_owned())),
                Err(error) => return Err(SinkError::away(error)),
            }
        }
    }

    fn connect(&mut self, deadline: Instant) -> Result<(), SinkError> {
        self.driver.connect().map_err(SinkError::away)?;
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

    /// Takes the events since the last batch: the broker may have closed the connection.
    fn look(&mut self) -> Result<(), SinkError> {
        while let Ok(Step::Event(event)) = self.driver.next(Some(Instant::now() + Duration::from_millis(1))) {
            if let Event::Disconnected(why) = event {
                return Err(SinkError::Away(said(&why)));
            }
        }
        Ok(())
    }

    fn publish(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let deadline = Instant::now() + self.settings.timeout;
        if self.connected && self.look().is_err() {
            self.restart()?;
        }
        if !self.connected {
            self.connect(deadline)?;
        }
        let mut waiting: Vec<PublishToken> = Vec::with_capacity(batch.len());
        for record in batch {
            let publish = Publish::new(self.topic(record)?, record.body())
                .with_qos(self.settings.qos)
                .with_retain(self.settings.retain);
            let token = self.driver.client().publish(Instant::now(), publish);
            waiting.push(token.map_err(|error| SinkError::Refused(error.to_string()))?);
        }
        let mut refused = None;
        while !waiting.is_empty() {
            match self.next_event(deadline)? {
                Event::Published(published) => {
                    waiting.retain(|token| *token != published.token);
                    if published.reason_code.is_error() {
                        let why = published.reason_string.unwrap_or_else(|| published.reason_code.text().to_owned());
                        refused = Some(format!("the broker refuses a message: {why}"));
                    }
                }
                Event::Undelivered(it) => return Err(SinkError::Refused(it.cause.to_string())),
                Event::Disconnected(why) => return Err(SinkError::Away(said(&why))),
                _ => {}
            }
        }
        refused.map_or(Ok(()), |why| Err(SinkError::Refused(why)))
    }
}

fn driver(settings: &MqttSettings) -> std::io::Result<Driver> {
    let mut options = Options::new(settings.client_id.as_str());
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
        _ => "the broker has closed the connection".to_owned(),
    }
}

impl Sink for MqttSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let outcome = self.publish(batch);
        if outcome.is_err() {
            self.restart()?;
        }
        outcome
    }
}
