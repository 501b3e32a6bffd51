//! The requests of a connection: how many are under way, and how many its client has given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_connections::ConnectionPermit;
use tokio::sync::{Notify, watch};

/// Requests of an HTTP/2 connection that its client gives up before the answer; beyond it the connection ends.
const MAX_ABANDONED: usize = 100;

/// The requests of a connection.
pub(crate) struct Activity {
    /// Requests and streams of events under way.
    busy: watch::Sender<usize>,
    /// Requests that the client gave up.
    abandoned: AtomicUsize,
    /// Says that the client gave up too many.
    too_many: Notify,
}

impl Default for Activity {
    fn default() -> Self {
        Self { busy: watch::Sender::new(0), abandoned: AtomicUsize::new(0), too_many: Notify::new() }
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

    /// Waits until the client has given up too many requests.
    pub(crate) async fn given_up(&self) {
        self.too_many.notified().await;
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

impl Busy {
    /// The answer is there.
    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.activity.busy.send_modify(|count| *count -= 1);
        if !self.is_answered && self.activity.abandoned.fetch_add(1, Ordering::Relaxed) >= MAX_ABANDONED {
            self.activity.too_many.notify_one();
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
        activity.given_up().await;
        assert_eq!(*activity.busy.borrow(), 0);
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
