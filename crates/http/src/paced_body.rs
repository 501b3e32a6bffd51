//! Reading the body of a request at the pace of its client, which has a least.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use tokio::time::Instant;

/// How long a body may take to come.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a body has before its pace counts.
const START: Duration = Duration::from_secs(10);
/// Bytes that each further second has to bring.
const LEAST_RATE: usize = 1 << 10;

/// Bytes of a refused body that are read and forgotten, at most.
const MAX_DISCARDED: usize = 64 << 20;

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum BodyFailure {
    TooLarge,
    TooSlow,
    Failed(Box<dyn Error + Send + Sync>),
}

/// Reads a body of at most `max` bytes. It holds room that others may wait for, so a client that sends next to nothing
/// has less time.
pub(crate) async fn read<B>(body: B, max: usize) -> Result<Bytes, BodyFailure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let begun = Instant::now();
    let mut body = pin!(Limited::new(body, max));
    let (mut first, mut joined) = (Bytes::new(), BytesMut::new());
    loop {
        let length = first.len() + joined.len();
        let earned = Duration::from_secs((length / LEAST_RATE) as u64);
        let latest = begun + (START + earned).min(BODY_TIMEOUT);
        let frame = match tokio::time::timeout_at(latest, body.frame()).await {
            Ok(None) if joined.is_empty() => return Ok(first),
            Ok(None) => return Ok(joined.freeze()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) if error.is::<LengthLimitError>() => return Err(BodyFailure::TooLarge),
            Ok(Some(Err(error))) => return Err(BodyFailure::Failed(error)),
            Err(_) => return Err(BodyFailure::TooSlow),
        };
        match frame.into_data() {
            Ok(data) if length == 0 => first = data,
            Ok(data) => {
                joined.extend_from_slice(&std::mem::take(&mut first));
                joined.extend_from_slice(&data);
            }
            // Trailers have no meaning here.
            Err(_) => {}
        }
    }
}

/// Reads the rest of a refused body and forgets it, for [`START`] at most. The end of a stream of HTTP/2 whose body still
/// comes is a reset, which clients take for a failure without an answer.
pub(crate) async fn discard<B: Body<Data = Bytes>>(body: B) {
    let mut body = pin!(body);
    let mut length = 0;
    let all = async {
        while length < MAX_DISCARDED
            && let Some(Ok(frame)) = body.frame().await
        {
            length += frame.data_ref().map_or(1, Bytes::len);
        }
    };
    // The answer follows in any case.
    let _ = tokio::time::timeout(START, all).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use hyper::body::Frame;
    use tokio::time::Interval;

    use super::*;

    /// Sends `piece` bytes each second, `count` times.
    struct Dripping {
        pieces: Interval,
        piece: usize,
        count: usize,
    }

    impl Body for Dripping {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.pieces.poll_tick(context));
            let Some(left) = self.count.checked_sub(1) else { return Poll::Ready(None) };
            self.count = left;
            Poll::Ready(Some(Ok(Frame::data(vec![b'x'; self.piece].into()))))
        }
    }

    async fn read_of(piece: usize, count: usize) -> (Result<usize, BodyFailure>, u64) {
        let begun = Instant::now();
        let pieces = tokio::time::interval(Duration::from_secs(1));
        let read = read(Dripping { pieces, piece, count }, 1 << 20).await;
        (read.map(|bytes| bytes.len()), begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_given_up_early() {
        assert!(matches!(read_of(1, 60).await, (Err(BodyFailure::TooSlow), 10)));
        assert!(matches!(read_of(1 << 10, 60).await, (Err(BodyFailure::TooSlow), 30)));
        assert!(matches!(read_of(1, 9).await, (Ok(9), 9)));
        assert!(matches!(read_of(1 << 10, 28).await, (Ok(28_672), 28)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_longest_length() {
        assert!(matches!(read_of(1 << 19, 3).await, (Err(BodyFailure::TooLarge), 2)));
        assert!(matches!(read_of(1 << 20, 1).await, (Ok(1_048_576), 1)));
        assert!(matches!(read_of(0, 3).await, (Ok(0), 3)));
    }
}
