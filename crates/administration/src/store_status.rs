//! How the store is, for the console.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{State, Status};

use crate::part::Part;

/// How long the disk may take for a group of batches or their sync. Beyond that it stands still: nothing that has to be
/// kept is acknowledged, and the broker is not ready.
const MAX_DISK_WAIT: Duration = Duration::from_secs(2);

/// The store, as a part of the broker.
pub struct StorePart {
    status: Arc<Status>,
    waits_for_bus: Box<dyn Fn() -> bool + Send + Sync>,
}

impl StorePart {
    /// The part for a store. `waits_for_bus` says whether the store's files are on a bus that has not confirmed all of them:
    /// the store waits for the bus then, which another part reports.
    pub fn new(status: Arc<Status>, waits_for_bus: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { status, waits_for_bus: Box::new(waits_for_bus) }
    }
}

impl Part for StorePart {
    fn block_reason(&self) -> Option<String> {
        let waits_for_disk = || (!(self.waits_for_bus)()).then(|| self.status.waits_for_disk());
        block_reason(&self.status).or_else(|| standstill(waits_for_disk()?))
    }

    fn add_to(&self, status: &mut tidegate_console::Status) {
        status.store = Some(Arc::clone(&self.status));
    }
}

/// Why it takes nothing more, in one line; `None` when it does.
fn block_reason(store: &Status) -> Option<String> {
    let (used, free, pending) = (store.store_bytes(), store.free_bytes(), store.pending_bytes());
    let sizes = format!("{used} bytes in use, {free} bytes free on its disk, {pending} bytes wait to be written");
    match store.state() {
        State::Failing(error) => Some(format!("the store cannot write: {error} ({sizes})")),
        State::Fenced(error) => Some(format!("the store is another process's now: {error}; stop this one")),
        State::Ok if !store.is_full() => None,
        State::Full | State::Ok => {
            let (min_free, max) = (store.min_free_bytes(), store.max_bytes());
            let why = if free < min_free {
                format!("fewer than store.min_free ({min_free}) are free: free some space, or lower that")
            } else if store.reserve_missing() > 0 {
                "the disk was filled and a part of store.reserve is in use: free some space, or lower store.reserve"
                    .to_owned()
            } else if max > 0 && used > max {
                format!("more than store.max_bytes ({max}) are in use: raise that, or let clients fetch their messages")
            } else {
                "free some space, or look at store.max_bytes, store.min_free and store.pending_memory".to_owned()
            };
            Some(format!("the store is full: {sizes}; {why}"))
        }
    }
}

/// Why nothing is acknowledged that has to be kept, in one line, if the disk has not finished its work for this time.
fn standstill(waits: Duration) -> Option<String> {
    let ms = waits.as_millis();
    (waits > MAX_DISK_WAIT).then(|| {
        format!("nothing can be acknowledged that is to be kept: the disk has not finished a write for {ms} ms")
    })
}

#[cfg(test)]
mod tests {
    use tidegate_console::StoreCondition;
    use tidegate_store::{Durability, Settings, SimulatedDisk, Store, keep_all, open, operation};

    use super::*;

    fn opened(disk: &SimulatedDisk, min_free_bytes: u64) -> Store {
        let settings = Settings { durability: Durability::Commit, min_free_bytes, ..Settings::default() };
        open(Arc::new(disk.clone()), settings, keep_all()).unwrap().store
    }

    #[test]
    fn commits_are_counted_and_failures_named_until_they_end() {
        let disk = SimulatedDisk::new(3);
        let mut store = opened(&disk, 0).stepped(Box::new(|_: u16, _: u64| {}));
        let status = store.status();
        assert_eq!((StoreCondition::of(&status), block_reason(&status)), (StoreCondition::Ok, None));
        let mut batch = Vec::new();
        operation::put(&mut batch, b"k", b"v").unwrap();
        store.submit(0, 1, batch.clone()).unwrap();
        while store.step() {}
        let condition = StoreCondition::of(&status);
        assert_eq!((status.batches(), status.operations(), condition), (1, 1, StoreCondition::Ok));
        assert_eq!(status.sync_histogram().iter().sum::<u64>(), status.syncs());
        disk.fail(tidegate_store::Failure::Sync, 1);
        store.submit(0, 2, batch).unwrap();
        store.step();
        assert_eq!(StoreCondition::of(&status), StoreCondition::Failing);
        let why = block_reason(&status).unwrap();
        assert!(why.starts_with("the store cannot write: ") && why.contains("bytes in use"), "{why}");
        disk.heal();
        while store.step() {}
        assert_eq!((StoreCondition::of(&status), block_reason(&status)), (StoreCondition::Ok, None));
        assert!(status.failures() > 0);
    }

    #[test]
    fn a_disk_that_stands_still_blocks_readiness() {
        assert_eq!(standstill(Duration::ZERO), None);
        assert_eq!(standstill(MAX_DISK_WAIT), None, "a slow disk");
        let why = standstill(MAX_DISK_WAIT * 2).unwrap();
        assert!(why.ends_with("the disk has not finished a write for 4000 ms"), "{why}");
    }

    #[test]
    fn a_disk_with_too_little_room_makes_it_full_before_it_fails() {
        let disk = SimulatedDisk::new(4);
        disk.set_capacity(Some(64 << 20));
        let store = opened(&disk, 128 << 20);
        let status = store.status();
        assert_eq!(StoreCondition::of(&status), StoreCondition::Full);
        let why = block_reason(&status).unwrap();
        assert!(why.contains("fewer than store.min_free (134217728) are free"), "{why}");
    }
}
