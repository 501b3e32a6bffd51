//! Signals that stop the broker or have it read its configuration anew.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::service_manager;

/// What asks for a graceful stop.
const STOP: [i32; 2] = [SIGTERM, SIGINT];

/// Exit code after a second signal, which does not wait for the graceful stop.
const IMPATIENT_EXIT_CODE: i32 = 1;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A graceful stop, by the signal of this name.
    Stop(&'static str),
    /// To read the configuration anew (SIGHUP).
    Reload,
}

/// Waits for signals.
pub(crate) struct BrokerSignals {
    signals: Signals,
    stopping: Arc<AtomicBool>,
    /// One that stops, and has not been given out.
    early: Option<i32>,
    /// Whether the configuration was to be read anew when one was given out last.
    reloading: bool,
}

impl BrokerSignals {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn catch() -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in STOP {
            flag::register_conditional_shutdown(signal, IMPATIENT_EXIT_CODE, Arc::clone(&stopping))?;
        }
        Ok(Self { signals: Signals::new([SIGTERM, SIGINT, SIGHUP])?, stopping, early: None, reloading: false })
    }

    /// Whether one has come that stops the broker. [`Self::wait`] gives it out all the same; one that asks to read the
    /// configuration anew is forgotten, since that is about to be used.
    pub(crate) fn stop_is_asked(&mut self) -> bool {
        self.early = self.early.or_else(|| self.signals.pending().find(|signal| *signal != SIGHUP));
        self.early.is_some()
    }

    /// Sleeps until one comes, and says what it asks for. After one that stops another one ends the process at once.
    /// Whoever waits has done what the last one asked for, and the service manager hears so.
    pub(crate) fn wait(&mut self) -> Asked {
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
                self.stopping.store(true, Ordering::SeqCst);
                service_manager::tell_stopping();
                Asked::Stop(if signal == Some(SIGINT) { "SIGINT" } else { "SIGTERM" })
            }
        }
    }
}
