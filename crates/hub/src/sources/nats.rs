//! Subjects of NATS, and streams of `JetStream`.
//!
//! Messages of subjects come as they are published, and no server keeps them. Messages of a stream come by a durable
//! consumer, which keeps unacknowledged messages. Processes that name one group share the messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::ConnectError;
use async_nats::client::{FlushError, SubscribeError};
use async_nats::jetstream::consumer::pull::{self, MessagesError};
use async_nats::jetstream::consumer::{AckPolicy, StreamError};
use async_nats::jetstream::context::GetStreamError;
use async_nats::jetstream::stream::ConsumerError;
use async_nats::jetstream::{self, AckKind};
use futures_util::StreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::inbox::Inbox;
use super::{Source, SourceStep, Wake};
use crate::core::Ending;
use crate::headers::HeaderRoom;
use crate::message::Message;
use crate::open_error::OpenError;
use crate::time::wall_clock;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);
/// Time after which the server sends a message again that is not acknowledged.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(60);
/// How often the server learns that messages are still worked on.
const PROGRESS_EVERY: Duration = Duration::from_secs(20);
/// Time for the last acknowledgements to reach the server; messages whose acknowledgement is late come again.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// Messages of subjects that wait for the pipeline; further messages are dropped.
const MAX_WAITING: usize = 10_000;
/// The header with the topic of a message that a sink of the hub has published.
const TOPIC_HEADER: &str = "Mqtt-Topic";

/// Which messages, and how the server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsSourceSettings {
    /// Where it is: `nats://HOST:PORT`, or `tls://HOST:PORT`.
    pub url: String,
    /// The subject, with `*` and `>` as wildcards.
    pub subject: String,
    /// The stream; without it messages come as they are published.
    pub stream: Option<String>,
    /// The queue group, or the durable consumer. Processes with the same one share the messages.
    pub group: String,
    /// Messages of the stream that are not acknowledged, at most, of all processes.
    pub window: u16,
}

impl NatsSourceSettings {
    /// The key whose value is of no use, and why, as far as that is known without servers.
    pub fn unusable(&self) -> Option<(&'static str, String)> {
        if self.subject.is_empty() || self.subject.contains(char::is_whitespace) {
            return Some(("subject", format!("`{}` is no subject", self.subject)));
        }
        if let Some(stream) = self.stream.as_ref().filter(|stream| !is_name(stream)) {
            return Some(("stream", format!("`{stream}` is no name of a stream")));
        }
        (!is_name(&self.group)).then(|| ("group", format!("`{}` is no name of a group", self.group)))
    }
}

/// An event of the client.
enum Heard {
    Ready,
    Trouble(String),
    Message(Arc<Message>, Option<Box<jetstream::Message>>),
}

/// The source.
pub(crate) struct Nats {
    settings: NatsSourceSettings,
    inbox: Inbox<Heard>,
    runtime: Option<Runtime>,
    under_way: BTreeMap<u64, jetstream::Message>,
    /// Acknowledged messages of this turn, which one task reports to the server.
    acknowledged: Vec<jetstream::Message>,
    /// The task that reports acknowledgements. It gives the connection on which they leave.
    reporting: Option<JoinHandle<Option<async_nats::Client>>>,
    next_token: u64,
    progress_at: Instant,
}

impl Nats {
    /// Begins to connect.
    ///
    /// # Errors
    /// In words, when the settings are of no use, or the system has no threads left.
    pub(crate) fn new(settings: &NatsSourceSettings) -> Result<Self, OpenError> {
        if let Some(unusable) = settings.unusable() {
            return Err(unusable.into());
        }
        // The client answers pings in the background, so it needs its own thread.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("hub-nats").build();
        let runtime = runtime?;
        let inbox = Inbox::default();
        runtime.spawn(run(settings.clone(), inbox.clone()));
        Ok(Self {
            settings: settings.clone(),
            inbox,
            runtime: Some(runtime),
            under_way: BTreeMap::new(),
            acknowledged: Vec::new(),
            reporting: None,
            next_token: 0,
            progress_at: Instant::now() + PROGRESS_EVERY,
        })
    }

    fn take(&mut self, heard: Heard) -> SourceStep<u64> {
        match heard {
            Heard::Ready => SourceStep::Ready,
            Heard::Trouble(why) => SourceStep::Trouble(why),
            Heard::Message(message, None) => SourceStep::Message(message, None),
            Heard::Message(message, Some(original)) => {
                self.next_token += 1;
                self.under_way.insert(self.next_token, *original);
                SourceStep::Message(message, Some(self.next_token))
            }
        }
    }

