//! Work on the links: by their thread, or by the only shard of a node in its turns.
//!
//! Shards never touch a session's socket. They put batches into its [`Outbox`](super::outbox::Outbox), which the next
//! turn of the links writes at once; a turn of the links decodes the batches that come, and puts them before their
//! shards. Rosters have the same way, so that their place among the batches is right.
//!
//! A shard that works the links wakes no thread for a message to another node, and no thread wakes it for a message
//! that comes. With several shards a thread works the links, so that no shard does the work of the others.
//!
//! Other nodes must not take this node for dead during a long turn of its shard: the thread does the work of a shard
//! whose turn has taken [`LONG_TURN`].

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Registry, Token};
use tidegate_engine::{Millis, Now};

use super::links::Links;
use super::session::after;
use super::to_links::{LinksSender, ToLinks};
use crate::clock::time_until;

/// Readiness events taken from the poller at once.
const EVENTS: usize = 256;

/// A turn of the shard after which the thread does the work on the links. A fraction of the time after which other
/// nodes take this node for dead.
const LONG_TURN: Duration = Duration::from_secs(1);

/// The links, for the thread and the shard that may work them.
pub(crate) struct SharedLinks {
    work: Mutex<Work>,
    /// A shard works them.
    is_attached: AtomicBool,
    /// They end.
    is_ending: AtomicBool,
}

struct Work {
    /// Nothing once they have ended.
    links: Option<Links>,
    events: Events,
    /// The poller may have more events than it has reported.
    more_events: bool,
    /// The beginning of the turn of the shard that works them; nothing while the shard sleeps.
    turn_since: Option<Millis>,
}

impl fmt::Debug for SharedLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLinks").field("is_attached", &self.is_attached).finish_non_exhaustive()
    }
}

impl Work {
    /// Asks the poller for events, and handles them.
    fn turn(&mut self, timeout: Option<Duration>) {
        let Some(links) = &mut self.links else { return };
        let asked = links.clock.now().monotonic;
        self.more_events = false;
        match links.poll.poll(&mut self.events, timeout) {
            Ok(()) if self.events.iter().count() < EVENTS => links.heard = asked,
            Ok(()) => self.more_events = true,
            // A signal, such as one that continues a stopped process, is no event for the links.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.events.clear(),
            Err(error) => tracing::error!(%error, "polling the links failed"),
        }
        links.turn(&self.events);
    }

    #[cfg(test)]
    fn has_links(&self) -> bool {
        self.links.is_some()
    }

    /// When the next turn is due; 0 when it is due at once.
    fn due(&self) -> Millis {
        match &self.links {
            Some(links) if self.more_events || !links.is_idle() => Millis(0),
            Some(links) => links.deadline(),
            None => Millis::NEVER,
        }
    }

    /// Whether nothing is left to do. Then the next sender of a message wakes the poller.
    fn may_sleep(&mut self) -> bool {
        let Some(links) = &mut self.links else { return true };
        !self.more_events && links.may_sleep()
    }
}

impl SharedLinks {
    pub(super) fn new(links: Links) -> Self {
        let work =
            Work { links: Some(links), events: Events::with_capacity(EVENTS), more_events: false, turn_since: None };
        Self { work: Mutex::new(work), is_attached: AtomicBool::new(false), is_ending: AtomicBool::new(false) }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        // A panic ends the shard or the thread, which is reported; the other one ends the sessions in order.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread end the links. It has to be woken afterwards.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    /// The thread: works the links, or watches the shard that does, until they end.
    pub(super) fn run(&self) {
        while !self.is_ending.load(Ordering::Acquire) {
            if self.is_attached.load(Ordering::Acquire) {
                std::thread::park_timeout(LONG_TURN);
                self.help();
            } else {
                let mut work = self.work();
                let now = work.links.as_ref().map(|links| links.now.monotonic).unwrap_or_default();
                let timeout = if work.may_sleep() { time_until(work.due(), now) } else { Some(Duration::ZERO) };
                work.turn(timeout);
            }
        }
        self.work().links = None;
    }

    /// Does the work of a shard whose turn takes long.
    fn help(&self) {
        let mut work = self.work();
        let now = work.links.as_ref().map(|links| links.clock.now().monotonic).unwrap_or_default();
        if work.turn_since.is_some_and(|since| now >= after(since, LONG_TURN)) {
            work.turn(Some(Duration::ZERO));
        }
    }
}

/// The running thread. Dropping it ends all sessions as they are.
#[derive(Debug)]
pub(crate) struct LinksThread {
    sender: LinksSender,
    shared: Arc<SharedLinks>,
    thread: Option<JoinHandle<()>>,
}

impl LinksThread {
    /// Starts the thread. `alarm` is kept by it and dropped when it ends.
    pub(super) fn start<A: Send + 'static>(sender: LinksSender, alarm: A, links: Links) -> io::Result<Self> {
        let shared = Arc::new(SharedLinks::new(links));
        let of_thread = Arc::clone(&shared);
        let body = move || {
            let _alarm = alarm;
            of_thread.run();
        };
        let thread = Builder::new().name("links".into()).spawn(body)?;
        Ok(Self { sender, shared, thread: Some(thread) })
    }

    /// For the shard that is to work the links itself.
    pub(crate) fn shared(&self) -> Arc<SharedLinks> {
        Arc::clone(&self.shared)
    }

    /// Says goodbye to all other nodes, behind all that waits for them, until they have read it; at most so long.
    pub(crate) fn say_goodbye(&self, limit: Duration) {
        let (done, said) = channel();
        self.sender.send(ToLinks::Goodbye(done));
        // A node that does not take it in time is cut off.
        let _ = said.recv_timeout(limit);
    }
}

