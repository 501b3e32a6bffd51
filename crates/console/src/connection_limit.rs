//! The limit of connections: when it is reached, the connection that keeps the console waiting for longest is closed. So
//! no client that opens connections and says nothing, or reads nothing, keeps health and metrics from being answered.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

/// All connections of the console.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    most: usize,
    /// In the order in which they were opened.
    open: VecDeque<Open>,
    tasks: JoinSet<()>,
    /// Told when a request has been answered.
    answered: Arc<Notify>,
}

#[derive(Debug)]
struct Open {
    /// Whether a request of it is being answered.
    busy: Arc<AtomicBool>,
    task: AbortHandle,
}

/// The right of a connection to be open.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermit {
    busy: Arc<AtomicBool>,
    answered: Arc<Notify>,
}

/// A request is being answered until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy(ConnectionPermit);

impl ConnectionPermit {
    /// A request has come.
    pub(crate) fn busy(&self) -> Busy {
        self.busy.store(true, Ordering::Relaxed);
        Busy(self.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
        self.0.answered.notify_one();
    }
}

impl ConnectionLimit {
    /// A limit of connections, at least one.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), open: VecDeque::new(), tasks: JoinSet::new(), answered: Arc::default() }
    }

    /// Makes room for a connection: closes the oldest connection that has no request under way. While all have
    /// one, it waits for the first that is answered.
    pub(crate) async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.open.retain(|open| !open.task.is_finished());
            if self.open.len() < self.most {
                return;
            }
            let waiting = self.open.iter().position(|open| !open.busy.load(Ordering::Relaxed));
            if let Some(open) = waiting.and_then(|oldest| self.open.remove(oldest)) {
                open.task.abort();
                tracing::debug!("a console connection that said nothing made room for another one");
                return;
            }
            tokio::select! {
                _ = self.tasks.join_next() => {}
                () = self.answered.notified() => {}
            }
        }
    }

    /// Serves a connection.
    pub(crate) fn take<F: Future<Output = ()> + Send + 'static>(&mut self, serve: impl FnOnce(ConnectionPermit) -> F) {
        let busy = Arc::new(AtomicBool::new(false));
        let permit = ConnectionPermit { busy: Arc::clone(&busy), answered: Arc::clone(&self.answered) };
        let task = self.tasks.spawn(serve(permit));
        self.open.push_back(Open { busy, task });
    }
}
