//! Metrics of the store. Without a store they have no samples.

use std::time::Duration;

use tidegate_store::SYNC_BOUNDS_MICROSECONDS;

use super::{Reading, Samples};
use crate::status::{StoreCondition, StoreNumbers};

metrics! { |it, out|
    /// Every metric of the store, in the order in which they are written.
    Gauge "tidegate_store_state" ["state"] => {
        if let Some(store) = it.status.store {
            for condition in StoreCondition::ALL {
                out.add(&[condition.label()], u64::from(store.condition == condition));
            }
        }
    }, "1 for the state of the store and 0 for the other states; unless it is `ok`, new messages and sessions are refused.";
    Gauge "tidegate_store_bytes" ["kind"] => {
        if let Some(store) = it.status.store {
            out.add(&["journal"], store.journal_bytes);
            out.add(&["table"], store.table_bytes);
        }
    }, "Bytes of the store's files.";
    Gauge "tidegate_store_free_bytes" [] => out.any(of(it, |store| store.free_bytes)),
        "Free space of the store's disk when it was last asked.";
    Gauge "tidegate_store_pending_bytes" [] => out.any(of(it, |store| store.pending_bytes)),
        "Bytes handed to the store that are not committed.";
    Gauge "tidegate_store_index_bytes" [] => out.any(of(it, |store| store.index_bytes)),
        "Memory of the index of the journal from which queues are read back.";
    Gauge "tidegate_store_segments" [] => out.any(of(it, |store| store.segments)),
        "Files of the store's journal.";
    Gauge "tidegate_store_table_entries" [] => out.any(of(it, |store| store.table_entries)),
        "Entries of the store's table when it was last written.";
    Gauge "tidegate_stored_messages" [] => out.any(of(it, |_| it.status.gauges.stored_messages)),
        "Messages that wait in the store alone, behind the messages in memory.";
    Gauge "tidegate_stored_bytes" [] => out.any(of(it, |_| it.status.gauges.stored_bytes)),
        "Bytes of those, as they will cost in memory.";
    Counter "tidegate_store_batches_total" [] => out.any(of(it, |store| store.batches)),
        "Batches committed; each has the writes of one turn of a shard.";
    Counter "tidegate_store_operations_total" [] => out.any(of(it, |store| store.operations)),
        "Entries put and deleted by those batches.";
    Counter "tidegate_store_groups_total" [] => out.any(of(it, |store| store.groups)),
        "Writes of the journal; each takes all batches that wait.";
    Counter "tidegate_store_written_bytes_total" [] => out.any(of(it, |store| store.written_bytes)),
        "Bytes written into the journal.";
    Counter "tidegate_store_syncs_total" [] => out.any(of(it, |store| store.syncs)),
        "Times that the disk was synced after writes.";
    Histogram "tidegate_store_sync_seconds" ["le"] => sync_seconds(it, out),
        "How long the disk took for that.";
    Counter "tidegate_store_loads_total" [] => out.any(of(it, |store| store.loads)),
        "Parts of queues that were read back from the store.";
    Counter "tidegate_store_merges_total" [] => out.any(of(it, |store| store.merges)),
        "Times that the journal was merged into the table.";
    Counter "tidegate_store_merge_failures_total" [] => out.any(of(it, |store| store.merge_failures)),
        "Merges that failed; they are tried again.";
    Counter "tidegate_store_slowed_groups_total" [] => out.any(of(it, |store| store.slowed_groups)),
        "Groups that were written later so that merges keep up: the journal was above half of `store.replay_max`.";
    Counter "tidegate_store_failures_total" [] => out.any(of(it, |store| store.failures)),
        "Writes and syncs that the disk refused; they are tried again.";
}

fn of(it: &Reading<'_>, number: impl Fn(&StoreNumbers) -> u64) -> Option<u64> {
    it.status.store.as_ref().map(number)
}

fn sync_seconds(it: &Reading<'_>, out: &mut Samples<'_>) {
    let Some(store) = it.status.store else { return };
    // A bound is at most some seconds, so that nothing is cut off here.
    let bounds = SYNC_BOUNDS_MICROSECONDS.map(|bound| Duration::from_micros(bound).as_secs_f64());
    out.histogram(&bounds, &store.sync_histogram, Duration::from_nanos(store.sync_nanoseconds).as_secs_f64());
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::metrics::exposition;
    use crate::status::Status;

    fn status(store: Option<StoreNumbers>) -> Status {
        Status { store, ..Status::new(SystemTime::UNIX_EPOCH, "1") }
    }

    #[test]
    fn a_histogram_adds_up_and_ends_with_all() {
        let mut numbers = StoreNumbers { sync_nanoseconds: 1_500_000_000, ..Default::default() };
        (numbers.sync_histogram[0], numbers.sync_histogram[2], numbers.sync_histogram[11]) = (3, 4, 1);
        let text = exposition(&status(Some(numbers)));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("tidegate_store_sync_seconds")).collect();
        assert_eq!(lines.len(), 14);
        for expected in [
            "tidegate_store_sync_seconds_bucket{le=\"0.0001\"} 3",
            "tidegate_store_sync_seconds_bucket{le=\"0.00025\"} 3",
            "tidegate_store_sync_seconds_bucket{le=\"0.0005\"} 7",
            "tidegate_store_sync_seconds_bucket{le=\"2.5\"} 7",
            "tidegate_store_sync_seconds_bucket{le=\"+Inf\"} 8",
            "tidegate_store_sync_seconds_sum 1.5",
            "tidegate_store_sync_seconds_count 8",
        ] {
            assert!(lines.contains(&expected), "{expected}: {lines:?}");
        }
    }

    #[test]
    fn the_state_is_one_of_three_and_absent_without_a_store() {
        let numbers = StoreNumbers { condition: StoreCondition::Full, journal_bytes: 7, ..Default::default() };
        let text = exposition(&status(Some(numbers)));
        for expected in [
            "tidegate_store_state{state=\"ok\"} 0",
            "tidegate_store_state{state=\"full\"} 1",
            "tidegate_store_state{state=\"failing\"} 0",
            "tidegate_store_bytes{kind=\"journal\"} 7",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}");
        }
        let without = exposition(&status(None));
        assert!(!without.lines().any(|line| line.starts_with("tidegate_store")), "no sample");
    }
}
