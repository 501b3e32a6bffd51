//! How a call that takes time tells its end.

use std::sync::Arc;
use std::time::Instant;

use crate::budget::{Budget, Ticket};
use crate::{BusError, Settings};

/// A callback that is called once with the outcome. Any thread of the bus may call it, and the caller's own before the
/// call returns. So it should only hand the outcome over: push it into a queue, wake an event loop.
pub type Done<T> = Box<dyn FnOnce(Result<T, BusError>) + Send>;

/// A callback that is called when there may be something to take. Calls without anything to take happen. The same rules
/// as for [`Done`] hold.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A [`Done`] that is called in any case: dropped without an outcome, it says that the bus has stopped.
pub(crate) struct Completion<T> {
    done: Option<Done<T>>,
    /// Held until the outcome is known.
    ticket: Option<Ticket>,
    deadline: Instant,
}

impl<T> Completion<T> {
    /// Takes room in the budget.
    pub(crate) fn new(
        budget: &Arc<Budget>,
        settings: &Settings,
        bytes: usize,
        done: Done<T>,
    ) -> Result<Self, BusError> {
        let ticket = budget.take(bytes)?;
        Ok(Self { done: Some(done), ticket: Some(ticket), deadline: Instant::now() + settings.max_waiting_time })
    }

    /// When waiting ends with an error.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn finish(mut self, outcome: Result<T, BusError>) {
        self.call(outcome);
    }

    fn call(&mut self, outcome: Result<T, BusError>) {
        // Returned first, so that the waiting caller finds the room.
        self.ticket = None;
        if let Some(done) = self.done.take() {
            done(outcome);
        }
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        self.call(Err(BusError::Stopped));
    }
}
