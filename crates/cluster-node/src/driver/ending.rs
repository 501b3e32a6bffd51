//! The end of a process that must not serve any more.

use signal_hook::consts::SIGTERM;

/// Has the process stop as by a signal from outside, so that there is one way to stop.
pub(super) fn end() {
    if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
        tracing::error!(%error, "the node cannot be stopped and must not serve");
    }
}
