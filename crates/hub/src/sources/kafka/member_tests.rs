//! The source as a member of a group, against a broker that answers from memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Condvar, Mutex};

use super::*;
use crate::sinks::SinkError;
use crate::sinks::kafka::records::{self, BatchEntry, Sequence};
use crate::sinks::kafka::wire::{AnswerReader, bytes, string};

const TOPIC: &str = "orders";
const PATIENCE: Duration = Duration::from_secs(60);
const JOIN: i16 = 11;
const HEARTBEAT: i16 = 12;
const LEAVE: i16 = 13;

/// The state of the broker, and its answers.
#[derive(Default)]
struct FakeState {
    /// The number of records of each partition.
    records: BTreeMap<i32, i64>,
    /// Partitions that say that another broker leads them.
    moved: BTreeSet<i32>,
    committed: BTreeMap<i32, i64>,
    /// The first offset of a replay.
    replay: i64,
    /// Kinds of requests that came.
    asked: Vec<i16>,
    /// Kinds of requests that get no answer.
    silent: BTreeSet<i16>,
    heartbeat_error: i16,
}

struct FakeBroker {
    port: u16,
    state: Mutex<FakeState>,
    changed: Condvar,
}

impl FakeBroker {
    fn start(records: &[i64]) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let records = (0..).zip(records.iter().copied()).collect();
        let state = Mutex::new(FakeState { records, ..FakeState::default() });
        let broker = Arc::new(Self { port, state, changed: Condvar::new() });
        let serving = Arc::clone(&broker);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let broker = Arc::clone(&serving);
                thread::spawn(move || broker.serve(stream.unwrap()));
            }
        });
        broker
    }

    fn change(&self, change: impl FnOnce(&mut FakeState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits until something holds.
    fn wait(&self, holds: impl Fn(&FakeState) -> bool) {
        let state = self.state.lock().unwrap();
        let (_state, waited) = self.changed.wait_timeout_while(state, PATIENCE, |state| !holds(state)).unwrap();
        assert!(!waited.timed_out());
    }

    fn count(&self, kind: i16) -> usize {
        self.state.lock().unwrap().asked.iter().filter(|asked| **asked == kind).count()
    }

    /// Answers the requests of a connection, until it is closed.
    fn serve(&self, mut stream: TcpStream) {
        let mut len = [0; 4];
        while stream.read_exact(&mut len).is_ok() {
            let mut request = vec![0; u32::from_be_bytes(len) as usize];
            stream.read_exact(&mut request).unwrap();
            let mut reader = AnswerReader(&request);
            let (kind, _version, correlation) = (reader.i16().unwrap(), reader.i16().unwrap(), reader.i32().unwrap());
            reader.string().unwrap();
            let mut state = self.state.lock().unwrap();
            let answer = answer(&mut state, kind, self.port, &mut reader).unwrap();
            state.asked.push(kind);
            self.changed.notify_all();
            if state.silent.contains(&kind) {
                continue;
            }
            drop(state);
            let mut out = (answer.len() as u32 + 4).to_be_bytes().to_vec();
            out.extend_from_slice(&correlation.to_be_bytes());
            out.extend(answer);
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    }
}

fn answer(state: &mut FakeState, kind: i16, port: u16, body: &mut AnswerReader<'_>) -> Result<Vec<u8>, SinkError> {
    let none = vec![0; 6];
    Ok(match kind {
        1 => fetch(state, body)?,
        2 => {
            body.i32()?;
            let asked = of_topic(body, |one| Ok((one.i32()?, one.i64()?)))?;
            let offset = |time: i64| if time < 0 { 0 } else { state.replay };
            for_topic(&asked, |(partition, time), out| {
                number(*partition, out);
                out.extend([0; 10]);
                out.extend(offset(*time).to_be_bytes());
            })
        }
        3 => metadata(state, port),
        8 => {
            group_start(body)?;
            body.i64()?;
            let commits = of_topic(body, |one| Ok((one.i32()?, one.i64()?, one.string()?)))?;
            state.committed.extend(commits.iter().map(|(partition, offset, _)| (*partition, *offset)));
            for_topic(&commits, |(partition, ..), out| {
                number(*partition, out);
                out.extend([0; 2]);
            })
        }
        9 => {
            body.string()?;
            let asked = of_topic(body, AnswerReader::i32)?;
            for_topic(&asked, |partition, out| {
                number(*partition, out);
                out.extend(state.committed.get(partition).copied().unwrap_or(-1).to_be_bytes());
                out.extend([0; 4]);
            })
        }
        10 => {
            let mut out = vec![0; 8];
            number(1, &mut out);
            string("127.0.0.1", &mut out);
            number(i32::from(port), &mut out);
            out
        }
        JOIN => joined(body)?,
        14 => {
            group_start(body)?;
            let assignments = body.each(|one| Ok((one.string()?, one.bytes()?)))?;
            let mut out = none;
            bytes(assignments[0].1, &mut out);
            out
        }
        HEARTBEAT => [&none[..4], &state.heartbeat_error.to_be_bytes()].concat(),
        _ => none,
    })
}

fn number(number: i32, out: &mut Vec<u8>) {
    out.extend(number.to_be_bytes());
}

fn group_start(body: &mut AnswerReader<'_>) -> Result<(), SinkError> {
    body.string()?;
    body.i32()?;
    body.string().map(drop)
}

fn of_topic<'a, T>(
    body: &mut AnswerReader<'a>,
    mut read: impl FnMut(&mut AnswerReader<'a>) -> Result<T, SinkError>,
) -> Result<Vec<T>, SinkError> {
    assert_eq!((body.i32()?, body.string()?.as_str()), (1, TOPIC));
    body.each(&mut read)
}

fn for_topic<T>(parts: &[T], mut write: impl FnMut(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    number(1, &mut out);
    string(TOPIC, &mut out);
    number(i32::try_from(parts.len()).unwrap(), &mut out);
    for part in parts {
        write(part, &mut out);
    }
    out
}

fn metadata(state: &FakeState, port: u16) -> Vec<u8> {
    let mut out = vec![0; 4];
    number(1, &mut out);
    number(1, &mut out);
    string("127.0.0.1", &mut out);
    number(i32::from(port), &mut out);
    out.extend([0xff; 4]);
    number(1, &mut out);
    number(1, &mut out);
    out.extend([0; 2]);
    string(TOPIC, &mut out);
    out.push(0);
    number(i32::try_from(state.records.len()).unwrap(), &mut out);
    for partition in state.records.keys() {
        out.extend([0; 2]);
        number(*partition, &mut out);
        number(1, &mut out);
        out.extend([0; 8]);
    }
    out
}

/// This member is the only one, and leads the group.
fn joined(body: &mut AnswerReader<'_>) -> Result<Vec<u8>, SinkError> {
    body.string()?;
    body.i64()?;
    body.string()?;
    body.string()?;
    let subscriptions = body.each(|one| Ok((one.string()?, one.bytes()?)))?;
    let mut out = vec![0; 6];
    number(1, &mut out);
    for text in ["range", "m", "m"] {
        string(text, &mut out);
    }
    number(1, &mut out);
    string("m", &mut out);
    bytes(subscriptions[0].1, &mut out);
    Ok(out)
}

fn fetch(state: &FakeState, body: &mut AnswerReader<'_>) -> Result<Vec<u8>, SinkError> {
    body.take(4 * 4 + 1 + 8)?;
    let asked = of_topic(body, |one| {
        let (partition, _epoch, offset) = (one.i32()?, one.i32()?, one.i64()?);
        one.take(8 + 4)?;
        Ok((partition, offset))
    })?;
    let mut out = vec![0; 4 + 2 + 4];
    out.extend(for_topic(&asked, |(partition, offset), out| {
        let end = state.records[partition];
        let is_moved = state.moved.contains(partition);
        number(*partition, out);
        out.extend(if is_moved { 6_i16 } else { 0 }.to_be_bytes());
        out.extend(end.to_be_bytes());
        out.extend(end.to_be_bytes());
        out.extend(0_i64.to_be_bytes());
        number(0, out);
        let entries: Vec<BatchEntry> = (*offset..end).map(|_| BatchEntry::default()).collect();
        let mut batch = Vec::new();
        if !entries.is_empty() && !is_moved {
            let sequence = Sequence { producer: 1, epoch: 0, first: 0, in_transaction: false };
            batch = records::batch(sequence, &entries);
            batch[..8].copy_from_slice(&offset.to_be_bytes());
        }
        bytes(&batch, out);
    }));
    Ok(out)
}

fn source(broker: &FakeBroker) -> Kafka {
    let settings = KafkaSourceSettings {
        url: format!("kafka://127.0.0.1:{}", broker.port),
        topic: TOPIC.into(),
        group: "g".into(),
        window: 100,
        ..KafkaSourceSettings::default()
    };
    Kafka::new(&settings).unwrap()
}

/// The ids of the next messages, and the troubles before them.
fn take(source: &mut Kafka, count: usize) -> (BTreeSet<String>, Vec<String>) {
    let (mut ids, mut troubles) = (BTreeSet::new(), Vec::new());
    while ids.len() < count {
        match source.next(Some(Instant::now() + PATIENCE)) {
            SourceStep::Message(message, token) => {
                source.acknowledge(token.unwrap(), Ending::Delivered);
                ids.insert(message.id.clone());
            }
            SourceStep::Partly(why) => troubles.push(why),
            _ => {}
        }
    }
    (ids, troubles)
}

fn ids(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|id| format!("{TOPIC}-{id}")).collect()
}

#[test]
fn a_moved_partition_waits_alone_and_the_group_stays() {
    let broker = FakeBroker::start(&[1, 2]);
    broker.change(|state| {
        state.moved.insert(0);
    });
    let mut source = source(&broker);
    let (found, troubles) = take(&mut source, 2);
    assert_eq!(found, ids(&["1-0", "1-1"]));
    assert!(troubles.iter().all(|why| why.starts_with("partition 0: the partition has another leader")));
    broker.change(|state| state.moved.clear());
    assert_eq!(take(&mut source, 1).0, ids(&["0-0"]));
    assert_eq!(broker.count(JOIN), 1);
}

#[test]
fn a_replay_is_answered_when_the_group_has_it() {
    let broker = FakeBroker::start(&[4]);
    broker.change(|state| state.replay = 2);
    let mut source = source(&broker);
    take(&mut source, 4);
    broker.wait(|state| state.committed.get(&0) == Some(&4));
    // The pipeline has not seen the messages again when the order is answered.
    let (answer, answered) = mpsc::channel();
    source.replay(5, answer);
    answered.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(broker.state.lock().unwrap().committed[&0], 2);
    assert_eq!(take(&mut source, 2).0, ids(&["0-2", "0-3"]));
}

#[test]
fn a_source_that_stops_while_it_joins_leaves_the_group() {
    let broker = FakeBroker::start(&[1]);
    let mut source = source(&broker);
    take(&mut source, 1);
    broker.change(|state| {
        state.silent.insert(JOIN);
        state.heartbeat_error = 27;
    });
    broker.wait(|state| state.asked.iter().filter(|kind| **kind == JOIN).count() == 2);
    source.shares.stop();
    broker.wait(|state| state.asked.contains(&LEAVE));
}
