//! One request for records, and its answers.
//!
//! The client of NATS has such requests, too. It takes a record whose headers begin with a status (`NATS/1.0 404`), as
//! other programs may store one, for a status of the request: at 100 it waits for its own time-out without being woken,
//! and at others it ends. Only records have a subject for acknowledgements, which distinguishes them.

use std::time::Duration;

use async_nats::client::SubscribeError;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer as Consumer;
use async_nats::jetstream::consumer::pull::{BatchConfig, BatchRequestError};
use async_nats::{StatusCode, Subject, Subscriber};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::server::{Server, told};

/// How long the server holds a request for which there is nothing.
const EXPIRES: Duration = Duration::from_secs(20);
/// How long after that its word of the end may take.
const GRACE: Duration = Duration::from_secs(5);
/// Words of the server that it is still there, in the time after which a request without a word is given up.
const BEATS: u32 = 3;
/// The longest such time: the server refuses beats that are longer than half a request.
pub(super) const LONGEST_SILENCE: Duration = EXPIRES;
/// The subject for acknowledgements of records.
const ACKNOWLEDGEMENTS: &str = "$JS.ACK.";
/// The status that the next record does not fit into the rest of the requested bytes.
const NO_ROOM: &str = "Message Size Exceeds MaxBytes";

/// A request that is under way.
pub(super) struct Pull {
    subscriber: Subscriber,
    /// Records that may still come.
    left: usize,
    /// Whether one has come.
    has_begun: bool,
    /// Whether the server has said anything.
    is_answered: bool,
    ends: Instant,
    /// When the last word came, and after which time without one the consumer is gone with its server.
    heard: Instant,
    patience: Duration,
}

/// An answer of the server about the request itself.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// It is still there.
    GoesOn,
    /// Nothing more comes of it.
    Ends,
    /// It cannot be done.
    Fails(String),
}

/// Why a request for records fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum PullError {
    /// The client cannot wait for answers.
    #[error("{}", told(.0))]
    Subscribe(SubscribeError),
    /// The client cannot send the request.
    #[error("{}", told(.0))]
    Request(BatchRequestError),
    /// The server refuses it.
    #[error("{0}")]
    Refused(String),
    /// Its server is gone, or the way to it.
    #[error("the server of the consumer is silent")]
    Silent,
}

impl Pull {
    /// Requests at most this number of records and bytes. Without a word within `patience`, at most [`LONGEST_SILENCE`],
    /// it has failed.
    pub(super) async fn begin(
        server: &Server,
        consumer: &Consumer,
        records: usize,
        max_bytes: usize,
        patience: Duration,
    ) -> Result<Self, PullError> {
        let inbox = Subject::from(server.client.new_inbox());
        let subscriber = server.client.subscribe(inbox.clone()).await.map_err(PullError::Subscribe)?;
        let (expires, idle_heartbeat) = (Some(EXPIRES), patience.min(LONGEST_SILENCE) / BEATS);
        let config = BatchConfig { batch: records, max_bytes, expires, idle_heartbeat, ..BatchConfig::default() };
        consumer.request_batch(config, inbox).await.map_err(PullError::Request)?;
        let heard = Instant::now();
        Ok(Self {
            subscriber,
            left: records,
            has_begun: false,
            is_answered: false,
            ends: heard + EXPIRES + GRACE,
            heard,
            patience,
        })
    }

    /// Whether the server has said anything.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// The next record; `None` when no more follow. A caller that stops waiting misses nothing.
    ///
    /// # Errors
    /// The server's error.
    pub(super) async fn next(&mut self, server: &Server) -> Option<Result<Message, PullError>> {
        while self.left > 0 {
            let silent = self.heard + self.patience;
            let Ok(message) = timeout_at(self.ends.min(silent), self.subscriber.next()).await else {
                return (silent < self.ends).then_some(Err(PullError::Silent));
            };
            let message = message?;
            (self.heard, self.is_answered) = (Instant::now(), true);
            if message.reply.as_ref().is_some_and(|reply| reply.starts_with(ACKNOWLEDGEMENTS)) {
                self.left -= 1;
                self.has_begun = true;
                return Some(Ok(Message { message, context: server.context.clone() }));
            }
            match word(message.status, message.description.as_deref(), self.has_begun) {
                Word::GoesOn => {}
                Word::Ends => return None,
                Word::Fails(why) => return Some(Err(PullError::Refused(why))),
            }
        }
        None
    }
}

/// `has_begun` is true if records have come: then the next one has room in the next request, and the consumer
/// continues.
fn word(status: Option<StatusCode>, description: Option<&str>, has_begun: bool) -> Word {
    match status {
        Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => Word::Ends,
        Some(_) if has_begun && description.is_some_and(|said| said.starts_with(NO_ROOM)) => Word::Ends,
        Some(StatusCode::IDLE_HEARTBEAT) | None => Word::GoesOn,
        Some(status) => Word::Fails(format!("{status}: {}", description.unwrap_or("no reason given"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_server_end_a_request_or_do_not() {
        let code = |status| StatusCode::from_u16(status).unwrap();
        let said = |status: Option<u16>| word(status.map(code), Some("why"), true);
        assert_eq!((said(None), said(Some(100))), (Word::GoesOn, Word::GoesOn));
        assert_eq!((said(Some(404)), said(Some(408))), (Word::Ends, Word::Ends));
        for status in [409, 503, 400] {
            assert!(matches!(said(Some(status)), Word::Fails(why) if why.ends_with("why")));
        }
        assert_eq!(word(Some(code(409)), Some(NO_ROOM), true), Word::Ends, "the rest comes by the next request");
        assert!(matches!(word(Some(code(409)), Some(NO_ROOM), false), Word::Fails(_)), "it would never have room");
    }
}
