//! The histories that pipelines write, of this node and of the other nodes of its cluster.
//!
//! A node asks the others for pages of messages of a tenant. Only the asking node knows the rights of its client, so it leaves
//! out the messages that the client may not read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_administration::{HISTORY_QUESTION, HistoriesPart};
use tidegate_config::Config;
use tidegate_hub::{HistoryQuery, TopicFilterBuf, merge_histories, read_history};
use tidegate_node::{AskError, MAX_QUESTION_BYTES, NodeHandle, NodeName, PeerAnswer};

/// Messages of a page.
const PAGE_MESSAGES: usize = 1_000;
/// Bytes of a page; one longer message is a page, if a link carries it.
const PAGE_BYTES: usize = 2 << 20;
/// Pages of another node that are read for an answer: a client without rights to most topics gets fewer messages.
const MAX_PAGES: usize = 8;
/// Time for the answers of all other nodes to one question.
const PATIENCE: Duration = Duration::from_secs(5);

/// The histories of a broker: their folders and the age of their messages, by the name of the tenant.
#[derive(Debug, Default)]
pub struct Histories(BTreeMap<String, Vec<(PathBuf, Duration)>>);

/// Messages of a history.
#[derive(Debug, Default, PartialEq)]
pub struct HistoryAnswer {
    /// The messages, the oldest first.
    pub messages: Vec<Value>,
    /// The nodes whose messages are missing, each with the reason.
    pub incomplete: Vec<String>,
}

/// Why a history is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadHistoryError {
    /// No pipeline of the tenant keeps one.
    #[error("no pipeline of the tenant keeps a history")]
    Missing,
    /// Its files cannot be read.
    #[error("cannot read a history: {0}")]
    Io(#[from] std::io::Error),
}

/// Why messages of a node are missing.
#[derive(Debug, thiserror::Error)]
enum NodeError {
    /// It cannot be asked.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The time is over.
    #[error("it does not answer")]
    Silent,
    /// The answer is no page.
    #[error("its answer is of another version")]
    Version,
    /// A message does not fit.
    #[error("a message is longer than a link carries")]
    TooLong,
}

/// A question to another node.
#[derive(Serialize, Deserialize)]
struct Question {
    tenant: String,
    filters: Vec<String>,
    from: Option<u64>,
    /// Messages that the asking node has already.
    skip: usize,
}

/// A page of another node.
#[derive(Default, Serialize, Deserialize)]
struct Page {
    /// The oldest first with `from`, otherwise the last one first.
    messages: Vec<Value>,
    /// Whether there are more.
    more: bool,
    /// Whether the next message is longer than a link carries.
    #[serde(default)]
    too_long: bool,
}

/// The other nodes, which answer questions.
pub trait Others {
    /// Their names.
    fn names(&self) -> Vec<NodeName>;

    /// Asks one.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn ask(&self, name: &NodeName, body: Vec<u8>) -> Result<PeerAnswer, AskError>;
}

impl Others for NodeHandle {
    fn names(&self) -> Vec<NodeName> {
        self.cluster().peers.into_iter().map(|peer| peer.name).collect()
    }

    fn ask(&self, name: &NodeName, body: Vec<u8>) -> Result<PeerAnswer, AskError> {
        self.ask_node(name, body)
    }
}

impl Histories {
    /// The histories of all tenants.
    pub fn of(config: &Config) -> Self {
        let tenants = std::iter::once("").chain(config.tenants.iter().map(|tenant| tenant.name.as_str()));
        let folders = |tenant: &str| tidegate_config::hub::histories(&config.pipelines, &config.sinks, tenant);
        let found = tenants.map(|tenant| (tenant.to_owned(), folders(tenant)));
        Self(found.filter(|(_, folders)| !folders.is_empty()).collect())
    }

