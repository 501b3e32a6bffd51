//! A web hook: `POST /TOPIC` hands a message over. The answer is 200 when all sinks have it.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_client::TopicNameBuf;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::inbox::Inbox;
use super::{Source, SourceStep, Wake};
use crate::message::Message;
use crate::time::wall_clock;

/// Time for the head of a request, and for its body.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Connections at once; further ones wait.
const MAX_CONNECTIONS: usize = 1_000;
/// How long to wait when the system has no sockets left.
const SYSTEM_PAUSE: Duration = Duration::from_millis(100);

/// Where it listens, and who may send.
#[derive(Clone, Debug)]
pub struct HttpSourceSettings {
    /// The address.
    pub listen: SocketAddr,
    /// What senders have to show as `Authorization: Bearer TOKEN`.
    pub token: Option<Vec<u8>>,
    /// Bytes of a body; a larger one is refused with 413.
    pub max_body: usize,
    /// How long sinks may take; then the answer is 504, and the message may be delivered.
    pub timeout: Duration,
    /// Requests at once; further ones are refused with 503.
    pub window: u16,
}

/// A request that waits for its answer.
type Waiting = oneshot::Sender<()>;

struct Hook {
    settings: HttpSourceSettings,
    inbox: Inbox<(Box<Message>, Waiting)>,
    room: Semaphore,
    id_prefix: String,
}

/// The source.
pub(crate) struct Http {
    settings: HttpSourceSettings,
    inbox: Inbox<(Box<Message>, Waiting)>,
    runtime: Option<Runtime>,
    told_ready: bool,
}

impl Http {
    /// Listens.
    ///
    /// # Errors
    /// In words, when the address is not free, or the system has no threads left.
    pub(crate) fn new(settings: &HttpSourceSettings) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot listen on {}: {error}", settings.listen);
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("hub-http").build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let inbox = Inbox::default();
        let hook = Arc::new(Hook {
            settings: settings.clone(),
            inbox: inbox.clone(),
            room: Semaphore::new(usize::from(settings.window)),
            id_prefix: format!("http-{}-{:x}", std::process::id(), wall_clock()),
        });
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(failed)?
        };
        runtime.spawn(accept(listener, hook));
        Ok(Self { settings: settings.clone(), inbox, runtime: Some(runtime), told_ready: false })
    }
}

async fn accept(listener: tokio::net::TcpListener, hook: Arc<Hook>) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(SYSTEM_PAUSE).await;
            continue;
        };
        let hook = Arc::clone(&hook);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let hook = Arc::clone(&hook);
                async move { Ok::<_, Infallible>(hook.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_WITHIN)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection of a web hook has failed");
            }
            drop(permit);
        });
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
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.take(request).await.unwrap_or_else(|refused| refused)
    }

    async fn take(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Response<Full<Bytes>>> {
        if !self.is_allowed(request.headers()) {
            return Err(text(StatusCode::UNAUTHORIZED, "send Authorization: Bearer TOKEN"));
        }
        if !matches!(*request.method(), Method::POST | Method::PUT) {
            return Err(text(StatusCode::METHOD_NOT_ALLOWED, "POST a message to /TOPIC"));
        }
        let topic = decoded(request.uri().path().trim_start_matches('/'))
            .filter(|topic| TopicNameBuf::new(topic.as_str()).is_ok())
            .ok_or_else(|| text(StatusCode::NOT_FOUND, "the path is no topic"))?;
        // Before the body is read: requests that wait hold their bodies.
        let Ok(_room) = self.room.try_acquire() else {
            return Err(text(StatusCode::SERVICE_UNAVAILABLE, "too many messages wait for the sinks"));
        };
        let headers = request.headers().clone();
        let body = Limited::new(request.into_body(), self.settings.max_body).collect();
        let body = match timeout(REQUEST_WITHIN, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(text(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large"));
            }
            _ => return Err(text(StatusCode::BAD_REQUEST, "the body did not come")),
        };
        let (tell, done) = oneshot::channel();
        self.inbox.push((Box::new(self.message(topic, &headers, &body)), tell));
        match timeout(self.settings.timeout, done).await {
            Ok(Ok(())) => Ok(text(StatusCode::OK, "all sinks have the message")),
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

    fn message(&self, topic: String, headers: &HeaderMap, body: &[u8]) -> Message {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let stated = header("idempotency-key").filter(|key| !key.is_empty());
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Message {
            lasting_id: stated.is_some(),
            id: stated.unwrap_or_else(|| format!("{}-{number}", self.id_prefix)),
            topic,
            qos: 1,
            timestamp: wall_clock(),
            content_type: header("content-type"),
            payload: body.to_vec(),
            ..Message::default()
        }
    }
}

/// A path without its percent signs; nothing when it is no text.
fn decoded(path: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.bytes());
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
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

    fn acknowledge(&mut self, answer: Waiting) {
        // A sender that has gone needs no answer.
        let _ = answer.send(());
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
    use super::*;

    #[test]
    fn a_path_is_a_topic() {
        assert_eq!(decoded("plant/a%20b/%C3%A4"), Some("plant/a b/\u{e4}".to_owned()));
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
