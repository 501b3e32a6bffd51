//! Metrics of the store. Without a store they have no samples.

use std::time::Duration;

use tidegate_store::{SYNC_BOUNDS_MICROSECONDS, Status};

use super::{Reading, Samples};
use crate::status::StoreCondition;

metrics! { |it, out|
    /// Every metric of the store, in the order in which they are written.
    Gauge "tidegate_store_state" ["state"] => {
        if let Some(store) = &it.status.store {
            let present = StoreCondition::of(store);
            for condition in StoreCondition::ALL {
                out.add(&[condition.label()], u64::from(present == condition));
            }
        }
    }, "1 for the state of the store and 0 for the other states; unless it is `ok`, new messages and sessions are refused.";
    Gauge "tidegate_store_bytes" ["kind"] => {
        if let Some(store) = &it.status.store {
            out.add(&["journal"], store.journal_bytes());
            out.add(&["table"], store.table_bytes());
        }
    }, "Bytes of the store's files.";
    Gauge "tidegate_store_free_bytes" [] => out.any(of(it, Status::free_bytes)),
        "Free space of the store's disk when it was last asked.";
    Gauge "tidegate_store_pending_bytes" [] => out.any(of(it, Status::pending_bytes)),
        "Bytes handed to the store that are not committed.";
    Gauge "tidegate_store_index_bytes" [] => out.any(of(it, Status::index_bytes)),
        "Memory of the index of the journal from which queues are read back.";
    Gauge "tidegate_store_segments" [] => out.any(of(it, Status::segments)),
        "Files of the store's journal.";
    Gauge "tidegate_store_table_entries" [] => out.any(of(it, Status::table_entries)),
        "Entries of the store's table when it was last written.";
    Gauge "tidegate_stored_messages" [] => out.any(of(it, |_| it.status.gauges.stored_messages)),
        "Messages that wait in the store alone, behind the messages in memory.";
    Gauge "tidegate_stored_bytes" [] => out.any(of(it, |_| it.status.gauges.stored_bytes)),
        "Bytes of those, as they will cost in memory.";
    Counter "tidegate_store_batches_total" [] => out.any(of(it, Status::batches)),
        "Batches committed; each has the writes of one turn of a shard.";
    Counter "tidegate_store_operations_total" [] => out.any(of(it, Status::operations)),
        "Entries put and deleted by those batches.";
    Counter "tidegate_store_groups_total" [] => out.any(of(it, Status::groups)),
        "Writes of the journal; each takes all batches that wait.";
    Counter "tidegate_store_written_bytes_total" [] => out.any(of(it, Status::written_bytes)),
        "Bytes written into the journal.";
    Counter "tidegate_store_syncs_total" [] => out.any(of(it, Status::syncs)),
        "Times that the disk was synced after writes.";
    Histogram "tidegate_store_sync_seconds" ["le"] => sync_seconds(it, out),
        "How long the disk took for that.";
    Counter "tidegate_store_loads_total" [] => out.any(of(it, Status::loads)),
        "Parts of queues that were read back from the store.";
    Counter "tidegate_store_merges_total" [] => out.any(of(it, Status::merges)),
        "Times that the journal was merged into the table.";
    Counter "tidegate_store_merge_failures_total" [] => out.any(of(it, Status::failed_merges)),
        "Merges that failed; they are tried again.";
    Counter "tidegate_store_slowed_groups_total" [] => out.any(of(it, Status::slowed_groups)),
        "Groups that were written later so that merges keep up: the journal was above half of `store.replay_max`.";
    Counter "tidegate_store_failures_total" [] => out.any(of(it, Status::failures)),
        "Writes and syncs that the disk refused; they are tried again.";
}

fn of(it: &Reading<'_>, number: impl Fn(&Status) -> u64) -> Option<u64> {
    it.status.store.as_deref().map(number)
}

fn sync_seconds(it: &Reading<'_>, out: &mut Samples<'_>) {
    let Some(store) = &it.status.store else { return };
    // A bound is at most some seconds, so that nothing is cut off here.
    let bounds = SYNC_BOUNDS_MICROSECONDS.map(|bound| Duration::from_micros(bound).as_secs_f64());
    out.histogram(&bounds, &store.sync_histogram(), Duration::from_nanos(store.sync_nanoseconds()).as_secs_f64());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use tidegate_store::{Durability, Settings, SimulatedDisk, Store, keep_all, open, operation};

    use super::*;
    use crate::metrics::exposition;

    fn opened(disk: &SimulatedDisk, settings: Settings) -> Store {
        open(Arc::new(disk.clone()), settings, keep_all()).unwrap().store
    }

    fn shown(store: Option<Arc<Status>>) -> String {
        exposition(&crate::Status { store, ..crate::Status::new(SystemTime::UNIX_EPOCH, "1") })
    }

    #[test]
    fn a_histogram_adds_up_and_ends_with_all() {
        let metric = METRICS.iter().find(|metric| metric.name == "tidegate_store_sync_seconds").unwrap();
        let mut text = String::new();
        let mut samples = Samples { metric, out: &mut text };
        samples.histogram(&[0.0001, 0.00025, 0.0005], &[3, 0, 4, 1], 1.5);
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "tidegate_store_sync_seconds_bucket{le=\"0.0001\"} 3",
            "tidegate_store_sync_seconds_bucket{le=\"0.00025\"} 3",
            "tidegate_store_sync_seconds_bucket{le=\"0.0005\"} 7",
            "tidegate_store_sync_seconds_bucket{le=\"+Inf\"} 8",
            "tidegate_store_sync_seconds_sum 1.5",
            "tidegate_store_sync_seconds_count 8",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn syncs_of_a_store_are_in_the_histogram() {
        let settings = Settings { durability: Durability::Commit, ..Settings::default() };
        let mut store = opened(&SimulatedDisk::new(1), settings).stepped(Box::new(|_: u16, _: u64| {}));
        let mut batch = Vec::new();
        operation::put(&mut batch, b"k", b"v").unwrap();
        store.submit(0, 1, batch).unwrap();
        while store.step() {}
        let (status, text) = (store.status(), shown(Some(store.status())));
        assert!(status.syncs() > 0 && status.batches() == 1);
        for (metric, number) in [("store_sync_seconds_count", status.syncs()), ("store_batches_total", 1)] {
            let expected = format!("tidegate_{metric} {number}");
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        }
    }

    #[test]
    fn the_state_is_one_of_three_and_absent_without_a_store() {
        let disk = SimulatedDisk::new(2);
        disk.set_capacity(Some(64 << 20));
        let full = opened(&disk, Settings { min_free_bytes: 128 << 20, ..Settings::default() });
        let text = shown(Some(full.status()));
        for expected in [
            "tidegate_store_state{state=\"ok\"} 0",
            "tidegate_store_state{state=\"full\"} 1",
            "tidegate_store_state{state=\"failing\"} 0",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}");
        }
        assert!(!shown(None).lines().any(|line| line.starts_with("tidegate_store")), "no sample");
    }
}