    /// Reports the acknowledged messages to the server.
    fn send_acknowledgements(&mut self) {
        let messages = std::mem::take(&mut self.acknowledged);
        if let Some(runtime) = self.runtime.as_ref().filter(|_| !messages.is_empty()) {
            let before = self.reporting.take();
            self.reporting = Some(runtime.spawn(async move {
                // The end of the last task is then the end of all.
                if let Some(before) = before {
                    let _ = before.await;
                }
                for message in &messages {
                    // The server sends it again where this fails.
                    let _ = message.ack().await;
                }
                messages.last().map(|message| message.context.client())
            }));
        }
    }

    /// Without it the server would send messages again while a sink is away.
    fn tell_progress(&mut self) {
        if Instant::now() < self.progress_at {
            return;
        }
        self.progress_at = Instant::now() + PROGRESS_EVERY;
        let messages: Vec<jetstream::Message> = self.under_way.values().cloned().collect();
        if let Some(runtime) = self.runtime.as_ref().filter(|_| !messages.is_empty()) {
            runtime.spawn(async move {
                for message in messages {
                    // The server sends it again where this fails.
                    let _ = message.ack_with(AckKind::Progress).await;
                }
            });
        }
    }
}

/// Whether servers take it as the name of a stream, a consumer or a group.
fn is_name(text: &str) -> bool {
    let is_refused = |letter: char| letter.is_whitespace() || letter.is_control() || ".*>/\\".contains(letter);
    !text.is_empty() && !text.contains(is_refused)
}

