//! A stream of `JetStream`: each record is published with its id, by which the server drops duplicates. The batch is
//! done when the stream has acknowledged all of it.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{self, ErrorCode, stream};
use async_nats::{Event, ServerError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

use super::place::Ids;
use super::{Sink, SinkError};
use crate::message::HOPS_PROPERTY;
use crate::open_error::OpenError;
use crate::record::Record;

/// Which server and stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// Where it is: `nats://HOST:PORT`, or `tls://HOST:PORT`.
    pub url: String,
    /// The stream, which is made when it is not there.
    pub stream: String,
    /// The prefix of subjects; the topic follows, with points for slashes.
    pub subject: String,
    /// Time for a batch.
    pub timeout: Duration,
}

pub(super) struct NatsSink {
    settings: NatsSettings,
    ids: Ids,
    runtime: Runtime,
    open: Option<StreamConnection>,
}

/// A connection.
struct StreamConnection {
    context: jetstream::Context,
    /// The first message that the server does not take for want of rights. It has no other answer.
    denials: Receiver<String>,
}

/// How the server says that the user may not publish to a subject, whose name follows in quotes.
const DENIED: &str = "Permissions Violation for Publish to \"";

impl NatsSettings {
    /// Whether the address, the stream and the subject can be used.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        if let Err(error) =
            self.url.split(',').try_for_each(|server| server.parse::<async_nats::ServerAddr>().map(drop))
        {
            return Err(OpenError::setting(
                "url",
                format!("this is no address of NATS: {error}; write nats://HOST:PORT"),
            ));
        }
        let allowed = |text: &str| !text.is_empty() && !text.contains([' ', '*', '>', '\t']);
        if !allowed(&self.stream) || self.stream.contains('.') {
            return Err(OpenError::setting("stream", format!("`{}` is no name of a stream", self.stream)));
        }
        if !allowed(&self.subject) {
            return Err(OpenError::setting("subject", format!("`{}` is no subject", self.subject)));
        }
        Ok(())
    }
}

impl NatsSink {
    pub(super) fn new(settings: &NatsSettings, ids: Ids) -> Result<Self, OpenError> {
        settings.check()?;
        // The client answers pings in the background, so it needs its own thread.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("hub-nats").build();
        Ok(Self { settings: settings.clone(), ids, runtime: runtime?, open: None })
    }
}

async fn connect(settings: &NatsSettings) -> Result<StreamConnection, SinkError> {
    let (tell, denials) = channel(1);
    let of_record = format!("{DENIED}{}.", settings.subject);
    let options = crate::nats::options(&settings.url).event_callback(move |event| {
        if let Event::ServerError(ServerError::Other(why)) = event
            && why.contains(&of_record)
        {
            // The first one is enough.
            let _ = tell.try_send(why);
        }
        std::future::ready(())
    });
    let client = options.connect(&settings.url).await.map_err(SinkError::away)?;
    let context = jetstream::new(client);
    let config = stream::Config {
        name: settings.stream.clone(),
        subjects: vec![format!("{}.>", settings.subject)],
        ..stream::Config::default()
    };
    context.get_or_create_stream(config).await.map_err(SinkError::away)?;
    Ok(StreamConnection { context, denials })
}

/// The subject of a topic: levels with points between them, and `_` for characters that subjects may not have.
fn subject(prefix: &str, topic: &str) -> String {
    let level = |level: &str| {
        let fits = |one: char| if ". *>\t\r\n".contains(one) || one.is_control() { '_' } else { one };
        if level.is_empty() { "_".to_owned() } else { level.chars().map(fits).collect::<String>() }
    };
    let levels: Vec<String> = topic.split('/').map(level).collect();
    format!("{prefix}.{}", levels.join("."))
}

/// Whether a record is to blame: one that is too large for the server or the stream is so later, too.
fn judge(error: &PublishError) -> SinkError {
    let answer = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    let too_large = error.kind() == PublishErrorKind::MaxPayloadExceeded
        || answer.is_some_and(|answer| answer.error_code() == ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM);
    if too_large { SinkError::Refused(error.to_string()) } else { SinkError::away(error) }
}

