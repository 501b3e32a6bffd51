//! The requests of a connection: how many are under way, how many its client has given up, and since when it has not
//! read an answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_connections::ConnectionPermit;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Requests of an HTTP/2 connection that its client gives up before the answer; beyond it the connection ends.
const MAX_ABANDONED: usize = 100;

/// The requests of a connection.
pub(crate) struct Activity {
    /// Requests and streams of events under way.
    busy: watch::Sender<usize>,
    /// Requests that the client gave up.
    abandoned: AtomicUsize,
    /// Says that the connection has to end.
    ends: Notify,
    /// Answers that the client has not read as a whole, by their numbers, with the time of the last progress.
    unread: Mutex<BTreeMap<u64, Instant>>,
    /// Says that an answer is the first unread one.
    has_unread: Notify,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            busy: watch::Sender::new(0),
            abandoned: AtomicUsize::new(0),
            ends: Notify::new(),
            unread: Mutex::default(),
            has_unread: Notify::new(),
        }
    }
}

/// A request under way.
pub(crate) struct Busy {
    activity: Arc<Activity>,
    /// Keeps the connection open when others need a place.
    _connection: tidegate_connections::Busy,
    is_answered: bool,
}

impl Activity {
    /// A request of a connection begins.
    pub(crate) fn begin(self: &Arc<Self>, connection: &ConnectionPermit) -> Busy {
        self.busy.send_modify(|count| *count += 1);
        Busy { activity: Arc::clone(self), _connection: connection.busy(), is_answered: false }
    }

    /// Waits until the connection has to end: its client has given up too many requests, or does not read its events.
    pub(crate) async fn ends(&self) {
        self.ends.notified().await;
    }

    /// Has the connection end.
    pub(crate) fn end(&self) {
        self.ends.notify_one();
    }

    /// An answer is on its way to the client.
    pub(crate) fn begin_answer(self: &Arc<Self>) -> AnswerWatch {
        let mut unread = self.unread();
        let number = unread.last_key_value().map_or(0, |(last, _)| last + 1);
        if unread.insert(number, Instant::now()).is_none() && unread.len() == 1 {
            self.has_unread.notify_one();
        }
        AnswerWatch { activity: Arc::clone(self), number }
    }

    fn unread(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the client has read nothing of an answer for so long. HTTP/2 lets a client hold an answer back while
    /// its socket takes everything, so that the limit of writes does not see it.
    pub(crate) async fn unread_for(&self, length: Duration) {
        loop {
            let oldest = self.unread().values().min().copied();
            match oldest {
                None => self.has_unread.notified().await,
                Some(since) if since.elapsed() >= length => return,
                Some(since) => tokio::time::sleep_until(since + length).await,
            }
        }
    }

    /// Waits until nothing is under way for so long.
    pub(crate) async fn idle(&self, length: Duration) {
        let mut busy = self.busy.subscribe();
        loop {
            // The sender lives as long as this.
            let _ = busy.wait_for(|count| *count == 0).await;
            tokio::select! {
                () = tokio::time::sleep(length) => return,
                _ = busy.changed() => {}
            }
        }
    }
}

/// An answer that the client has not read as a whole.
pub(crate) struct AnswerWatch {
    activity: Arc<Activity>,
    number: u64,
}

impl AnswerWatch {
    /// The client takes more of it.
    pub(crate) fn advance(&self) {
        self.activity.unread().insert(self.number, Instant::now());
    }
}

impl Drop for AnswerWatch {
    fn drop(&mut self) {
        self.activity.unread().remove(&self.number);
    }
}

impl Busy {
    /// The requests of its connection.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// The answer is there.
    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.activity.busy.send_modify(|count| *count -= 1);
        if !self.is_answered && self.activity.abandoned.fetch_add(1, Ordering::Relaxed) >= MAX_ABANDONED {
            self.activity.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use tidegate_connections::ConnectionLimit;

    use super::*;

    #[tokio::test]
    async fn requests_that_clients_give_up_are_counted() {
        let (activity, connection) = (Arc::new(Activity::default()), ConnectionLimit::new(1).admit().await);
        for _ in 0..=MAX_ABANDONED {
            let mut answered = activity.begin(&connection);
            answered.answered();
        }
        assert_eq!(activity.abandoned.load(Ordering::Relaxed), 0);
        for _ in 0..=MAX_ABANDONED {
            drop(activity.begin(&connection));
        }
        activity.ends().await;
        assert_eq!(*activity.busy.borrow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_read_is_noticed() {
        let (activity, limit) = (Arc::new(Activity::default()), Duration::from_secs(60));
        let begun = Instant::now();
        let (slow, stuck) = (activity.begin_answer(), activity.begin_answer());
        let reads = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                slow.advance();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = activity.unread_for(limit) => {}
            () = reads => {}
        }
        assert_eq!(begun.elapsed(), limit, "one of two is not read");
        drop((slow, stuck));
        // Without an answer it waits for the next one.
        let mut unread = pin!(activity.unread_for(limit));
        assert!(tokio::time::timeout(limit * 3, unread.as_mut()).await.is_err());
        let _next = activity.begin_answer();
        assert!(tokio::time::timeout(limit * 3, unread).await.is_ok());
    }

    #[tokio::test]
    async fn a_connection_is_idle_when_nothing_is_under_way() {
        let (activity, connection) = (Arc::new(Activity::default()), ConnectionLimit::new(1).admit().await);
        let busy = activity.begin(&connection);
        let mut idle = pin!(activity.idle(Duration::ZERO));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(idle.as_mut().poll(&mut context).is_pending());
        drop(busy);
        idle.await;
    }
}
