//! Administration of a whole cluster: its nodes ask each other over their links, and share the bans of operators.

use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use tidegate_admin::BanRecord;
use tidegate_admin::members::{MemberAnswer, MemberRequest, Shares};
use tidegate_console::Operations;
use tidegate_console::api::{BanControl as _, Control as _, Members, answer_member};
use tidegate_node::{
    AskError, Inlet, MAX_QUESTION_BYTES, NodeHandle, NodeName, PeerEvent, PeerQuestion, RETAINED_QUESTION,
};

use crate::part::{AHEAD, FORMER_LIFE, HISTORY_QUESTION, INHERITED, PIECE, SERVED_QUESTION};
use crate::status::BrokerStatus;

use super::quotas::{Announcer, take_announcement};
use super::users::{self, UserAnnouncer};

/// Requests that give a node the bans of this one, with requests that it was too busy for: a minute of pauses.
const MAX_BAN_ATTEMPTS: u32 = 240;
/// Most bytes of bans in one request.
const BANS_BYTES: usize = MAX_QUESTION_BYTES / 4;
/// Pause before a node that does not answer yet is sent bans again.
const BANS_PAUSE: Duration = Duration::from_millis(250);

/// The other nodes of a cluster.
pub(crate) struct LinkedMembers {
    node: NodeHandle,
}

impl LinkedMembers {
    pub(crate) fn new(node: NodeHandle) -> Self {
        Self { node }
    }

    fn ask_one(&self, name: &NodeName, request: &MemberRequest) -> Result<MemberAnswer, AskError> {
        let body = serde_json::to_vec(request).unwrap_or_default();
        let answer = self.node.ask_node(name, body)?.recv_timeout(request.patience()).map_err(|_| AskError::Lost)??;
        serde_json::from_slice(&answer).map_err(|_| AskError::Busy)
    }
}

impl Members for LinkedMembers {
    fn ask(&self, request: &MemberRequest) -> Shares<MemberAnswer> {
        let body = serde_json::to_vec(request).unwrap_or_default();
        let names = self.node.cluster().peers.into_iter().map(|peer| peer.name);
        let asked: Vec<_> = names.map(|name| (self.node.ask_node(&name, body.clone()), name)).collect();
        let deadline = Instant::now() + request.patience();
        let mut shares = Shares::default();
        for (asked, name) in asked {
            let left = || deadline.saturating_duration_since(Instant::now());
            let answer = asked.and_then(|answer| answer.recv_timeout(left()).unwrap_or(Err(AskError::Lost)));
            let answer = answer.map_err(|error| error.to_string());
            match answer.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string())) {
                Ok(answer) => shares.answered.push((name.to_string(), answer)),
                Err(error) => {
                    tracing::warn!(node = %name, error, "a node of the cluster does not answer");
                    shares.unreachable.push(name.to_string());
                }
            }
        }
        shares
    }
}

/// The name of the node in its cluster, of the orchestrator in its fleet, or of the machine of a single broker.
pub(crate) fn name_of(status: &BrokerStatus) -> String {
    let in_cluster = status.parts().cluster().and(status.handle()).and_then(|node| node.cluster().name);
    if let Some(name) = in_cluster {
        return name.to_string();
    }
    let orchestrator = status.fleet_config().map(|config| config.orchestrator.name.clone());
    let named = orchestrator.filter(|name| !name.is_empty()).or_else(tidegate_proc::host_name);
    named.unwrap_or_else(|| "broker".to_owned())
}

/// The system gives no thread to answer other nodes.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread that answers other nodes: {0}")]
pub struct MembersThreadError(io::Error);

