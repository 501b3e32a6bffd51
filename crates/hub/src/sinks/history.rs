//! The history of topics: the last messages within a bound of bytes and age, which clients of HTTP read.
//!
//! A pipeline has a folder with segments of lines. A message is a line.

mod index;
mod survey;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidegate_client::TopicFilterBuf;
use tidegate_units::percent::escape_except;

use self::index::Block;
pub use self::index::HistoryIndex;
use self::survey::survey;
use super::{Sink, SinkError};
use crate::record::Record;
use crate::segments::{Lines, SegmentBounds, SegmentWriter};
use crate::time::wall_clock;

/// Bytes of lines after which an answer has no more messages.
pub const MAX_HISTORY_ANSWER: usize = 8 << 20;

/// Where a history is, and its bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistorySettings {
    /// The folder of all pipelines; each has one of its own within.
    pub path: PathBuf,
    /// The name of the tenant whose messages these are; the default tenant has an empty one.
    pub tenant: String,
    /// Bytes of one pipeline's history.
    pub max_bytes: u64,
    /// Age of its messages.
    pub max_age: Duration,
}

impl HistorySettings {
    /// The folder of a pipeline: no two tenants and no two pipelines have the same one.
    pub fn folder(&self, pipeline: &str) -> PathBuf {
        // Neither name has `@` after this.
        self.path.join(format!("_{}@{}", file_name(pipeline), file_name(&self.tenant)))
    }
}

/// A name as a part of a file's name: bytes of other characters than letters, digits, `-`, `_` and `.` as in URLs.
fn file_name(name: &str) -> String {
    escape_except(name, b"-_.")
}

/// Writes the history of one pipeline.
pub(super) struct HistorySink {
    segments: SegmentWriter,
}

impl HistorySink {
    pub(super) fn new(settings: &HistorySettings, pipeline: &str) -> Self {
        let bounds = SegmentBounds { max_bytes: settings.max_bytes, max_age: settings.max_age };
        Self { segments: SegmentWriter::new(settings.folder(pipeline), bounds) }
    }
}

impl Sink for HistorySink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let mut lines = Vec::new();
        for record in batch {
            lines.extend_from_slice(line(record).to_string().as_bytes());
            lines.push(b'\n');
        }
        self.segments.append(&lines).map_err(|error| SinkError::Away(error.to_string()))
    }
}

/// A record as a line.
fn line(record: &Record) -> Value {
    let mut line = Map::new();
    line.insert("time".to_owned(), record.timestamp().into());
    line.insert("message_id".to_owned(), record.id().into());
    line.insert("topic".to_owned(), record.topic().into());
    match String::from_utf8(record.body()) {
        Ok(text) => line.insert("payload".to_owned(), text.into()),
        Err(bytes) => line.insert("payload_base64".to_owned(), STANDARD.encode(bytes.as_bytes()).into()),
    };
    Value::Object(line)
}

/// A question to histories.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// The topics; empty for all.
    pub filters: Vec<TopicFilterBuf>,
    /// Unix milliseconds of the first message. Without it the last messages are meant.
    pub from: Option<u64>,
    /// The message behind which the answer begins, where that is not the first one of `from`.
    pub behind: Option<HistoryPlace>,
    /// Messages at most.
    pub limit: usize,
}

/// A place in the order of messages: that of the message with this time and id. Messages of one time are in the order of their
/// ids, which is the same at each node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HistoryPlace {
    /// Unix milliseconds.
    pub time: u64,
    /// The id of the message.
    pub id: String,
}

impl HistoryPlace {
    /// The place of a message.
    pub fn of(message: &Value) -> Self {
        Self { time: message["time"].as_u64().unwrap_or_default(), id: id_of(message) }
    }

    /// The place before all messages of a time.
    pub fn before(time: u64) -> Self {
        Self { time, id: String::new() }
    }

    fn key(&self) -> (u64, usize, &str) {
        // `9` is before `10`.
        (self.time, self.id.len(), &self.id)
    }
}

