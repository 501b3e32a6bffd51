//! Retained messages: read with their tag, and waited for by long poll.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::{HeaderMap, Request, Response, StatusCode};
use tidegate_client::{Event, Message, QoS, TopicFilterBuf};
use tokio::time::Instant;

use crate::RetainedMessage;
use crate::answer::{Answer, Body, bad, empty, json, not_let_in, not_read, outcome, wrong};
use crate::fields::headers_of;
use crate::request_error::RequestError;
use crate::session::{Session, Term};
use crate::visitor::{Visitor, query};

/// How long a request may wait for a message.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

/// Reads how long a request waits.
///
/// # Errors
/// When it is no length of time, or longer than [`MAX_WAIT`].
pub(crate) fn wait_of(text: &str) -> Result<Duration, RequestError> {
    let length = tidegate_units::duration::parse_length(text).filter(|length| *length <= MAX_WAIT);
    let form = "a length of time such as 30s, 60s at most";
    length.ok_or_else(|| RequestError::Value { name: "wait", form, value: text.to_owned() })
}

impl Visitor {
    /// Reads the retained message of a topic.
    pub(crate) async fn read(&self, topic: &str, request: &Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let wait = query(request)?.into_iter().rfind(|(name, _)| name == "wait");
        let wait = wait.map(|(_, wait)| wait_of(&wait)).transpose().or_else(bad)?;
        let mut placing = self.answer_room.begin();
        loop {
            let answer = self.watch(topic, request.headers(), wait.unwrap_or_default()).await?;
            if let Some(answer) = placing.put(answer).await? {
                return Ok(answer);
            }
        }
    }

    /// The retained message of a topic.
    async fn fetch(&self, topic: &str, headers: &HeaderMap) -> Result<Option<RetainedMessage>, Box<Answer>> {
        let (credentials, client_id) = self.identified(headers).await?;
        let known = Arc::new((Arc::clone(&self.gateway), self.caller(&credentials), client_id, topic.to_owned()));
        let again = Arc::clone(&known);
        let read = move || {
            let (gateway, caller, client_id, topic) = &*known;
            gateway.retained(caller, client_id, topic)
        };
        let fetch = move || {
            let (gateway, caller, client_id, topic) = &*again;
            gateway.fetch(caller, client_id, topic)
        };
        self.fetches.read(read, fetch).await.map_err(|why| not_read(&why))
    }

    /// The retained message, as soon as it is another one than `If-None-Match` says or until `wait` is over.
    async fn watch(&self, topic: &str, headers: &HeaderMap, wait: Duration) -> Result<Answer, Box<Answer>> {
        let until = Instant::now() + wait;
        let is_new = |message: &Option<RetainedMessage>| {
            let Some(message) = message else { return false };
            retained(message.clone(), headers).status() != StatusCode::NOT_MODIFIED
        };
        let known = self.fetch(topic, headers).await?;
        if wait.is_zero() || is_new(&known) {
            return Ok(shown(known, headers));
        }
        // A filter of a shared subscription is a topic name, too.
        let filter = TopicFilterBuf::new(topic).ok().filter(|_| !topic.starts_with('$'));
        let Some(filter) = filter else { return bad("`wait` is not for topics that begin with `$`") };
        let mut session = self.ring(headers, filter).await?;
        // The message may have changed before the subscription.
        let known = newest_until(until, known, self.fetch(topic, headers)).await?;
        if is_new(&known) {
            return Ok(shown(known, headers));
        }
        loop {
            let event = tokio::time::timeout_at(until, session.next()).await;
            match event {
                Ok(Event::Message(message)) if message.retain => return Ok(shown(published(*message), headers)),
                Ok(Event::Disconnected(why)) => return Err(Box::new(not_let_in(why.into()))),
                Ok(_) => {}
                Err(_) => return Ok(shown(known, headers)),
            }
        }
    }

