//! Signals that stop the broker or make it read its configuration again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::service_manager;

/// Signals that ask for a graceful stop.
const STOP: [i32; 2] = [SIGTERM, SIGINT];

/// Exit code after a second signal, which does not wait for the graceful stop.
const IMPATIENT_EXIT_CODE: i32 = 1;

/// A further signal this soon after the first asks for nothing more: `timeout` and terminals send two at once.
const ONE_REQUEST: Duration = Duration::from_secs(1);

/// From now on a write beyond the limit of a file's size (`ulimit -f`) fails with [`io::ErrorKind::FileTooLarge`], and the
/// process can report the reason. Without this the signal of such a write ends the process.
///
/// # Errors
/// When the system refuses.
pub fn survive_file_size_limit() -> io::Result<()> {
    // The write itself returns the error. In programs that this process starts, the signal is as before.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// When a process that is asked to stop was asked first.
#[derive(Debug, Default)]
pub struct Insistence {
    first: Option<Instant>,
}

/// The meaning of one more signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insisted {
    /// The first: stop in good order.
    Stop,
    /// It belongs to the first.
    Same,
    /// A second request: end at once.
    AtOnce,
}

impl Insistence {
    /// Takes note of a signal.
    pub fn note(&mut self, now: Instant) -> Insisted {
        match self.first {
            None => {
                self.first = Some(now);
                Insisted::Stop
            }
            Some(first) if now.saturating_duration_since(first) < ONE_REQUEST => Insisted::Same,
            Some(_) => Insisted::AtOnce,
        }
    }
}

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A graceful stop, by the signal of this name.
    Stop(&'static str),
    /// To read the configuration again (SIGHUP).
    Reload,
}

/// Waits for signals.
pub struct BrokerSignals {
    signals: Signals,
    /// Signals that come while the process stops.
    further: Option<Signals>,
    /// One that stops, and has not been given out.
    early: Option<i32>,
    /// True if the last signal given out was a request to read the configuration again.
    reloading: bool,
}

impl BrokerSignals {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch() -> io::Result<Self> {
        let (signals, further) = (Signals::new([SIGTERM, SIGINT, SIGHUP])?, Some(Signals::new(STOP)?));
        Ok(Self { signals, further, early: None, reloading: false })
    }

    /// True if a signal has come that stops the broker. [`Self::wait`] still gives it out. A request to read the
    /// configuration again is forgotten, since the configuration is about to be read.
    pub fn stop_is_asked(&mut self) -> bool {
        self.early = self.early.or_else(|| self.signals.pending().find(|signal| *signal != SIGHUP));
        self.early.is_some()
    }

    /// Sleeps until a signal comes, and returns its request. After one that stops, another one that comes a second
    /// later or more ends the process at once. A further call means that the last request is done, and the service
    /// manager is notified.
    pub fn wait(&mut self) -> Asked {
        if std::mem::take(&mut self.reloading) {
            service_manager::tell_reloaded();
        }
        match self.early.take().or_else(|| self.signals.forever().next()) {
            Some(SIGHUP) => {
                self.reloading = true;
                service_manager::tell_reloading();
                Asked::Reload
            }
            signal => {
                self.hear_further();
                service_manager::tell_stopping();
                Asked::Stop(if signal == Some(SIGINT) { "SIGINT" } else { "SIGTERM" })
            }
        }
    }

    /// From now on a signal may end the process at once.
    fn hear_further(&mut self) {
        let Some(mut further) = self.further.take() else { return };
        let mut insistence = Insistence::default();
        insistence.note(Instant::now());
        let heard = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in further.forever() {
                if insistence.note(Instant::now()) == Insisted::AtOnce {
                    low_level::exit(IMPATIENT_EXIT_CODE);
                }
            }
        });
        if let Err(error) = heard {
            tracing::warn!(%error, "no thread receives further signals; only SIGKILL ends this process before its stop completes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one_request() {
        let (begun, mut insistence) = (Instant::now(), Insistence::default());
        let at = |ms| begun + Duration::from_millis(ms);
        assert_eq!(insistence.note(at(0)), Insisted::Stop);
        assert_eq!(insistence.note(at(0)), Insisted::Same);
        assert_eq!(insistence.note(at(999)), Insisted::Same);
        assert_eq!(insistence.note(at(1000)), Insisted::AtOnce);
    }
}