impl Drop for LinksThread {
    fn drop(&mut self) {
        self.shared.end();
        self.sender.wake();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The links in the turns of a shard. Dropped, it leaves them to the thread.
#[derive(Debug)]
pub(crate) struct AttachedLinks {
    shared: Arc<SharedLinks>,
    /// The poller of the shard has reported an event of the links.
    is_ready: bool,
    /// When the links need a turn without an event.
    due: Millis,
}

impl AttachedLinks {
    /// Takes the links from their thread. Their poller becomes part of the shard's.
    ///
    /// # Errors
    /// When the poller of the shard refuses it; the thread works the links then.
    pub(crate) fn attach(
        shared: Arc<SharedLinks>,
        sender: &LinksSender,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        shared.is_attached.store(true, Ordering::Release);
        sender.wake();
        let attached = Self { shared, is_ready: true, due: Millis(0) };
        if let Some(links) = &attached.shared.work().links {
            registry.register(&mut SourceFd(&links.poll.as_raw_fd()), token, Interest::READABLE)?;
        }
        Ok(attached)
    }

    /// The poller of the shard reports an event.
    pub(crate) fn note_event(&mut self) {
        self.is_ready = true;
    }

    /// The turn of the shard begins: received batches go to its inbox.
    pub(crate) fn begin_turn(&mut self, now: Millis) {
        let mut work = self.shared.work();
        work.turn_since = Some(now);
        let has_mail = work.links.as_mut().is_some_and(Links::has_mail);
        if has_mail || std::mem::take(&mut self.is_ready) || self.due <= now {
            work.turn(Some(Duration::ZERO));
            self.due = work.due();
        }
    }

    /// Writes the frames that the shard has put into outboxes.
    pub(crate) fn write(&self, now: Now) {
        if let Some(links) = &mut self.shared.work().links {
            links.now = now;
            links.write_out();
        }
    }

    /// The shard would sleep: when the links need it, 0 for at once.
    pub(crate) fn rest(&mut self) -> Millis {
        let mut work = self.shared.work();
        self.due = if work.may_sleep() { work.due() } else { Millis(0) };
        work.turn_since = None;
        self.due
    }
}

impl Drop for AttachedLinks {
    fn drop(&mut self) {
        self.shared.work().turn_since = None;
        self.shared.is_attached.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use mio::Poll;

    use super::super::ClusterStatus;
    use super::super::tests::links;
    use super::*;

    /// A shard that works the links, and their thread, which runs only where a test calls it.
    struct Turns {
        poll: Poll,
        attached: AttachedLinks,
        sender: LinksSender,
    }

    impl Turns {
        fn new() -> Self {
            let (poll, (links, sender)) = (Poll::new().unwrap(), links());
            let shared = Arc::new(SharedLinks::new(links));
            let attached = AttachedLinks::attach(shared, &sender, poll.registry(), Token(7)).unwrap();
            let mut turns = Self { poll, attached, sender };
            // Work that the attachment itself has caused.
            turns.turn(Millis::NEVER);
            turns
        }

        /// A turn of the shard that begins at this time; returns when the links need the next one.
        fn turn(&mut self, now: Millis) -> Millis {
            let mut events = Events::with_capacity(8);
            self.poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            if !events.is_empty() {
                self.attached.note_event();
            }
            self.attached.begin_turn(now);
            self.attached.rest()
        }

        fn ask(&self) -> Receiver<ClusterStatus> {
            let (answer, answers) = channel();
            self.sender.send(ToLinks::Status(answer));
            answers
        }
    }

    #[test]
    fn a_message_for_the_links_wakes_a_sleeping_shard() {
        let mut turns = Turns::new();
        assert_eq!(turns.turn(Millis(1_000)), Millis::NEVER, "nothing is left to do");
        let answers = turns.ask();
        assert!(answers.try_recv().is_err(), "the shard sleeps");
        turns.turn(Millis(1_000));
        assert!(answers.try_recv().is_ok());
    }

    #[test]
    fn a_message_during_a_turn_is_taken_in_the_next_one() {
        let mut turns = Turns::new();
        turns.attached.begin_turn(Millis(1_000));
        let answers = turns.ask();
        assert_eq!(turns.attached.rest(), Millis(0), "the shard must not sleep");
        turns.attached.begin_turn(Millis(1_000));
        assert!(answers.try_recv().is_ok());
    }

    #[test]
    fn the_thread_helps_a_shard_in_a_long_turn_only() {
        let mut turns = Turns::new();
        let now = turns.attached.shared.work().links.as_ref().unwrap().clock.now().monotonic;
        turns.attached.begin_turn(now.plus(1_000));
        let answers = turns.ask();
        turns.attached.shared.help();
        assert!(answers.try_recv().is_err(), "the turn is short so far");
        turns.attached.begin_turn(Millis(0));
        let answers = turns.ask();
        turns.attached.shared.help();
        assert!(answers.try_recv().is_ok(), "other nodes must not take this one for dead");
        turns.attached.rest();
        let answers = turns.ask();
        turns.attached.shared.help();
        assert!(answers.try_recv().is_err(), "the shard sleeps, and the poller wakes it");
    }

    #[test]
    fn the_thread_works_the_links_when_the_shard_has_ended() {
        let turns = Turns::new();
        let (shared, sender) = (Arc::clone(&turns.attached.shared), turns.sender.clone());
        let answers = turns.ask();
        drop(turns);
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        });
        assert!(answers.recv().is_ok());
        shared.end();
        sender.wake();
        thread.join().unwrap();
        assert!(!shared.work().has_links(), "all sessions end");
    }
}
