//! The histories that pipelines write, of this node and of the other nodes of its cluster.
//!
//! A node asks the others for pages of messages of a tenant. Only the asking node knows the rights of its client, so it leaves
//! out the messages that the client may not read.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_administration::{HISTORY_QUESTION, HistoriesPart};
use tidegate_config::Config;
use tidegate_hub::{
    HistoryFound, HistoryIndex, HistoryPlace, HistoryQuery, MAX_HISTORY_ANSWER, TopicFilterBuf, merge_histories,
    read_history,
};
use tidegate_node::{AskError, MAX_QUESTION_BYTES, NodeHandle, NodeName, PeerAnswer};

/// Messages of a page.
const PAGE_MESSAGES: usize = 1_000;
/// Bytes of a page; one longer message is a page, if a link carries it.
const PAGE_BYTES: usize = 2 << 20;
/// Pages of another node that are read for an answer: a client without rights to most topics gets fewer messages.
const MAX_PAGES: usize = 8;
/// Time for the first pages of all other nodes, and as much again for their further pages. It begins when the own history
/// was read. A node reads no longer for another one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of each history of this node that are looked at for an answer: a filter may match few messages.
const MAX_LOOKED_BYTES: u64 = 128 << 20;
/// How long a node waits for its turn to read for another one. The answer says when the turn does not come.
const TURN: Duration = Duration::from_secs(2);
/// Bytes of a page beside its messages, at most.
const PAGE_HEAD: usize = 1024;
/// How long an answer is awaited before the asking client is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The histories of a broker.
#[derive(Debug, Default)]
pub struct Histories {
    /// Their folders and the age of their messages, by the name of the tenant.
    folders: BTreeMap<String, Vec<(PathBuf, Duration)>>,
    index: HistoryIndex,
    turn: Turn,
}

/// Lets one thread at a time read for other nodes.
#[derive(Debug, Default)]
struct Turn {
    taken: Mutex<bool>,
    ended: Condvar,
}

/// Ends a turn.
struct InTurn<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn; nothing when it does not come in time.
    fn wait(&self, limit: Duration) -> Option<InTurn<'_>> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(taken, limit, |taken| *taken);
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!std::mem::replace(&mut *taken, true)).then(|| InTurn(self))
    }
}

impl Drop for InTurn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.ended.notify_one();
    }
}

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
    /// Messages do not fit.
    #[error("messages are longer than a link carries")]
    TooLong,
    /// It reads for others.
    #[error("it reads its history for other nodes: ask again")]
    Busy,
    /// Its files cannot be read.
    #[error("it cannot read its history: its log has the reason")]
    Unreadable,
    /// There are more messages than are looked at. The time is in Unix milliseconds.
    #[error("it has more messages than are looked at, {0} {1}")]
    Bounded(&'static str, u64),
    /// The client has gone.
    #[error("the answer is not wanted any more")]
    Unwanted,
}

/// The beginning of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// Unix milliseconds; without it the last messages are meant.
    from: Option<u64>,
    /// Messages that earlier pages have passed: of this time, or of the last ones.
    skip: usize,
}

/// A question to another node.
#[derive(Serialize, Deserialize)]
struct Question {
    tenant: String,
    filters: Vec<String>,
    place: Place,
    /// The message behind which the first page begins. Earlier versions neither name nor know it.
    #[serde(default)]
    behind: Option<HistoryPlace>,
}

/// A page of another node.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Page {
    /// The oldest first with `from`, otherwise the last one first.
    messages: Vec<Value>,
    /// The beginning of the next page, if there may be one.
    next: Option<Place>,
    /// The time of the last message that the page has passed, Unix milliseconds.
    reached: Option<u64>,
    /// Messages that are left out because they are longer than a link carries, and times that have such messages.
    too_long: usize,
    /// Why there is no page.
    failure: Option<PageFailure>,
}

