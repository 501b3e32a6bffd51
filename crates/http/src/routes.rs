//! Requests and their answers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, HOST, HeaderValue,
    IF_NONE_MATCH, SEC_WEBSOCKET_PROTOCOL,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;
use tidegate_client::{Publish, QoS, TopicFilterBuf};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};

use crate::answer::{self, Answer, Body, allow, confine, empty, json, not_let_in, outcome, published, wrong};
use crate::batch;
use crate::events::{self, pump};
use crate::fields::{Fields, decoded, headers_of, parameters};
use crate::queue::Queues;
use crate::session::{Credentials, Session, Term};
use crate::watch::wait_of;
use crate::{Caller, Gateway, ReadError, RetainedMessage, TlsSession};

/// How long a body may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
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
/// Bodies that are read at once on a connection.
pub(crate) const MAX_BODIES: usize = 4;

/// One HTTP connection.
pub(crate) struct Visitor {
    pub(crate) gateway: Arc<dyn Gateway>,
    pub(crate) listener: u16,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: Option<TlsSession>,
    /// Longest body, bytes.
    pub(crate) max_body: usize,
    /// Origins of pages that may use the listener.
    pub(crate) origins: Arc<[String]>,
    /// Whether only programs of this machine reach the socket that accepted the connection.
    pub(crate) is_loopback: bool,
    pub(crate) stop: watch::Receiver<bool>,
    /// The session of the last request, and its credentials.
    pub(crate) session: Mutex<Option<(Credentials, Session)>>,
    /// The queues of all connections.
    pub(crate) queues: Arc<Queues>,
    /// Bounds the bodies that are read at once.
    pub(crate) bodies: Semaphore,
    /// Bounds the histories that are read at once on all connections.
    pub(crate) readings: Arc<Semaphore>,
    /// The place of the connection among those of the listener.
    pub(crate) place: Arc<OwnedSemaphorePermit>,
}

impl Visitor {
    /// Answers a request.
    pub(crate) async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        // HTTP/2 has the host in its URI (RFC 9113, section 8.3.1).
        let authority = request.uri().authority().and_then(|it| HeaderValue::from_str(it.as_str()).ok());
        if let Some(host) = authority {
            request.headers_mut().insert(HOST, host);
        }
        let mut answer = self.judge(request).await;
        confine(&mut answer);
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
        *place = Some(self.enter(&mut place, headers).await?);
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
        self.admit(&headers).await?;
        let body = self.body(request.into_body()).await?;
        let message = fields.message(topic, body.into()).or_else(bad)?;
        let outcomes = self.send(&headers, vec![message]).await?;
        let Some((status, value)) = outcomes.first() else { return bad("there is no message") };
        Ok(json(*status, value))
    }

    async fn publish_batch(&self, request: Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let headers = request.headers().clone();
        self.admit(&headers).await?;
        let body = self.body(request.into_body()).await?;
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
                *place = Some((credentials, session));
                Ok(levels.into_iter().zip(&outcomes).map(|(qos, outcome)| published(qos, outcome)).collect())
            }
            Err(failure) => {
                let (status, value) = outcome(&Err(failure));
                Err(Box::new(json(status, &value)))
            }
        }
    }

    async fn read(&self, topic: &str, request: &Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let wait = query(request)?.into_iter().rfind(|(name, _)| name == "wait");
        let wait = wait.map(|(_, wait)| wait_of(&wait)).transpose().or_else(bad)?;
        self.watch(topic, request.headers(), wait.unwrap_or_default()).await
    }

    /// The session of these credentials stays with the connection; the credentials and its client id.
    pub(crate) async fn identified(&self, headers: &HeaderMap) -> Result<(Credentials, String), Box<Answer>> {
        let mut place = self.session.lock().await;
        let (credentials, session) = self.enter(&mut place, headers).await?;
        let found = (credentials.clone(), session.client_id().to_owned());
        *place = Some((credentials, session));
        Ok(found)
    }

    /// The session of these credentials leaves the connection.
    pub(crate) async fn taken(&self, headers: &HeaderMap) -> Result<Session, Box<Answer>> {
        let mut place = self.session.lock().await;
        self.enter(&mut place, headers).await.map(|(_, session)| session)
    }

    /// The retained message of a topic.
    pub(crate) async fn fetch(&self, topic: &str, headers: &HeaderMap) -> Result<Option<RetainedMessage>, Box<Answer>> {
        let (credentials, client_id) = self.identified(headers).await?;
        let (gateway, caller, topic) = (Arc::clone(&self.gateway), self.caller(&credentials), topic.to_owned());
        let asked = tokio::task::spawn_blocking(move || gateway.retained(&caller, &client_id, &topic)).await;
        asked.unwrap_or(Err(ReadError::Unavailable)).map_err(not_read)
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
        let (events, waiting) = events::queue();
        tokio::spawn(pump(session, early, events, self.stop.clone()));
        let mut answer = Response::new(Body::Events(waiting));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(answer)
    }

    /// The session for these credentials: the last request's, or a new one.
    async fn enter(
        &self,
        place: &mut Option<(Credentials, Session)>,
        headers: &HeaderMap,
    ) -> Result<(Credentials, Session), Box<Answer>> {
        let credentials = self.credentials(headers)?;
        if let Some((known, mut session)) = place.take()
            && known == credentials
            && session.is_alive()
        {
            return Ok((known, session));
        }
        let gateway = Arc::clone(&self.gateway);
        let session = Session::open(gateway, self.caller(&credentials), &credentials, Term::Connection).await;
        session.map(|session| (credentials, session)).map_err(|failure| Box::new(not_let_in(failure)))
    }

    /// The credentials of a request. An API key names its user.
    pub(crate) fn credentials(&self, headers: &HeaderMap) -> Result<Credentials, Box<Answer>> {
        let mut found = credentials(headers)?;
        if let (None, Some(token)) = (&found.user_name, &found.password) {
            found.user_name = self.gateway.user_of_key(token);
        }
        Ok(found)
    }

    pub(crate) fn caller(&self, credentials: &Credentials) -> Caller {
        let user_name = credentials.user_name.clone();
        Caller { listener: self.listener, peer: self.peer, tls: self.tls.clone(), user_name }
    }

    async fn body(&self, body: Incoming) -> Result<Bytes, Box<Answer>> {
        let too_large = || {
            let why = format!("a body has {} bytes at most", self.max_body);
            Err(Box::new(wrong(StatusCode::PAYLOAD_TOO_LARGE, why)))
        };
        // It is never closed. A body that waits is held back by the flow control of HTTP/2.
        let _permit = self.bodies.acquire().await;
        match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, self.max_body).collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => too_large(),
            Ok(Err(error)) => bad(format!("the body cannot be read: {error}")),
            Err(_) => Err(Box::new(wrong(StatusCode::REQUEST_TIMEOUT, "the body takes too long"))),
        }
    }
}

