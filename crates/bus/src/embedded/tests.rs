//! Logs in a directory: appends that are sent again after a crash, wherever it tears the file.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use super::change::Origin;
use super::member::directory::BusDirectory;
use super::{Embedded, file};
use crate::backend::Backend;
use crate::budget::Budget;
use crate::completion::Completion;
use crate::{Append, Bounds, BusError, Done, LogName, LogPartition, LogSpec, Position, Settings};

/// Numbers that one seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A directory that is removed with this.
struct Logs {
    path: PathBuf,
    embedded: Option<Embedded>,
    place: LogPartition,
}

impl Logs {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-bus-logs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let place = LogPartition::new(LogName::new("log").unwrap(), 0);
        let mut logs = Self { path, embedded: None, place };
        logs.open();
        logs
    }

    fn open(&mut self) {
        let directory = BusDirectory::prepare(&self.path).unwrap();
        let lock = directory.try_lock().unwrap().unwrap();
        let opened = Embedded::durable(directory.path(), lock, &Settings::default(), Box::new(|| {}));
        self.embedded = Some(opened.unwrap());
    }

    /// Everything is written.
    fn close(&mut self) {
        self.embedded = None;
    }

    fn file(&self) -> PathBuf {
        self.path.join(format!("log{}", file::SUFFIX))
    }

    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&Embedded, Completion<T>)) -> Result<T, BusError> {
        let (sender, outcome) = channel();
        let done: Done<T> = Box::new(move |result| sender.send(result).unwrap());
        let settings = Settings::default();
        ask(self.embedded.as_ref().unwrap(), Completion::new(&Budget::new(&settings), &settings, 0, done).unwrap());
        outcome.recv().unwrap()
    }

    fn create(&self, spec: LogSpec) {
        self.ask(|embedded, done| embedded.create(Arc::new(spec), done)).unwrap();
    }

    fn append(&self, client: u64, number: u64, append: Append) -> Result<Position, BusError> {
        self.ask(|embedded, done| {
            let target = embedded.target(self.place.clone()).unwrap();
            embedded.append_from(&target, append, Some(Origin { client, number }), done);
        })
    }

    fn payloads(&self) -> Vec<String> {
        let embedded = self.embedded.as_ref().unwrap();
        let target = embedded.target(self.place.clone()).unwrap();
        let mut reader = embedded.read(target, Position::START, Arc::new(|| {})).unwrap();
        let records = reader.take(usize::MAX).unwrap().records;
        records.iter().map(|record| String::from_utf8_lossy(&record.payload).into_owned()).collect()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.close();
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Two clients append, each append is durable before the next. The file is torn anywhere; who has heard of appends that
/// are in it does not send them again, and the rest is sent again.
#[test]
fn appends_are_stored_once_wherever_a_crash_tears_the_file() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut logs = Logs::new("torn");
        logs.create(LogSpec::shared(logs.place.log.clone(), 1));
        let sent: Vec<(u64, u64)> = (1..=20).map(|number| (random.below(2), number)).collect();
        let append = |(client, number): (u64, u64)| Append::new(format!("{client} {number}"));
        let mut ends = Vec::new();
        for each in &sent {
            let position = logs.append(each.0, each.1, append(*each)).unwrap();
            ends.push((fs::metadata(logs.file()).unwrap().len(), position));
        }
        logs.close();
        let first = ends.first().unwrap().0 - 1;
        let cut = first + random.below(ends.last().unwrap().0 - first + 1);
        fs::OpenOptions::new().write(true).open(logs.file()).unwrap().set_len(cut).unwrap();
        logs.open();
        let stored = ends.iter().filter(|(end, _)| *end <= cut).count();
        // Each client has heard of some of its appends that are stored, in their order.
        let heard = random.below(stored as u64 + 1) as usize;
        for (index, each) in sent.iter().enumerate().skip(heard) {
            let position = logs.append(each.0, each.1, append(*each)).unwrap();
            assert!(index >= stored || position == ends[index].1, "seed {seed}: {position} of {each:?}");
        }
        let of = |all: Vec<String>, client: u64| -> Vec<String> {
            all.into_iter().filter(|text| text.starts_with(&client.to_string())).collect()
        };
        let all: Vec<String> = sent.iter().map(|(client, number)| format!("{client} {number}")).collect();
        for client in 0..2 {
            assert_eq!(of(logs.payloads(), client), of(all.clone(), client), "seed {seed}");
        }
    }
}

#[test]
fn a_rewritten_file_still_knows_appends_that_are_sent_again() {
    let mut logs = Logs::new("rewritten");
    logs.create(LogSpec::shared(logs.place.log.clone(), 1).latest_of_key());
    let append = || Append::new(vec![b'x'; 400_000]).with_key("k");
    let positions: Vec<Position> = (1..=30).map(|number| logs.append(7, number, append()).unwrap()).collect();
    logs.close();
    assert!(fs::metadata(logs.file()).unwrap().len() < 8_000_000, "it was rewritten");
    logs.open();
    for (number, position) in (1..).zip(&positions) {
        assert_eq!(logs.append(7, number, append()), Ok(*position));
    }
    let bounds: Bounds =
        logs.ask(|embedded, done| embedded.bounds(embedded.target(logs.place.clone()).unwrap(), done)).unwrap();
    assert_eq!(bounds.next, positions[29].next());
    // An append that was refused before is not stored behind later ones.
    let late = logs.append(7, 0, append());
    assert!(matches!(late, Err(BusError::Refused { .. })), "{late:?}");
}