/// Why a node has no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PageFailure {
    Busy,
    Unreadable,
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
        Self { folders: found.filter(|(_, folders)| !folders.is_empty()).collect(), ..Self::default() }
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
        let folders = self.folders.get(tenant).ok_or(ReadHistoryError::Missing)?;
        let first = Place::first(query);
        let ask = |name: NodeName| (others.ask(&name, question((tenant, query), first)), name);
        let asked: Vec<_> = others.names().into_iter().map(ask).collect();
        let own = read_history((&self.index, folders), query, MAX_LOOKED_BYTES, may, is_wanted)?;
        let first_by = Instant::now() + PATIENCE;
        let asking = Asking { others, subject: (tenant, query), deadline: first_by + PATIENCE, is_wanted };
        let mut bounds: Vec<HistoryPlace> = own.end.into_iter().collect();
        let way = if query.from.is_some() { "after" } else { "before" };
        let mut incomplete: Vec<String> =
            own.bound.map(|at| format!("this node: {}", NodeError::Bounded(way, at))).into_iter().collect();
        let mut parts = vec![own.messages];
        for (asked, name) in asked {
            let page = asked.map_err(NodeError::from).and_then(|answer| taken(&answer, first_by, is_wanted));
            let part = match page {
                Ok(page) => asking.rest_of(&name, page, may),
                Err(why) => NodePart { missing: vec![why], ..NodePart::default() },
            };
            for why in part.missing {
                // A client that has gone is no fault of the node.
                if !matches!(why, NodeError::Unwanted) {
                    tracing::warn!(node = %name, %why, "messages of a history are missing");
                }
                incomplete.push(format!("{name}: {why}"));
            }
            bounds.extend(part.bound.filter(|_| query.from.is_some()));
            parts.push(part.messages);
        }
        keep_within(&mut parts, query, &bounds);
        Ok(HistoryAnswer { messages: merge_histories(parts, query), incomplete })
    }

    fn page(&self, body: &[u8]) -> Option<Page> {
        let asked: Question = serde_json::from_slice(body.strip_prefix(&[HISTORY_QUESTION])?).ok()?;
        let filters = asked.filters.into_iter().map(TopicFilterBuf::new).collect::<Result<_, _>>().ok()?;
        let Some(folders) = self.folders.get(&asked.tenant) else { return Some(Page::default()) };
        let deadline = Instant::now() + PATIENCE;
        let Some(_turn) = self.turn.wait(TURN) else { return Some(Page::failed(PageFailure::Busy)) };
        // One more, to know whether there are more.
        let limit = asked.place.skip.saturating_add(PAGE_MESSAGES + 1);
        let query = HistoryQuery { filters, from: asked.place.from, behind: asked.behind, limit };
        // The other node waits no longer.
        let is_wanted = || Instant::now() < deadline;
        match read_history((&self.index, folders), &query, u64::MAX, &mut |_| true, &is_wanted) {
            Ok(found) => Some(cut(found, asked.place)),
            Err(error) => {
                tracing::warn!(%error, "cannot read a history for another node");
                Some(Page::failed(PageFailure::Unreadable))
            }
        }
    }
}

impl HistoriesPart for Histories {
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        self.page(question).and_then(|page| serde_json::to_vec(&page).ok()).unwrap_or_default()
    }
}

impl Place {
    fn first(query: &HistoryQuery) -> Self {
        Self { from: query.from, skip: 0 }
    }

    /// Behind a message of this time.
    fn behind(self, time: u64) -> Self {
        match self.from {
            Some(from) if from != time => Self { from: Some(time), skip: 1 },
            _ => Self { skip: self.skip + 1, ..self },
        }
    }
}

impl Page {
    fn failed(why: PageFailure) -> Self {
        Self { failure: Some(why), ..Self::default() }
    }

    /// The place of the last message that the page has passed, of pages with the oldest message first.
    fn passed(&self) -> Option<HistoryPlace> {
        let last = self.messages.last().map(HistoryPlace::of);
        let behind = self.reached.filter(|reached| last.as_ref().is_none_or(|last| last.time < *reached));
        // The last message was left out.
        behind.map(|reached| HistoryPlace::before(reached.saturating_add(1))).or(last)
    }
}

