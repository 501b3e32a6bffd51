//! The cost of a commit and of a start, and the space that deleted entries take: a plain file with fdatasync (the
//! floor), this store, redb and fjall, with the same operations on a real disk.
//!
//! `cargo bench -p tidegate-store` runs all of it, each case in its own process; `STORE_BENCH_DIR` names the
//! directory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark may stop at the first surprise, and its figures are for people"
)]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fjall::{KeyspaceCreateOptions, PersistMode};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use tidegate_store::operation::{delete, put};
use tidegate_store::{RealDisk, Running, Settings, Writer, keep_all, open};

const VALUE: [u8; 256] = [0xA5; 256];
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

/// One batch at a time, on the disk when it returns.
trait Engine {
    fn commit(&mut self, operations: &[([u8; 16], Option<&[u8]>)]);
    /// Reads everything; says how many entries there are.
    fn read(&mut self) -> u64;
    fn close(self: Box<Self>);
}

struct Raw {
    file: File,
    end: u64,
    buffer: Vec<u8>,
}

impl Engine for Raw {
    fn commit(&mut self, operations: &[([u8; 16], Option<&[u8]>)]) {
        self.buffer.clear();
        for (key, value) in operations {
            self.buffer.extend_from_slice(key);
            self.buffer.extend_from_slice(value.unwrap_or_default());
        }
        self.file.write_all_at(&self.buffer, self.end).unwrap();
        self.end += self.buffer.len() as u64;
        self.file.sync_data().unwrap();
    }

    fn read(&mut self) -> u64 {
        0
    }

    fn close(self: Box<Self>) {}
}

struct Ours {
    store: Option<tidegate_store::Store>,
    running: Option<(Running, Writer, Receiver<u64>)>,
    sequence: u64,
}

impl Engine for Ours {
    fn commit(&mut self, operations: &[([u8; 16], Option<&[u8]>)]) {
        if let Some(store) = self.store.take() {
            let (sender, receiver) = channel();
            let running = store.start(Box::new(move |_: u16, sequence: u64| sender.send(sequence).unwrap())).unwrap();
            let writer = running.writer(0);
            self.running = Some((running, writer, receiver));
        }
        let mut batch = Vec::with_capacity(operations.len() * 280);
        for (key, value) in operations {
            match value {
                Some(value) => put(&mut batch, key, value).unwrap(),
                None => delete(&mut batch, key).unwrap(),
            }
        }
        self.sequence += 1;
        let (_, writer, commits) = self.running.as_ref().unwrap();
        writer.submit(self.sequence, batch).unwrap();
        while commits.recv().unwrap() != self.sequence {}
    }

    fn read(&mut self) -> u64 {
        let mut found = 0;
        self.store.as_ref().unwrap().for_each(&mut |key, value| found += u64::from(key.len() < value.len())).unwrap();
        found
    }

    fn close(self: Box<Self>) {
        if let Some((running, ..)) = self.running {
            // Requested work is finished in the background.
            let (begin, status) = (Instant::now(), running.status());
            while status.segments() > 3 && begin.elapsed() < Duration::from_secs(60) {
                running.ask_for_merge();
                std::thread::yield_now();
            }
            running.stop();
        }
    }
}

struct Redb(redb::Database);

impl Engine for Redb {
    fn commit(&mut self, operations: &[([u8; 16], Option<&[u8]>)]) {
        let transaction = self.0.begin_write().unwrap();
        {
            let mut table = transaction.open_table(TABLE).unwrap();
            for (key, value) in operations {
                match value {
                    Some(value) => drop(table.insert(&key[..], *value).unwrap()),
                    None => drop(table.remove(&key[..]).unwrap()),
                }
            }
        }
        transaction.commit().unwrap();
    }

    fn read(&mut self) -> u64 {
        let transaction = self.0.begin_read().unwrap();
        let table = transaction.open_table(TABLE).unwrap();
        let entries = table.iter().unwrap().map(Result::unwrap);
        entries.filter(|(key, value)| key.value().len() < value.value().len()).count() as u64
    }

    fn close(self: Box<Self>) {}
}

struct Fjall(fjall::Database, fjall::Keyspace);

impl Engine for Fjall {
    fn commit(&mut self, operations: &[([u8; 16], Option<&[u8]>)]) {
        let mut batch = self.0.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in operations {
            match value {
                Some(value) => batch.insert(&self.1, &key[..], *value),
                None => batch.remove(&self.1, &key[..]),
            }
        }
        batch.commit().unwrap();
    }

    fn read(&mut self) -> u64 {
        let mut found = 0;
        for entry in self.1.iter() {
            let (key, value) = entry.into_inner().unwrap();
            found += u64::from(key.len() < value.len());
        }
        found
    }

