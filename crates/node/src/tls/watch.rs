//! Looks at the files of TLS listeners from time to time, and reads them again when one has changed.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::listener::TlsListeners;

/// A thread that looks at files; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FileWatch {
    /// No message is ever sent: dropping it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FileWatch {
    /// Looks every `interval`.
    pub(crate) fn start(listeners: Arc<TlsListeners>, interval: Duration) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = Builder::new().name("tls-files".into()).spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                look(&listeners);
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

/// Reads the files again if one has changed. A failure is logged once per change.
fn look(listeners: &TlsListeners) {
    if !listeners.have_changed() {
        listeners.tell_of_outdated_lists();
        return;
    }
    match listeners.reload() {
        Ok(count) => tracing::info!(listeners = count, "certificates changed; new connections use them"),
        Err(error) => tracing::error!(%error, "certificates changed and cannot be used; the old ones stay in use"),
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread returns no value; a panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}
