//! The cost of keeping the files of a store on a bus: commits per second, and the time of a commit.
//!
//! `cargo bench -p tidegate-mirror` starts a NATS server of its own, `nats-server` of the path or of `./test`, and then
//! measures the bus of a directory.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a measurement stops at the first surprise")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidegate_bus::{Address, Bus};
use tidegate_store::operation::put;
use tidegate_store::{Disk, RealDisk, Settings, keep_all};

#[path = "../../bus/tests/nats/server.rs"]
mod server;

use server::Nats;

/// How long each case runs.
const LENGTH: Duration = Duration::from_secs(3);
const VALUE: [u8; 256] = [7; 256];

/// Commits batches of a number of messages, with a number of batches in flight; gives messages a second and the 99th
/// percentile of a commit.
fn measure(disk: Arc<dyn Disk>, batch: u64, under_way: u64) -> (f64, Duration) {
    let store = tidegate_store::open(disk, Settings::default(), keep_all()).unwrap().store;
    let (sender, commits) = channel();
    let reported = move |_: u16, sequence: u64| {
        let _ = sender.send(sequence);
    };
    let running = store.start(Box::new(reported)).unwrap();
    let writer = running.writer(0);
    let (mut sent, mut reported, mut key) = (Vec::new(), 0, 0_u64);
    let mut took = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < LENGTH {
        while (sent.len() as u64) < reported + under_way {
            let mut payload = Vec::new();
            for _ in 0..batch {
                key = (key + 1) % 100_000;
                put(&mut payload, &key.to_be_bytes(), &VALUE).unwrap();
            }
            sent.push(Instant::now());
            writer.submit(sent.len() as u64, payload).unwrap();
        }
        let upto = commits.recv().unwrap();
        took.extend(sent[reported as usize..upto as usize].iter().map(Instant::elapsed));
        reported = upto;
    }
    let rate = f64::from((reported * batch) as u32) / begin.elapsed().as_secs_f64();
    took.sort_unstable();
    (rate, took[took.len() * 99 / 100])
}

fn main() {
    let folder = std::env::temp_dir().join(format!("tidegate-mirror-bench-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let server = Nats::start();
    let directory = folder.join("bus");
    for (name, address) in [("nats", server.address()), ("embedded", format!("embedded://{}", directory.display()))] {
        println!("\n{name}\n");
        measure_bus(&address.parse().unwrap(), &folder.join(name));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn measure_bus(address: &Address, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let settings = tidegate_bus::Settings { max_embedded_bytes: 8 << 30, ..tidegate_bus::Settings::default() };
    let bus = Bus::open(address, settings, Arc::new(|_| {})).unwrap();
    println!("| batch | on their way | local, messages/s | p99, ms | bus and local | p99, ms | bus alone | p99, ms |");
    let mut number = 0;
    for (batch, under_way) in [(1, 1), (1, 64), (32, 1), (32, 16), (1_000, 4)] {
        let mut row = format!("| {batch} | {under_way} |");
        for local_sync in [None, Some(true), Some(false)] {
            number += 1;
            let directory = folder.join(number.to_string());
            let (rate, p99) = if let Some(local_sync) = local_sync {
                let settings = tidegate_mirror::Settings::new(&format!("bench-{number}"), &directory).unwrap();
                let settings = tidegate_mirror::Settings { local_sync, max_bytes: 1 << 30, ..settings };
                measure(tidegate_mirror::open(&bus, settings).unwrap().disk, batch, under_way)
            } else {
                measure(Arc::new(RealDisk::create(&directory).unwrap()), batch, under_way)
            };
            let _ = write!(row, " {rate:.0} | {:.1} |", p99.as_secs_f64() * 1_000.0);
        }
        println!("{row}");
    }
}
