//! The limit of connections of a listener whose connections are tasks. At the limit a connection without a request under
//! way makes room for a new one: the longest silent one, clients without a login first. So clients that open connections
//! and send no request do not shut others out. The admin listener, HTTP listeners and web hooks use it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// The limit of connections of a listener.
#[derive(Debug)]
pub struct ConnectionLimit {
    most: usize,
    free: Arc<Semaphore>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The tasks of open connections, by the number of their permit.
    tasks: Mutex<BTreeMap<u64, Task>>,
    /// The next number of a permit, and of a time without a request.
    next: AtomicU64,
    /// Notified when a connection has no request under way any more.
    rests: Notify,
}

#[derive(Debug)]
struct Task {
    standing: Arc<Standing>,
    /// `None` until its task has been started.
    handle: Option<JoinHandle<()>>,
}

/// The parts of a connection that decide whether it makes room.
#[derive(Debug)]
struct Standing {
    /// Requests under way.
    busy: AtomicUsize,
    /// Whether the client has proven who it is.
    is_proven: AtomicBool,
    /// Counts up with each time without a request: the smallest one began first.
    silent_since: AtomicU64,
}

/// The place of a connection, until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct ConnectionPermit(Arc<Held>);

#[derive(Debug)]
struct Held {
    number: u64,
    standing: Arc<Standing>,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

/// A request is under way, until this is dropped. It keeps the place of its connection.
#[derive(Debug)]
pub struct Busy(ConnectionPermit);

/// Bytes of an answer. Their request is under way until they are dropped, so until they are written where the server
/// writes them without a copy.
#[derive(Debug)]
pub struct AnswerBytes<T> {
    bytes: T,
    _busy: Busy,
}

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, BTreeMap<u64, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Removes the connection that makes room for another one, if there is one, and returns its task.
    fn take_silent(&self) -> Option<JoinHandle<()>> {
        let mut tasks = self.tasks();
        let runs = |task: &Task| task.handle.as_ref().is_some_and(|handle| !handle.is_finished());
        let silent = |task: &Task| task.standing.busy.load(Ordering::Relaxed) == 0 && runs(task);
        let rank = |task: &Task| {
            (task.standing.is_proven.load(Ordering::Relaxed), task.standing.silent_since.load(Ordering::Relaxed))
        };
        let found = tasks.iter().filter(|(_, task)| silent(task)).min_by_key(|(_, task)| rank(task));
        let number = found.map(|(number, _)| *number)?;
        tasks.remove(&number)?.handle
    }
}

impl ConnectionLimit {
    /// A limit of connections, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { most, free: Arc::new(Semaphore::new(most)), shared: Arc::default() }
    }

    /// A place for a new connection. At the limit, it is that of a connection without a request under way, which is
    /// closed; `None` if all have a request under way.
    pub async fn try_admit(&self) -> Option<ConnectionPermit> {
        loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                return Some(self.hold(permit));
            }
            let silent = self.shared.take_silent()?;
            silent.abort();
            // Its place is free then, unless another connection has got it, or a request has begun on another thread
            // meanwhile and keeps it.
            let _ = silent.await;
        }
    }

    /// A place for a new connection, like [`ConnectionLimit::try_admit`]. While all have a request under way, it waits.
    pub async fn admit(&self) -> ConnectionPermit {
        loop {
            if let Some(permit) = self.try_admit().await {
                return permit;
            }
            tokio::select! {
                // The semaphore is never closed.
                Ok(permit) = Arc::clone(&self.free).acquire_owned() => return self.hold(permit),
                () = self.shared.rests.notified() => {}
            }
        }
    }

    fn hold(&self, permit: OwnedSemaphorePermit) -> ConnectionPermit {
        let number = self.shared.count();
        let standing = Standing {
            busy: AtomicUsize::new(0),
            is_proven: AtomicBool::new(false),
            silent_since: AtomicU64::new(number),
        };
        let (standing, shared) = (Arc::new(standing), Arc::clone(&self.shared));
        ConnectionPermit(Arc::new(Held { number, standing, shared, _permit: permit }))
    }

    /// Serves a connection as a task. All clones of the permit that outlive the task have to be in a [`Busy`].
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn spawn<F>(&self, permit: ConnectionPermit, serve: impl FnOnce(ConnectionPermit) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (number, standing) = (permit.0.number, Arc::clone(&permit.0.standing));
        // Before the task, which removes the entry when it ends, and without the lock around its start: a runtime that is
        // shut down drops it there.
        self.shared.tasks().insert(number, Task { standing, handle: None });
        let handle = tokio::spawn(serve(permit));
        if let Some(task) = self.shared.tasks().get_mut(&number) {
            task.handle = Some(handle);
        }
    }

    /// Waits until no connection is open.
    pub async fn emptied(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.free.acquire_many(all).await;
    }
}