impl Ord for HistoryPlace {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for HistoryPlace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Messages of histories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryFound {
    /// The messages, the oldest first.
    pub messages: Vec<Value>,
    /// Where bytes have ended the reading, the place up to which, or from which on, all messages are here. There may be more,
    /// also below the limit of the question.
    pub end: Option<HistoryPlace>,
    /// Where the bound of bytes has ended the reading, the time from which on, or before which, lines were not looked at;
    /// Unix milliseconds.
    pub bound: Option<u64>,
}

/// Reads messages of several histories, the oldest first. `may` says whether a topic may be read. `is_wanted` is asked
/// before each segment and each block of lines; when it says no, the rest is not read. Of each history `most` bytes are
/// looked at, but one segment and one block in any case.
///
/// # Errors
/// When a file cannot be read, or the answer is not wanted any more.
pub fn read_history(
    (index, histories): (&HistoryIndex, &[(PathBuf, Duration)]),
    query: &HistoryQuery,
    most: u64,
    may: &mut dyn FnMut(&str) -> bool,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<HistoryFound> {
    let (mut all, mut edges, mut bounds): (Vec<Line>, Vec<HistoryPlace>, Vec<u64>) = Default::default();
    let is_forward = query.from.is_some();
    for (folder, max_age) in histories {
        let oldest = wall_clock().saturating_sub(u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX));
        let from = query.from.unwrap_or(0).max(oldest);
        let mut reading = HistoryReading { query, from, found: BTreeMap::new(), bytes: 0, ids: HashSet::new() };
        let bound = reading.read((index, folder), most, may, is_wanted)?;
        let lines: VecDeque<Line> = reading.found.into_values().collect();
        let has_more = exceeds(&lines);
        let kept = within(lines, query);
        let edge = if is_forward { kept.back() } else { kept.front() };
        edges.extend(edge.filter(|_| has_more).map(Line::place));
        bounds.extend(bound);
        all.extend(kept);
    }
    edges.extend(bounds.iter().map(|bound| query.edge(*bound)));
    // The answer ends where a history ends that has more: the next question begins there.
    all.retain(|line| edges.iter().all(|edge| if is_forward { line.place() <= *edge } else { line.place() >= *edge }));
    let is_too_long = exceeds(&all);
    all.sort_by_cached_key(Line::place);
    let kept = within(all.into(), query);
    let last = if is_forward { kept.back() } else { kept.front() };
    edges.extend(last.filter(|_| is_too_long).map(Line::place));
    let messages = kept.into_iter().map(|line| line.value).collect();
    Ok(HistoryFound { messages, end: nearest(edges, is_forward), bound: nearest(bounds, is_forward) })
}

impl HistoryQuery {
    /// The edge of an answer where lines from a time on, or before it, were not looked at. One of that time may be among them,
    /// so a question behind it would jump over that; but an answer to a question for this time would be empty then.
    pub fn edge(&self, bound: u64) -> HistoryPlace {
        match self.from {
            Some(from) if from >= bound => HistoryPlace::before(bound.saturating_add(1)),
            _ => HistoryPlace::before(bound),
        }
    }
}

fn nearest<T: Ord>(edges: Vec<T>, is_forward: bool) -> Option<T> {
    if is_forward { edges.into_iter().min() } else { edges.into_iter().max() }
}

/// Whether lines have more bytes than an answer.
fn exceeds<'a>(lines: impl IntoIterator<Item = &'a Line>) -> bool {
    lines.into_iter().map(|line| line.bytes).sum::<usize>() > MAX_HISTORY_ANSWER
}

