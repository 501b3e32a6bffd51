//! A web hook: `POST /TOPIC` hands a message over. The answer is 200 when all sinks have it, or dead letters do.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::digest::{Context, SHA256};
use tidegate_client::TopicNameBuf;
use tidegate_connections::{ConnectionLimit, ConnectionPermit};
use tidegate_units::percent::unescape;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::inbox::Inbox;
use super::{Source, SourceStep, Wake};
use crate::core::Ending;
use crate::message::{HOPS_PROPERTY, Message};
use crate::open_error::OpenError;
use crate::time::wall_clock;

/// The content type that curl states for any data. It is left out, as at listeners of HTTP.
const FORM: &str = "application/x-www-form-urlencoded";
/// Time for the head of a request, and for its body.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of the head of a request; a longer one is refused with 431.
const MAX_HEAD: usize = 16 * 1024;
/// Connections at once. A further one replaces the longest silent one; while all have a request under way, it waits.
const MAX_CONNECTIONS: usize = 1_000;
/// The prefix of headers of user properties.
const USER_HEADER: &str = "x-mqtt-user-";
/// Bytes of a digest that are in an id.
const ID_DIGEST: usize = 16;
/// Characters of the sender's key that are in an id.
const ID_KEY: usize = 64;
/// How long to wait when the system has no sockets left.
const SYSTEM_PAUSE: Duration = Duration::from_millis(100);

/// Where it listens, and who may send.
#[derive(Clone, Debug)]
pub struct HttpSourceSettings {
    /// The address.
    pub listen: SocketAddr,
    /// The token of senders, in `Authorization: Bearer TOKEN`.
    pub token: Option<Vec<u8>>,
    /// Bytes of a body; a larger one is refused with 413.
    pub max_body: usize,
    /// How long sinks may take; then the answer is 504, and the message may be delivered.
    pub timeout: Duration,
    /// Messages at once, those among them whose request has ended; further ones are refused with 503.
    pub window: u16,
}

/// A message on its way to the sinks, and the request that waits for its answer, if that has not ended.
pub(crate) struct Waiting {
    answer: oneshot::Sender<Ending>,
    /// Its place among the messages at once.
    _room: OwnedSemaphorePermit,
}

struct Hook {
    settings: HttpSourceSettings,
    inbox: Inbox<(Arc<Message>, Waiting)>,
    room: Arc<Semaphore>,
    id_prefix: String,
}

/// The source.
pub(crate) struct Http {
    settings: HttpSourceSettings,
    inbox: Inbox<(Arc<Message>, Waiting)>,
    runtime: Option<Runtime>,
    told_ready: bool,
}

impl Http {
    /// Listens.
    ///
    /// # Errors
    /// In words, when the address is not free, or the system has no threads left.
    pub(crate) fn new(settings: &HttpSourceSettings) -> Result<Self, OpenError> {
        let failed = |error: std::io::Error| OpenError::part(format!("cannot listen on {}", settings.listen), &error);
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("hub-http").build();
        let runtime = runtime?;
        let inbox = Inbox::default();
        let hook = Arc::new(Hook::new(settings, &inbox));
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(failed)?
        };
        runtime.spawn(accept(listener, hook));
        Ok(Self { settings: settings.clone(), inbox, runtime: Some(runtime), told_ready: false })
    }
}

