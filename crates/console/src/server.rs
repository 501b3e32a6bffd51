//! Serves the routes on its own thread, within limits.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::body::Bytes;
use axum::{Extension, Router};
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tidegate_connections::{Busy, ConnectionLimit, ConnectionPermit};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::api::changes::Operations;
use crate::api::operations::{Offered, Peer};
use crate::api::{Access, Control};
use crate::routes;

/// Longest life of a connection. A client that continues to scrape opens another connection. A client that does
/// not read is disconnected.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(60);

/// Time for the answer under way when a connection's life is over.
const LAST_ANSWER: Duration = Duration::from_secs(5);

/// Threads for requests that wait for shards; further requests wait for one of these. Idle, they end after [`WORKER_REST`].
const WORKERS: usize = 4;
/// See [`WORKERS`].
const WORKER_REST: Duration = Duration::from_secs(5);

/// Pause after the system had no file left for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Bounds of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once, at least 1. A further connection replaces the longest silent one: for
    /// its request, or to read its answer.
    pub max_connections: usize,
    /// Time within which the head of a request must be complete, from the connection or the answer before.
    pub header_timeout: Duration,
    /// Longest head of a request, bytes, at least 8,192; a longer one is answered with 431.
    pub max_header_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_connections: 64, header_timeout: Duration::from_secs(10), max_header_size: 16 * 1024 }
    }
}

/// Why the console does not run.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} for HTTP: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its thread or runtime cannot be made.
    #[error("cannot start the HTTP thread: {0}")]
    Start(#[from] io::Error),
}

/// A console that has its address and does not answer yet.
#[derive(Debug)]
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    operations: Offered,
}

impl Console {
    /// Takes an address; port 0 takes any free one.
    ///
    /// # Errors
    /// When the address is taken or not this machine's.
    pub fn bind(address: SocketAddr) -> Result<Self, ConsoleError> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address, operations: Offered::default() })
        });
        bound.map_err(|source| ConsoleError::Bind { address, source })
    }

    /// The address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Offers operations to this machine.
    #[must_use]
    pub fn with_operations(self, operations: Arc<dyn Operations>) -> Self {
        Self { operations: Offered(Some(operations)), ..self }
    }

    /// Starts the thread that answers.
    ///
    /// # Errors
    /// When the system has no thread or no files left.
    pub fn start<S: Control>(self, limits: Limits, access: &Access, source: Arc<S>) -> Result<Running, ConsoleError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let builder = builder.enable_io().enable_time().max_blocking_threads(WORKERS).thread_keep_alive(WORKER_REST);
        let runtime = builder.build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let router = routes::router(source, access, self.operations);
        let thread = thread::Builder::new().name("console".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, router, limits) => {}
                    _ = stopped => {}
                }
            });
            // A worker that waits for a shard that hangs holds nothing up.
            runtime.shutdown_background();
        })?;
        Ok(Running { stop, thread })
    }
}

/// A console that answers.
#[derive(Debug)]
pub struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Closes all connections and ends the thread.
    pub fn stop(self) {
        // Either end may be gone already; then there is nothing to stop.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

async fn accept(listener: tokio::net::TcpListener, router: Router, limits: Limits) {
    let connections = ConnectionLimit::new(limits.max_connections);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "console cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let permit = connections.admit().await;
        let router = router.clone().layer(Extension(Peer(peer)));
        connections.spawn(permit, |permit| async move {
            if let Err(error) = serve(stream, router, limits, permit).await {
                tracing::debug!(%peer, %error, "console connection ended");
            }
        });
    }
}

/// The body of an answer whose request is under way until its bytes are written.
struct Written {
    body: axum::body::Body,
    busy: Busy,
}

impl Body for Written {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        let kept = |bytes| Bytes::from_owner(self.busy.answer_bytes(bytes));
        next.map(|next| next.map(|frame| frame.map(|frame| frame.map_data(kept))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Answers the requests of one connection, until it ends or has lived long enough.
async fn serve(
    stream: TcpStream,
    router: Router,
    limits: Limits,
    permit: ConnectionPermit,
) -> Result<(), hyper::Error> {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        let busy = permit.busy();
        let answer = router.call(request);
        async move { answer.await.map(|answer: Response<axum::body::Body>| answer.map(|body| Written { body, busy })) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.max_header_size.max(8 * 1024))
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = tokio::time::sleep(CONNECTION_LIFETIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = tokio::time::sleep(LAST_ANSWER) => Ok(()),
    }
}