/// Puts messages of several nodes together, which [`read_history`] has read for the same question. A message that a pipeline
/// has written at two nodes is there once.
pub fn merge_histories(parts: Vec<Vec<Value>>, query: &HistoryQuery) -> Vec<Value> {
    let (mut known, mut all) = (HashSet::new(), Vec::new());
    for part in parts {
        // Several pipelines of a node may have one message.
        let is_new = |value: &Value| value["message_id"].as_str().is_none_or(|id| !known.contains(id));
        let part: Vec<Value> = part.into_iter().filter(is_new).collect();
        known.extend(part.iter().filter_map(|value| value["message_id"].as_str().map(str::to_owned)));
        all.extend(part.into_iter().map(|value| {
            let (time, bytes) = (value["time"].as_u64().unwrap_or_default(), value.to_string().len());
            Line { time, bytes, value }
        }));
    }
    all.sort_by_cached_key(Line::place);
    within(all.into(), query).into_iter().map(|line| line.value).collect()
}

/// A line of a segment.
struct Line {
    time: u64,
    bytes: usize,
    value: Value,
}

impl Line {
    fn place(&self) -> HistoryPlace {
        HistoryPlace { time: self.time, id: id_of(&self.value) }
    }
}

/// The first or the last lines, within the limit of the question and [`MAX_HISTORY_ANSWER`]; one line in any case.
fn within(mut lines: VecDeque<Line>, query: &HistoryQuery) -> VecDeque<Line> {
    let is_full = |count: usize, bytes: usize| count >= query.limit || count > 0 && bytes > MAX_HISTORY_ANSWER;
    let (mut count, mut bytes) = (0, 0);
    let mut next = |line: &Line| {
        bytes += line.bytes;
        let takes = !is_full(count, bytes);
        count += usize::from(takes);
        takes
    };
    if query.from.is_some() {
        let kept = lines.iter().take_while(|line| next(line)).count();
        lines.truncate(kept);
    } else {
        let kept = lines.iter().rev().take_while(|line| next(line)).count();
        lines.drain(..lines.len() - kept);
    }
    lines
}

/// Whether messages of a topic may be shown.
type May<'f> = &'f mut dyn FnMut(&str) -> bool;

/// The order of messages: their places, then the places of their lines: a message may have no id.
type Order = (HistoryPlace, usize, u64);

/// The messages of one history with the first or the last times.
struct HistoryReading<'a> {
    query: &'a HistoryQuery,
    /// Unix milliseconds of the first message.
    from: u64,
    found: BTreeMap<Order, Line>,
    bytes: usize,
    /// The ids of found messages.
    ids: HashSet<String>,
}

