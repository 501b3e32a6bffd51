//! Topics of a broker: a durable session, in which messages wait until they are acknowledged.

use std::error::Error;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_client::net::{Address, Driver, SocketOptions, Step as Turn};
use tidegate_client::{
    Acknowledgement, Delivery, DisconnectRequest, Disconnected, Event, Options, QoS, RequestAnswer, RetainHandling,
    SubscribeRequest, SubscriptionOptions, TopicFilterBuf, UnsubscribeRequest, Version,
};

use super::{SessionFilters, Source, SourceStep, Wake};
use crate::core::Ending;
use crate::message::{Message, ORIGIN_PROPERTY, Origin};
use crate::spares::SpareMessages;
use crate::time::wall_clock;

/// The shortest and the longest time between two attempts to connect; each failure doubles it.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// How long to wait when the system cannot wait for sockets.
const SYSTEM_PAUSE: Duration = Duration::from_secs(1);
/// Seconds of silence after which the hub asks the broker whether it lives.
const KEEP_ALIVE: u16 = 60;

/// Which broker, and how.
#[derive(Clone, Debug)]
pub struct TopicsSettings {
    /// The broker.
    pub address: Address,
    /// How sockets are made.
    pub socket: SocketOptions,
    /// The client id of its session.
    pub client_id: String,
    /// The user name.
    pub user_name: Option<String>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// The share name, where several processes share the work.
    pub share: Option<String>,
    /// Whether retained messages are taken when the session begins.
    pub retained: bool,
    /// Whether the broker says who published a message. Elsewhere a publisher can say anything in
    /// [`ORIGIN_PROPERTY`](crate::ORIGIN_PROPERTY), so it is dropped there.
    pub origins: bool,
    /// Client ids with which the pipeline publishes at this broker. It does not take their messages: it would feed itself.
    pub own_publishers: Vec<String>,
    /// Messages that the broker sends without an acknowledgement.
    pub window: u16,
    /// Seconds that the broker keeps the session while the hub is away.
    pub session_expiry: u32,
    /// Finds the filters of the session at the broker, where it is in this process.
    pub kept_filters: Option<SessionFilters>,
}

/// The session of a pipeline at its broker.
pub(crate) struct Topics {
    settings: TopicsSettings,
    from: Vec<TopicFilterBuf>,
    driver: Driver,
    spares: SpareMessages,
    /// Begins the ids of messages to which the broker gives none.
    id_prefix: String,
    next_id: u64,
    connect_at: Option<Instant>,
    /// The filters of the last SUBSCRIBE, in its order.
    asked: Vec<TopicFilterBuf>,
    /// Whether the broker has granted some filters and refused others.
    is_partial: bool,
    /// When the refused filters are asked for again, on the same connection.
    subscribe_at: Option<Instant>,
    pause: Duration,
    /// When the last step came: acknowledgements of its turn leave by this clock.
    now: Instant,
    /// Why the pipeline itself has ended the connection.
    left: Option<String>,
    /// Whether the log says that it does not take its own messages.
    is_warned: bool,
    /// When it was made, Unix milliseconds.
    begun: u64,
    /// Messages that waited when it was made, and whose topics the pipeline does not take any more.
    passed_over: u64,
}

/// The options of a session's client.
fn options(settings: &TopicsSettings) -> Options {
    let mut options = Options::new(settings.client_id.as_str());
    options.version = Version::V5;
    options.clean_start = false;
    options.keep_alive = KEEP_ALIVE;
    options.username.clone_from(&settings.user_name);
    options.password.clone_from(&settings.password);
    options.acknowledgement = Acknowledgement::Manual;
    options.mark = Some(ORIGIN_PROPERTY);
    options.properties.receive_maximum = NonZeroU16::new(settings.window);
    options.properties.session_expiry_interval = Some(settings.session_expiry);
    options
}

