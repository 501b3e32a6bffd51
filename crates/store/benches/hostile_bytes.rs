//! The start after the process was killed, with journal files that are full of bytes of a peer: each 16 of them look like
//! the header of a frame that may come next. Beside it the same with plain bytes.
//!
//! `cargo bench -p tidegate-store --bench hostile_bytes`; `STORE_BENCH_DIR` names the directory.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidegate_store::operation::{delete, put};
use tidegate_store::{RealDisk, Settings, keep_all, open};

/// Values of a batch.
const VALUES: u64 = 50;
/// Batches, of 100 kB each. Journal files are merged and used again meanwhile.
const BATCHES: u64 = 4_000;
/// Starts, whose median is shown.
const STARTS: usize = 5;

fn value(name: &str) -> Vec<u8> {
    if name == "hostile" { hostile() } else { vec![0xA5; 2_000] }
}

/// Headers of frames, as a peer would write them: no checksum, a length of 8 MiB, a number above all frames.
fn hostile() -> Vec<u8> {
    let unit = [&[0; 4][..], &(8_u32 << 20).to_le_bytes(), &0xff_ffff_u64.to_le_bytes()].concat();
    unit.into_iter().cycle().take(2_000).collect()
}

/// Writes values and deletes them again, and ends the process in the middle of it.
fn kill(value: &[u8], path: &Path) -> ! {
    let store = open(Arc::new(RealDisk::create(path).unwrap()), Settings::default(), keep_all()).unwrap().store;
    let (sender, commits) = channel();
    let running = store.start(Box::new(move |_: u16, sequence: u64| sender.send(sequence).unwrap())).unwrap();
    let writer = running.writer(0);
    for sequence in 1..=BATCHES {
        let mut batch = Vec::new();
        for number in sequence * VALUES..(sequence + 1) * VALUES {
            put(&mut batch, &number.to_be_bytes(), value).unwrap();
            if let Some(earlier) = number.checked_sub(10 * VALUES) {
                delete(&mut batch, &earlier.to_be_bytes()).unwrap();
            }
        }
        writer.submit(sequence, batch).unwrap();
        while commits.recv().unwrap() != sequence {}
    }
    std::process::exit(0);
}

fn start(path: &Path) -> Duration {
    let own = path.join("again");
    let _ = fs::remove_dir_all(&own);
    fs::create_dir_all(&own).unwrap();
    for entry in fs::read_dir(path.join("killed")).unwrap().flatten() {
        fs::copy(entry.path(), own.join(entry.file_name())).unwrap();
    }
    let begin = Instant::now();
    let store = open(Arc::new(RealDisk::create(&own).unwrap()), Settings::default(), keep_all()).unwrap().store;
    let took = begin.elapsed();
    drop(store);
    took
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name, path] = &arguments[..]
        && word == "kill"
    {
        kill(&value(name), Path::new(path));
    }
    let parent =
        std::env::var_os("STORE_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let path = parent.join(format!("hostile-bytes-{}", std::process::id()));
    for name in ["plain", "hostile"] {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let program = std::env::current_exe().unwrap();
        let status = Command::new(program).args(["kill", name]).arg(path.join("killed")).status().unwrap();
        assert!(status.success());
        let mut times: Vec<Duration> = (0..STARTS).map(|_| start(&path)).collect();
        times.sort_unstable();
        println!(
            "start with {name} bytes: {:.2} s, at most {:.2} s",
            times[STARTS / 2].as_secs_f64(),
            times[STARTS - 1].as_secs_f64()
        );
    }
    let _ = fs::remove_dir_all(&path);
}