impl HistoryReading<'_> {
    /// Reads a folder, and returns the time from which on, or before which, lines were not looked at: `most` bytes are.
    fn read(
        &mut self,
        (index, folder): (&HistoryIndex, &Path),
        most: u64,
        may: May<'_>,
        is_wanted: &dyn Fn() -> bool,
    ) -> io::Result<Option<u64>> {
        let segments = index.segments(folder)?;
        let is_forward = self.query.from.is_some();
        // The other half is for the lines.
        let survey = survey(index, &segments, (self.from, is_forward), most / 2, is_wanted)?;
        let (mut looked, mut is_first) = (survey.looked, true);
        for (number, block) in survey.blocks {
            if self.is_full_before(&block) {
                return Ok(None);
            }
            if survey.edge.is_some_and(|edge| if is_forward { block.earliest > edge } else { block.latest < edge }) {
                break;
            }
            if looked >= most && !is_first {
                let edge = if is_forward { block.earliest.max(self.from) } else { block.latest };
                return Ok(Some(edge));
            }
            check_wanted(is_wanted)?;
            (looked, is_first) = (looked + block.end - block.start, false);
            if let Some(path) = segments.get(number) {
                self.take_block((number, path), block, may)?;
            }
        }
        let is_full = |edge: &u64| self.is_full_before(&Block { earliest: *edge, latest: *edge, ..Block::default() });
        Ok(survey.edge.filter(|edge| !is_full(edge)))
    }

    /// Whether no message of a block comes before the found ones, which are as many as an answer has.
    fn is_full_before(&self, block: &Block) -> bool {
        if self.found.len() < self.query.limit && self.bytes <= MAX_HISTORY_ANSWER {
            return false;
        }
        if self.query.from.is_some() {
            self.found.last_key_value().is_some_and(|((place, ..), _)| block.earliest > place.time)
        } else {
            self.found.first_key_value().is_some_and(|((place, ..), _)| block.latest < place.time)
        }
    }

    /// Takes the messages of a block. A line that was torn by a crash is left out, and a message that was written again
    /// after a crash is there once.
    fn take_block(&mut self, (number, path): (usize, &Path), block: Block, may: May<'_>) -> io::Result<()> {
        let mut file = match File::open(path) {
            // It was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        file.seek(SeekFrom::Start(block.start))?;
        let mut lines = Lines::new(BufReader::new(file.take(block.end - block.start)), block.start);
        while let Some(text) = lines.next()? {
            let (bytes, Ok(value)) = (text.len(), serde_json::from_slice::<Value>(text)) else { continue };
            let Some(time) = value["time"].as_u64().filter(|time| *time >= self.from) else { continue };
            let Some(topic) = value["topic"].as_str() else { continue };
            let matches = self.query.filters.is_empty() || self.query.filters.iter().any(|it| is_of(it, topic));
            if !matches || !may(topic) {
                continue;
            }
            let place = HistoryPlace { time, id: id_of(&value) };
            if self.query.behind.as_ref().is_some_and(|behind| place <= *behind) {
                continue;
            }
            if value["message_id"].as_str().is_some_and(|id| !self.ids.insert(id.to_owned())) {
                continue;
            }
            self.bytes += bytes;
            self.found.insert((place, number, lines.at()), Line { time, bytes, value });
            self.shorten();
        }
        Ok(())
    }

    /// Leaves out messages that are more than an answer has, but one that shows that there are more bytes.
    fn shorten(&mut self) {
        while self.found.len() > self.query.limit || self.bytes - self.farthest_bytes() > MAX_HISTORY_ANSWER {
            let farthest = if self.query.from.is_some() { self.found.pop_last() } else { self.found.pop_first() };
            let Some((_, line)) = farthest else { break };
            self.bytes -= line.bytes;
            self.ids.remove(&id_of(&line.value));
        }
    }

    fn farthest_bytes(&self) -> usize {
        let farthest =
            if self.query.from.is_some() { self.found.last_key_value() } else { self.found.first_key_value() };
        farthest.map_or(0, |(_, line)| line.bytes)
    }
}

fn check_wanted(is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
    if is_wanted() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Interrupted, "the answer is not wanted any more"))
}

/// The id of a message.
fn id_of(value: &Value) -> String {
    value["message_id"].as_str().unwrap_or_default().to_owned()
}