impl Topics {
    /// A session that is not connected yet.
    ///
    /// # Errors
    /// When the system has no sockets left.
    pub(crate) fn new(settings: &TopicsSettings, from: Vec<TopicFilterBuf>) -> std::io::Result<Self> {
        let driver = Driver::new(options(settings), settings.address.clone(), settings.socket.clone())?;
        Ok(Self {
            settings: settings.clone(),
            from,
            driver,
            spares: SpareMessages::default(),
            id_prefix: format!("{}-{:x}", settings.client_id, wall_clock()),
            next_id: 0,
            connect_at: Some(Instant::now()),
            asked: Vec::new(),
            is_partial: false,
            subscribe_at: None,
            pause: PAUSE.0,
            now: Instant::now(),
            left: None,
            is_warned: false,
            begun: wall_clock(),
            passed_over: 0,
        })
    }

    fn take(&mut self, event: Event) -> SourceStep<Delivery> {
        match event {
            Event::Connected(connected) => {
                tracing::info!(client_id = self.settings.client_id, session = connected.session_present, "connected");
                if connected.session_present {
                    self.leave_former_topics();
                }
                self.asked.clone_from(&self.from);
                self.subscribe();
                SourceStep::Idle
            }
            Event::Disconnected(why) => {
                (self.is_partial, self.subscribe_at) = (false, None);
                let error = self.driver.transport_error().filter(|_| why == Disconnected::TransportClosed);
                let why = error.map_or_else(|| said(&why), |error| with_cause(error));
                let why = self.left.take().unwrap_or(why);
                self.try_again(why)
            }
            Event::Subscribed(answer) => self.check(&answer),
            Event::Message(message) => {
                let delivery = message.delivery;
                // Else it is of a filter that the pipeline had before: it waited, or the session still has the filter.
                let is_wanted = self.from.iter().any(|filter| filter.matches(&message.topic));
                if !is_wanted {
                    self.pass_over(&message);
                }
                let own = is_wanted.then(|| self.own(message)).filter(|own| !self.is_published_here(own));
                match (own, delivery) {
                    (Some(own), delivery) => return SourceStep::Message(own, delivery),
                    (None, Some(delivery)) => self.acknowledge(delivery, Ending::NotTaken),
                    (None, None) => {}
                }
                SourceStep::Idle
            }
            // Nothing else is ever asked for.
            Event::Published(_)
            | Event::Undelivered(_)
            | Event::BeyondReceiveMaximum
            | Event::InvalidTopic(_)
            | Event::RequestLost(_)
            | Event::Unsubscribed(_)
            | Event::Authentication(_)
            | Event::Trace(_) => SourceStep::Idle,
        }
    }

    /// Unsubscribes the filters of the session that the pipeline does not have any more.
    fn leave_former_topics(&mut self) {
        let kept = self.settings.kept_filters.as_ref().map(|kept| kept.of(&self.settings.client_id));
        let filters = former(kept.unwrap_or_default(), &self.from);
        if filters.is_empty() {
            return;
        }
        tracing::info!(client_id = self.settings.client_id, filters = filters.len(), "unsubscribes former topics");
        let request = UnsubscribeRequest { filters, ..UnsubscribeRequest::default() };
        if let Err(error) = self.driver.client().unsubscribe(Instant::now(), &request) {
            tracing::warn!(client_id = self.settings.client_id, %error, "the pipeline cannot unsubscribe former topics");
        }
    }

    /// Counts a message that waited for the pipeline, when `from` had its topic. Later ones come only while the session
    /// still has the filter.
    fn pass_over(&mut self, message: &tidegate_client::Message) {
        let origin = message.marked.as_deref().filter(|_| self.settings.origins).and_then(Origin::parse);
        if origin.is_none_or(|origin| origin.timestamp >= self.begun) {
            return;
        }
        self.passed_over += 1;
        if self.passed_over == 1 {
            tracing::warn!(
                client_id = self.settings.client_id,
                topic = message.topic.as_str(),
                "messages waited for the pipeline whose topics it does not take any more: they are dropped"
            );
        }
    }

    /// Whether a sink of this pipeline has published the message.
    fn is_published_here(&mut self, message: &Message) -> bool {
        let own = &self.settings.own_publishers;
        let is_own = message.client_id.as_ref().is_some_and(|client_id| own.contains(client_id));
        if is_own && !std::mem::replace(&mut self.is_warned, true) {
            tracing::warn!(
                client_id = self.settings.client_id,
                topic = &*message.topic,
                "a pipeline does not take messages that it publishes itself; publish them to topics that it does not read"
            );
        }
        is_own
    }

