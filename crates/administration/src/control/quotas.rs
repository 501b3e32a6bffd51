//! Quotas of tenants over the nodes of a cluster: the nodes announce the use of tenants to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Weak};
use std::thread::{self, Builder, Thread};
use std::time::{Duration, Instant};

use tidegate_node::{NodeHandle, NodeName, PeerAnswer, PeerEvent, QUOTAS_ANNOUNCEMENT, TenantCounts};

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
    let (mut next_whole, mut receivers) = (Instant::now(), Receivers::default());
    while let Some(counts) = counts.upgrade().filter(|_| is_kept.load(Ordering::Acquire)) {
        let begun = Instant::now();
        let is_whole = receivers.take_answers() || begun >= next_whole;
        if is_whole {
            next_whole = begun + WHOLE_EVERY;
        }
        if let Some(body) = counts.announce(node.now().monotonic.0, is_whole) {
            receivers.announce(node, &body);
        }
        drop(counts);
        let rest = next_whole.saturating_duration_since(Instant::now());
        thread::park_timeout(if receivers.missing.is_empty() { rest } else { rest.min(PAUSE) });
        // A burst of changes is one announcement.
        while begun.elapsed() < PAUSE {
            thread::park_timeout(PAUSE.saturating_sub(begun.elapsed()));
        }
    }
}

/// The other nodes, as they take announcements.
#[derive(Default)]
struct Receivers {
    /// Nodes that have not taken the last announcement yet.
    unanswered: BTreeMap<NodeName, PeerAnswer>,
    /// Nodes that were not sent a further one meanwhile.
    missing: BTreeSet<NodeName>,
}

impl Receivers {
    /// Returns whether a node is ready that has missed an announcement: it needs a whole one.
    fn take_answers(&mut self) -> bool {
        self.unanswered.retain(|_, answer| matches!(answer.try_recv(), Err(TryRecvError::Empty)));
        self.missing.iter().any(|name| !self.unanswered.contains_key(name))
    }

    /// Sends an announcement to all nodes that have taken the one before, so that a stalled node does not take the places of
    /// other questions.
    fn announce(&mut self, node: &NodeHandle, body: &[u8]) {
        self.missing.clear();
        for peer in node.cluster().peers {
            if self.unanswered.contains_key(&peer.name) {
                self.missing.insert(peer.name);
                continue;
            }
            match node.ask_node(&peer.name, body.to_vec()) {
                Ok(answer) => drop(self.unanswered.insert(peer.name, answer)),
                Err(error) => tracing::debug!(node = %peer.name, %error, "a node did not get the use of tenants here"),
            }
        }
    }
}

/// Takes the announcement of another node at once. Returns all other events.
pub(super) fn take_announcement(
    counts: Option<&TenantCounts>,
    node: &NodeHandle,
    event: PeerEvent,
) -> Option<PeerEvent> {
    match event {
        PeerEvent::Question(question) if question.body.first() == Some(&QUOTAS_ANNOUNCEMENT) => {
            if let Some(counts) = counts {
                counts.take_announcement(node.now().monotonic.0, question.from.as_str(), &question.body);
            }
            question.answer(vec![QUOTAS_ANNOUNCEMENT]);
            None
        }
        other => Some(other),
    }
}