/// The answer to a client that is not given what it wants to read.
pub(crate) fn not_read(why: ReadError) -> Box<Answer> {
    let (status, why) = match why {
        ReadError::NotAuthorized => (StatusCode::FORBIDDEN, "not authorized"),
        ReadError::InvalidTopic => (StatusCode::BAD_REQUEST, "topic name invalid"),
        ReadError::Missing => {
            (StatusCode::NOT_FOUND, "there is no history: no pipeline of the tenant has a sink of kind `history`")
        }
        ReadError::Elsewhere => {
            (StatusCode::MISDIRECTED_REQUEST, "another node has the retained message of this topic")
        }
        ReadError::SessionElsewhere => {
            (StatusCode::MISDIRECTED_REQUEST, "another node has the session of this client: connect again")
        }
        ReadError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "the broker does not answer"),
    };
    Box::new(wrong(status, why))
}

fn bad_request(why: &str) -> Answer {
    wrong(StatusCode::BAD_REQUEST, why)
}

pub(crate) fn bad<T>(why: impl AsRef<str>) -> Result<T, Box<Answer>> {
    Err(Box::new(bad_request(why.as_ref())))
}

pub(crate) fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

pub(crate) fn query(request: &Request<Incoming>) -> Result<Vec<(String, String)>, Box<Answer>> {
    parameters(request.uri().query().unwrap_or_default()).map_or_else(|| bad("the query has wrong escapes"), Ok)
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| kind.split(';').next().is_some_and(|it| it.trim() == EVENT_STREAM))
}

/// The credentials of a request: a name and a password (`Basic`), or a token (`Bearer`), which is a password
/// without a name.
fn credentials(headers: &HeaderMap) -> Result<Credentials, Box<Answer>> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        let password = socket_token(headers).map(|token| token.as_bytes().to_vec());
        return Ok(Credentials { user_name: None, password });
    };
    let text = value.to_str().unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Credentials { user_name: None, password: Some(rest.trim().as_bytes().to_vec()) });
    }
    let decoded = STANDARD.decode(rest.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"));
    let Some(decoded) = decoded else { return bad("`Authorization` is neither Basic nor Bearer") };
    let at = decoded.iter().position(|byte| *byte == b':');
    let (name, password) = decoded.split_at(at.unwrap_or(decoded.len()));
    let Ok(name) = std::str::from_utf8(name) else { return bad("the user name is no UTF-8") };
    Ok(Credentials { user_name: Some(name.to_owned()), password: password.get(1..).map(<[u8]>::to_vec) })
}

/// The token that a page shows for a WebSocket: browsers let it name subprotocols, and no other header.
fn socket_token(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).find_map(|one| one.trim().strip_prefix("bearer."))
}

/// The answer with a retained message, or that the client has it already.
pub(crate) fn retained(message: RetainedMessage, request: &HeaderMap) -> Answer {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: hyper::header::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn credentials_are_a_name_and_a_password_or_a_token() {
        let of = |value: &str| credentials(&with(AUTHORIZATION, value)).ok();
        let ann = |password: Option<&str>| {
            Some(Credentials { user_name: Some("ann".into()), password: password.map(|it| it.as_bytes().to_vec()) })
        };
        assert_eq!(of("Basic YW5uOmE6Yg=="), ann(Some("a:b")));
        assert_eq!(of("basic YW5u"), ann(None));
        let token = Credentials { user_name: None, password: Some(b"ey.x".to_vec()) };
        assert_eq!(of("Bearer ey.x"), Some(token));
        assert_eq!(of("Digest x"), None);
        assert_eq!(of("Basic !"), None);
        assert_eq!(credentials(&HeaderMap::new()).ok(), Some(Credentials::default()));
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

    #[test]
    fn a_stream_is_asked_for_by_its_type() {
        for (accept, wanted) in [("text/event-stream", true), ("a/b, text/event-stream;q=1", true), ("*/*", false)] {
            assert_eq!(wants_events(&with(ACCEPT, accept)), wanted, "{accept}");
        }
    }
}
