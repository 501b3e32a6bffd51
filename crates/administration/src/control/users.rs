//! Limits of user names over the nodes of a cluster: the nodes announce the connections of user names to each other.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::thread::{self, Builder, Thread};
use std::time::{Duration, Instant};

use tidegate_node::{AskError, NodeHandle, NodeName, PeerAnswer, PeerEvent, USERS_ANNOUNCEMENT, UserExchange};

use super::quotas::members;

/// Time between two looks at the members of the cluster, and before a busy node is asked again.
const MEMBERS_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two announcements: a burst of changes is one.
const PAUSE: Duration = Duration::from_millis(5);

/// The thread that announces. It ends when this is dropped.
pub(super) struct UserAnnouncer {
    is_kept: Arc<AtomicBool>,
    thread: Thread,
}

impl UserAnnouncer {
    /// Begins to announce.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(node: &NodeHandle) -> io::Result<Self> {
        let is_kept = Arc::new(AtomicBool::new(true));
        let keeps_on = Arc::clone(&is_kept);
        let announced = node.clone();
        let begun = Builder::new().name("users".to_owned()).spawn(move || run(&announced, &keeps_on))?;
        let thread = begun.thread().clone();
        let wakes = thread.clone();
        node.admission().share_users(Box::new(move || wakes.unpark()));
        Ok(Self { is_kept, thread })
    }
}

impl Drop for UserAnnouncer {
    fn drop(&mut self) {
        self.is_kept.store(false, Ordering::Release);
        self.thread.unpark();
    }
}

fn run(node: &NodeHandle, is_kept: &AtomicBool) {
    let mut telling = Telling::default();
    while is_kept.load(Ordering::Acquire) {
        let begun = Instant::now();
        let admission = node.admission();
        if admission.limits_users() || admission.hears_users() {
            // While the links do not say who is a member, no node is forgotten.
            let has_more = members(node).is_some_and(|names| telling.tell(node, &names, begun));
            thread::park_timeout(if has_more { PAUSE } else { MEMBERS_EVERY });
        } else {
            telling = Telling::default();
            telling.exchange.begin(admission, std::iter::empty());
            // Other settings wake it.
            thread::park();
        }
        while begun.elapsed() < PAUSE {
            thread::park_timeout(PAUSE.saturating_sub(begun.elapsed()));
        }
    }
}

/// The other nodes, as they take announcements.
#[derive(Default)]
struct Telling {
    exchange: UserExchange,
    /// Nodes that have not answered the last announcement yet.
    unanswered: BTreeMap<NodeName, PeerAnswer>,
    /// Nodes that did not take one, and when they get the next.
    later: BTreeMap<NodeName, Instant>,
}

impl Telling {
    /// Sends each node the names that it lacks, once it has answered the announcement before. Returns whether a node gets
    /// more soon.
    fn tell(&mut self, node: &NodeHandle, names: &[NodeName], now: Instant) -> bool {
        self.take_answers(now);
        self.later.retain(|name, until| *until > now && names.contains(name));
        let admission = node.admission();
        self.exchange.begin(admission, names.iter().map(NodeName::as_str));
        if !admission.limits_users() {
            return false;
        }
        for name in names {
            if self.unanswered.contains_key(name) || self.later.contains_key(name) {
                continue;
            }
            let Some(body) = self.exchange.next(admission, name.as_str()) else { continue };
            match node.ask_node(name, body) {
                Ok(answer) => drop(self.unanswered.insert(name.clone(), answer)),
                Err(error) => self.fail(name, error, now),
            }
        }
        names.iter().any(|name| !self.later.contains_key(name) && self.exchange.has_next(name.as_str()))
    }

    fn take_answers(&mut self, now: Instant) {
        for (name, answer) in std::mem::take(&mut self.unanswered) {
            match answer.try_recv() {
                Ok(Ok(answer)) => self.exchange.note_answer(name.as_str(), Some(&answer)),
                Ok(Err(error)) => self.fail(&name, error, now),
                Err(TryRecvError::Disconnected) => self.fail(&name, AskError::Lost, now),
                Err(TryRecvError::Empty) => drop(self.unanswered.insert(name, answer)),
            }
        }
    }

    fn fail(&mut self, name: &NodeName, error: AskError, now: Instant) {
        tracing::debug!(node = %name, %error, "a node did not get the connections of user names here");
        self.exchange.note_answer(name.as_str(), None);
        self.later.insert(name.clone(), now + MEMBERS_EVERY);
    }
}

/// Takes the announcement of another node at once, and notes a new link. Returns all other events.
pub(super) fn take_announcement(node: &NodeHandle, event: PeerEvent) -> Option<PeerEvent> {
    if let PeerEvent::Linked(name) = &event {
        node.admission().note_linked(name.as_str());
    }
    match event {
        PeerEvent::Question(question) if question.body.first() == Some(&USERS_ANNOUNCEMENT) => {
            let answer = node.admission().take_users(question.from.as_str(), &question.body);
            question.answer(answer.unwrap_or_default());
            None
        }
        other => Some(other),
    }
}