/// The page that begins at a place.
fn cut(found: HistoryFound, place: Place) -> Page {
    let HistoryFound { mut messages, end, .. } = found;
    if place.from.is_none() {
        messages.reverse();
    }
    let (mut page, mut bytes, mut at) = (Page::default(), 0, Place { skip: 0, ..place });
    for message in messages {
        let (time, len) = (time_of(&message), message.to_string().len());
        if page.reached.is_none() && at.skip < place.skip && place.from.is_none_or(|from| from == time) {
            at.skip += 1;
            continue;
        }
        let fits = len <= MAX_QUESTION_BYTES - PAGE_HEAD;
        let is_full = page.messages.len() + page.too_long == PAGE_MESSAGES;
        if is_full || fits && !page.messages.is_empty() && bytes + len > PAGE_BYTES {
            page.next = Some(at);
            return page;
        }
        (at, page.reached) = (at.behind(time), Some(time));
        if fits {
            bytes += len;
            page.messages.push(message);
        } else {
            page.too_long += 1;
        }
    }
    if end.is_some() {
        page.next = Some(at);
        // One millisecond has more bytes than are read at once: the next page begins behind it.
        if let Some(from) = place.from.filter(|_| page.reached.is_none()) {
            page.next = Some(Place { from: Some(from.saturating_add(1)), skip: 0 });
            page.too_long += 1;
        }
    }
    page
}

fn time_of(message: &Value) -> u64 {
    message["time"].as_u64().unwrap_or_default()
}

/// Leaves out messages beyond the bounds up to which parts are complete, so that a client that asks on from the last
/// message jumps over none.
fn keep_within(parts: &mut [Vec<Value>], query: &HistoryQuery, bounds: &[HistoryPlace]) {
    let is_forward = query.from.is_some();
    let nearest = if is_forward { bounds.iter().min() } else { bounds.iter().max() };
    let Some(bound) = nearest else { return };
    for part in parts {
        part.retain(|message| {
            let place = HistoryPlace::of(message);
            if is_forward { place <= *bound } else { place >= *bound }
        });
    }
}

fn question((tenant, query): (&str, &HistoryQuery), place: Place) -> Vec<u8> {
    let filters = query.filters.iter().map(ToString::to_string).collect();
    let asked = Question { tenant: tenant.to_owned(), filters, place, behind: query.behind.clone() };
    // Texts and numbers are JSON.
    [vec![HISTORY_QUESTION], serde_json::to_vec(&asked).unwrap_or_default()].concat()
}

/// The page that a node answers.
fn taken(answer: &PeerAnswer, deadline: Instant, is_wanted: &dyn Fn() -> bool) -> Result<Page, NodeError> {
    let bytes = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match answer.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(Ok(bytes)) => break bytes,
            Ok(Err(error)) => return Err(error.into()),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(NodeError::Silent),
            Err(RecvTimeoutError::Timeout) if !is_wanted() => return Err(NodeError::Unwanted),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(AskError::Lost.into()),
        }
    };
    let page: Page = serde_json::from_slice(&bytes).map_err(|_| NodeError::Version)?;
    match page.failure {
        None => Ok(page),
        Some(PageFailure::Busy) => Err(NodeError::Busy),
        Some(PageFailure::Unreadable) => Err(NodeError::Unreadable),
    }
}

/// Messages of another node.
#[derive(Default)]
struct NodePart {
    /// The oldest first.
    messages: Vec<Value>,
    /// Why others are missing.
    missing: Vec<NodeError>,
    /// The place of the last message that was looked at, where further ones were not.
    bound: Option<HistoryPlace>,
}

/// A request to other nodes.
struct Asking<'a> {
    others: &'a dyn Others,
    subject: (&'a str, &'a HistoryQuery),
    /// When further pages have to be there.
    deadline: Instant,
    is_wanted: &'a dyn Fn() -> bool,
}

