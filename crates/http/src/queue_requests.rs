//! Requests for queues, and subscriptions over a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{HeaderMap, Method, Request, StatusCode, Version};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tidegate_client::{Message, QoS, TopicFilterBuf};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::answer::{Answer, bad, empty, json, json_text, length, not_allowed, not_let_in, outcome, wrong};
use crate::counters::Way;
use crate::queue::{Access, MAX_PAGE, Order, Poll, QueueEntry, QueueError, QueueId, ask, subscribe};
use crate::request_error::RequestError;
use crate::session::{Session, Term};
use crate::shelf::{Cursor, CursorError};
use crate::socket::{self, Subscription};
use crate::visitor::{Visitor, query};
use crate::watch::wait_of;
use crate::websocket::accept;

/// How long the broker keeps a queue without a request, seconds; less where it keeps no session for so long.
const QUEUE_EXPIRY: u32 = 7 * 24 * 3_600;
/// How long a request waits for a message unless it says otherwise.
const WAIT: Duration = Duration::from_secs(10);
/// Longest name of a queue, bytes.
const MAX_NAME: usize = 64;
/// Filters of one request at most.
const MAX_FILTERS: usize = 16;
/// The subprotocol of subscriptions.
const PROTOCOL: &str = "tidegate";

/// The parameters of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parameters {
    filters: Vec<TopicFilterBuf>,
    qos: Option<QoS>,
    wait: Option<Duration>,
    max: Option<usize>,
    acknowledged: Option<Cursor>,
    is_automatic: bool,
    queue: Option<String>,
}