impl ConnectionPermit {
    /// A request begins.
    #[must_use]
    pub fn busy(&self) -> Busy {
        self.0.standing.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// The client has proven who it is: connections of other clients make room before this one.
    pub fn prove(&self) {
        self.0.standing.is_proven.store(true, Ordering::Relaxed);
    }

    /// Whether the client has logged in, see [`ConnectionPermit::prove`].
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.0.standing.is_proven.load(Ordering::Relaxed)
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for AnswerBytes<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Busy {
    /// The client has proven who it is, see [`ConnectionPermit::prove`].
    pub fn prove(&self) {
        self.0.prove();
    }

    /// Bytes of an answer whose request stays under way until they are dropped.
    #[must_use]
    pub fn answer_bytes<T>(&self, bytes: T) -> AnswerBytes<T> {
        AnswerBytes { bytes, _busy: self.0.busy() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.tasks().remove(&self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Held { standing, shared, .. } = &*self.0.0;
        standing.silent_since.store(shared.count(), Ordering::Relaxed);
        if standing.busy.fetch_sub(1, Ordering::Relaxed) == 1 {
            shared.rests.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    /// Reports its name when it is dropped.
    struct Ends(&'static str, mpsc::UnboundedSender<&'static str>);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    struct World {
        limit: ConnectionLimit,
        ended: mpsc::UnboundedReceiver<&'static str>,
        end: mpsc::UnboundedSender<&'static str>,
    }

    impl World {
        fn new(most: usize) -> Self {
            let (end, ended) = mpsc::unbounded_channel();
            Self { limit: ConnectionLimit::new(most), ended, end }
        }

        /// Opens a connection that says nothing; false if it is refused.
        async fn open(&self, name: &'static str, state: impl FnOnce(&ConnectionPermit) -> Option<Busy>) -> bool {
            let Some(permit) = self.limit.try_admit().await else { return false };
            let (ends, busy) = (Ends(name, self.end.clone()), state(&permit));
            self.limit.spawn(permit, |permit| async move {
                let _held = (permit, ends, busy);
                pending::<()>().await;
            });
            true
        }

        fn ended(&mut self) -> Vec<&'static str> {
            std::iter::from_fn(|| self.ended.try_recv().ok()).collect()
        }
    }

    fn proven(permit: &ConnectionPermit) -> Option<Busy> {
        permit.prove();
        None
    }

    #[tokio::test]
    async fn the_longest_silent_connection_makes_room() {
        let mut world = World::new(3);
        for name in ["a", "b", "c", "d", "e"] {
            assert!(world.open(name, |_| None).await);
        }
        assert_eq!(world.ended(), ["a", "b"]);
    }

    #[tokio::test]
    async fn a_proven_client_is_closed_after_the_others() {
        let mut world = World::new(2);
        assert!(world.open("ann", proven).await);
        for name in ["a", "b", "c"] {
            assert!(world.open(name, |_| None).await);
        }
        assert_eq!(world.ended(), ["a", "b"]);
        assert!(world.open("bob", proven).await);
        assert!(world.open("d", |_| None).await);
        assert_eq!(world.ended(), ["c", "ann"], "only proven ones were left");
    }

    #[tokio::test]
    async fn a_request_under_way_keeps_its_connection() {
        let mut world = World::new(1);
        assert!(world.open("a", |permit| Some(permit.busy())).await);
        assert!(!world.open("b", |_| None).await);
        assert_eq!(world.ended(), ["b"; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_waits_for_the_first_answer() {
        let limit = ConnectionLimit::new(1);
        limit.spawn(limit.admit().await, |permit| async move {
            let busy = permit.busy();
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(busy);
            pending::<()>().await;
        });
        // The task has to run before its request is under way.
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        let permit = limit.admit().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
        drop(permit);
        limit.emptied().await;
        assert!(limit.shared.tasks().is_empty());
    }

    #[test]
    fn a_runtime_that_is_shut_down_frees_the_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let limit = ConnectionLimit::new(1);
        let permit = runtime.block_on(limit.try_admit()).unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let _inside = handle.enter();
        limit.spawn(permit, |permit| async move { drop(permit) });
        assert!(limit.shared.tasks().is_empty());
        assert_eq!(limit.free.available_permits(), 1);
    }

    #[tokio::test]
    async fn bytes_of_an_answer_keep_their_connection() {
        let world = World::new(1);
        let permit = world.limit.try_admit().await.unwrap();
        let bytes = permit.busy().answer_bytes(b"answer");
        world.limit.spawn(permit, |permit| async move {
            let _permit = permit;
            pending::<()>().await;
        });
        assert!(!world.open("b", |_| None).await, "the answer is not written");
        assert_eq!(bytes.as_ref(), b"answer");
        drop(bytes);
        assert!(world.open("b", |_| None).await);
    }

    #[tokio::test]
    async fn the_place_of_a_request_outlives_its_task() {
        let world = World::new(1);
        let permit = world.limit.try_admit().await.unwrap();
        let socket = permit.busy();
        world.limit.spawn(permit, |permit| async move { drop(permit) });
        tokio::task::yield_now().await;
        assert!(!world.open("b", |_| None).await, "the WebSocket keeps its place");
        drop(socket);
        assert!(world.open("b", |_| None).await);
    }
}