    /// Messages of a tenant at all nodes. `may` says whether a topic may be read. It may block for seconds; it ends soon after
    /// `is_wanted` says no.
    ///
    /// # Errors
    /// When the tenant has no history, or files cannot be read.
    pub fn read(
        &self,
        others: &dyn Others,
        (tenant, query): (&str, &HistoryQuery),
        may: &mut dyn FnMut(&str) -> bool,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<HistoryAnswer, ReadHistoryError> {
        let folders = self.0.get(tenant).ok_or(ReadHistoryError::Missing)?;
        let deadline = Instant::now() + PATIENCE;
        let first = |name: NodeName| (others.ask(&name, question(tenant, query, 0)), name);
        let asked: Vec<_> = others.names().into_iter().map(first).collect();
        let mut parts = vec![read_history(folders, query, may, is_wanted)?];
        let mut incomplete = Vec::new();
        for (asked, name) in asked {
            let page = asked.map_err(NodeError::from).and_then(|answer| taken(&answer, deadline));
            match page.and_then(|page| rest_of(others, &name, (tenant, query), page, (may, is_wanted))) {
                Ok(found) => parts.push(found),
                Err(why) => {
                    tracing::warn!(node = %name, %why, "messages of a history are missing");
                    incomplete.push(format!("{name}: {why}"));
                }
            }
        }
        Ok(HistoryAnswer { messages: merge_histories(parts, query), incomplete })
    }

    fn page(&self, body: &[u8]) -> Option<Page> {
        let asked: Question = serde_json::from_slice(body.strip_prefix(&[HISTORY_QUESTION])?).ok()?;
        let filters = asked.filters.into_iter().map(TopicFilterBuf::new).collect::<Result<_, _>>().ok()?;
        let Some(folders) = self.0.get(&asked.tenant) else { return Some(Page::default()) };
        // One more, to know whether there are more.
        let limit = asked.skip.saturating_add(PAGE_MESSAGES + 1);
        let query = HistoryQuery { filters, from: asked.from, limit };
        let mut found = read_history(folders, &query, &mut |_| true, &|| true)
            .inspect_err(|error| tracing::warn!(%error, "cannot read a history for another node"))
            .ok()?;
        if asked.from.is_none() {
            found.reverse();
        }
        Some(cut(found.into_iter().skip(asked.skip)))
    }
}

impl HistoriesPart for Histories {
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        self.page(question).and_then(|page| serde_json::to_vec(&page).ok()).unwrap_or_default()
    }
}

/// The first messages, as many as a page has.
fn cut(messages: impl Iterator<Item = Value>) -> Page {
    let (mut page, mut bytes) = (Page::default(), 0);
    for message in messages {
        let len = message.to_string().len();
        if page.messages.is_empty() && len > MAX_QUESTION_BYTES - 1024 {
            return Page { too_long: true, ..page };
        }
        if page.messages.len() == PAGE_MESSAGES || !page.messages.is_empty() && bytes + len > PAGE_BYTES {
            page.more = true;
            break;
        }
        bytes += len;
        page.messages.push(message);
    }
    page
}

fn question(tenant: &str, query: &HistoryQuery, skip: usize) -> Vec<u8> {
    let filters = query.filters.iter().map(ToString::to_string).collect();
    let asked = Question { tenant: tenant.to_owned(), filters, from: query.from, skip };
    // Texts and numbers are JSON.
    [vec![HISTORY_QUESTION], serde_json::to_vec(&asked).unwrap_or_default()].concat()
}

/// The page that a node answers.
fn taken(answer: &PeerAnswer, deadline: Instant) -> Result<Page, NodeError> {
    let bytes = match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(error.into()),
        Err(RecvTimeoutError::Timeout) => return Err(NodeError::Silent),
        Err(RecvTimeoutError::Disconnected) => return Err(AskError::Lost.into()),
    };
    serde_json::from_slice(&bytes).map_err(|_| NodeError::Version)
}

