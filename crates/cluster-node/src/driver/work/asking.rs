//! Other members are asked, and their answers are taken, without a wait: a member that does not answer
//! delays no other work of this thread.

use std::collections::BTreeMap;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use tidegate_node::{NodeHandle, NodeName, PeerAnswer};

use super::pieces::{Outbox, PartAnswer};

/// How long a member may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the next check whether answers have come.
pub(super) const ANSWER_PAUSE: Duration = Duration::from_millis(2);

/// Awaited answers by member, each with the time of its question.
#[derive(Default)]
pub(super) struct Awaited(BTreeMap<String, (PeerAnswer, Instant)>);

impl Awaited {
    /// A member was asked.
    pub(super) fn insert(&mut self, name: String, answer: PeerAnswer) {
        self.0.insert(name, (answer, Instant::now()));
    }

    /// Whether an answer of a member is awaited.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The received answers, and the answers that failed.
    pub(super) fn take(&mut self) -> Vec<(String, Option<Vec<u8>>)> {
        let mut taken = Vec::new();
        self.0.retain(|name, (answer, since)| {
            let taken_answer = match answer.try_recv() {
                Ok(Ok(bytes)) => Some(bytes),
                Err(TryRecvError::Empty) if since.elapsed() < ANSWER_TIMEOUT => return true,
                Ok(Err(_)) | Err(_) => None,
            };
            taken.push((name.clone(), taken_answer));
            false
        });
        taken
    }

    /// Takes the answers that have come, and sends the parts that are due. `head` is the kind of the parts, their move or
    /// transfer, and the dead orchestrator and broker whose messages they have. `life` is that of this member.
    pub(super) fn exchange(
        &mut self,
        node: &NodeHandle,
        life: u64,
        outbox: &mut Outbox,
        (kind, id, of, broker): (u8, u64, &str, &str),
    ) {
        let now = Instant::now();
        for (name, answer) in self.take() {
            let answer = answer.and_then(|bytes| PartAnswer::read(&bytes));
            if outbox.take_answer(now, &name, answer) {
                tracing::error!(
                    node = name,
                    "the member that serves partitions refuses forwarded messages; brokers keep them, and they are sent again"
                );
            }
        }
        for (name, question) in outbox.due(now, (kind, [life, id], of, broker)) {
            let asked = NodeName::new(&name).ok().and_then(|name| node.ask_node(&name, question).ok());
            match asked {
                Some(answer) => self.insert(name, answer),
                None => drop(outbox.take_answer(now, &name, None)),
            }
        }
    }
}
