//! Whether other nodes serve their partitions, as they say themselves. A table gives partitions also to a node that stands still
//! or has lost its membership, until the others know it.
//!
//! Only a node that serves no partition itself, or is about to hand over all, asks: its own clients depend on others. It
//! believes no node before that node has answered.

use std::collections::BTreeMap;
use std::sync::mpsc::TryRecvError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_administration::SERVED_QUESTION;
use tidegate_node::{AskError, NodeHandle, NodeName, PeerAnswer};

/// Time from an answer to the next question.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a node may take to answer. One that takes longer does not serve.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// The state of the questions to one node.
#[derive(Debug)]
struct Inquiry {
    incarnation: u64,
    /// When the open question was asked.
    asked: Option<Duration>,
    due: Duration,
    /// Its last word. Before the first answer it counts as one that does not serve.
    serves: bool,
}

/// The answers of nodes. Time is handed in.
#[derive(Debug, Default)]
struct Words(BTreeMap<String, Inquiry>);

impl Words {
    /// The nodes to ask now, of these with their incarnations. They count as asked; the words of others are forgotten.
    fn take_due(&mut self, now: Duration, nodes: &BTreeMap<String, u64>) -> Vec<String> {
        self.0.retain(|name, inquiry| nodes.get(name) == Some(&inquiry.incarnation));
        for (name, incarnation) in nodes {
            let first = || Inquiry { incarnation: *incarnation, asked: None, due: now, serves: false };
            self.0.entry(name.clone()).or_insert_with(first);
        }
        let due = self.0.iter_mut().filter(|(_, inquiry)| inquiry.asked.is_none() && inquiry.due <= now);
        due.map(|(name, inquiry)| {
            inquiry.asked = Some(now);
            name.clone()
        })
        .collect()
    }

    /// A node has answered whether it serves; `None` when it was too busy: its last word counts then.
    fn take(&mut self, now: Duration, name: &str, serves: Option<bool>) {
        if let Some(inquiry) = self.0.get_mut(name) {
            (inquiry.asked, inquiry.due) = (None, now + PAUSE);
            inquiry.serves = serves.unwrap_or(inquiry.serves);
        }
    }

    /// Nodes whose answers are late do not serve, as far as this node knows.
    fn note_late(&mut self, now: Duration) {
        for inquiry in self.0.values_mut() {
            if inquiry.asked.is_some_and(|asked| now.saturating_sub(asked) > ANSWER_LIMIT) {
                inquiry.serves = false;
            }
        }
    }

    /// Whether a node is taken to serve.
    fn believes(&self, name: &str, incarnation: u64) -> bool {
        self.0.get(name).is_some_and(|inquiry| inquiry.serves && inquiry.incarnation == incarnation)
    }
}

/// The answers of nodes, for all threads.
#[derive(Debug, Default)]
pub(super) struct Inquiries(Mutex<Words>);

impl Inquiries {
    fn words(&self) -> MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes of these, with their incarnations, that are taken to serve.
    pub(super) fn believed<'a>(&self, nodes: &'a BTreeMap<String, u64>) -> Vec<&'a str> {
        let words = self.words();
        let serving = nodes.iter().filter(|(name, incarnation)| words.believes(name, **incarnation));
        serving.map(|(name, _)| name.as_str()).collect()
    }
}

/// Asks and takes answers, without a wait.
#[derive(Default)]
pub(super) struct Inquirer(BTreeMap<String, PeerAnswer>);

impl Inquirer {
    /// Takes the received answers, and asks the nodes that are due.
    pub(super) fn look(
        &mut self,
        now: Duration,
        node: &NodeHandle,
        inquiries: &Inquiries,
        nodes: &BTreeMap<String, u64>,
    ) {
        let mut words = inquiries.words();
        self.0.retain(|name, answer| {
            let serves = match answer.try_recv() {
                Err(TryRecvError::Empty) => return nodes.contains_key(name),
                Ok(Ok(bytes)) => Some(says_that_it_serves(&bytes)),
                Ok(Err(AskError::Busy)) => None,
                // Without a link it is not near.
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => Some(false),
            };
            words.take(now, name, serves);
            false
        });
        for name in words.take_due(now, nodes) {
            let asked = NodeName::new(&name).ok().and_then(|name| node.ask_node(&name, vec![SERVED_QUESTION]).ok());
            if let Some(answer) = asked {
                self.0.insert(name, answer);
            }
        }
        words.note_late(now);
    }
}

