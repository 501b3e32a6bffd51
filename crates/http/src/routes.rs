//! Requests and their answers: which request goes where, publishing and events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use serde_json::Value;
use tidegate_client::{Publish, QoS, TopicFilterBuf};
use tokio::sync::SemaphorePermit;

use crate::answer::{
    self, Answer, Body, allow, bad, bad_request, confine, json, not_allowed, not_let_in, outcome, published, wrong,
};
use crate::batch;
use crate::body_room::BodyPermit;
use crate::counters::Route;
use crate::events::{self, pump};
use crate::fields::{Fields, decoded};
use crate::paced_body::{self, BODY_TIMEOUT, BodyFailure};
use crate::visitor::{Visitor, put_back, query};

/// How long the broker may take to answer. It lets a publisher wait for room for `limits.block_timeout`, and says so
/// then.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// The type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";
/// The paths, for people.
const INDEX: &str = "POST /topics/TOPIC publishes
GET /topics/TOPIC reads the retained message
GET /topics/TOPIC?wait=30s waits until it changes
GET /topics/FILTER with Accept: text/event-stream subscribes
POST /topics publishes a batch
GET /subscribe?filter=FILTER subscribes by a WebSocket
PUT /queue/NAME?filter=FILTER makes a queue
GET /queue/NAME?wait=30s&max=100 takes messages of a queue
POST /queue/NAME?ack=CURSOR acknowledges them
DELETE /queue/NAME forgets a queue
GET /history?filter=FILTER&from=1h&limit=100 reads messages of the past
";
impl Visitor {
    pub(crate) async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        // HTTP/2 has the host in its URI (RFC 9113, section 8.3.1).
        let authority = request.uri().authority().and_then(|it| HeaderValue::from_str(it.as_str()).ok());
        if let Some(host) = authority {
            request.headers_mut().insert(HOST, host);
        }
        let route = Route::of(request.uri().path());
        let mut answer = self.judge(request).await;
        confine(&mut answer);
        self.counters.count_request(route, answer.status());
        answer
    }

    /// The answer to a request, if the page that asks may ask.
    async fn judge(&self, request: Request<Incoming>) -> Answer {
        let origin = match answer::origin(request.headers(), &self.origins, self.is_loopback) {
            Ok(origin) => origin,
            Err(refusal) => return *refusal,
        };
        let mut answer = if request.method() == Method::OPTIONS && origin.is_some() {
            answer::preflight(request.headers())
        } else {
            match tokio::time::timeout(ANSWER_TIMEOUT, self.route(request)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(refusal)) => *refusal,
                Err(_) => {
                    // An answer that comes later is for no request.
                    *self.session.lock().await = None;
                    wrong(StatusCode::GATEWAY_TIMEOUT, "the broker has not answered in time")
                }
            }
        };
        if let Some(origin) = origin {
            allow(&mut answer, origin);
        }
        answer
    }

    /// Opens the session of these credentials, or keeps that of the last request. Nothing of a body is read before.
    async fn admit(&self, headers: &HeaderMap) -> Result<(), Box<Answer>> {
        let mut place = self.session.lock().await;
        let (credentials, session) = self.enter(&mut place, headers).await?;
        put_back(&mut place, credentials, session);
        Ok(())
    }

    async fn route(&self, mut request: Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let topic = path.strip_prefix("/topics/").map(|topic| decoded(topic, false));
        match (method, topic) {
            (Method::POST, None) if path == "/topics" => self.publish_batch(request).await,
            (Method::POST, Some(Some(topic))) => self.publish(&topic, request).await,
            (Method::GET, Some(Some(filter))) if wants_events(request.headers()) => {
                self.subscribe(&filter, &request).await
            }
            (Method::GET | Method::HEAD, Some(Some(topic))) => self.read(&topic, &request).await,
            (_, Some(None)) => bad("the path has wrong escapes"),
            (Method::GET | Method::HEAD, None) if path == "/" => Ok(Response::new(Body::Whole(Some(INDEX.into())))),
            (_, Some(_)) => Ok(not_allowed("GET, HEAD, POST")),
            (_, None) if path == "/topics" => Ok(not_allowed("POST")),
            (Method::GET, None) if path == "/history" => self.history(&request).await,
            (Method::GET, None) if path == "/subscribe" => self.socket(&mut request).await,
            (_, None) => match path.strip_prefix("/queue/") {
                Some(name) => self.queue(name, &request).await,
                None => Ok(wrong(
                    StatusCode::NOT_FOUND,
                    "there are /topics, /topics/TOPIC, /subscribe, /queue/NAME and /history",
                )),
            },
        }
    }

    async fn publish(&self, topic: &str, request: Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let fields = Fields::of(request.headers(), &query(&request)?).or_else(bad)?;
        let headers = request.headers().clone();
        let (body, _room) = self.body(&headers, request).await?;
        let message = fields.message(topic, body.into()).or_else(bad)?;
        let outcomes = self.send(&headers, vec![message]).await?;
        let Some((status, value)) = outcomes.first() else { return bad("there is no message") };
        Ok(json(*status, value))
    }

    async fn publish_batch(&self, request: Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let headers = request.headers().clone();
        let (body, _room) = self.body(&headers, request).await?;
        let messages = batch::read(&body).or_else(bad)?;
        let answers = self.send(&headers, messages).await?;
        let all = answers.iter().all(|(status, _)| status.is_success());
        let status = if all { StatusCode::OK } else { StatusCode::MULTI_STATUS };
        let one = |(status, mut value): (StatusCode, Value)| {
            value["status"] = status.as_u16().into();
            value
        };
        Ok(json(status, &answers.into_iter().map(one).collect()))
    }

    /// Publishes, and keeps the session for the next request if it lasts. Each message has a status, and its outcome in
    /// JSON.
    async fn send(&self, headers: &HeaderMap, messages: Vec<Publish>) -> Result<Vec<(StatusCode, Value)>, Box<Answer>> {
        let levels: Vec<QoS> = messages.iter().map(|message| message.qos).collect();
        let mut place = self.session.lock().await;
        let (credentials, mut session) = self.enter(&mut place, headers).await?;
        match session.publish(messages).await {
            Ok(outcomes) => {
                put_back(&mut place, credentials, session);
                Ok(levels.into_iter().zip(&outcomes).map(|(qos, outcome)| published(qos, outcome)).collect())
            }
            Err(failure) => {
                let (status, value) = outcome(&Err(failure));
                Err(Box::new(json(status, &value)))
            }
        }
    }

    async fn subscribe(&self, filter: &str, request: &Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let fields = Fields::of(&HeaderMap::new(), &query(request)?).or_else(bad)?;
        let (qos, retained) = (fields.qos(QoS::AtLeastOnce).or_else(bad)?, fields.retain(true).or_else(bad)?);
        let filter =
            TopicFilterBuf::new(filter).map_err(|error| Box::new(bad_request(&format!("the filter {error}"))))?;
        let mut session = self.taken(request.headers()).await?;
        let subscribed = session.subscribe(filter, qos, retained).await;
        let early = match subscribed {
            Ok((outcome, early)) if !outcome.code.is_error() => early,
            Ok((refused, _)) => return Ok(json(outcome(&Ok(refused.clone())).0, &outcome(&Ok(refused)).1)),
            Err(failure) => return Ok(not_let_in(failure)),
        };
        let (events, waiting) = events::queue(Arc::clone(&self.counters));
        tokio::spawn(pump(session, early, events, answer::ended, self.stop.clone()));
        let mut answer = Response::new(Body::Events(waiting));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(answer)
    }

    /// Reads the body of a request whose client is let in. Its memory counts until the result is dropped.
    async fn body(
        &self,
        headers: &HeaderMap,
        request: Request<Incoming>,
    ) -> Result<(Bytes, BodyPlace<'_>), Box<Answer>> {
        let is_two = request.version() == Version::HTTP_2;
        let mut body = request.into_body();
        let read = match self.admit(headers).await {
            Ok(()) => self.read_body(&mut body).await,
            Err(refusal) => Err(refusal),
        };
        if read.is_err() && is_two {
            paced_body::discard(body).await;
        }
        read
    }

    async fn read_body(&self, body: &mut Incoming) -> Result<(Bytes, BodyPlace<'_>), Box<Answer>> {
        let too_large = || {
            let why = format!("a body has {} bytes at most", self.max_body);
            Err(Box::new(wrong(StatusCode::PAYLOAD_TOO_LARGE, why)))
        };
        let length = body.size_hint().exact();
        if length.is_some_and(|length| length > self.max_body as u64) {
            return too_large();
        }
        // A body that waits is held back by the flow control of HTTP/2.
        let place = async {
            Some(BodyPlace {
                _of_connection: self.bodies.acquire().await.ok()?,
                _of_listener: self.body_room.take(self.peer.ip(), length).await?,
            })
        };
        let Ok(Some(place)) = tokio::time::timeout(BODY_TIMEOUT, place).await else {
            return Err(Box::new(wrong(StatusCode::SERVICE_UNAVAILABLE, "too many bodies wait for the broker")));
        };
        match paced_body::read(body, self.max_body).await {
            Ok(bytes) => {
                self.counters.count_body(bytes.len());
                Ok((bytes, place))
            }
            Err(BodyFailure::TooLarge) => too_large(),
            Err(BodyFailure::Failed(error)) => bad(format!("the body cannot be read: {error}")),
            Err(BodyFailure::TooSlow) => Err(Box::new(wrong(StatusCode::REQUEST_TIMEOUT, "the body takes too long"))),
        }
    }
}

/// The places of a body at its connection and at its listener.
struct BodyPlace<'a> {
    _of_connection: SemaphorePermit<'a>,
    _of_listener: BodyPermit,
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| kind.split(';').next().is_some_and(|it| it.trim() == EVENT_STREAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_asked_for_by_its_type() {
        for (accept, wanted) in [("text/event-stream", true), ("a/b, text/event-stream;q=1", true), ("*/*", false)] {
            assert_eq!(
                wants_events(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())])),
                wanted,
                "{accept}"
            );
        }
    }
}