    /// The message as a pipeline sees it.
    fn own(&mut self, mut message: Box<tidegate_client::Message>) -> Arc<Message> {
        let mut shared = self.spares.pop().unwrap_or_default();
        let own = Arc::make_mut(&mut shared);
        // By name, so that none is forgotten: the message may have been another one.
        let Message {
            id,
            lasting_id,
            topic,
            client_id,
            user_name,
            peer_host,
            qos,
            retain,
            timestamp,
            content_type,
            response_topic,
            correlation_data,
            expires_at,
            hops,
            user_properties,
            payload,
            archived,
            headers_cut,
        } = &mut *own;
        let origin = message.marked.as_deref().filter(|_| self.settings.origins).and_then(Origin::parse);
        *lasting_id = origin.is_some();
        let publisher = origin.map(|origin| origin.client_id).filter(|client_id| !client_id.is_empty());
        if let Some(origin) = origin {
            origin.id.clone_into(id);
            *timestamp = origin.timestamp;
        } else {
            self.next_id += 1;
            (*id, *timestamp) = (format!("{}-{}", self.id_prefix, self.next_id), wall_clock());
        }
        put(publisher, client_id);
        put(origin.and_then(|origin| origin.user_name), user_name);
        put(origin.and_then(|origin| origin.peer_host), peer_host);
        message.topic.as_str().clone_into(topic);
        std::mem::swap(payload, &mut message.payload);
        (*qos, *retain) = (message.qos as u8, message.retain);
        let properties = std::mem::take(&mut message.properties);
        *expires_at = properties.message_expiry.map(|left| wall_clock().saturating_add(u64::from(left) * 1000));
        *content_type = properties.content_type;
        *response_topic = properties.response_topic.map(String::from);
        *correlation_data = properties.correlation_data;
        *user_properties = properties.user_properties;
        (*hops, *archived, *headers_cut) = (0, false, false);
        own.take_hops();
        self.driver.client().reuse(message);
        shared
    }

    fn connect(&mut self) -> SourceStep<Delivery> {
        let finished = self.driver.finish();
        match self.driver.connect() {
            Ok(()) => {
                self.connect_at = None;
                finished.map_or_else(|error| SourceStep::Trouble(error.to_string()), |()| SourceStep::Idle)
            }
            Err(error) => self.try_again(with_cause(&error)),
        }
    }

    fn subscribe(&mut self) {
        let retain_handling =
            if self.settings.retained { RetainHandling::SendIfNew } else { RetainHandling::DoNotSend };
        let options =
            SubscriptionOptions { qos: QoS::AtLeastOnce, no_local: false, retain_as_published: true, retain_handling };
        let shared = |filter: &TopicFilterBuf| match &self.settings.share {
            Some(share) => TopicFilterBuf::new(format!("$share/{share}/{filter}")).ok(),
            None => Some(filter.clone()),
        };
        let subscriptions = self.asked.iter().filter_map(shared).map(|filter| (filter, options)).collect();
        let request = SubscribeRequest { subscriptions, ..SubscribeRequest::default() };
        if let Err(error) = self.driver.client().subscribe(Instant::now(), &request) {
            self.reconnect(format!("the pipeline cannot subscribe: {error}"));
        }
    }

    fn check(&mut self, answer: &RequestAnswer) -> SourceStep<Delivery> {
        let codes = self.asked.iter().zip(&answer.reason_codes);
        let (refused, granted): (Vec<_>, Vec<_>) = codes.partition(|(_, code)| code.is_error());
        let texts: Vec<String> = refused.iter().map(|(filter, code)| format!("{filter}: {}", code.text())).collect();
        let why = format!("the broker refuses a subscription: {}", texts.join(", "));
        let any = !granted.is_empty() || self.is_partial;
        let refused: Vec<TopicFilterBuf> = refused.into_iter().map(|(filter, _)| filter.clone()).collect();
        if refused.is_empty() {
            self.pause = PAUSE.0;
            self.is_partial = false;
            SourceStep::Ready
        } else if any {
            // The messages of the granted filters come meanwhile.
            self.asked = refused;
            self.is_partial = true;
            self.subscribe_at = Some(self.next_attempt());
            SourceStep::Partly(why)
        } else {
            self.reconnect(why);
            SourceStep::Idle
        }
    }