/// The answer of a node that serves this number of partitions.
pub(super) fn write_served(served: usize) -> Vec<u8> {
    u16::try_from(served).unwrap_or(u16::MAX).to_le_bytes().to_vec()
}

/// Whether an answer says so. A node of an earlier version knows no answer, and the table is believed.
fn says_that_it_serves(answer: &[u8]) -> bool {
    answer.try_into().ok().map(u16::from_le_bytes) != Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn of(nodes: &[(&str, u64)]) -> BTreeMap<String, u64> {
        nodes.iter().map(|(name, incarnation)| ((*name).to_owned(), *incarnation)).collect()
    }

    #[test]
    fn a_node_is_believed_after_it_has_said_that_it_serves() {
        let (mut words, nodes) = (Words::default(), of(&[("a", 1), ("b", 1)]));
        assert!(!words.believes("a", 1), "it was not asked yet");
        assert_eq!(words.take_due(START, &nodes), ["a", "b"]);
        assert!(!words.believes("a", 1) && !words.believes("b", 1), "they have not answered yet");
        words.take(START, "a", Some(false));
        words.take(START, "b", Some(true));
        assert!(!words.believes("a", 1) && words.believes("b", 1));
        assert!(words.take_due(START, &nodes).is_empty(), "they were asked a moment ago");
        assert_eq!(words.take_due(START + PAUSE, &nodes), ["a", "b"]);
        assert!(words.believes("b", 1), "its word counts until the next answer");
        words.take(START + PAUSE, "a", Some(true));
        assert!(words.believes("a", 1), "it serves again");
    }

    #[test]
    fn a_node_that_does_not_answer_in_time_is_not_believed() {
        let (mut words, nodes) = (Words::default(), of(&[("a", 1)]));
        let _ = words.take_due(START, &nodes);
        words.take(START, "a", Some(true));
        let asked = START + PAUSE;
        assert_eq!(words.take_due(asked, &nodes), ["a"]);
        words.note_late(asked + ANSWER_LIMIT);
        assert!(words.believes("a", 1));
        let late = asked + ANSWER_LIMIT * 2;
        words.note_late(late);
        assert!(!words.believes("a", 1));
        assert!(words.take_due(late, &nodes).is_empty(), "its answer is still awaited");
        words.take(late, "a", Some(true));
        assert!(words.believes("a", 1), "it stood still, and continues");
    }

    #[test]
    fn a_busy_node_keeps_its_last_word() {
        let (mut words, nodes) = (Words::default(), of(&[("a", 1)]));
        let _ = words.take_due(START, &nodes);
        words.take(START, "a", None);
        assert!(!words.believes("a", 1), "it has said nothing yet");
        for (step, serves) in (1..).zip([true, false]) {
            words.take(START + PAUSE * step, "a", Some(serves));
            words.take(START + PAUSE * step, "a", None);
            assert_eq!(words.believes("a", 1), serves);
        }
    }

    #[test]
    fn another_life_is_asked_again() {
        let mut words = Words::default();
        let _ = words.take_due(START, &of(&[("a", 1)]));
        words.take(START, "a", Some(true));
        assert!(!words.believes("a", 2), "the word was of another life");
        assert_eq!(words.take_due(START, &of(&[("a", 2)])), ["a"]);
        assert!(!words.believes("a", 2));
        words.take(START, "a", Some(true));
        assert!(words.believes("a", 2));
    }

    #[test]
    fn answers_of_earlier_versions_count_as_serving() {
        assert!(says_that_it_serves(&write_served(512)) && !says_that_it_serves(&write_served(0)));
        assert!(says_that_it_serves(br#"{"Refused":"the question is not understood"}"#));
    }
}