    /// A session that gets each message of the topic.
    async fn ring(&self, headers: &HeaderMap, filter: TopicFilterBuf) -> Result<Session, Box<Answer>> {
        let credentials = self.credentials(headers)?;
        let opened = self.open(&credentials, Term::Connection).await;
        let mut session = opened.map_err(|failure| Box::new(not_let_in(failure)))?;
        // The QoS of a retained message is that of its PUBLISH, so none is lowered.
        match session.subscribe(filter, QoS::ExactlyOnce, false).await {
            Ok((granted, _)) if !granted.code.is_error() => Ok(session),
            Ok((refused, _)) => {
                let (status, value) = outcome(&Ok(refused));
                Err(Box::new(json(status, &value)))
            }
            Err(failure) => Err(Box::new(not_let_in(failure))),
        }
    }
}

/// The message that a further read finds before `until`, or else the known one: a read from another node can take longer
/// than the client waits.
async fn newest_until<T, E>(until: Instant, known: T, again: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    tokio::time::timeout_at(until, again).await.unwrap_or(Ok(known))
}

/// The retained message that a PUBLISH has left behind.
fn published(message: Message) -> Option<RetainedMessage> {
    let Message { qos, payload, properties, .. } = message;
    (!payload.is_empty()).then_some(RetainedMessage { qos: qos as u8, payload, properties })
}

/// The answer with a retained message, or that the client has it already.
fn retained(message: RetainedMessage, request: &HeaderMap) -> Answer {
    let mut hasher = DefaultHasher::new();
    let RetainedMessage { qos, payload, properties } = message;
    let lasting = tidegate_client::MessageProperties { message_expiry: None, ..properties.clone() };
    (qos, &payload, format!("{lasting:?}")).hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|one| {
        let one = one.trim();
        one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag
    });
    let mut answer =
        if is_known { empty(StatusCode::NOT_MODIFIED) } else { Response::new(Body::Whole(Some(payload.into()))) };
    let headers = answer.headers_mut();
    for (name, value) in headers_of(qos, &properties) {
        if headers.try_append(name, value).is_err() {
            break;
        }
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // A publisher chooses the content type: no browser may show the message as a page of this origin.
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    answer
}

/// The answer with a retained message, or that the topic has none.
fn shown(message: Option<RetainedMessage>, headers: &HeaderMap) -> Answer {
    match message {
        Some(message) => retained(message, headers),
        None => wrong(StatusCode::NOT_FOUND, "the topic has no retained message"),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn the_tag_changes_with_the_message_and_not_with_its_age() {
        let message = |payload: &str, expiry| RetainedMessage {
            qos: 1,
            payload: payload.into(),
            properties: tidegate_client::MessageProperties {
                message_expiry: expiry,
                ..tidegate_client::MessageProperties::default()
            },
        };
        let tag = |message| retained(message, &HeaderMap::new()).headers()[ETAG].to_str().unwrap().to_owned();
        let first = tag(message("a", Some(60)));
        assert_eq!(first, tag(message("a", Some(9))));
        assert_ne!(first, tag(message("b", Some(60))));
        let again = |tags: &str| retained(message("a", None), &with(IF_NONE_MATCH, tags)).status().as_u16();
        assert_eq!(again(&first), 304);
        assert_eq!(again(&format!("\"x\", W/{first}")), 304);
        assert_eq!(again("\"x\""), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_further_read_takes_no_longer_than_the_wait() {
        let until = Instant::now() + Duration::from_secs(1);
        let never = std::future::pending::<Result<u8, ()>>();
        assert_eq!((newest_until(until, 1, never).await, Instant::now()), (Ok(1), until));
        assert_eq!(newest_until(until + Duration::from_secs(1), 1, async { Ok::<u8, ()>(2) }).await, Ok(2));
        assert_eq!(newest_until(until + Duration::from_secs(1), 1, async { Err(()) }).await, Err(()));
    }

    #[test]
    fn a_wait_has_a_unit_and_a_bound() {
        assert_eq!(wait_of("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(wait_of("0"), Ok(Duration::ZERO));
        for wrong in ["61s", "30", "-1s", "", "forever"] {
            assert!(wait_of(wrong).is_err(), "{wrong}");
        }
    }
}