async fn publish(
    context: &jetstream::Context,
    (settings, ids): (&NatsSettings, &Ids),
    batch: &[Arc<Record>],
) -> Result<(), SinkError> {
    let mut acknowledgements = Vec::with_capacity(batch.len());
    for record in batch {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, ids.of(record.id()).as_str());
        headers.insert("Mqtt-Topic", record.topic().replace(['\r', '\n'], " ").as_str());
        headers.insert(HOPS_PROPERTY, record.hops().to_string().as_str());
        put_properties(&mut headers, record);
        let subject = subject(&settings.subject, record.topic());
        let sent = context.publish_with_headers(subject, headers, record.body().into()).await;
        acknowledgements.push(sent.map_err(|error| judge(&error))?);
    }
    for acknowledgement in acknowledgements {
        acknowledgement.await.map_err(|error| judge(&error))?;
    }
    Ok(())
}

/// Publishes a batch, until the server denies one of its subjects.
async fn publish_or_be_denied(
    open: &mut StreamConnection,
    place: (&NatsSettings, &Ids),
    batch: &[Arc<Record>],
) -> Result<(), SinkError> {
    let StreamConnection { context, denials } = open;
    let mut published = pin!(publish(context, place, batch));
    let either = std::future::poll_fn(|task| match (published.as_mut().poll(task), denials.poll_recv(task)) {
        (Poll::Pending, Poll::Ready(Some(why))) => Poll::Ready(Err(SinkError::Refused(why))),
        (outcome, _) => outcome,
    });
    either.await
}

/// Appends the properties of a record. A user property that NATS does not allow as a header is left out.
fn put_properties(headers: &mut async_nats::HeaderMap, record: &Record) {
    for (name, value) in crate::headers::NATS.of(record) {
        // The server gives a meaning to names with this beginning.
        let is_own = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("Nats-"));
        if let (Ok(name), Ok(value), false) = (name.parse(), value.parse(), is_own || name.is_empty()) {
            let (name, value): (async_nats::HeaderName, async_nats::HeaderValue) = (name, value);
            headers.append(name, value);
        }
    }
}

impl Sink for NatsSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let (settings, ids, known) = (&self.settings, &self.ids, self.open.take());
        let work = async {
            let mut open = match known {
                Some(open) => open,
                None => connect(settings).await?,
            };
            publish_or_be_denied(&mut open, (settings, ids), batch).await.map(|()| open)
        };
        let late = |_| SinkError::Away("the server does not answer".to_owned());
        self.open = Some(self.runtime.block_on(async { timeout(settings.timeout, work).await }).map_err(late)??);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_properties_that_nats_does_not_allow_are_left_out() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let own = [pair("unit", "C"), pair("unit", "K"), pair("a b", "1"), pair("\u{e4}", "1"), pair("x:", "1")];
        let wrong = [pair("", "1"), pair("x", "a\nb"), pair("nats-Msg-Id", "1"), pair("Nats-TTL", "1")];
        let user_properties = own.into_iter().chain(wrong).collect();
        let message = crate::Message { response_topic: Some("r".into()), user_properties, ..crate::Message::default() };
        let whole = crate::Content::Whole(crate::WholeMessage::default());
        let mut headers = async_nats::HeaderMap::new();
        put_properties(&mut headers, &Record::new(Arc::new(message), whole));
        let mut names: Vec<_> = headers.iter().map(|(name, values)| (name.to_string(), values.len())).collect();
        names.sort();
        assert_eq!(names, [("Mqtt-Response-Topic".to_owned(), 1), ("unit".to_owned(), 2)]);
    }

    #[test]
    fn a_topic_becomes_a_subject() {
        assert_eq!(subject("tidegate", "plant/a/temp"), "tidegate.plant.a.temp");
        assert_eq!(subject("t", "/a.b/*/c d/>"), "t._.a_b._.c_d._");
    }

    #[test]
    fn a_record_that_is_too_large_is_refused() {
        let answer = |code: u64| {
            let text = format!(r#"{{"code":400,"err_code":{code},"description":"x"}}"#);
            let answer: jetstream::Error = serde_json::from_str(&text).unwrap();
            judge(&PublishError::with_source(PublishErrorKind::Other, answer))
        };
        assert!(matches!(answer(10054), SinkError::Refused(_)));
        assert!(matches!(answer(10077), SinkError::Away(_)), "the stream is full");
        assert!(matches!(judge(&PublishError::new(PublishErrorKind::MaxPayloadExceeded)), SinkError::Refused(_)));
        assert!(matches!(judge(&PublishError::new(PublishErrorKind::TimedOut)), SinkError::Away(_)));
    }
}