fn is_of(filter: &TopicFilterBuf, topic: &str) -> bool {
    tidegate_client::TopicNameBuf::new(topic).is_ok_and(|topic| filter.matches(&topic))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;
    use crate::message::Message;
    use crate::record::Content;
    use crate::segments::segments;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("tidegate-history-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn settings(&self, max_bytes: u64) -> HistorySettings {
            HistorySettings {
                path: self.0.clone(),
                tenant: String::new(),
                max_bytes,
                max_age: Duration::from_secs(3_600),
            }
        }

        fn read(&self, query: &HistoryQuery) -> Vec<String> {
            let settings = self.settings(0);
            let histories = [(settings.folder("p"), settings.max_age)];
            let found = read(&histories, query, &mut |topic| topic != "secret");
            assert_eq!(found.end, None);
            found.messages.iter().map(|line| line["payload"].as_str().unwrap().to_owned()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn read(
        histories: &[(PathBuf, Duration)],
        query: &HistoryQuery,
        may: &mut dyn FnMut(&str) -> bool,
    ) -> HistoryFound {
        read_history((&HistoryIndex::default(), histories), query, u64::MAX, may, &|| true).unwrap()
    }

    fn record(number: u64, topic: &str, payload: &str) -> Arc<Record> {
        let message = Message {
            id: number.to_string(),
            topic: topic.to_owned(),
            timestamp: wall_clock() + number,
            ..Message::default()
        };
        Arc::new(Record::new(Arc::new(message), Content::Logged(payload.as_bytes().to_vec())))
    }

    fn last(limit: usize) -> HistoryQuery {
        HistoryQuery { limit, ..HistoryQuery::default() }
    }

    /// Writes lines of 3 MB, each with the time that it has for its payload's name.
    fn write_long_lines(folder: &Path, topic: &str, times: impl Iterator<Item = u64>) {
        fs::create_dir_all(folder).unwrap();
        let filling = "x".repeat(3_000_000);
        let line = |time: u64| serde_json::json!({ "time": time, "message_id": format!("{}-{time}", folder.display()), "topic": topic, "payload": filling });
        let lines: Vec<String> = times.map(|time| line(time).to_string()).collect();
        fs::write(folder.join("00000000000000000001.ndjson"), lines.join("\n") + "\n").unwrap();
    }

    #[test]
    fn an_answer_ends_where_a_history_with_more_ends() {
        let folder = Folder::new("two");
        let (long, short) = (folder.0.join("long"), folder.0.join("short"));
        let now = wall_clock();
        write_long_lines(&long, "a", (now..now + 10).step_by(2));
        fs::create_dir_all(&short).unwrap();
        let late = serde_json::json!({ "time": now + 9, "message_id": "late", "topic": "a", "payload": "late" });
        fs::write(short.join("00000000000000000001.ndjson"), format!("{late}\n")).unwrap();
        let histories = [(long, Duration::from_secs(3_600)), (short, Duration::from_secs(3_600))];
        let query = HistoryQuery { from: Some(now), limit: 100, ..HistoryQuery::default() };
        let found = read(&histories, &query, &mut |_| true);
        let times: Vec<u64> = found.messages.iter().map(|line| line["time"].as_u64().unwrap() - now).collect();
        let end = found.end.map(|end| end.time);
        assert_eq!((times, end), (vec![0, 2], Some(now + 2)), "the message of time 9 is behind unread ones");
    }

    #[test]
    fn the_first_and_the_last_messages_are_read_by_topic_and_right() {
        let folder = Folder::new("read");
        let mut sink = HistorySink::new(&folder.settings(1 << 20), "p");
        let records = [record(1, "a/x", "1"), record(2, "secret", "2"), record(3, "b", "3"), record(4, "a/y", "4")];
        sink.write(&records).unwrap();
        // After a crash the same message comes again.
        HistorySink::new(&folder.settings(1 << 20), "p").write(&records[3..]).unwrap();
        assert_eq!(folder.read(&last(9)), ["1", "3", "4"]);
        assert_eq!(folder.read(&last(2)), ["3", "4"]);
        let filters = vec![TopicFilterBuf::new("a/+").unwrap()];
        assert_eq!(folder.read(&HistoryQuery { filters, ..last(9) }), ["1", "4"]);
        assert_eq!(folder.read(&HistoryQuery { from: Some(0), ..last(2) }), ["1", "3"]);
        let from = Some(records[2].timestamp());
        assert_eq!(folder.read(&HistoryQuery { from, ..last(9) }), ["3", "4"]);
        let none = [(folder.0.join("none"), Duration::MAX)];
        assert!(read(&none, &last(1), &mut |_| true).messages.is_empty());
    }

    #[test]
    fn an_answer_is_bounded_by_its_bytes() {
        let line = |time, bytes| Line { time, bytes, value: Value::Null };
        let times = |query: &HistoryQuery, sizes: &[usize]| {
            let lines = sizes.iter().zip(1..).map(|(bytes, time)| line(time, *bytes)).collect();
            within(lines, query).iter().map(|line| line.time).collect::<Vec<_>>()
        };
        let sizes = [MAX_HISTORY_ANSWER - 1, 1, 1, MAX_HISTORY_ANSWER - 1];
        assert_eq!(times(&last(9), &sizes), [3, 4]);
        assert_eq!(times(&HistoryQuery { from: Some(0), ..last(9) }, &sizes), [1, 2]);
        assert_eq!(times(&last(9), &[1, 2 * MAX_HISTORY_ANSWER]), [2], "one message comes in any case");
    }

    #[test]
    fn messages_of_several_nodes_are_merged_by_time() {
        let message = |time: u64, id: &str| serde_json::json!({ "time": time, "message_id": id });
        let parts = vec![
            vec![message(1, "a"), message(1, "a"), message(5, "c")],
            vec![message(1, "a"), message(3, "b")],
            vec![message(9, "d")],
        ];
        let times = |query: &HistoryQuery| -> Vec<u64> {
            merge_histories(parts.clone(), query).iter().map(|message| message["time"].as_u64().unwrap()).collect()
        };
        assert_eq!(times(&last(9)), [1, 1, 3, 5, 9]);
        assert_eq!(times(&last(2)), [5, 9]);
        assert_eq!(times(&HistoryQuery { from: Some(0), ..last(3) }), [1, 1, 3]);
    }

    #[test]
    fn a_torn_line_is_no_message() {
        let folder = Folder::new("torn");
        let mut sink = HistorySink::new(&folder.settings(1 << 20), "p");
        sink.write(&[record(1, "a", "1")]).unwrap();
        let (_, path) = segments(&folder.settings(0).folder("p")).unwrap().pop().unwrap();
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"{\"time\":1,\"top").unwrap();
        HistorySink::new(&folder.settings(1 << 20), "p").write(&[record(2, "a", "2")]).unwrap();
        assert_eq!(folder.read(&last(9)), ["1", "2"]);
    }

    #[test]
    fn no_two_tenants_and_pipelines_have_one_folder() {
        let of = |tenant: &str, pipeline: &str| {
            HistorySettings { tenant: tenant.to_owned(), ..HistorySettings::default() }.folder(pipeline)
        };
        assert_eq!(of("acme", "past"), PathBuf::from("_past@acme"));
        let names =
            [("", "a"), ("b", "a"), ("", "a b"), ("", "a_b"), ("", "a@b"), ("", "a%20b"), ("a", "b"), ("..", "/")];
        let folders: HashSet<PathBuf> = names.iter().map(|(tenant, pipeline)| of(tenant, pipeline)).collect();
        assert_eq!(folders.len(), names.len(), "{folders:?}");
        assert!(folders.iter().all(|folder| folder.components().count() == 1), "{folders:?}");
    }

    #[test]
    fn a_reading_that_nothing_waits_for_ends() {
        let folder = Folder::new("wanted");
        for number in 1..=3 {
            HistorySink::new(&folder.settings(1 << 20), "p").write(&[record(number, "a", "x")]).unwrap();
        }
        let asked = std::cell::Cell::new(0);
        let is_wanted = || {
            asked.set(asked.get() + 1);
            asked.get() < 2
        };
        let settings = folder.settings(0);
        let histories = [(settings.folder("p"), settings.max_age)];
        let index = HistoryIndex::default();
        assert!(read_history((&index, &histories), &last(9), u64::MAX, &mut |_| true, &is_wanted).is_err());
        assert_eq!(asked.get(), 2, "it is asked before each block");
    }

    #[test]
    fn no_more_lines_are_held_than_an_answer_has() {
        let folder = Folder::new("held");
        let mut sink = HistorySink::new(&folder.settings(1 << 30), "p");
        let payload = "x".repeat(MAX_HISTORY_ANSWER / 4);
        let records: Vec<_> = (1..=9).map(|number| record(number, "a", &payload)).collect();
        sink.write(&records).unwrap();
        for from in [None, Some(0)] {
            let histories = [(folder.settings(0).folder("p"), Duration::MAX)];
            let found = read(&histories, &HistoryQuery { from, ..last(100) }, &mut |_| true);
            assert_eq!((found.messages.len(), found.end.is_some()), (3, true));
        }
        let path = folder.settings(0).folder("p");
        let held = |query: &HistoryQuery| {
            let mut reading = HistoryReading { query, from: 0, found: BTreeMap::new(), bytes: 0, ids: HashSet::new() };
            let index = HistoryIndex::default();
            assert_eq!(reading.read((&index, &path), u64::MAX, &mut |_| true, &|| true).unwrap(), None);
            assert_eq!(reading.ids.len(), reading.found.len());
            reading.found.values().map(|line| id_of(&line.value)).collect::<Vec<_>>()
        };
        assert_eq!(held(&last(100)), ["6", "7", "8", "9"].map(str::to_owned)[..].to_vec());
        assert_eq!(held(&last(2)), ["8", "9"]);
        assert_eq!(held(&HistoryQuery { from: Some(0), ..last(2) }), ["1", "2"]);
        assert_eq!(held(&HistoryQuery { from: Some(0), ..last(100) }), ["1", "2", "3", "4"]);
    }

    /// Writes a segment whose lines have these times.
    fn write_times(folder: &Path, segment: u64, times: impl Iterator<Item = u64>) {
        fs::create_dir_all(folder).unwrap();
        let line = |time: u64| serde_json::json!({ "time": time, "message_id": time.to_string(), "topic": format!("t/{}", time % 2), "payload": "x".repeat(100) });
        let lines: Vec<String> = times.map(|time| line(time).to_string()).collect();
        fs::write(folder.join(format!("{segment:020}.ndjson")), lines.join("\n") + "\n").unwrap();
    }

    #[test]
    fn pages_have_each_message_once_and_look_at_few_lines() {
        let folder = Folder::new("pages");
        let now = wall_clock();
        // The second segment has older messages, as after a step of the clock.
        write_times(&folder.0, 1, now + 10_000..now + 20_000);
        write_times(&folder.0, 2, now..now + 10_000);
        let (index, histories) = (HistoryIndex::default(), [(folder.0.clone(), Duration::from_secs(3_600))]);
        let looked = std::cell::Cell::new(0);
        let (mut from, mut seen) = (now, HashSet::new());
        loop {
            let query = HistoryQuery { from: Some(from), limit: 700, ..HistoryQuery::default() };
            looked.set(0);
            let mut may = |_: &str| {
                looked.set(looked.get() + 1);
                true
            };
            let found = read_history((&index, &histories[..]), &query, u64::MAX, &mut may, &|| true).unwrap();
            assert!(looked.get() <= 2_500, "{} lines", looked.get());
            let before = seen.len();
            seen.extend(found.messages.iter().map(|message| message["message_id"].as_str().unwrap().to_owned()));
            if seen.len() == before {
                break;
            }
            from = found.messages.last().unwrap()["time"].as_u64().unwrap();
        }
        assert_eq!(seen.len(), 20_000, "no message is jumped over");
    }

    #[test]
    fn many_messages_of_one_millisecond_come_in_pages() {
        let folder = Folder::new("millisecond");
        let now = wall_clock();
        let line =
            |id: u64| serde_json::json!({ "time": now + id / 2_500, "message_id": id.to_string(), "topic": "a" });
        let (one, other) = (folder.0.join("one"), folder.0.join("other"));
        for (path, odd) in [(&one, 0), (&other, 1)] {
            fs::create_dir_all(path).unwrap();
            let lines: Vec<String> = (0..5_000).filter(|id| id % 2 == odd).map(|id| line(id).to_string()).collect();
            fs::write(path.join("00000000000000000001.ndjson"), lines.join("\n") + "\n").unwrap();
        }
        let histories = [one, other].map(|folder| (folder, Duration::from_secs(3_600)));
        let (mut behind, mut seen) = (None, Vec::new());
        loop {
            let from = behind.as_ref().map_or(now, |place: &HistoryPlace| place.time);
            let query = HistoryQuery { from: Some(from), behind, ..last(1_000) };
            let found = read(&histories, &query, &mut |_| true);
            let Some(end) = found.messages.last() else { break };
            behind = Some(HistoryPlace::of(end));
            seen.extend(found.messages.iter().map(id_of));
        }
        let all: Vec<String> = (0..5_000).map(|id: u64| id.to_string()).collect();
        assert!(seen == all, "each message once, in its order: {} messages", seen.len());
    }

    #[test]
    fn a_question_after_a_start_reads_few_segments() {
        let folder = Folder::new("start");
        let now = wall_clock();
        for number in 0..6 {
            write_times(&folder.0, number, now + number * 1_000..now + (number + 1) * 1_000);
        }
        let histories = [(folder.0.clone(), Duration::from_secs(3_600))];
        let files: Vec<PathBuf> = segments(&folder.0).unwrap().into_iter().map(|(_, path)| path).collect();
        let unread = |index: &HistoryIndex| files.iter().filter(|path| index.unread(path).unwrap() > 0).count();
        let read = |index: &HistoryIndex, query: &HistoryQuery| {
            let found = read_history((index, &histories[..]), query, 1, &mut |_| true, &|| true).unwrap();
            let times: Vec<u64> = found.messages.iter().map(|line| line["time"].as_u64().unwrap() - now).collect();
            (times, found.end.map(|end| end.time - now))
        };
        let index = HistoryIndex::default();
        assert_eq!(read(&index, &last(1)), (vec![5_999], None));
        assert_eq!(unread(&index), 5);
        let index = HistoryIndex::default();
        assert_eq!(read(&index, &HistoryQuery { from: Some(now + 3_500), ..last(2) }), (vec![3_500, 3_501], None));
        assert_eq!(unread(&index), 5);
        for (from, ends) in [(None, [5_000, 4_999]), (Some(now), [1_000, 1_000])] {
            let index = HistoryIndex::default();
            let filters = vec![TopicFilterBuf::new("t/none").unwrap()];
            let query = HistoryQuery { filters, from, ..last(9) };
            assert_eq!(ends.map(|_| read(&index, &query).1), ends.map(Some), "{from:?}");
            for left in (0..4).rev() {
                read(&index, &query);
                assert_eq!(unread(&index), left, "each question reads one segment more");
            }
        }
        let unwanted = read_history((&index, &histories[..]), &last(1), u64::MAX, &mut |_| true, &|| false);
        assert!(unwanted.is_err());
    }

    #[test]
    fn the_nearest_end_of_several_histories_is_said() {
        let folder = Folder::new("ends");
        let (long, other) = (folder.0.join("long"), folder.0.join("other"));
        let now = wall_clock();
        write_long_lines(&long, "a", now..now + 5);
        write_long_lines(&other, "secret", now + 500..now + 505);
        let histories = [(long, Duration::from_secs(3_600)), (other, Duration::from_secs(3_600))];
        let query = HistoryQuery { from: Some(now), ..last(9) };
        let index = HistoryIndex::default();
        let read = |most| {
            let found = read_history((&index, &histories[..]), &query, most, &mut |topic| topic == "a", &|| true);
            let found = found.unwrap();
            (found.messages.len(), found.end.map(|end| end.time - now), found.bound.map(|bound| bound - now))
        };
        assert_eq!(read(u64::MAX), (2, Some(1), None));
        assert_eq!(
            read(9_500_000),
            (2, Some(1), Some(504)),
            "the second one ends at its bound, far behind the first one"
        );
    }

    #[test]
    fn a_reading_ends_at_its_bound_of_bytes_and_says_where() {
        let folder = Folder::new("bound");
        let now = wall_clock();
        write_times(&folder.0, 1, now..now + 10_000);
        let (index, histories) = (HistoryIndex::default(), [(folder.0.clone(), Duration::from_secs(3_600))]);
        let filters = vec![TopicFilterBuf::new("t/none").unwrap()];
        for from in [Some(now), None] {
            let query = HistoryQuery { filters: filters.clone(), from, ..last(9) };
            let read = |most| read_history((&index, &histories[..]), &query, most, &mut |_| true, &|| true).unwrap();
            let found = read(1);
            assert!(found.end.is_some() && found.messages.is_empty());
            let bound = found.bound.unwrap();
            assert!((now + 1_000..now + 9_000).contains(&bound), "{}", bound - now);
            assert_eq!(read(u64::MAX), HistoryFound::default());
        }
    }
}
