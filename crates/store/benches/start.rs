//! How long a start takes to find the end of the journal in a file whose old content is made by a peer to look like
//! frames: a client that knows the format and guesses the numbers of frames.
//!
//! `cargo bench -p tidegate-store --bench start`; `STORE_BENCH_DIR` names the directory.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may stop at the first surprise")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tidegate_store::operation::{delete, put};
use tidegate_store::{RealDisk, Settings, Stepped, keep_all, open};

/// Puts values and deletes them again, so that a merge leaves only the file.
fn commit(store: &mut Stepped, sequence: u64, value: &[u8]) {
    let mut batch = Vec::new();
    for _ in 0..100 {
        put(&mut batch, b"key", value).unwrap();
    }
    delete(&mut batch, b"key").unwrap();
    store.submit(0, sequence, batch).unwrap();
    store.step();
}

/// Values that have a possible header at every sixteenth byte: the length of a mebibyte and a number soon to come.
fn hostile(number: u64) -> Vec<u8> {
    let unit = [&(1_u32 << 20).to_le_bytes()[..], &number.to_le_bytes(), &[0; 4]].concat();
    unit.into_iter().cycle().take(2_000).collect()
}

fn main() {
    let parent = std::env::var_os("STORE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    for (name, is_hostile) in [("plain bytes", false), ("hostile bytes", true)] {
        let path = parent.join(format!("tidegate-store-start-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let opened = || open(Arc::new(RealDisk::create(&path).unwrap()), Settings::default(), keep_all()).unwrap();
        let mut store = opened().store.stepped(Box::new(|_: u16, _: u64| {}));
        let mut sequence = 0;
        // Four files of 32 MiB: one is merged, used again, and has only a few frames when the process ends.
        for _ in 0..640_u64 {
            sequence += 1;
            commit(&mut store, sequence, &if is_hostile { hostile(sequence + 2_000) } else { vec![0xA5; 2_000] });
            if sequence.is_multiple_of(155) {
                store.checkpoint();
                while store.merge(usize::MAX).unwrap() {}
            }
        }
        store.checkpoint();
        for _ in 0..10 {
            sequence += 1;
            commit(&mut store, sequence, b"last");
        }
        drop(store);
        let begin = Instant::now();
        let report = opened().report;
        println!("{name}: {} batches, opened in {} ms", report.frames, begin.elapsed().as_millis());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