/// Answers the other nodes from now on, until the node ends.
///
/// # Errors
/// When the system gives no thread.
pub fn answer_others(
    status: &Arc<BrokerStatus>,
    operations: &Arc<dyn Operations>,
    node: &NodeHandle,
) -> Result<(), MembersThreadError> {
    if node.cluster_address().is_none() {
        return Ok(());
    }
    let events = node.listen_to_peers();
    let (status, operations, node) = (Arc::clone(status), Arc::clone(operations), node.clone());
    let counts = status.tenancy().map(|tenancy| Arc::clone(tenancy.counts()));
    let announcer = counts.as_ref().map(|counts| Announcer::start(counts, node.clone())).transpose();
    let announcer = announcer.map_err(MembersThreadError)?;
    let user_announcer = UserAnnouncer::start(&node).map_err(MembersThreadError)?;
    let listen = move || {
        for event in events {
            let Some(event) = take_announcement(counts.as_deref(), &node, event) else { continue };
            let Some(event) = users::take_announcement(&node, event) else { continue };
            let (status, operations, node) = (Arc::clone(&status), Arc::clone(&operations), node.clone());
            // Each on its own thread: an answer may take its time, and links bound how many are asked for.
            let begun = Builder::new().name("members".to_owned()).spawn(move || match event {
                PeerEvent::Linked(name) => {
                    if let Ok(records) = status.bans().records() {
                        send_bans(records, &LinkedMembers::new(node), &name);
                    }
                }
                PeerEvent::Question(question) => answer_question(&status, &*operations, question),
            });
            if let Err(error) = begun {
                tracing::warn!(%error, "cannot start a thread to answer another node");
            }
        }
        drop((announcer, user_announcer));
    };
    let thread = Builder::new().name("members".to_owned()).spawn(listen);
    thread.map(drop).map_err(MembersThreadError)
}

/// Gives a node that was not linked all bans of operators, and their ends; it does the same.
fn send_bans(records: Vec<BanRecord>, members: &LinkedMembers, name: &NodeName) {
    let mut attempts = 0;
    for request in MemberRequest::of_bans(records, BANS_BYTES) {
        loop {
            attempts += 1;
            match members.ask_one(name, &request) {
                Ok(_) => break,
                // It has just started.
                Err(AskError::Busy) if attempts < MAX_BAN_ATTEMPTS => pause(),
                // It is sent all when it is linked again.
                Err(error) => {
                    tracing::debug!(node = %name, %error, "a node did not get the bans of this one");
                    return;
                }
            }
        }
    }
}

/// Waits before a node is asked again.
#[expect(clippy::disallowed_methods, reason = "the event is in another process, which does not announce it")]
fn pause() {
    std::thread::sleep(BANS_PAUSE);
}

fn answer_question(status: &BrokerStatus, operations: &dyn Operations, question: PeerQuestion) {
    if matches!(question.body.first(), Some(&(PIECE | INHERITED | FORMER_LIFE | AHEAD | SERVED_QUESTION))) {
        let cluster = status.parts().cluster();
        let answer = cluster.map(|cluster| cluster.take_piece(question.from.as_str(), &question.body));
        return question.answer(answer.unwrap_or_default());
    }
    if question.body.first() == Some(&RETAINED_QUESTION) {
        let answer = status.handle().map(|node| Inlet::new(node.clone()).answer_retained(&question.body));
        return question.answer(answer.unwrap_or_default());
    }
    if question.body.first() == Some(&HISTORY_QUESTION) {
        let answer = status.parts().histories().map(|histories| histories.answer(&question.body));
        return question.answer(answer.unwrap_or_default());
    }
    let answer = match serde_json::from_slice(&question.body) {
        Ok(request) => answer_member(status, operations, request),
        Err(error) => MemberAnswer::Refused(format!("the question is not understood: {error}")),
    };
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    if body.len() <= MAX_QUESTION_BYTES {
        return question.answer(body);
    }
    let text =
        format!("the answer is longer than {MAX_QUESTION_BYTES} bytes: ask for fewer clients or filters at once");
    question.answer(serde_json::to_vec(&MemberAnswer::Refused(text)).unwrap_or_default());
}
