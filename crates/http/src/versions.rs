//! HTTP/1.1 and HTTP/2 on one listener: by ALPN over TLS, and by the first bytes without TLS.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use crate::activity::Activity;
use crate::answer::Body;
use crate::pieces::Pieces;
use crate::visitor::Visitor;
use crate::write_limit::WRITE_TIMEOUT;

/// Time for the head of a request, and for the next request of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest head of a request, bytes.
const MAX_HEAD: usize = 16 << 10;
/// Requests of an HTTP/2 connection that are under way at once.
const MAX_STREAMS: u32 = 64;
/// Bytes of a body that an HTTP/2 client sends before the listener reads them.
const STREAM_WINDOW: u32 = 64 << 10;
/// The same for all bodies of a connection.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of an answer that wait for an HTTP/2 client.
const MAX_SEND_BUFFER: usize = 64 << 10;
/// Streams that an HTTP/2 client resets before the listener sees them; beyond it the connection ends (CVE-2023-44487).
const MAX_RESETS: usize = 20;
/// How an HTTP/2 connection begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The name of HTTP/2 in a TLS handshake.
const H2: &[u8] = b"h2";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    /// HTTP/1.0 and HTTP/1.1.
    One,
    /// HTTP/2.
    Two,
}

impl HttpVersion {
    /// The version that a TLS handshake has agreed on.
    pub(crate) fn agreed(protocol: Option<&[u8]>) -> Self {
        if protocol == Some(H2) { Self::Two } else { Self::One }
    }

    /// The version that a client speaks without TLS, by its first bytes, and the stream from its beginning.
    ///
    /// # Errors
    /// When the client says nothing in time, or the stream fails.
    pub(crate) async fn spoken<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<(Self, Rewound<S>)> {
        let mut first = Vec::with_capacity(PREFACE.len());
        let read = async {
            while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
                let left = (PREFACE.len() - first.len()) as u64;
                if (&mut stream).take(left).read_buf(&mut first).await? == 0 {
                    break;
                }
            }
            Ok::<_, io::Error>(())
        };
        let timeout = io::Error::new(io::ErrorKind::TimedOut, "the client sends nothing");
        tokio::time::timeout(HEAD_TIMEOUT, read).await.map_err(|_| timeout)??;
        let version = if first == PREFACE { Self::Two } else { Self::One };
        Ok((version, Rewound { first, at: 0, stream }))
    }
}

/// The TLS configuration of a listener, with the versions of HTTP.
pub(crate) fn with_alpn(config: &Arc<ServerConfig>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(config);
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A stream whose first bytes were read and are read again.
pub(crate) struct Rewound<S> {
    first: Vec<u8>,
    at: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.first.get(self.at..).unwrap_or_default();
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(left.get(..count).unwrap_or_default());
        self.at += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Answers a request, which counts as under way until its stream of events ends, or the answer to a client with a login
/// is written. A client without one may be closed in the middle of an answer that it does not read.
async fn answer(
    visitor: Arc<Visitor>,
    activity: Arc<Activity>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut busy = activity.begin(&visitor.permit);
    let is_two = request.version() == Version::HTTP_2;
    let mut answer = visitor.answer(request).await;
    busy.answered();
    match answer.body_mut() {
        Body::Events(events) => events.accompany(busy),
        Body::Whole(Some(bytes)) if visitor.permit.is_proven() => {
            *bytes = Bytes::from_owner(visitor.permit.busy().answer_bytes(std::mem::take(bytes)));
        }
        Body::Whole(_) | Body::Watched(_) => {}
    }
    if is_two && let Body::Whole(Some(bytes)) = answer.body_mut() {
        let pieces = Pieces::new(std::mem::take(bytes), activity.begin_answer());
        *answer.body_mut() = Body::Watched(pieces);
    }
    Ok(answer)
}

/// Serves a connection until it ends.
pub(crate) async fn serve<S>(stream: S, version: HttpVersion, visitor: Visitor)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (peer, stop) = (visitor.peer, visitor.stop.clone());
    let ended = match version {
        HttpVersion::One => serve_one(stream, Arc::new(visitor), stop).await,
        HttpVersion::Two => serve_two(stream, Arc::new(visitor), stop).await,
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "HTTP connection ended");
    }
}

async fn serve_one<S>(stream: S, visitor: Arc<Visitor>, mut stop: watch::Receiver<bool>) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::default());
    let service = service_fn(move |request| answer(Arc::clone(&visitor), Arc::clone(&activity), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

async fn serve_two<S>(stream: S, visitor: Arc<Visitor>, mut stop: watch::Receiver<bool>) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::default());
    let requests = Arc::clone(&activity);
    let service = service_fn(move |request| answer(Arc::clone(&visitor), Arc::clone(&requests), request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .max_header_list_size(MAX_HEAD as u32)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = activity.ends() => return Ok(()),
        () = activity.unread_for(WRITE_TIMEOUT) => return Ok(()),
        () = activity.idle(HEAD_TIMEOUT) => connection.as_mut().graceful_shutdown(),
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            return connection.await;
        }
    }
    // A client that takes no answer holds its connection no longer than one that sends no request.
    tokio::time::timeout(HEAD_TIMEOUT, connection).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn spoken(bytes: &'static [u8]) -> (HttpVersion, Vec<u8>) {
        let (version, mut stream) = HttpVersion::spoken(bytes).await.unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        (version, read)
    }

    #[tokio::test]
    async fn the_first_bytes_tell_the_version_and_are_not_lost() {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", b"PUT /", b"P", b""] {
            assert_eq!(spoken(bytes).await, (HttpVersion::One, bytes.to_vec()));
        }
        let bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrest";
        assert_eq!(spoken(bytes).await, (HttpVersion::Two, bytes.to_vec()));
        assert_eq!(HttpVersion::agreed(Some(b"h2")), HttpVersion::Two);
        assert_eq!(HttpVersion::agreed(None), HttpVersion::One);
    }
}
