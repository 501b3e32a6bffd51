//! Quotas of tenants over the nodes of a cluster: the nodes announce the use of tenants to each other.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, Builder, Thread};
use std::time::{Duration, Instant};

use tidegate_node::{NodeHandle, TenantCounts};

/// Time between two whole announcements.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two announcements.
const PAUSE: Duration = Duration::from_millis(5);

/// The thread that announces. It ends when this is dropped.
pub(super) struct Announcer {
    is_kept: Arc<AtomicBool>,
    thread: Thread,
}

impl Announcer {
    /// Begins to announce.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(counts: &Arc<TenantCounts>, node: NodeHandle) -> io::Result<Self> {
        let is_kept = Arc::new(AtomicBool::new(true));
        let (keeps_on, of) = (Arc::clone(&is_kept), Arc::downgrade(counts));
        let begun = Builder::new().name("quotas".to_owned()).spawn(move || run(&of, &node, &keeps_on))?;
        let thread = begun.thread().clone();
        let wakes = thread.clone();
        counts.share(Box::new(move || wakes.unpark()));
        Ok(Self { is_kept, thread })
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.is_kept.store(false, Ordering::Release);
        self.thread.unpark();
    }
}

fn run(counts: &Weak<TenantCounts>, node: &NodeHandle, is_kept: &AtomicBool) {
    let mut next_whole = Instant::now();
    while let Some(counts) = counts.upgrade().filter(|_| is_kept.load(Ordering::Acquire)) {
        let begun = Instant::now();
        let is_whole = begun >= next_whole;
        if is_whole {
            next_whole = begun + WHOLE_EVERY;
        }
        if let Some(body) = counts.announce(node.now().monotonic.0, is_whole) {
            announce(node, &body);
        }
        drop(counts);
        let until_whole = next_whole.saturating_duration_since(Instant::now());
        thread::park_timeout(until_whole);
        // A burst of changes is one announcement.
        while begun.elapsed() < PAUSE {
            thread::park_timeout(PAUSE.saturating_sub(begun.elapsed()));
        }
    }
}

/// Sends an announcement to all other nodes. One that does not arrive is followed by the next.
fn announce(node: &NodeHandle, body: &[u8]) {
    for peer in node.cluster().peers {
        if let Err(error) = node.ask_node(&peer.name, body.to_vec()) {
            tracing::debug!(node = %peer.name, %error, "a node did not get the use of tenants here");
        }
    }
}