/// Why no messages come any more; the source connects again.
#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    #[error(transparent)]
    Flush(#[from] FlushError),
    #[error("the server has closed the connection")]
    Closed,
    #[error("the stream {name}: {source}")]
    Stream { name: String, source: GetStreamError },
    #[error("the consumer {name}: {source}")]
    Consumer { name: String, source: ConsumerError },
    #[error(transparent)]
    Request(#[from] StreamError),
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// A message without the subject that its place in the stream is read from.
    #[error("a message of the stream cannot be read: {0}")]
    Unreadable(async_nats::Error),
    #[error("the consumer has ended")]
    Ended,
}

/// Takes messages until the runtime ends.
async fn run(settings: NatsSourceSettings, inbox: Inbox<Heard>) {
    loop {
        let outcome = match &settings.stream {
            Some(stream) => take_stream(&settings, stream, &inbox).await,
            None => take_subject(&settings, &inbox).await,
        };
        if let Err(error) = outcome {
            inbox.push(Heard::Trouble(error.to_string()));
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn connect(settings: &NatsSourceSettings) -> Result<async_nats::Client, ConnectError> {
    crate::nats::options(&settings.url).connect(&settings.url).await
}

async fn take_subject(settings: &NatsSourceSettings, inbox: &Inbox<Heard>) -> Result<(), TakeError> {
    let client = connect(settings).await?;
    let mut messages = client.queue_subscribe(settings.subject.clone(), settings.group.clone()).await?;
    client.flush().await?;
    inbox.push(Heard::Ready);
    let (begun, mut number) = (wall_clock(), 0_u64);
    while let Some(message) = messages.next().await {
        number += 1;
        if inbox.len() >= MAX_WAITING {
            // No server keeps it, as with a slow subscriber of NATS.
            tracing::debug!(subject = %message.subject, "a message was dropped: too many wait for the pipeline");
            continue;
        }
        let id = format!("nats-{}-{begun:x}-{number}", std::process::id());
        inbox.push(Heard::Message(Arc::new(own(&message, id, wall_clock())), None));
    }
    Err(TakeError::Closed)
}

async fn take_stream(settings: &NatsSourceSettings, stream: &str, inbox: &Inbox<Heard>) -> Result<(), TakeError> {
    let context = jetstream::new(connect(settings).await?);
    let found = context.get_stream(stream).await;
    let found = found.map_err(|source| TakeError::Stream { name: stream.to_owned(), source })?;
    let config = pull::Config {
        durable_name: Some(settings.group.clone()),
        filter_subject: settings.subject.clone(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACKNOWLEDGE_WITHIN,
        max_ack_pending: i64::from(settings.window),
        ..pull::Config::default()
    };
    let consumer = found.get_or_create_consumer(&settings.group, config).await;
    let consumer = consumer.map_err(|source| TakeError::Consumer { name: settings.group.clone(), source })?;
    let mut messages = consumer.messages().await?;
    inbox.push(Heard::Ready);
    while let Some(message) = messages.next().await {
        let message = message?;
        let (sequence, time) = match message.info() {
            Ok(info) => (info.stream_sequence, info.published.unix_timestamp_nanos() / 1_000_000),
            Err(error) => return Err(TakeError::Unreadable(error)),
        };
        let time = u64::try_from(time).unwrap_or_default();
        let id = format!("{stream}-{sequence}");
        let own = Message { qos: 1, lasting_id: true, ..own(&message.message, id, time) };
        inbox.push(Heard::Message(Arc::new(own), Some(Box::new(message))));
    }
    Err(TakeError::Ended)
}

/// The message as a pipeline sees it.
fn own(message: &async_nats::Message, id: String, timestamp: u64) -> Message {
    let mut own = Message {
        id,
        topic: message.subject.replace('.', "/"),
        timestamp,
        payload: message.payload.to_vec(),
        ..Message::default()
    };
    let mut room = HeaderRoom::default();
    for (name, values) in message.headers.iter().flat_map(async_nats::HeaderMap::iter) {
        let name: &str = name.as_ref();
        for value in values.iter().map(async_nats::HeaderValue::as_str) {
            if !room.takes(name.len() + value.len()) {
                own.headers_cut = true;
            } else if name == TOPIC_HEADER {
                value.clone_into(&mut own.topic);
            } else if !name.starts_with("Nats-") {
                crate::headers::NATS.take(&mut own, name, value);
            }
        }
    }
    own.with_hops()
}

impl Source for Nats {
    type Token = u64;

    fn wake(&self) -> Wake {
        self.inbox.wake()
    }

    fn next(&mut self, deadline: Option<Instant>) -> SourceStep<u64> {
        self.send_acknowledgements();
        self.tell_progress();
        if let Some(heard) = self.inbox.take() {
            return self.take(heard);
        }
        let progress = (!self.under_way.is_empty()).then_some(self.progress_at);
        self.inbox.wait([deadline, progress].into_iter().flatten().min());
        SourceStep::Idle
    }

    fn ready(&mut self) -> Option<SourceStep<u64>> {
        let heard = self.inbox.take()?;
        Some(self.take(heard))
    }

    fn rest(&mut self, until: Instant) {
        // Acknowledgements leave first.
        self.send_acknowledgements();
        self.inbox.rest(until);
    }

    fn acknowledge(&mut self, token: u64, _ending: Ending) {
        self.acknowledged.extend(self.under_way.remove(&token));
    }

    fn is_connected(&self) -> bool {
        self.runtime.is_some()
    }

    fn place(&self) -> String {
        format!("{} {}", without_credentials(&self.settings.url), self.settings.subject)
    }

    fn leave(&mut self) {
        self.send_acknowledgements();
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(reporting) = self.reporting.take() {
            let reported = async {
                if let Ok(Some(client)) = reporting.await {
                    // The server sends messages again where this fails.
                    let _ = client.flush().await;
                }
            };
            if runtime.block_on(async { timeout(LEAVE_WITHIN, reported).await }).is_err() {
                tracing::debug!("the last acknowledgements have not left in time: their messages come again");
            }
        }
        runtime.shutdown_timeout(LEAVE_WITHIN);
    }
}

/// An address without user and password.
fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_becomes_a_topic_and_headers_properties() {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Content-Type", "text/plain");
        headers.insert("unit", "C");
        headers.insert("Nats-Msg-Id", "7");
        headers.insert(crate::HOPS_PROPERTY, "2");
        let mut message = async_nats::Message {
            subject: "plant.a.temp".into(),
            reply: None,
            payload: "31".into(),
            headers: Some(headers.clone()),
            status: None,
            description: None,
            length: 0,
        };
        let read = own(&message, "i".into(), 5);
        assert_eq!((read.topic.as_str(), read.content_type.as_deref()), ("plant/a/temp", Some("text/plain")));
        assert_eq!((read.user_properties, read.hops), (vec![("unit".to_owned(), "C".to_owned())], 2));
        headers.insert(TOPIC_HEADER, "plant/a b/temp");
        message.headers = Some(headers);
        assert_eq!(own(&message, "i".into(), 5).topic, "plant/a b/temp");
        let mut many = async_nats::HeaderMap::new();
        (0..10_000).for_each(|_| many.append("unit", "C"));
        message.headers = Some(many);
        let read = own(&message, "i".into(), 5);
        assert!(read.headers_cut && read.user_properties.len() < 2_000, "{}", read.user_properties.len());
    }

    #[test]
    fn names_that_servers_refuse_are_found() {
        let key = |subject: &str, stream: &str, group: &str| {
            let (subject, stream, group) = (subject.to_owned(), Some(stream.to_owned()), group.to_owned());
            NatsSourceSettings { subject, stream, group, ..NatsSourceSettings::default() }
                .unusable()
                .map(|(key, _)| key)
        };
        assert_eq!(key("plant.>", "ORDERS", "tidegate-a%20b"), None);
        assert_eq!([key("", "S", "g"), key("a b", "S", "g")], [Some("subject"); 2]);
        for refused in ["", "a b", "a\tb", "a\nb", "a.b", "*", ">", "a/b", "a\\b", "\u{7f}"] {
            assert_eq!(key("a", refused, "g"), Some("stream"), "{refused:?}");
            assert_eq!(key("a", "S", refused), Some("group"), "{refused:?}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        assert_eq!(without_credentials("nats://u:p@h:4222"), "nats://h:4222");
        assert_eq!(without_credentials("nats://h"), "nats://h");
    }
}
