//! Quotas of tenants over the nodes of a cluster: the nodes announce the use of tenants to each other.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Weak};
use std::thread::{self, Builder, Thread};
use std::time::{Duration, Instant};

use tidegate_node::{AskError, NodeHandle, NodeName, PeerAnswer, PeerEvent, QUOTAS_ANNOUNCEMENT, TenantCounts};

/// Time between two whole announcements.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two announcements.
const PAUSE: Duration = Duration::from_millis(5);
/// Time before a node that was too busy for an announcement, or whose link ended, gets the next one.
const BUSY_PAUSE: Duration = Duration::from_millis(250);

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
        let is_whole = receivers.take_answers(begun) || begun >= next_whole;
        if is_whole {
            next_whole = begun + WHOLE_EVERY;
            if let Some(names) = members(node) {
                counts.keep_members(|name| names.iter().any(|member| member.as_str() == name));
            }
        }
        if let Some(body) = counts.announce(node.now().monotonic.0, is_whole) {
            let ask = |name: &NodeName| node.ask_node(name, body.clone());
            receivers.announce(members(node).unwrap_or_default(), is_whole, begun, ask);
        }
        let has_quotas = counts.has_quotas();
        drop(counts);
        if !has_quotas {
            receivers = Receivers::default();
            // The next quotas wake it.
            thread::park();
            continue;
        }
        let rest = next_whole.saturating_duration_since(Instant::now());
        thread::park_timeout(receivers.rest(Instant::now()).map_or(rest, |until| rest.min(until)));
        // A burst of changes is one announcement.
        while begun.elapsed() < PAUSE {
            thread::park_timeout(PAUSE.saturating_sub(begun.elapsed()));
        }
    }
}

/// The other members of the cluster, or `None` while the links do not say.
pub(super) fn members(node: &NodeHandle) -> Option<Vec<NodeName>> {
    let cluster = node.cluster();
    cluster.name.map(|_| cluster.peers.into_iter().map(|peer| peer.name).collect())
}

/// The other nodes, as they take announcements.
#[derive(Default)]
struct Receivers {
    /// Nodes that have not taken the last announcement yet.
    unanswered: BTreeMap<NodeName, PeerAnswer>,
    /// Nodes that have missed an announcement, and until when they get no whole one.
    missing: BTreeMap<NodeName, Instant>,
}

impl Receivers {
    /// Returns whether a node is ready that has missed an announcement: it needs a whole one.
    fn take_answers(&mut self, now: Instant) -> bool {
        let Self { unanswered, missing } = self;
        unanswered.retain(|name, answer| match answer.try_recv() {
            Err(TryRecvError::Empty) => true,
            Ok(Ok(_)) => false,
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => {
                missing.insert(name.clone(), now + BUSY_PAUSE);
                false
            }
        });
        missing.iter().any(|(name, until)| *until <= now && !unanswered.contains_key(name))
    }

    /// Sends an announcement to all nodes that have taken the one before, so that a stalled node does not take the places of
    /// other questions. A node that has missed one gets whole ones only.
    fn announce(
        &mut self,
        names: Vec<NodeName>,
        is_whole: bool,
        now: Instant,
        ask: impl Fn(&NodeName) -> Result<PeerAnswer, AskError>,
    ) {
        let mut missed = std::mem::take(&mut self.missing);
        for name in names {
            let until = missed.remove(&name);
            if self.unanswered.contains_key(&name) {
                self.missing.insert(name, now);
                continue;
            }
            if let Some(until) = until.filter(|until| !is_whole || *until > now) {
                self.missing.insert(name, until);
                continue;
            }
            match ask(&name) {
                Ok(answer) => drop(self.unanswered.insert(name, answer)),
                // It gets a whole one when it is linked, or with all others.
                Err(error) => tracing::debug!(node = %name, %error, "a node did not get the use of tenants here"),
            }
        }
    }

    /// How long to wait before the answers of nodes that have missed an announcement are looked at, if there are any.
    fn rest(&self, now: Instant) -> Option<Duration> {
        self.missing.values().map(|until| until.saturating_duration_since(now).max(PAUSE)).min()
    }
}

/// Takes the announcement of another node at once, and notes a new link. Returns all other events.
pub(super) fn take_announcement(
    counts: Option<&TenantCounts>,
    node: &NodeHandle,
    event: PeerEvent,
) -> Option<PeerEvent> {
    if let (Some(counts), PeerEvent::Linked(_)) = (counts, &event) {
        counts.note_linked();
    }
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    type Answerer = Sender<Result<Vec<u8>, AskError>>;

    /// Nodes that answer later.
    #[derive(Default)]
    struct Nodes(RefCell<BTreeMap<NodeName, Answerer>>);

    impl Nodes {
        /// Announces to both nodes. Returns which of them were asked.
        fn announce(&self, receivers: &mut Receivers, is_whole: bool, now: Instant) -> Vec<String> {
            let asked = RefCell::new(Vec::new());
            let ask = |name: &NodeName| {
                let (answer, answers) = channel();
                self.0.borrow_mut().insert(name.clone(), answer);
                asked.borrow_mut().push(name.to_string());
                Ok(answers)
            };
            receivers.announce(vec![name("a"), name("b")], is_whole, now, ask);
            asked.into_inner()
        }

        fn answer(&self, node: &str, answer: Result<Vec<u8>, AskError>) {
            let _ = self.0.borrow()[&name(node)].send(answer);
        }
    }

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn a_busy_node_gets_a_whole_announcement_after_a_pause() {
        let (nodes, mut receivers, now) = (Nodes::default(), Receivers::default(), Instant::now());
        assert_eq!(nodes.announce(&mut receivers, true, now), ["a", "b"]);
        nodes.answer("a", Ok(Vec::new()));
        nodes.answer("b", Err(AskError::Busy));
        assert!(!receivers.take_answers(now), "it gets none at once");
        assert_eq!(receivers.rest(now), Some(BUSY_PAUSE));
        assert_eq!(nodes.announce(&mut receivers, false, now), ["a"]);
        nodes.answer("a", Ok(Vec::new()));
        let later = now + BUSY_PAUSE;
        assert!(receivers.take_answers(later));
        assert_eq!(nodes.announce(&mut receivers, true, later), ["a", "b"]);
        assert_eq!(receivers.rest(later), None);
    }

    #[test]
    fn a_stalled_node_gets_a_whole_announcement_when_it_answers() {
        let (nodes, mut receivers, now) = (Nodes::default(), Receivers::default(), Instant::now());
        nodes.announce(&mut receivers, true, now);
        nodes.answer("a", Ok(Vec::new()));
        assert!(!receivers.take_answers(now));
        assert_eq!(nodes.announce(&mut receivers, false, now), ["a"]);
        assert!(!receivers.take_answers(now));
        nodes.answer("b", Ok(Vec::new()));
        assert!(receivers.take_answers(now));
        nodes.answer("a", Ok(Vec::new()));
        assert!(receivers.take_answers(now));
        assert_eq!(nodes.announce(&mut receivers, true, now), ["a", "b"]);
    }
}
