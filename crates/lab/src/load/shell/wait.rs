//! Waiting for sockets and for the time, to the microsecond.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::Clock;
use crate::load::error::LoadError;

/// The longest wait, in nanoseconds: other processes are listened to in between.
const LONGEST_NS: u64 = 20_000_000;

/// A poll whose waits end on time: the poll's own time is in milliseconds, so a timer is among its sources.
pub(crate) struct Waiter {
    poll: Poll,
    timer: OwnedFd,
    set_ns: u64,
}

fn system(part: &'static str) -> impl FnOnce(io::Error) -> LoadError {
    move |error| LoadError::System { part, error }
}

impl Waiter {
    /// The token of the timer. Its events need no answer.
    pub(crate) const TIMER: Token = Token(usize::MAX);

    /// A poll with only its timer.
    ///
    /// # Errors
    /// When the system has none.
    pub(crate) fn new() -> Result<Self, LoadError> {
        let poll = Poll::new().map_err(system("a poll"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, flags).map_err(|error| system("a timer")(error.into()))?;
        poll.registry()
            .register(&mut SourceFd(&timer.as_raw_fd()), Self::TIMER, Interest::READABLE)
            .map_err(system("a timer in the poll"))?;
        Ok(Self { poll, timer, set_ns: 0 })
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Waits for something to happen, until a time at most.
    ///
    /// # Errors
    /// If the poll of the system fails.
    pub(crate) fn wait(&mut self, events: &mut Events, clock: Clock, until_ns: u64) -> Result<(), LoadError> {
        let now_ns = clock.now_ns();
        let timeout_ns = if until_ns <= now_ns { 0 } else { LONGEST_NS };
        if until_ns > now_ns && until_ns - now_ns < LONGEST_NS && until_ns != self.set_ns {
            self.set_ns = until_ns;
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let at = Itimerspec { it_interval: zero, it_value: clock.absolute(until_ns) };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at)
                .map_err(|error| system("a timer")(error.into()))?;
        }
        match self.poll.poll(events, Some(Duration::from_nanos(timeout_ns))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            result => result.map_err(system("readiness")),
        }
    }
}
