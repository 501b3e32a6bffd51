//! The history of topics: the last messages within a bound of bytes and age, which clients of HTTP read.
//!
//! A pipeline has a folder with segments of lines. A message is a line.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tidegate_client::TopicFilterBuf;

use super::{Sink, SinkError};
use crate::record::Record;
use crate::segments::{SegmentBounds, SegmentWriter, next_line, segments};
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
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to text does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
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
    /// Messages at most.
    pub limit: usize,
}

/// Messages of histories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryFound {
    /// The messages, the oldest first.
    pub messages: Vec<Value>,
    /// Whether their bytes have ended the reading: there may be more, also below the limit of the question.
    pub is_cut: bool,
}

/// Reads messages of several histories, the oldest first. `may` says whether a topic may be read. `is_wanted` is asked
/// before each segment; when it says no, the rest is not read.
///
/// # Errors
/// When a file cannot be read, or the answer is not wanted any more.
pub fn read_history(
    histories: &[(PathBuf, Duration)],
    query: &HistoryQuery,
    may: &mut dyn FnMut(&str) -> bool,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<HistoryFound> {
    let (mut all, mut edges): (Vec<Line>, Vec<u64>) = (Vec::new(), Vec::new());
    let is_forward = query.from.is_some();
    for (folder, max_age) in histories {
        let oldest = wall_clock().saturating_sub(u64::try_from(max_age.as_millis()).unwrap_or(u64::MAX));
        let found = read_one(folder, oldest, query, (may, is_wanted))?;
        let has_more = exceeds(&found);
        let kept = within(found, query);
        let edge = if is_forward { kept.back() } else { kept.front() };
        edges.extend(edge.filter(|_| has_more).map(|line| line.time));
        all.extend(kept);
    }
    // The answer ends where a history ends that has more: the next question begins there.
    all.retain(|line| edges.iter().all(|edge| if is_forward { line.time <= *edge } else { line.time >= *edge }));
    let is_cut = !edges.is_empty() || exceeds(&all);
    // Stable: messages of one history keep their order.
    all.sort_by_key(|line| line.time);
    Ok(HistoryFound { messages: within(all.into(), query).into_iter().map(|line| line.value).collect(), is_cut })
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
    all.sort_by_key(|line| line.time);
    within(all.into(), query).into_iter().map(|line| line.value).collect()
}

/// A line of a segment.
struct Line {
    time: u64,
    bytes: usize,
    value: Value,
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

/// The first or the last messages of one history, with their times. Where their bytes end the reading, they exceed
/// [`MAX_HISTORY_ANSWER`].
fn read_one(
    folder: &Path,
    oldest: u64,
    query: &HistoryQuery,
    (may, is_wanted): (May<'_>, &dyn Fn() -> bool),
) -> io::Result<VecDeque<Line>> {
    let segments = match segments(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(VecDeque::new()),
        segments => segments?,
    };
    let from = query.from.unwrap_or(0).max(oldest);
    let mut found: VecDeque<Line> = VecDeque::new();
    let mut ids = HashSet::new();
    let is_forward = query.from.is_some();
    let places: Vec<usize> =
        if is_forward { (0..segments.len()).collect() } else { (0..segments.len()).rev().collect() };
    for at in places {
        if found.len() >= query.limit || exceeds(&found) {
            break;
        }
        let Some((_, path)) = segments.get(at) else { break };
        if !is_wanted() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the answer is not wanted any more"));
        }
        // A message that was written again after a crash is there once.
        let part = lines(path, from, query, (may, &ids))?;
        ids.extend(part.iter().filter_map(|line| line.value["message_id"].as_str().map(str::to_owned)));
        if is_forward {
            found.extend(part);
        } else {
            part.into_iter().rev().for_each(|one| found.push_front(one));
        }
    }
    Ok(found)
}

/// The first or the last lines of a segment that are asked for, without messages whose ids are known. A line that was
/// torn by a crash is left out. No more lines are held than an answer has.
fn lines(
    path: &Path,
    from: u64,
    query: &HistoryQuery,
    (may, known): (May<'_>, &HashSet<String>),
) -> io::Result<VecDeque<Line>> {
    let mut found = VecDeque::new();
    let mut file = match File::open(path) {
        // It was deleted meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        file => BufReader::new(file?),
    };
    let (mut text, mut bytes) = (Vec::new(), 0);
    while next_line(&mut file, &mut text)? {
        let (length, Ok(line)) = (text.len(), serde_json::from_slice::<Value>(&text)) else { continue };
        let Some(time) = line["time"].as_u64().filter(|time| *time >= from) else { continue };
        let Some(topic) = line["topic"].as_str() else { continue };
        let matches = query.filters.is_empty() || query.filters.iter().any(|filter| is_of(filter, topic));
        let is_known = line["message_id"].as_str().is_some_and(|id| known.contains(id));
        if is_known || !matches || !may(topic) {
            continue;
        }
        found.push_back(Line { time, bytes: length, value: line });
        bytes += length;
        if query.from.is_some() && (found.len() >= query.limit || bytes > MAX_HISTORY_ANSWER) {
            break;
        }
        // The last ones are asked for: the first ones go.
        while found.len() > query.limit || found.len() > 1 && bytes - first_bytes(&found) > MAX_HISTORY_ANSWER {
            bytes -= found.pop_front().map_or(0, |line: Line| line.bytes);
        }
    }
    Ok(found)
}

fn first_bytes(lines: &VecDeque<Line>) -> usize {
    lines.front().map_or(0, |line| line.bytes)
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
            let found = read_history(&histories, query, &mut |topic| topic != "secret", &|| true).unwrap();
            assert!(!found.is_cut);
            found.messages.iter().map(|line| line["payload"].as_str().unwrap().to_owned()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
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
    fn write_long_lines(folder: &Path, times: impl Iterator<Item = u64>) {
        fs::create_dir_all(folder).unwrap();
        let filling = "x".repeat(3_000_000);
        let line = |time: u64| serde_json::json!({ "time": time, "message_id": format!("{}-{time}", folder.display()), "topic": "a", "payload": filling });
        let lines: Vec<String> = times.map(|time| line(time).to_string()).collect();
        fs::write(folder.join("00000000000000000001.ndjson"), lines.join("\n") + "\n").unwrap();
    }

    #[test]
    fn an_answer_ends_where_a_history_with_more_ends() {
        let folder = Folder::new("two");
        let (long, short) = (folder.0.join("long"), folder.0.join("short"));
        let now = wall_clock();
        write_long_lines(&long, (now..now + 10).step_by(2));
        fs::create_dir_all(&short).unwrap();
        let late = serde_json::json!({ "time": now + 9, "message_id": "late", "topic": "a", "payload": "late" });
        fs::write(short.join("00000000000000000001.ndjson"), format!("{late}\n")).unwrap();
        let histories = [(long, Duration::from_secs(3_600)), (short, Duration::from_secs(3_600))];
        let query = HistoryQuery { from: Some(now), limit: 100, ..HistoryQuery::default() };
        let found = read_history(&histories, &query, &mut |_| true, &|| true).unwrap();
        let times: Vec<u64> = found.messages.iter().map(|line| line["time"].as_u64().unwrap() - now).collect();
        assert_eq!((times, found.is_cut), (vec![0, 2], true), "the message of time 9 is behind unread ones");
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
        assert!(read_history(&none, &last(1), &mut |_| true, &|| true).unwrap().messages.is_empty());
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
        assert!(read_history(&histories, &last(9), &mut |_| true, &is_wanted).is_err());
        assert_eq!(asked.get(), 2, "it is asked before each segment");
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
            let found = read_history(&histories, &HistoryQuery { from, ..last(100) }, &mut |_| true, &|| true).unwrap();
            assert_eq!((found.messages.len(), found.is_cut), (3, true));
        }
        let (_, path) = segments(&folder.settings(0).folder("p")).unwrap().pop().unwrap();
        let held = |query: &HistoryQuery| {
            let lines = lines(&path, 0, query, (&mut |_| true, &HashSet::new())).unwrap();
            lines.iter().map(|line| line.value["message_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(held(&last(100)), ["6", "7", "8", "9"].map(str::to_owned)[..].to_vec());
        assert_eq!(held(&last(2)), ["8", "9"]);
        assert_eq!(held(&HistoryQuery { from: Some(0), ..last(2) }), ["1", "2"]);
        assert_eq!(held(&HistoryQuery { from: Some(0), ..last(100) }), ["1", "2", "3", "4"]);
    }
}