    fn close(self: Box<Self>) {}
}

fn engine(name: &str, path: &Path) -> Box<dyn Engine> {
    match name {
        "append+fdatasync" => {
            fs::create_dir_all(path).unwrap();
            let file = File::options().create(true).truncate(true).write(true).open(path.join("raw")).unwrap();
            Box::new(Raw { file, end: 0, buffer: Vec::new() })
        }
        "tidegate-store" => {
            let disk = Arc::new(RealDisk::create(path).unwrap());
            let store = open(disk, Settings::default(), keep_all()).unwrap().store;
            Box::new(Ours { store: Some(store), running: None, sequence: 0 })
        }
        "redb" => {
            fs::create_dir_all(path).unwrap();
            Box::new(Redb(redb::Database::create(path.join("data.redb")).unwrap()))
        }
        "fjall" => {
            let database = fjall::Database::builder(path).open().unwrap();
            let keyspace = database.keyspace("entries", KeyspaceCreateOptions::default).unwrap();
            Box::new(Fjall(database, keyspace))
        }
        other => panic!("{other} is no engine"),
    }
}

/// Keys come in an order that is not ascending, as with several sessions.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(number % 97).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn commits(engine: &mut dyn Engine, size: u64) -> String {
    let (mut times, mut number) = (Vec::new(), 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        let operations: Vec<_> = (number..number + size).map(|number| (key(number), Some(&VALUE[..]))).collect();
        number += size;
        let start = Instant::now();
        engine.commit(&operations);
        times.push(start.elapsed());
    }
    let seconds = begin.elapsed().as_secs_f64();
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100].as_secs_f64() * 1e3;
    format!("{:.0}/s, p99 {p99:.2} ms", number as f64 / seconds)
}

/// A million messages; each is deleted some time after its arrival.
fn churn(mut engine: Box<dyn Engine>, path: &Path) -> String {
    let begin = Instant::now();
    let mut most = 0;
    for round in 0..1_010_u64 {
        let puts = (round * 1_000..round * 1_000 + 1_000).filter(|_| round < 1_000);
        let mut operations: Vec<_> = puts.map(|number| (key(number), Some(&VALUE[..]))).collect();
        if round >= 10 {
            let begin = (round - 10) * 1_000;
            operations.extend((begin..begin + 1_000).map(|number| (key(number), None)));
        }
        engine.commit(&operations);
        if round % 50 == 0 {
            most = most.max(disk_bytes(path));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    engine.close();
    let (bytes, closed) = (disk_bytes(path), begin.elapsed().as_secs_f64() - seconds);
    format!("{seconds:.1} s (and {closed:.1} s to close), at most {} MiB, {} MiB at the end", most >> 20, bytes >> 20)
}

fn disk_bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    metadata.blocks() * 512 + below.map(|entry| disk_bytes(&entry.path())).sum::<u64>()
}

fn fill(mut engine: Box<dyn Engine>) {
    for round in 0..100_u64 {
        let numbers = round * 10_000..round * 10_000 + 10_000;
        let operations: Vec<_> = numbers.map(|number| (key(number), Some(&VALUE[..134]))).collect();
        engine.commit(&operations);
    }
    engine.close();
}

fn resident(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn read(name: &str, path: &Path) -> String {
    let begin = Instant::now();
    let mut engine = engine(name, path);
    let entries = engine.read();
    assert_eq!(entries, 1_000_000);
    format!("{:.2} s, {} MiB resident", begin.elapsed().as_secs_f64(), resident("VmHWM"))
}

fn one(case: &str, name: &str, path: &Path) {
    let outcome = match case {
        "fill" => {
            fill(engine(name, path));
            return;
        }
        "read" => read(name, path),
        "churn" => churn(engine(name, path), path),
        size => commits(&mut *engine(name, path), size.parse().unwrap()),
    };
    println!("{case:>6} {name:<18} {outcome}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, case, name, path] = &arguments[..]
        && word == "one"
    {
        return one(case, name, Path::new(path));
    }
    let parent =
        std::env::var_os("STORE_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let path = parent.join(format!("store-bench-{}", std::process::id()));
    for case in ["1", "32", "1000", "churn", "fill", "read"] {
        for name in ["append+fdatasync", "tidegate-store", "redb", "fjall"] {
            let has_entries = name != "append+fdatasync";
            if !has_entries && matches!(case, "churn" | "fill" | "read") {
                continue;
            }
            let own = path.join(name);
            if case != "read" {
                let _ = fs::remove_dir_all(&own);
            }
            let program = std::env::current_exe().unwrap();
            let status = Command::new(program).args(["one", case, name]).arg(&own).status().unwrap();
            assert!(status.success());
        }
    }
    fs::remove_dir_all(&path).unwrap();
}
