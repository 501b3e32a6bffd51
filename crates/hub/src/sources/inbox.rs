//! Items from other threads to the thread of a source.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Wake;

/// Items in order, and a bell. Clones are the same inbox.
pub(crate) struct Inbox<T>(Arc<(Mutex<Contents<T>>, Condvar)>);

struct Contents<T> {
    items: VecDeque<T>,
    rung: bool,
    /// Whether the thread of the source lets items gather.
    is_resting: bool,
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let state = Contents { items: VecDeque::new(), rung: false, is_resting: false };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }
}

impl<T: Send + 'static> Inbox<T> {
    fn contents(&self) -> MutexGuard<'_, Contents<T>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an item over. The sender bounds their number.
    pub(crate) fn push(&self, item: T) {
        let mut contents = self.contents();
        contents.items.push_back(item);
        let is_awaited = !contents.is_resting;
        drop(contents);
        if is_awaited {
            self.0.1.notify_one();
        }
    }

    /// Ends the wait that is under way, or the next one.
    pub(crate) fn ring(&self) {
        self.contents().rung = true;
        self.0.1.notify_one();
    }

    /// The same for others.
    pub(crate) fn wake(&self) -> Wake {
        let inbox = self.clone();
        Arc::new(move || inbox.ring())
    }

    /// The next item, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        self.contents().items.pop_front()
    }

    /// Items that wait.
    pub(crate) fn len(&self) -> usize {
        self.contents().items.len()
    }

    /// Lets items gather until `until`, or until the bell is rung: a wake-up for each item costs more than its work.
    pub(crate) fn rest(&self, until: Instant) {
        let mut state = self.contents();
        state.is_resting = true;
        while !state.rung {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.0.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // The bell also ends the next wait, so that the outcome behind it is seen.
        state.is_resting = false;
    }

    /// Waits for an item or the bell, until `deadline` at most.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let mut state = self.contents();
        while state.items.is_empty() && !state.rung {
            state = match deadline {
                None => self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    self.0.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.rung = false;
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn items_gather_in_a_rest_until_the_bell_is_rung() {
        let inbox = Inbox::default();
        let other = inbox.clone();
        let far = Instant::now() + Duration::from_secs(600);
        let sender = thread::spawn(move || {
            (0..3).for_each(|number| other.push(number));
            other.ring();
        });
        inbox.rest(far);
        assert_eq!(std::iter::from_fn(|| inbox.take()).collect::<Vec<_>>(), [0, 1, 2]);
        sender.join().unwrap();
        inbox.wait(Some(far));
        assert_eq!(inbox.len(), 0, "the bell of the rest has ended the wait");
    }
}
