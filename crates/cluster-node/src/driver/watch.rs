//! Looks each second whether the shards serve the partitions that the table gives this node, on its own thread:
//! if any other thread of the cluster hangs, this one sees the effect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tidegate_cluster::{PartitionDifference, Sight, Watchdog};

use super::ending::end;
use super::error::NodeError;
use super::memory::MemoryFile;
use super::status::{Shared, describe};

/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Begins to look, until the returned sender is dropped.
///
/// # Errors
/// In words for people, when the system gives no thread.
pub(super) fn begin(shared: Arc<Shared>, memory: MemoryFile) -> Result<Sender<()>, NodeError> {
    let (keeps_on, ended) = channel();
    let watch = move || run(&shared, &memory, &ended);
    let begun = Builder::new().name("cluster-watch".into()).spawn(watch);
    begun.map(|_| keeps_on).map_err(NodeError::Thread)
}

fn run(shared: &Shared, memory: &MemoryFile, ended: &Receiver<()>) {
    let mut watchdog = Watchdog::new(shared.lease());
    let (began, mut lasts) = (Instant::now(), false);
    while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        let difference = look(shared, memory, &mut watchdog, began.elapsed());
        shared.set_watched(difference);
        if difference.lasts && !lasts {
            tracing::error!(why = describe(&difference), "the node is not ready");
        }
        if lasts && !difference.lasts {
            tracing::info!("the node serves its partitions again");
        }
        lasts = difference.lasts;
        if difference.ends && shared.ends_for(farewell(shared.name(), &difference)) {
            end();
        }
    }
}

fn look(shared: &Shared, memory: &MemoryFile, watchdog: &mut Watchdog, now: Duration) -> PartitionDifference {
    // Asked first: a table that comes meanwhile is newer than the answer, and the next look is right again.
    let serves = shared.node().served().ok();
    let serves = serves.map(|it| it.iter().map(|partition| partition.0).collect::<BTreeSet<u16>>());
    let (table, has_lease) = shared.meant();
    let is_fetching = shared.counters.is_restoring();
    // A disk that hangs is a fault of the node.
    let is_saving = shared.counters.is_saving() && memory.waits_for_bus();
    let (name, serves) = (shared.name(), serves.as_ref());
    watchdog.look(now, &Sight { name, table: &table, has_lease, is_fetching, is_saving, serves })
}

fn farewell(name: &str, difference: &PartitionDifference) -> String {
    format!(
        "node `{name}` ends, since {}, and that has not passed within cluster.lease. Start it again with the same data directory, as a supervisor \
         does, and it begins as a new life. This is a fault of Tidegate: keep the log and report it",
        describe(difference)
    )
}
