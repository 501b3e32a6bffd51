//! Signals that stop the broker.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// What asks for a graceful stop. SIGHUP is left as it is, so that `nohup` keeps its meaning.
const STOP: [i32; 2] = [SIGTERM, SIGINT];

/// Exit code after a second signal, which does not wait for the graceful stop.
const IMPATIENT_EXIT_CODE: i32 = 1;

/// Waits for a signal that stops the broker.
pub(crate) struct StopSignals {
    signals: Signals,
    stopping: Arc<AtomicBool>,
}

impl StopSignals {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn catch() -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in STOP {
            flag::register_conditional_shutdown(signal, IMPATIENT_EXIT_CODE, Arc::clone(&stopping))?;
        }
        Ok(Self { signals: Signals::new(STOP)?, stopping })
    }

    /// Sleeps until one comes, and names it. From then on another one ends the process at once.
    pub(crate) fn wait(&mut self) -> &'static str {
        let signal = self.signals.forever().next();
        self.stopping.store(true, Ordering::SeqCst);
        match signal {
            Some(SIGINT) => "SIGINT",
            _ => "SIGTERM",
        }
    }
}