async fn accept(listener: tokio::net::TcpListener, hook: Arc<Hook>) {
    let connections = ConnectionLimit::new(MAX_CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(SYSTEM_PAUSE).await;
            continue;
        };
        let hook = Arc::clone(&hook);
        let permit = connections.admit().await;
        connections.spawn(permit, |permit| async move { serve(stream, &hook, &permit).await });
    }
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, hook: &Arc<Hook>, permit: &ConnectionPermit) {
    let service = service_fn(|request: Request<Incoming>| {
        let (hook, busy) = (Arc::clone(hook), permit.busy());
        if hook.is_allowed(request.headers()) {
            permit.prove();
        }
        async move {
            let answer = hook.answer(request).await;
            // The system takes an answer of one line at once, unless its client reads none of them: then the connection
            // may make room.
            drop(busy);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection of a web hook has failed");
    }
}

fn text(status: StatusCode, said: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{said}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

impl Hook {
    fn new(settings: &HttpSourceSettings, inbox: &Inbox<(Arc<Message>, Waiting)>) -> Self {
        Self {
            settings: settings.clone(),
            inbox: inbox.clone(),
            room: Arc::new(Semaphore::new(usize::from(settings.window))),
            id_prefix: format!("http-{}-{:x}", std::process::id(), wall_clock()),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.take(request).await.unwrap_or_else(|refused| refused)
    }

    async fn take<B>(&self, request: Request<B>) -> Result<Response<Full<Bytes>>, Response<Full<Bytes>>>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !self.is_allowed(request.headers()) {
            return Err(text(StatusCode::UNAUTHORIZED, "send Authorization: Bearer TOKEN"));
        }
        if !matches!(*request.method(), Method::POST | Method::PUT) {
            return Err(text(StatusCode::METHOD_NOT_ALLOWED, "POST a message to /TOPIC"));
        }
        let topic = unescape(request.uri().path().trim_start_matches('/'))
            .filter(|topic| TopicNameBuf::new(topic.as_str()).is_ok())
            .ok_or_else(|| text(StatusCode::NOT_FOUND, "the path is no topic"))?;
        // Before the body is read. The message keeps its place when the request ends before it.
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return Err(text(StatusCode::SERVICE_UNAVAILABLE, "too many messages wait for the sinks"));
        };
        let headers = request.headers().clone();
        let properties = properties(&headers).map_err(|why| text(StatusCode::BAD_REQUEST, &why.to_string()))?;
        let body = Limited::new(request.into_body(), self.settings.max_body).collect();
        let body = match timeout(REQUEST_WITHIN, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(text(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large"));
            }
            _ => return Err(text(StatusCode::BAD_REQUEST, "the body did not come")),
        };
        let (answer, done) = oneshot::channel();
        self.inbox
            .push((Arc::new(self.message((topic, properties), &headers, &body)), Waiting { answer, _room: room }));
        match timeout(self.settings.timeout, done).await {
            Ok(Ok(Ending::Delivered)) => {
                Ok(text(StatusCode::OK, "all sinks have the message or its dead letter, or a step has left it out"))
            }
            Ok(Ok(Ending::Dropped)) => {
                let said = "a step or a sink refuses the message, and it is not kept: the log has the reason";
                Err(text(StatusCode::UNPROCESSABLE_ENTITY, said))
            }
            Ok(Ok(Ending::NotTaken)) => Err(text(StatusCode::NOT_FOUND, "the pipeline does not take this topic")),
            Ok(Err(_)) => Err(text(StatusCode::SERVICE_UNAVAILABLE, "the pipeline has ended")),
            Err(_) => Err(text(StatusCode::GATEWAY_TIMEOUT, "the sinks do not have the message yet")),
        }
    }

    fn is_allowed(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.settings.token else { return true };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        // As long as the token in any case, so that time does not tell how much of it is right.
        let given = given.unwrap_or_default();
        let differs = token.iter().zip(given.iter().chain(std::iter::repeat(&0)));
        differs.fold(0, |found, (one, other)| found | (one ^ other)) == 0 && given.len() == token.len()
    }

    /// `properties` is a message with its properties alone.
    fn message(&self, (topic, properties): (String, Message), headers: &HeaderMap, body: &[u8]) -> Message {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let stated = header(headers, "idempotency-key").filter(|key| !key.is_empty());
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let id = stated.as_ref().map(|key| id_of(key, &topic, body));
        let message = Message {
            lasting_id: id.is_some(),
            id: id.unwrap_or_else(|| format!("{}-{number}", self.id_prefix)),
            topic,
            qos: 1,
            timestamp: wall_clock(),
            payload: body.to_vec(),
            ..properties
        };
        message.with_hops()
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Why a header is no property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum HeaderError {
    #[error("X-MQTT-Expiry is a whole number of seconds")]
    Expiry,
    #[error("X-MQTT-Response-Topic is no topic")]
    ResponseTopic,
    #[error("X-MQTT-Correlation-Data is no base64")]
    CorrelationData,
    #[error("a header that is read has characters outside ASCII")]
    NotAscii,
}

/// A message with the properties in the headers of a request, which have the names that HTTP listeners know.
///
/// # Errors
/// When a header has not the form of its property.
fn properties(headers: &HeaderMap) -> Result<Message, HeaderError> {
    let is_read =
        |name: &str| name.starts_with("x-mqtt-") || ["content-type", "idempotency-key", HOPS_PROPERTY].contains(&name);
    if headers.iter().any(|(name, value)| is_read(name.as_str()) && value.to_str().is_err()) {
        return Err(HeaderError::NotAscii);
    }
    let expiry = header(headers, "x-mqtt-expiry").map(|seconds| seconds.parse::<u32>());
    let expiry = expiry.transpose().map_err(|_| HeaderError::Expiry)?;
    let data = header(headers, "x-mqtt-correlation-data").map(|data| STANDARD.decode(data));
    let response_topic = header(headers, "x-mqtt-response-topic");
    if response_topic.as_ref().is_some_and(|topic| TopicNameBuf::new(topic.as_str()).is_err()) {
        return Err(HeaderError::ResponseTopic);
    }
    let user_property = |(name, value): (&HeaderName, &HeaderValue)| {
        let name = name.as_str().strip_prefix(USER_HEADER)?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    };
    let hops = header(headers, HOPS_PROPERTY).map(|hops| (HOPS_PROPERTY.to_owned(), hops));
    Ok(Message {
        content_type: header(headers, "content-type").filter(|it| it != FORM),
        response_topic,
        correlation_data: data.transpose().map_err(|_| HeaderError::CorrelationData)?,
        expires_at: expiry.map(|seconds| wall_clock().saturating_add(u64::from(seconds) * 1000)),
        user_properties: headers.iter().filter_map(user_property).chain(hops).collect(),
        ..Message::default()
    })
}

/// The id of a message whose sender states a key. Senders may choose the same key: messages are the same only with the
/// same topic and body.
fn id_of(key: &str, topic: &str, body: &[u8]) -> String {
    let mut digest = Context::new(&SHA256);
    for part in [key.as_bytes(), topic.as_bytes(), body] {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest = digest.finish();
    let shown = digest.as_ref().iter().take(ID_DIGEST);
    let key: String = key.chars().take(ID_KEY).collect();
    shown.fold(format!("{key}-"), |id, byte| format!("{id}{byte:02x}"))
}

impl Source for Http {
    type Token = Waiting;

    fn wake(&self) -> Wake {
        self.inbox.wake()
    }

    fn next(&mut self, deadline: Option<Instant>) -> SourceStep<Waiting> {
        if !std::mem::replace(&mut self.told_ready, true) {
            return SourceStep::Ready;
        }
        if let Some((message, answer)) = self.inbox.take() {
            return SourceStep::Message(message, Some(answer));
        }
        self.inbox.wait(deadline);
        SourceStep::Idle
    }

    fn acknowledge(&mut self, waiting: Waiting, ending: Ending) {
        // A sender that has gone needs no answer.
        let _ = waiting.answer.send(ending);
    }

    fn is_connected(&self) -> bool {
        self.runtime.is_some()
    }

    fn place(&self) -> String {
        format!("http://{}", self.settings.listen)
    }

    fn leave(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Answers that were given go out.
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    fn hook(window: u16) -> (Hook, Inbox<(Arc<Message>, Waiting)>) {
        let inbox = Inbox::default();
        let settings = HttpSourceSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: None,
            max_body: 1_000,
            timeout: Duration::from_secs(600),
            window,
        };
        (Hook::new(&settings, &inbox), inbox)
    }

    fn post(key: &str, topic: &str, body: &'static str) -> Request<Full<Bytes>> {
        let request = Request::post(format!("/{topic}")).header("idempotency-key", key);
        request.body(Full::new(Bytes::from(body))).unwrap()
    }

    type Answer = Result<Response<Full<Bytes>>, Response<Full<Bytes>>>;

    /// Polls a request once, and returns the status of its answer.
    async fn begin(mut request: Pin<&mut impl Future<Output = Answer>>) -> Option<StatusCode> {
        let once = poll_fn(|context| {
            Poll::Ready(match request.as_mut().poll(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            })
        });
        once.await.map(status)
    }

    fn status(answer: Answer) -> StatusCode {
        answer.unwrap_or_else(|refused| refused).status()
    }

    fn block_on(future: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
    }

    /// The head of a request comes before its token is checked.
    #[test]
    fn the_head_of_a_request_is_bounded() {
        block_on(async {
            let (hook, _inbox) = hook(1);
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let client = std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(at).unwrap();
                let mut head = b"POST /a HTTP/1.1\r\nx: ".to_vec();
                head.resize(MAX_HEAD, b'x');
                stream.write_all(&head).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            });
            let permit = ConnectionLimit::new(1).admit().await;
            serve(listener.accept().await.unwrap().0, &Arc::new(hook), &permit).await;
            let answer = client.join().unwrap();
            assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        });
    }

    #[test]
    fn a_message_keeps_its_place_when_its_request_has_ended() {
        block_on(async {
            let (hook, inbox) = hook(1);
            let mut first = Box::pin(hook.take(post("", "a", "1")));
            assert_eq!(begin(first.as_mut()).await, None);
            drop(first);
            let mut second = Box::pin(hook.take(post("", "a", "2")));
            assert_eq!(begin(second.as_mut()).await, Some(StatusCode::SERVICE_UNAVAILABLE));
            drop(inbox.take());
            let mut third = Box::pin(hook.take(post("", "a", "3")));
            assert_eq!(begin(third.as_mut()).await, None);
        });
    }

    #[test]
    fn the_answer_says_how_the_message_has_ended() {
        block_on(async {
            let (hook, inbox) = hook(1);
            for (ending, expected) in [
                (Ending::Delivered, StatusCode::OK),
                (Ending::Dropped, StatusCode::UNPROCESSABLE_ENTITY),
                (Ending::NotTaken, StatusCode::NOT_FOUND),
            ] {
                let mut request = Box::pin(hook.take(post("", "a", "1")));
                assert_eq!(begin(request.as_mut()).await, None);
                inbox.take().unwrap().1.answer.send(ending).unwrap();
                assert_eq!(status(request.await), expected);
            }
        });
    }

    #[test]
    fn one_key_for_several_messages_makes_several_ids() {
        block_on(async {
            let (hook, inbox) = hook(9);
            let mut ids = Vec::new();
            for (key, topic, body) in
                [("k", "a", "1"), ("k", "a", "1"), ("k", "a", "2"), ("k", "b", "1"), ("l", "a", "1")]
            {
                let mut request = Box::pin(hook.take(post(key, topic, body)));
                begin(request.as_mut()).await;
                ids.push(inbox.take().unwrap().0.id.clone());
            }
            assert!(ids[0] == ids[1] && ids[0].starts_with("k-"), "{ids:?}");
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), 4, "{ids:?}");
        });
    }

    #[test]
    fn headers_are_properties_of_the_message() {
        let of = |pairs: &[(&str, &str)]| {
            let named = |(name, value): &(&str, &str)| {
                (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
            };
            properties(&pairs.iter().map(named).collect())
        };
        let read = of(&[
            ("Content-Type", "text/plain"),
            ("X-MQTT-Expiry", "60"),
            ("X-MQTT-Response-Topic", "answers/7"),
            ("X-MQTT-Correlation-Data", "AP8="),
            ("X-MQTT-User-Unit", "C"),
            (HOPS_PROPERTY, "2"),
        ])
        .unwrap()
        .with_hops();
        assert!(read.expires_at.is_some_and(|at| at > 60_000));
        let expected = Message {
            content_type: Some("text/plain".into()),
            response_topic: Some("answers/7".into()),
            correlation_data: Some(vec![0, 255]),
            hops: 2,
            user_properties: vec![("unit".into(), "C".into())],
            ..Message::default()
        };
        assert_eq!(Message { expires_at: None, ..read }, expected);
        for wrong in [("X-MQTT-Expiry", "soon"), ("X-MQTT-Correlation-Data", "?"), ("X-MQTT-Response-Topic", "a/#")] {
            assert!(of(&[wrong]).is_err_and(|why| why.to_string().contains(wrong.0)));
        }
        for name in ["Content-Type", "X-MQTT-User-Unit", "X-MQTT-Expiry", "Idempotency-Key"] {
            assert_eq!(of(&[(name, "\u{b0}C")]), Err(HeaderError::NotAscii), "{name}");
        }
        assert_eq!(of(&[("Content-Type", FORM)]).unwrap().content_type, None);
        assert!(of(&[("Other", "\u{b0}C")]).is_ok(), "a header that is not read");
    }

    #[test]
    fn a_path_is_a_topic() {
        assert_eq!(unescape("plant/a%20b/%C3%A4"), Some("plant/a b/\u{e4}".to_owned()));
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }
}
