//! The inbox of a thread with a poller: messages from other threads, and the wake-up of the thread.

mod gate;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::Waker;

use self::gate::Gate;

/// The sending side of a thread's inbox.
#[derive(Debug)]
pub(crate) struct InboxSender<T> {
    queue: Sender<T>,
    gate: Arc<Gate>,
    waker: Arc<Waker>,
}

impl<T> Clone for InboxSender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), gate: Arc::clone(&self.gate), waker: Arc::clone(&self.waker) }
    }
}

/// The receiving side, owned by the thread.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    queue: Receiver<T>,
    gate: Arc<Gate>,
    /// A message that was taken in part; it comes before all others.
    front: Option<T>,
    /// Whether the last drain was cut off by its bound.
    more: bool,
}

/// An inbox whose owner sleeps in the poll that `waker` belongs to.
pub(crate) fn inbox<T>(waker: Waker) -> (InboxSender<T>, Inbox<T>) {
    let (sender, receiver) = channel();
    let gate = Arc::new(Gate::default());
    let sender = InboxSender { queue: sender, gate: Arc::clone(&gate), waker: Arc::new(waker) };
    (sender, Inbox { queue: receiver, gate, front: None, more: false })
}

impl<T> InboxSender<T> {
    /// Sends a message to the thread and wakes it if it sleeps. A message for a thread that has left its loop is
    /// dropped.
    pub(crate) fn send(&self, message: T) {
        if self.queue.send(message).is_ok() {
            self.wake();
        }
    }

    /// Wakes the thread if it sleeps, for work outside the inbox.
    pub(crate) fn wake(&self) {
        if self.gate.notify()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake a thread");
        }
    }
}

impl<T> Inbox<T> {
    /// Turns wake-ups off, right after a poll: [`Inbox::next`] finds new messages.
    pub(crate) fn awake(&mut self) {
        self.more |= self.gate.wake_up();
    }

    /// The next message; the caller bounds how many it takes per turn.
    pub(crate) fn next(&mut self) -> Option<T> {
        if !self.more {
            return None;
        }
        let message = self.front.take().or_else(|| self.queue.try_recv().ok());
        self.more = message.is_some();
        message
    }

    /// Puts the rest of a message back that [`Inbox::next`] has just given: it is the next one.
    pub(crate) fn put_back(&mut self, rest: T) {
        self.front = Some(rest);
        self.more = true;
    }

    /// Whether messages may wait.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Whether the thread may sleep: no message waits, and the next sender wakes it.
    pub(crate) fn may_sleep(&mut self) -> bool {
        !self.more && self.gate.fall_asleep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_message_comes_before_all_others() {
        let poll = mio::Poll::new().unwrap();
        let (sender, mut inbox) = inbox(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        sender.send("first");
        sender.send("second");
        inbox.awake();
        assert_eq!(inbox.next(), Some("first"));
        inbox.put_back("rest of the first");
        assert!(inbox.has_more() && !inbox.may_sleep());
        assert_eq!(inbox.next(), Some("rest of the first"));
        assert_eq!(inbox.next(), Some("second"));
        assert_eq!(inbox.next(), None);
        // The last message is put back when the channel is empty.
        inbox.put_back("rest");
        assert!(!inbox.may_sleep());
        assert_eq!(inbox.next(), Some("rest"));
        assert_eq!(inbox.next(), None);
        assert!(inbox.may_sleep());
    }
}