/// The messages of a node that the client may read: of its first page, and of further pages until there are enough.
fn rest_of(
    others: &dyn Others,
    name: &NodeName,
    (tenant, query): (&str, &HistoryQuery),
    mut page: Page,
    (may, is_wanted): (&mut dyn FnMut(&str) -> bool, &dyn Fn() -> bool),
) -> Result<Vec<Value>, NodeError> {
    let (mut found, mut skip) = (Vec::new(), 0);
    for number in 1.. {
        if page.too_long {
            return Err(NodeError::TooLong);
        }
        skip += page.messages.len();
        found.extend(page.messages.into_iter().filter(|it| it["topic"].as_str().is_some_and(&mut *may)));
        if !page.more || found.len() >= query.limit || number == MAX_PAGES || !is_wanted() {
            break;
        }
        let asked = others.ask(name, question(tenant, query, skip))?;
        page = taken(&asked, Instant::now() + PATIENCE)?;
    }
    if query.from.is_none() {
        found.reverse();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use serde_json::json;

    use super::*;

    /// Another node with its own histories; without them it is silent.
    struct Node(&'static str, Option<Histories>);

    struct Nodes(Vec<Node>);

    impl Others for Nodes {
        fn names(&self) -> Vec<NodeName> {
            self.0.iter().map(|node| node.0.parse().unwrap()).collect()
        }

        fn ask(&self, name: &NodeName, body: Vec<u8>) -> Result<PeerAnswer, AskError> {
            let (answer, answers) = channel();
            let node = self.0.iter().find(|node| node.0 == name.as_str()).unwrap();
            answer.send(node.1.as_ref().map(|it| it.answer(&body)).ok_or(AskError::Lost)).unwrap();
            Ok(answers)
        }
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("tidegate-histories-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            Self(folder)
        }

        /// A history with messages of these times, one of three of them secret.
        fn with(&self, node: &str, times: impl Iterator<Item = u64>, filling: &str) -> Histories {
            let folder = self.0.join(node);
            std::fs::create_dir_all(&folder).unwrap();
            let line = |time: u64| {
                let topic = if time % 3 == 0 { "secret" } else { "a" };
                json!({ "time": time, "message_id": format!("{node}-{time}"), "topic": topic, "payload": filling })
            };
            let text: String = times.map(|time| format!("{}\n", line(time))).collect();
            std::fs::write(folder.join("00000000000000000001.ndjson"), text).unwrap();
            Histories(BTreeMap::from([(String::new(), vec![(folder, Duration::MAX)])]))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn read(own: &Histories, others: &Nodes, from: Option<u64>, limit: usize) -> (Vec<u64>, Vec<String>) {
        let query = HistoryQuery { filters: vec![TopicFilterBuf::new("#").unwrap()], from, limit };
        let found = own.read(others, ("", &query), &mut |topic| topic == "a", &|| true).unwrap();
        (found.messages.iter().map(|message| message["time"].as_u64().unwrap()).collect(), found.incomplete)
    }

    #[test]
    fn messages_of_all_nodes_are_one_history() {
        let folder = Folder::new("all");
        let own = folder.with("own", [1, 4, 7].into_iter(), "x");
        let others = Nodes(vec![
            Node("b", Some(folder.with("b", [2, 3, 5].into_iter(), "x"))),
            Node("c", Some(Histories::default())),
        ]);
        assert_eq!(read(&own, &others, None, 9), (vec![1, 2, 4, 5, 7], vec![]));
        assert_eq!(read(&own, &others, None, 2).0, [5, 7]);
        assert_eq!(read(&own, &others, Some(2), 2).0, [2, 4]);
        let silent = Nodes(vec![Node("b", None)]);
        let (times, incomplete) = read(&own, &silent, None, 9);
        assert_eq!((times, incomplete.len()), (vec![1, 4, 7], 1));
        assert!(incomplete[0].starts_with("b: "), "{incomplete:?}");
        let query = HistoryQuery::default();
        let missing = own.read(&others, ("other", &query), &mut |_| true, &|| true);
        assert!(matches!(missing, Err(ReadHistoryError::Missing)));
    }

    #[test]
    fn a_long_history_comes_in_pages() {
        let folder = Folder::new("pages");
        let own = folder.with("own", std::iter::empty(), "");
        let others = Nodes(vec![Node("b", Some(folder.with("b", 1..=3_000, "x")))]);
        let all: Vec<u64> = (1..=3_000).filter(|time| time % 3 != 0).collect();
        assert_eq!(read(&own, &others, Some(0), 1_000).0, all[..1_000]);
        assert_eq!(read(&own, &others, None, 1_000).0, all[1_000..]);
        let wide = "x".repeat(PAGE_BYTES / 3);
        let others = Nodes(vec![Node("b", Some(folder.with("wide", 1..=8, &wide)))]);
        assert_eq!(read(&own, &others, None, 1_000).0, [1, 2, 4, 5, 7, 8]);
    }

    #[test]
    fn a_question_of_another_version_is_not_answered() {
        for body in [&b""[..], &[HISTORY_QUESTION], b"\x05{}", b"\x05[]", b"{}"] {
            assert!(Histories::default().answer(body).is_empty());
        }
        let page = cut([json!("x".repeat(MAX_QUESTION_BYTES))].into_iter());
        assert!(page.too_long && page.messages.is_empty());
    }
}