    /// Ends the connection and comes again later: without its subscriptions a pipeline gets nothing.
    fn reconnect(&mut self, why: String) {
        self.left = Some(why);
        // Where the connection has ended already, an event says so.
        let _ = self.driver.client().disconnect(Instant::now(), &DisconnectRequest::default());
    }

    /// Waits before the next attempt.
    fn try_again(&mut self, why: String) -> SourceStep<Delivery> {
        self.connect_at = Some(self.next_attempt());
        SourceStep::Away(why)
    }

    /// The time of the next attempt; each pause is longer.
    fn next_attempt(&mut self) -> Instant {
        let at = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE.1);
        at
    }
}

impl Source for Topics {
    type Token = Delivery;

    fn wake(&self) -> Wake {
        let waker = self.driver.waker();
        // A pipeline that cannot be woken sees it with its next message.
        Arc::new(move || drop(waker.wake()))
    }

    fn next(&mut self, deadline: Option<Instant>) -> SourceStep<Delivery> {
        if self.connect_at.is_some_and(|at| Instant::now() >= at) {
            return self.connect();
        }
        if self.subscribe_at.is_some_and(|at| Instant::now() >= at) {
            self.subscribe_at = None;
            self.subscribe();
        }
        let deadline = [self.connect_at, self.subscribe_at, deadline].into_iter().flatten().min();
        let turn = self.driver.next(deadline);
        self.now = Instant::now();
        match turn {
            Ok(Turn::Event(event)) => self.take(event),
            Ok(Turn::Woken | Turn::Deadline) => SourceStep::Idle,
            Err(error) => {
                thread::park_timeout(SYSTEM_PAUSE);
                SourceStep::Trouble(error.to_string())
            }
        }
    }

    fn ready(&mut self) -> Option<SourceStep<Delivery>> {
        self.driver.at_hand().map(|event| self.take(event))
    }

    fn rest(&mut self, until: Instant) {
        // Acknowledgements leave first.
        if self.connect_at.is_none() && self.driver.client().output().is_empty() {
            self.driver.rest(until);
        }
    }

    fn acknowledge(&mut self, delivery: Delivery, _ending: Ending) {
        self.driver.client().acknowledge(self.now, delivery);
    }

    fn acknowledge_all(&mut self, ended: Vec<(Delivery, Ending)>) {
        self.driver.client().acknowledge_all(self.now, ended.into_iter().map(|(delivery, _)| delivery));
    }

    fn reuse(&mut self, message: Arc<Message>) {
        self.spares.put(message);
    }

    fn is_connected(&self) -> bool {
        self.connect_at.is_none()
    }

    fn removed(&self) -> u64 {
        self.passed_over
    }

    fn place(&self) -> String {
        self.driver.address().to_string()
    }

    fn leave(&mut self) {
        // Without a connection there is no broker to notify.
        let _ = self.driver.client().disconnect(Instant::now(), &DisconnectRequest::default());
        if let Err(error) = self.driver.finish() {
            tracing::debug!(%error, "the connection to the broker did not end in order");
        }
    }
}

/// Replaces a text in its memory.
fn put(text: Option<&str>, place: &mut Option<String>) {
    match text {
        Some(text) => text.clone_into(place.get_or_insert_default()),
        None => *place = None,
    }
}

/// The filters of a session that a pipeline does not have.
fn former(kept: Vec<String>, from: &[TopicFilterBuf]) -> Vec<TopicFilterBuf> {
    let kept = kept.into_iter().filter_map(|filter| TopicFilterBuf::new(filter).ok());
    kept.filter(|filter| !from.contains(filter)).collect()
}

/// An error with its causes.
fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_cause(cause)),
        None => error.to_string(),
    }
}