impl Parameters {
    /// Reads the pairs of a query; `known` names the parameters of the request.
    fn of(pairs: Vec<(String, String)>, known: &[&str]) -> Result<Self, RequestError> {
        let mut found = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                unknown if !known.contains(&unknown) => {
                    return Err(RequestError::UnknownParameter { name, known: known.join(", ") });
                }
                "filter" if found.filters.len() == MAX_FILTERS => {
                    return Err(RequestError::Filters(MAX_FILTERS));
                }
                "filter" => found.filters.push(TopicFilterBuf::new(value).map_err(RequestError::Filter)?),
                "qos" => {
                    found.qos = Some(match value.as_str() {
                        "0" => QoS::AtMostOnce,
                        "1" => QoS::AtLeastOnce,
                        _ => return Err(RequestError::Value { name: "qos", form: "0 or 1", value }),
                    });
                }
                "wait" => found.wait = Some(wait_of(&value)?),
                "max" => {
                    let max = value.parse().ok().filter(|max| (1..=MAX_PAGE).contains(max));
                    found.max = Some(max.ok_or(RequestError::Range { name: "max", most: MAX_PAGE, value })?);
                }
                "queue" => found.queue = Some(named(&value).ok_or(RequestError::QueueName)?.to_owned()),
                "ack" if value == "auto" => found.is_automatic = true,
                "ack" => {
                    let cursor = Cursor::read(&value).ok_or(RequestError::Cursor(value))?;
                    found.acknowledged = Some(cursor);
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The name of a queue, if it can be one.
fn named(name: &str) -> Option<&str> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    ((1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_fine)).then_some(name)
}

impl Visitor {
    /// Answers a request for `/queue/NAME`.
    pub(crate) async fn queue(&self, name: &str, request: &Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let Some(name) = named(name) else { return bad(RequestError::QueueName) };
        let known: &[&str] = match *request.method() {
            Method::GET => &["wait", "max", "ack", "filter"],
            Method::PUT => &["filter"],
            Method::POST => &["ack"],
            Method::DELETE => &[],
            _ => return Ok(not_allowed("GET, PUT, POST, DELETE")),
        };
        let parameters = Parameters::of(query(request)?, known).or_else(bad)?;
        let id = self.queue_id(name, request.headers()).await?;
        match *request.method() {
            Method::PUT if parameters.filters.is_empty() => bad("a queue needs a `filter`"),
            Method::PUT => {
                self.held(&id, request.headers(), parameters.filters).await?;
                Ok(json(StatusCode::OK, &json!({ "queue": name })))
            }
            Method::POST => {
                let Some(cursor) = parameters.acknowledged else { return bad("`ack` is the cursor of an answer") };
                let orders = self.held(&id, request.headers(), Vec::new()).await?;
                ask(&orders, |answer| Order::Acknowledge(cursor, answer)).await.map_err(refusal)?;
                Ok(json(StatusCode::OK, &json!({ "queue": name })))
            }
            Method::DELETE => {
                let orders = self.held(&id, request.headers(), Vec::new()).await?;
                ask(&orders, Order::Delete).await.map_err(refusal)?;
                Ok(empty(StatusCode::NO_CONTENT))
            }
            _ => {
                let Parameters { filters, wait, max, acknowledged, .. } = parameters;
                let orders = self.held(&id, request.headers(), filters).await?;
                let until = Instant::now() + wait.unwrap_or(WAIT);
                let max = max.unwrap_or(MAX_PAGE);
                let mut placing = self.answer_room.begin();
                loop {
                    let poll = |answer| Order::Poll(Poll { acknowledged, max, until, answer });
                    let page = ask(&orders, poll).await.map_err(refusal)?;
                    let (answer, count) = (json_text(StatusCode::OK, page.json), page.count);
                    if let Some(answer) = placing.put(answer).await? {
                        self.counters.count_sent(Way::Queue, count, length(&answer));
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// Which queue of the client it is. The client proves its user with each connection.
    async fn queue_id(&self, name: &str, headers: &HeaderMap) -> Result<QueueId, Box<Answer>> {
        let (credentials, client_id) = self.identified(headers).await?;
        let Some(who) = self.gateway.who(&self.caller(&credentials), &client_id) else {
            let why = "another node has the session of this client: connect again";
            return Err(Box::new(wrong(StatusCode::MISDIRECTED_REQUEST, why)));
        };
        let user = who.user_name.unwrap_or_default();
        Ok(QueueId { tenant: who.tenant, user, name: name.to_owned() })
    }

    /// The task of a queue, subscribed to the filters. A queue that is not there is made, where there are filters.
    async fn held(
        &self,
        id: &QueueId,
        headers: &HeaderMap,
        filters: Vec<TopicFilterBuf>,
    ) -> Result<mpsc::Sender<Order>, Box<Answer>> {
        let access = Access { listener: self.listener, credentials: self.credentials(headers)? };
        let place = self.queues.place(id).map_err(refusal)?;
        let opening = self.opening(&access.credentials, kept(id));
        let around = (self.counters.hold_queue(), self.stop.clone());
        // The task outlives a request that is given up, so no queue stays without its subscriptions.
        let attending = tokio::spawn(place.attend((access, opening), filters, around));
        attending.await.unwrap_or(Err(QueueError::Gone)).map_err(refusal)
    }

    /// Subscribes over a WebSocket.
    pub(crate) async fn socket(&self, request: &mut Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let accepted = handshake(request).or_else(bad)?;
        let parameters = Parameters::of(query(request)?, &["filter", "qos", "ack", "queue"]).or_else(bad)?;
        let (session, early, queue) = self.subscribed(&parameters, request.headers()).await?;
        let subscription = Subscription::new(parameters.is_automatic);
        let (upgrade, stop) = (hyper::upgrade::on(&mut *request), self.stop.clone());
        let (busy, peer, held) = (self.permit.busy(), self.peer, self.counters.hold_websocket());
        tokio::spawn(async move {
            let Ok(stream) = upgrade.await else { return };
            if let Err(error) = socket::serve(TokioIo::new(stream), session, early, (subscription, &held), stop).await {
                tracing::debug!(%peer, %error, "WebSocket ended");
            }
            drop((busy, queue));
        });
        let mut answer = empty(StatusCode::SWITCHING_PROTOCOLS);
        let headers = answer.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
        if has_word(request.headers(), &SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
        Ok(answer)
    }

    /// A session with the subscriptions of a request, the messages that have come already, and the place of the queue.
    async fn subscribed(
        &self,
        parameters: &Parameters,
        headers: &HeaderMap,
    ) -> Result<(Session, Vec<Message>, Option<Arc<QueueEntry>>), Box<Answer>> {
        let (filters, qos) = (&parameters.filters, parameters.qos.unwrap_or(QoS::AtLeastOnce));
        if let Some(name) = &parameters.queue {
            let id = self.queue_id(name, headers).await?;
            let place = self.queues.place(&id).map_err(refusal)?;
            let opening = self.opening(&self.credentials(headers)?, kept(&id));
            // The task outlives a request that is given up, so no queue stays without its subscriptions.
            let taking = tokio::spawn(Arc::clone(&place).take(opening, filters.clone(), qos));
            let (session, early) = taking.await.unwrap_or(Err(QueueError::Gone)).map_err(refusal)?;
            return Ok((session, early, Some(place)));
        }
        if filters.is_empty() {
            return bad("a subscription needs a `filter` or a `queue`");
        }
        let mut session = self.taken(headers).await?;
        let (early, granted) = subscribe(&mut session, filters.clone(), qos).await;
        match granted {
            Ok(()) => Ok((session, early, None)),
            Err(error) => {
                session.leave(false).await;
                Err(refusal(error))
            }
        }
    }
}

/// The session of a queue.
fn kept(id: &QueueId) -> Term {
    Term::Kept { client_id: id.client_id(), expiry: QUEUE_EXPIRY }
}

/// The answer to a request for a queue that fails.
fn refusal(error: QueueError) -> Box<Answer> {
    let (status, why) = match error {
        QueueError::Broker(failure) => return Box::new(not_let_in(failure)),
        QueueError::Filter(filter, refused) => {
            let (status, mut value) = outcome(&Ok(refused));
            value["filter"] = filter.into();
            return Box::new(json(status, &value));
        }
        QueueError::Missing => (StatusCode::NOT_FOUND, "there is no such queue: make it with a `filter`"),
        QueueError::Cursor(CursorError::Stale) => {
            (StatusCode::CONFLICT, "the cursor has ended; its messages come again")
        }
        QueueError::Cursor(CursorError::Unknown) => (StatusCode::BAD_REQUEST, "no message has this cursor"),
        QueueError::Full => (StatusCode::SERVICE_UNAVAILABLE, "too many queues are read at once"),
        QueueError::Gone => (StatusCode::SERVICE_UNAVAILABLE, "the session of the queue has ended: ask again"),
    };
    Box::new(wrong(status, why))
}

/// Whether a header has a word in its list.
fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Checks the handshake of a WebSocket; the value that accepts it.
fn handshake(request: &Request<Incoming>) -> Result<HeaderValue, &'static str> {
    let headers = request.headers();
    if request.version() != Version::HTTP_11 {
        return Err("a WebSocket begins with a request of HTTP/1.1");
    }
    if !has_word(headers, &UPGRADE, "websocket") || !has_word(headers, &CONNECTION, "upgrade") {
        return Err("/subscribe is for WebSockets; use GET /topics/FILTER for Server-Sent Events");
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err("the version of a WebSocket is 13");
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or("a WebSocket needs `Sec-WebSocket-Key`")?;
    HeaderValue::from_str(&accept(key.as_bytes())).map_err(|_| "`Sec-WebSocket-Key` is wrong")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Parameters, RequestError> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Parameters::of(pairs, &["wait", "max", "ack", "filter", "qos", "queue"])
    }

    #[test]
    fn parameters_are_checked() {
        let found = read(&[("filter", "a/#"), ("filter", "b"), ("wait", "5s"), ("max", "7"), ("ack", "a-1")]).unwrap();
        assert_eq!((found.filters.len(), found.wait, found.max), (2, Some(Duration::from_secs(5)), Some(7)));
        assert_eq!(found.acknowledged, Cursor::read("a-1"));
        assert!(read(&[("ack", "auto")]).unwrap().is_automatic);
        for (name, value) in [
            ("filter", "a/#/b"),
            ("max", "0"),
            ("max", "101"),
            ("ack", "x"),
            ("qos", "2"),
            ("queue", "a/b"),
            ("ttl", "1"),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name}");
        }
        assert!(read(&[("filter", "a"); MAX_FILTERS + 1]).is_err());
    }

    #[test]
    fn names_of_queues_have_no_levels() {
        assert!(named("orders-1.b_c").is_some());
        for wrong in ["", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }
}