impl Asking<'_> {
    /// The messages of a node that the client may read: of its first page, and of further pages until there are enough.
    fn rest_of(&self, name: &NodeName, mut page: Page, may: &mut dyn FnMut(&str) -> bool) -> NodePart {
        let (_, query) = self.subject;
        let (mut part, mut ids, mut bytes, mut too_long) = (NodePart::default(), HashSet::new(), 0, 0);
        let (mut place, mut reached) = (Place::first(query), query.from);
        let mut passed = query.behind.clone().or(query.from.map(HistoryPlace::before));
        for number in 1.. {
            too_long += page.too_long;
            reached = page.reached.or(reached);
            passed = page.passed().or(passed);
            let id_of = |message: &Value| message["message_id"].as_str().map(str::to_owned);
            // A message that came meanwhile has moved the others into this page.
            page.messages.retain(|message| id_of(message).is_none_or(|id| !ids.contains(&id)));
            // A node of an earlier version begins with the first message of the time.
            page.messages.retain(|message| query.behind.as_ref().is_none_or(|it| HistoryPlace::of(message) > *it));
            ids.extend(page.messages.iter().filter_map(id_of));
            page.messages.retain(|message| message["topic"].as_str().is_some_and(&mut *may));
            bytes += page.messages.iter().map(|message| message.to_string().len()).sum::<usize>();
            part.messages.append(&mut page.messages);
            let is_enough = part.messages.len() >= query.limit || bytes > MAX_HISTORY_ANSWER;
            let Some(next) = page.next.filter(|_| !is_enough) else { break };
            let asked = if number == MAX_PAGES || next == place {
                let side = if query.from.is_some() { "after" } else { "before" };
                Err(NodeError::Bounded(side, reached.unwrap_or_default()))
            } else {
                self.ask(name, next)
            };
            match asked {
                Ok(found) => (page, place) = (found, next),
                Err(why) => {
                    part.missing.push(why);
                    part.bound = passed;
                    break;
                }
            }
        }
        part.missing.extend((too_long > 0).then_some(NodeError::TooLong));
        if query.from.is_none() {
            part.messages.reverse();
        }
        part
    }

    fn ask(&self, name: &NodeName, place: Place) -> Result<Page, NodeError> {
        taken(&self.others.ask(name, question(self.subject, place))?, self.deadline, self.is_wanted)
    }
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
                let topic = if time.is_multiple_of(3) { "secret" } else { "a" };
                json!({ "time": time, "message_id": format!("{node}-{time}"), "topic": topic, "payload": filling })
            };
            let lines: Vec<String> = times.map(|time| line(time).to_string()).collect();
            let text = lines.join("\n") + "\n";
            std::fs::write(folder.join("00000000000000000001.ndjson"), text).unwrap();
            let folders = BTreeMap::from([(String::new(), vec![(folder, Duration::MAX)])]);
            Histories { folders, ..Histories::default() }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn read(own: &Histories, others: &Nodes, from: Option<u64>, limit: usize) -> (Vec<u64>, Vec<String>) {
        let query = HistoryQuery { filters: vec![TopicFilterBuf::new("#").unwrap()], from, behind: None, limit };
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
    }

    #[test]
    fn a_node_with_too_many_messages_is_named() {
        let folder = Folder::new("many");
        let own = folder.with("own", [7_999, 8_500].into_iter(), "x");
        let others = Nodes(vec![Node("b", Some(folder.with("b", 1..=9_000, "x")))]);
        let (times, incomplete) = read(&own, &others, Some(0), 10_000);
        assert_eq!((times.last(), incomplete.len()), (Some(&8_000), 1), "a client that asks on from 8000 loses none");
        assert!(incomplete[0].ends_with("after 8000"), "{incomplete:?}");
        assert_eq!(times.len(), (1..=8_000).filter(|time| time % 3 != 0).count() + 1);
        let (times, incomplete) = read(&own, &others, None, 10_000);
        assert_eq!((times.first(), incomplete.len()), (Some(&1_001), 1));
        assert!(incomplete[0].ends_with("before 1001"), "{incomplete:?}");
    }

    #[test]
    fn bytes_that_a_client_may_not_read_end_no_answer() {
        let folder = Folder::new("bytes");
        let own = folder.with("own", std::iter::empty(), "");
        let wide = "x".repeat(600 << 10);
        let others = Nodes(vec![Node("b", Some(folder.with("b", 1..=18, &wide)))]);
        let all: Vec<u64> = (1..=18).filter(|time| time % 3 != 0).collect();
        assert_eq!(read(&own, &others, Some(0), 1_000), (all.clone(), vec![]));
        let (times, incomplete) = read(&own, &others, None, 1_000);
        assert_eq!((all.ends_with(&times), times.is_empty(), incomplete.len()), (true, false, 1));
    }

    #[test]
    fn a_message_that_no_link_carries_is_left_out() {
        let folder = Folder::new("long");
        let own = folder.with("own", std::iter::empty(), "");
        let node = folder.with("b", [1, 2].into_iter(), "x");
        let mut file =
            std::fs::File::options().append(true).open(folder.0.join("b/00000000000000000001.ndjson")).unwrap();
        for (time, len) in [(4, MAX_QUESTION_BYTES), (5, MAX_QUESTION_BYTES), (7, 1)] {
            let line =
                json!({ "time": time, "message_id": time.to_string(), "topic": "a", "payload": "x".repeat(len) });
            std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();
        }
        let (times, incomplete) = read(&own, &Nodes(vec![Node("b", Some(node))]), Some(0), 9);
        assert_eq!((times, incomplete.len()), (vec![1, 2, 7], 1), "{incomplete:?}");
        assert!(incomplete[0].contains("longer than a link"), "{incomplete:?}");
    }

    #[test]
    fn messages_of_one_time_are_in_several_pages() {
        let message = |id: u32| json!({ "time": 5, "message_id": id.to_string() });
        let page = |place| {
            let messages: Vec<Value> = (0..1_500).map(message).collect();
            cut(HistoryFound { messages, ..HistoryFound::default() }, place)
        };
        let first = page(Place { from: Some(0), skip: 0 });
        assert_eq!(first.next, Some(Place { from: Some(5), skip: 1_000 }));
        let second = page(first.next.unwrap());
        assert_eq!((second.messages.len(), second.messages[0]["message_id"].as_str()), (500, Some("1000")));
        assert_eq!((second.next, second.reached), (None, Some(5)));
    }

    #[test]
    fn pages_within_a_millisecond_go_on_behind_a_message() {
        let folder = Folder::new("within");
        let history = |node: &str, odd: u64| {
            let history = folder.with(node, std::iter::empty(), "");
            let line = |id: u64| json!({ "time": 7, "message_id": id.to_string(), "topic": "a" }).to_string();
            let lines: Vec<String> = (0..3_000).filter(|id| id % 2 == odd).map(line).collect();
            std::fs::write(folder.0.join(node).join("00000000000000000001.ndjson"), lines.join("\n") + "\n").unwrap();
            history
        };
        let own = history("own", 0);
        let others = Nodes(vec![Node("b", Some(history("b", 1)))]);
        let (mut behind, mut seen) = (None, Vec::new());
        loop {
            let query = HistoryQuery { from: Some(7), behind, limit: 700, ..HistoryQuery::default() };
            let found = own.read(&others, ("", &query), &mut |_| true, &|| true).unwrap();
            assert_eq!(found.incomplete, [""; 0]);
            let Some(last) = found.messages.last() else { break };
            behind = Some(HistoryPlace::of(last));
            seen.extend(found.messages.iter().map(|message| message["message_id"].as_str().unwrap().to_owned()));
        }
        let all: Vec<String> = (0..3_000).map(|id: u64| id.to_string()).collect();
        assert!(seen == all, "each message once, in its order: {} messages", seen.len());
    }

    #[test]
    fn one_reading_at_a_time_is_for_other_nodes() {
        let turn = Turn::default();
        let first = turn.wait(Duration::ZERO);
        assert!(first.is_some() && turn.wait(Duration::ZERO).is_none());
        assert!(turn.wait(Duration::ZERO).is_none(), "a turn that did not come ends no other");
        drop(first);
        assert!(turn.wait(Duration::ZERO).is_some());
    }

    #[test]
    fn no_answer_is_awaited_that_nothing_wants() {
        let (_silent, answer) = channel();
        let far = Instant::now() + Duration::from_secs(3_600);
        assert!(matches!(taken(&answer, far, &|| false), Err(NodeError::Unwanted)));
        assert!(matches!(taken(&answer, Instant::now(), &|| true), Err(NodeError::Silent)));
        let (sender, answer) = channel();
        sender.send(Ok(serde_json::to_vec(&Page::failed(PageFailure::Unreadable)).unwrap())).unwrap();
        assert!(matches!(taken(&answer, far, &|| true), Err(NodeError::Unreadable)));
    }
}
