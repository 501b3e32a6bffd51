//! The memory for answers that wait for their clients to read them. HTTP/2 lets a client leave many unread.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::{Answer, Body, length, wrong};
use crate::body_room::{BodyPermit, BodyRoom};

/// Longest answer that counts as a whole, bytes: a history, or a retained message.
pub(crate) const LONGEST: usize = 8 << 20;
/// Answers up to this length count for nothing, bytes.
const SMALL: u64 = 4 << 10;
/// Longer answers that wait for the client of a connection.
const MAX_UNREAD: usize = 4;
/// How long a request waits for room.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The room of a connection for its answers.
pub(crate) struct AnswerRoom {
    of_connection: Arc<Semaphore>,
    of_listener: Arc<BodyRoom>,
}

/// The places of an answer at its connection and at its listener.
struct Place {
    length: u64,
    _of_connection: OwnedSemaphorePermit,
    _of_listener: BodyPermit,
}

/// Bytes of an answer, which keep its places until they are written.
struct Kept {
    bytes: Bytes,
    _place: Place,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer on its way to a place. Without room the answer is dropped, and made again when there is some: so requests
/// that wait for room hold no memory.
pub(crate) struct Placing<'a> {
    room: &'a AnswerRoom,
    place: Option<Place>,
}

impl AnswerRoom {
    /// The room of a new connection of a listener.
    pub(crate) fn new(of_listener: Arc<BodyRoom>) -> Self {
        Self { of_connection: Arc::new(Semaphore::new(MAX_UNREAD)), of_listener }
    }

    /// Begins with an answer.
    pub(crate) fn begin(&self) -> Placing<'_> {
        Placing { room: self, place: None }
    }

    fn try_take(&self, length: u64) -> Option<Place> {
        let of_connection = Arc::clone(&self.of_connection).try_acquire_owned().ok()?;
        let of_listener = self.of_listener.try_take_answer(length)?;
        Some(Place { length, _of_connection: of_connection, _of_listener: of_listener })
    }

    async fn take(&self, length: u64) -> Option<Place> {
        // The semaphores are never closed.
        let of_connection = Arc::clone(&self.of_connection).acquire_owned().await.ok()?;
        let of_listener = self.of_listener.take_answer(length).await?;
        Some(Place { length, _of_connection: of_connection, _of_listener: of_listener })
    }
}

impl Placing<'_> {
    /// The answer in its place; `None` when it has to be made again, for which there is room now.
    ///
    /// # Errors
    /// When other answers are not read in time.
    pub(crate) async fn put(&mut self, mut answer: Answer) -> Result<Option<Answer>, Box<Answer>> {
        let needed = length(&answer);
        if needed <= SMALL {
            return Ok(Some(answer));
        }
        let place = self.place.take().filter(|place| place.length >= needed);
        if let Some(place) = place.or_else(|| self.room.try_take(needed)) {
            if let Body::Whole(Some(bytes)) = answer.body_mut() {
                *bytes = Bytes::from_owner(Kept { bytes: std::mem::take(bytes), _place: place });
            }
            return Ok(Some(answer));
        }
        drop(answer);
        match tokio::time::timeout(TIMEOUT, self.room.take(needed)).await {
            Ok(Some(place)) => self.place = Some(place),
            _ => return Err(Box::new(wrong(StatusCode::SERVICE_UNAVAILABLE, "too many answers wait to be read"))),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use hyper::Response;

    use super::*;

    fn answer(length: usize) -> Answer {
        Response::new(Body::Whole(Some(vec![b'x'; length].into())))
    }

    async fn placed(room: &AnswerRoom, length: usize) -> Answer {
        room.begin().put(answer(length)).await.ok().flatten().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answers_of_a_listener_are_bounded() {
        let listener = Arc::new(BodyRoom::new(1 << 20, 1 << 20));
        let rooms = [AnswerRoom::new(Arc::clone(&listener)), AnswerRoom::new(listener)];
        let unread = placed(&rooms[0], 1 << 19).await;
        let other = placed(&rooms[1], 1 << 19).await;
        // A small one has room in any case.
        let small = placed(&rooms[0], SMALL as usize).await;
        let mut late = rooms[1].begin();
        {
            let mut put = pin!(late.put(answer(1 << 18)));
            assert!(put.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
            drop(unread);
            assert!(put.await.is_ok_and(|answer| answer.is_none()), "it is made again");
        }
        let again = late.put(answer(1 << 18)).await.ok().flatten().unwrap();
        assert!(late.put(answer(1 << 19)).await.is_err(), "in vain");
        drop((again, other, small));
        assert_eq!(length(&placed(&rooms[0], 1 << 20).await), 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_leaves_room_for_others() {
        let listener = Arc::new(BodyRoom::new(1 << 20, 1 << 20));
        let (hostile, other) = (AnswerRoom::new(Arc::clone(&listener)), AnswerRoom::new(listener));
        let mut unread = Vec::new();
        for _ in 0..MAX_UNREAD {
            unread.push(placed(&hostile, 1 << 17).await);
        }
        let refused = hostile.begin().put(answer(1 << 17)).await.err().unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        placed(&other, 1 << 17).await;
        unread.pop();
        placed(&hostile, 1 << 17).await;
    }
}
