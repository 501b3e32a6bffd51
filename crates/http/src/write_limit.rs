//! A limit for the time that a client does not read: hyper has none for writes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a client may read nothing while an answer waits; then its connection is closed.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// A stream whose writes fail when the other side has taken no byte for some time.
pub(crate) struct WriteLimit<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> WriteLimit<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, patience: None }
    }

    /// Does a part of a write. Each part that is done restarts the time.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = write(Pin::new(&mut self.stream), context) {
            self.patience = None;
            return Poll::Ready(done);
        }
        let limit = self.limit;
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(patience.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteLimit<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.within(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.within(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A flush has nothing to do for a socket, so its success says nothing of the client.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, S::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// Takes as many writes as it has room for.
    struct Reader(usize);

    impl AsyncWrite for Reader {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Pending };
            self.0 = left;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_write_fails_when_the_client_does_not_read() {
        let mut stream = WriteLimit::new(Reader(1), Duration::ZERO);
        let write = poll_fn(|context| Pin::new(&mut stream).poll_write(context, b"x"));
        assert_eq!(write.await.ok(), Some(1));
        let write = poll_fn(|context| Pin::new(&mut stream).poll_write(context, b"x"));
        assert_eq!(write.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut stream = WriteLimit::new(Reader(0), Duration::ZERO);
        let shutdown = poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context));
        assert_eq!(shutdown.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn each_byte_that_is_read_begins_the_time_again() {
        let mut stream = WriteLimit::new(Reader(0), Duration::from_secs(3_600));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut stream).poll_write(&mut context, b"x").is_pending());
        assert!(Pin::new(&mut stream).poll_flush(&mut context).is_ready());
        assert!(stream.patience.is_some(), "a flush is no progress");
        stream.stream.0 = 1;
        assert!(Pin::new(&mut stream).poll_write(&mut context, b"x").is_ready());
        assert_eq!(stream.patience.map(drop), None, "the byte is progress");
    }
}