/// Why a connection has ended, in words.
fn said(why: &Disconnected) -> String {
    match why {
        Disconnected::Refused(it) | Disconnected::ByServer(it) => {
            let text = it.reason_string.as_deref().unwrap_or(it.reason_code.text());
            format!("the broker has ended the connection: {text}")
        }
        Disconnected::Protocol(error) => error.to_string(),
        Disconnected::ConnectTimeout => "the broker does not answer CONNECT".to_owned(),
        Disconnected::KeepAliveTimeout => "the broker has stopped to answer".to_owned(),
        Disconnected::ReleaseTimeout { packet_id } => {
            format!("the broker does not answer PUBREL of packet identifier {packet_id}")
        }
        Disconnected::Requested | Disconnected::TransportClosed => "the broker has closed the connection".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::{MessageProperties, PayloadFormat, TopicNameBuf};

    use super::*;

    fn source() -> Topics {
        let settings = TopicsSettings {
            address: Address::Tcp { host: "127.0.0.1".into(), port: 1 },
            socket: SocketOptions::default(),
            client_id: "c".into(),
            user_name: None,
            password: None,
            share: None,
            retained: false,
            origins: true,
            own_publishers: Vec::new(),
            window: 10,
            session_expiry: 60,
            kept_filters: None,
        };
        Topics::new(&settings, vec![TopicFilterBuf::new("#").unwrap()]).unwrap()
    }

    fn message(topic: &str, payload: &[u8], origin: Option<&str>) -> Box<tidegate_client::Message> {
        let (qos, marked) = (QoS::AtLeastOnce, origin.map(str::to_owned));
        let message = tidegate_client::Message::new(TopicNameBuf::new(topic).unwrap(), payload);
        Box::new(tidegate_client::Message { qos, marked, ..message })
    }

    #[test]
    fn a_session_leaves_the_filters_that_a_pipeline_has_not() {
        let filter = |text: &str| TopicFilterBuf::new(text).unwrap();
        let kept = ["a/#", "b", "c/+"].map(str::to_owned).to_vec();
        assert_eq!(former(kept.clone(), &[filter("b"), filter("d")]), [filter("a/#"), filter("c/+")]);
        assert_eq!(former(kept, &[filter("c/+"), filter("b"), filter("a/#")]), []);
    }

    #[test]
    fn waiting_messages_of_former_topics_are_counted() {
        let mut source = source();
        source.from = vec![TopicFilterBuf::new("u/#").unwrap()];
        let (before, after) = (source.begun - 1, source.begun + 1);
        for (topic, time, dropped) in [("t/1", before, 1), ("u/1", before, 1), ("t/1", after, 1), ("t/2", before, 2)] {
            let origin = format!("a-1 {time} pump");
            let step = source.take(Event::Message(message(topic, b"", Some(&origin))));
            assert_eq!(matches!(step, SourceStep::Message(..)), topic == "u/1");
            assert_eq!(source.removed(), dropped, "{topic}");
        }
        source.take(Event::Message(message("t/1", b"", None)));
        assert_eq!(source.removed(), 2, "the time since which it waits is not known");
    }

    #[test]
    fn a_message_in_used_memory_has_its_own_fields_alone() {
        let mut source = source();
        let mut full = message("plant/a", b"a long payload", Some("a-1 17@192.0.2.7/3 ann pump"));
        full.retain = true;
        full.properties = MessageProperties {
            payload_format: Some(PayloadFormat::Utf8),
            message_expiry: Some(60),
            content_type: Some("x/y".into()),
            response_topic: Some(TopicNameBuf::new("answers").unwrap()),
            correlation_data: Some(vec![1]),
            user_properties: vec![("unit".into(), "C".into()), (crate::HOPS_PROPERTY.into(), "3".into())],
        };
        let own = source.own(full);
        let place = Arc::as_ptr(&own);
        assert_eq!((own.id.as_str(), own.client_id.as_deref(), own.hops), ("a-1", Some("pump"), 3));
        assert_eq!((own.user_name.as_deref(), own.peer_host.as_deref()), (Some("ann"), Some("192.0.2.7")));
        source.reuse(own);
        let own = source.own(message("t", b"b", Some("a-2 18 ")));
        assert_eq!(Arc::as_ptr(&own), place, "in the same memory");
        let fresh = Message {
            id: "a-2".into(),
            lasting_id: true,
            topic: "t".into(),
            qos: 1,
            timestamp: 18,
            payload: b"b".to_vec(),
            ..Message::default()
        };
        assert_eq!(*own, fresh);
        // No message changes while a sink has it.
        let held = Arc::clone(&own);
        source.reuse(own);
        assert_ne!(Arc::as_ptr(&source.own(message("u", b"c", Some("a-3 19 ")))), place);
        assert_eq!(*held, fresh);
    }
}
