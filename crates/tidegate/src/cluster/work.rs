//! Does to the node what tables ask for, one after the other. It may take a while, and the lease is renewed meanwhile by others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_cluster::Step;
use tidegate_engine::{Owed, PARTITIONS, PartitionId, PartitionImage, Partitions};
use tidegate_node::{NodeHandle, NodeName};

use super::control::Event;
use super::logs::Logs;
use super::memory::{Memory, MemoryFile};
use super::parts;
use super::restore::{Hindrance, Restored, Restorer, Task, Wanted};
use super::status::Shared;
use super::view::Told;
use crate::homes::owed_json;
use crate::homes::parcel::Parcel;

/// How long queues may take that are read from the store.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before it is tried again to fetch what a dead node had.
const RESTORE_PAUSE: Duration = Duration::from_secs(1);
/// Longest wait of a thread that has nothing to do.
const IDLE: Duration = Duration::from_secs(3_600);
/// Pause before it is looked again whether they have come.
const LOAD_PAUSE: Duration = Duration::from_millis(5);

/// What is to be done.
pub(super) enum Work {
    /// A table has come, or it has become known where somebody is.
    Table(Box<TableWork>),
    /// Images have come by a move.
    TakeIn { id: u64, parcel: Vec<u8> },
}

/// What a table asks for.
pub(super) struct TableWork {
    pub(super) steps: Vec<Step>,
    pub(super) told: Told,
    /// The life for which it is asked.
    pub(super) life: u64,
    /// What is here when the steps are done.
    pub(super) memory: Memory,
    /// What is to be fetched of dead nodes, and since which epoch it is at home here.
    pub(super) restoring: BTreeMap<u16, u64>,
    /// What is here and served by nobody, since it moves, or is not all here.
    pub(super) held: Partitions,
    /// What is served here.
    pub(super) served: Partitions,
}

pub(super) fn begin(
    name: &NodeName,
    node: NodeHandle,
    logs: Logs,
    memory: MemoryFile,
    restorer: Restorer,
    shared: Arc<Shared>,
    events: Sender<Event>,
) -> Result<Sender<Work>, String> {
    let (work, inbox) = channel();
    let name = name.to_string();
    let (arriving, tasks) = (BTreeMap::new(), VecDeque::new());
    let worker = Worker { name, node, logs, memory, saved: None, shared, events, arriving, restorer, tasks, life: 0 };
    let begun = Builder::new().name("cluster-work".into()).spawn(move || worker.run(&inbox));
    begun.map(|_| work).map_err(|error| format!("cannot start a thread for the cluster: {error}"))
}

struct Worker {
    name: String,
    node: NodeHandle,
    logs: Logs,
    memory: MemoryFile,
    saved: Option<Memory>,
    shared: Arc<Shared>,
    events: Sender<Event>,
    /// What is to come, by move.
    arriving: BTreeMap<u64, Partitions>,
    restorer: Restorer,
    /// What is to be fetched of dead nodes.
    tasks: VecDeque<Task>,
    /// The life of the last table.
    life: u64,
}

pub(super) fn set_of(partitions: &[u16]) -> Partitions {
    partitions.iter().copied().map(PartitionId).collect()
}

fn all() -> Partitions {
    (0..PARTITIONS).map(PartitionId).collect()
}

impl Worker {
    fn run(mut self, inbox: &Receiver<Work>) {
        loop {
            let wait = self.tasks.iter().map(|task| task.due.saturating_duration_since(Instant::now())).min();
            match inbox.recv_timeout(wait.unwrap_or(IDLE)) {
                Ok(Work::Table(work)) => self.follow(&work),
                Ok(Work::TakeIn { id, parcel }) => self.take_in(id, &parcel),
                Err(RecvTimeoutError::Timeout) => self.restore(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes note of what is to be fetched of dead nodes, and forgets what is no more.
    fn plan_to_restore(&mut self, work: &TableWork) {
        if self.life != work.life {
            // The new life says itself what it misses.
            (self.life, self.tasks) = (work.life, VecDeque::new());
        }
        for task in &mut self.tasks {
            task.partitions.retain(|partition, (since, _)| work.restoring.get(partition) == Some(since));
        }
        self.tasks.retain(|task| !task.partitions.is_empty());
        // What comes from the same nodes is fetched at once.
        let mut together: BTreeMap<Vec<String>, Wanted> = BTreeMap::new();
        for step in &work.steps {
            let Step::Restore { partitions, former } = step else { continue };
            let nodes = former.iter().map(|it| it.node.clone()).collect();
            let wanted = |partition: &u16| Some((*partition, (*work.restoring.get(partition)?, former.clone())));
            together.entry(nodes).or_default().extend(partitions.iter().filter_map(wanted));
        }
        let (began, living) = (Instant::now(), work.told.names.iter().cloned().collect::<BTreeSet<_>>());
        for (nodes, partitions) in together {
            tracing::warn!(partitions = partitions.len(), ?nodes, "going on with what a dead node had");
            self.tasks.push_back(Task { partitions, nodes, living: living.clone(), began, due: began });
        }
        self.shared.counters.set_restoring(self.tasks.iter().map(|task| task.partitions.len()).sum());
    }

    /// Fetches what is due, one task of it.
    fn restore(&mut self) {
        let now = Instant::now();
        let Some(at) = self.tasks.iter().position(|task| task.due <= now) else { return };
        let Some(mut task) = self.tasks.remove(at) else { return };
        let own = self.saved.clone().unwrap_or_default();
        let restored = match self.restorer.restore(&task, &own) {
            Ok(restored) => restored,
            Err(Hindrance::Passing(why)) => {
                tracing::warn!(why, "what a dead node had is not here yet; it is tried again");
                task.due = Instant::now() + RESTORE_PAUSE;
                return self.tasks.push_back(task);
            }
            Err(Hindrance::Lasting(why) | Hindrance::Refused(why)) => {
                tracing::error!(why, "what a dead node had cannot be taken in");
                self.forget(Restorer::set(&task));
                Restored { lost: task.partitions.keys().copied().collect(), ..Restored::default() }
            }
        };
        let mut memory = own;
        let since: BTreeMap<u16, u64> =
            task.partitions.iter().map(|(partition, (since, _))| (*partition, *since)).collect();
        memory.holdings.extend(&since);
        self.remember(&memory);
        if self.saved.as_ref() != Some(&memory) {
            // Nobody may take it for restored before it is remembered.
            task.due = Instant::now() + RESTORE_PAUSE;
            return self.tasks.push_back(task);
        }
        let ms = u64::try_from(task.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let counters = &self.shared.counters;
        counters.note_restored(task.partitions.len() - restored.lost.len(), restored.lost.len(), ms);
        counters.set_restoring(self.tasks.iter().map(|task| task.partitions.len()).sum());
        let Restored { sessions, messages, retained, bans, lost } = restored;
        let partitions = task.partitions.len();
        tracing::info!(partitions, sessions, messages, retained, bans, ms, "what a dead node had is served here");
        if !lost.is_empty() {
            tell_lost(lost.len());
        }
        let _ = self.events.send(Event::Restored { life: self.life, partitions: since });
    }

    /// Does what a table asks for. A shard that does not answer hangs or ends, and the node with it.
    fn follow(&mut self, work: &TableWork) {
        for step in &work.steps {
            if let Step::Forget(partitions) = step {
                self.forget(set_of(partitions));
            }
        }
        // What is remembered is there: what arrived is in the store since before it was said to have arrived.
        self.remember(&work.memory);
        for step in &work.steps {
            self.take_note(step);
        }
        self.plan_to_restore(work);
        if let Err(error) = self.put_in_force(work) {
            tracing::error!(%error, "the table of the cluster is not in force everywhere");
        }
        for step in &work.steps {
            if let Step::Send { id, partitions, to } = step
                && let Err(error) = self.send(*id, set_of(partitions))
            {
                self.shared.counters.note_failed();
                tracing::warn!(to, why = error, "partitions were not moved; they are served here on");
                let _ = self.events.send(Event::Refused(*id));
            }
        }
    }

    fn forget(&mut self, partitions: Partitions) {
        self.arriving.retain(|_, arriving| arriving.without(partitions) == *arriving);
        let forgotten = self.node.forget_partitions(partitions).and_then(|owed| {
            self.node.forget_retained(partitions)?;
            Ok(owed)
        });
        match forgotten {
            Ok(owed) => tracing::debug!(partitions = partitions.iter().count(), sessions = owed.sessions, "forgotten"),
            Err(error) => tracing::error!(%error, "what lives elsewhere could not be removed here"),
        }
    }

    fn remember(&mut self, memory: &Memory) {
        if self.saved.as_ref() == Some(memory) {
            return;
        }
        match self.memory.save(memory) {
            Ok(()) => self.saved = Some(memory.clone()),
            Err(error) => {
                tracing::error!(%error, "cannot remember what is worked here: a restart would begin it anew");
            }
        }
    }

    fn take_note(&mut self, step: &Step) {
        match step {
            Step::Expect { id, partitions, .. } => {
                self.arriving.insert(*id, set_of(partitions));
            }
            Step::TakeOver { id, partitions } => {
                self.arriving.remove(id);
                self.shared.counters.note_in(partitions.len());
                tracing::info!(partitions = partitions.len(), "partitions are served here now");
            }
            Step::Begin { partitions, lost: true } => {
                self.shared.counters.note_anew(partitions.len());
                tell_lost(partitions.len());
            }
            Step::Resume(partitions) => {
                tracing::warn!(
                    partitions = partitions.len(),
                    "a move was called off; its partitions are served here on"
                );
            }
            Step::Send { .. } | Step::Forget(_) | Step::Keep(_) | Step::Begin { .. } | Step::Restore { .. } => {}
        }
    }

    fn put_in_force(&mut self, work: &TableWork) -> Result<(), tidegate_node::NoAnswer> {
        // Before the table, so that the clients of what leaves hear a reason of their own.
        for step in &work.steps {
            if let Step::Send { partitions, to, .. } = step {
                let reference = work.told.reference_of(to);
                self.node.hold_partitions(set_of(partitions), reference)?;
            }
        }
        self.node.set_cluster(Arc::new(work.told.view.clone()))?;
        let lease = self.shared.lease_of(work.life);
        let lease_until = lease.map_or(self.node.now().monotonic, |until| self.shared.on_node_clock(until));
        self.node.set_homes(Some(&Arc::new(work.told.homes(lease_until))))?;
        self.node.release_partitions(all().without(work.held))?;
        self.shared.note_in_force(work.life, work.told.view.epoch, work.served);
        Ok(())
    }

    /// Sends the images of what leaves.
    fn send(&self, id: u64, partitions: Partitions) -> Result<(), String> {
        let began = Instant::now();
        let images = self.images(partitions)?;
        let named: Vec<u16> = images.iter().map(|image| image.partition.0).collect();
        let owed: Vec<Value> = images.iter().map(|image| without_retained(image.owed)).collect();
        let head = json!({ "from": self.name, "partitions": named, "owed": owed });
        let parcel = Parcel { head, pieces: images.into_iter().map(|image| image.image).collect() }.write();
        if parcel.len() > parts::MAX_BYTES {
            return Err(format!("they take {} bytes, more than {}", parcel.len(), parts::MAX_BYTES));
        }
        let bytes = parcel.len();
        for part in parts::cut(id, &parcel) {
            self.logs.append_image(part).map_err(|error| error.to_string())?;
        }
        self.shared.counters.note_out(partitions.iter().count());
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(partitions = named.len(), bytes, ms, "partitions are on their way to another node");
        Ok(())
    }

    /// Images of held partitions, once all of their queues are in memory.
    fn images(&self, partitions: Partitions) -> Result<Vec<PartitionImage>, String> {
        let deadline = Instant::now() + LOAD_TIMEOUT;
        loop {
            let images = self.node.snapshot_partitions(partitions, parts::MAX_BYTES as u64);
            if let Some(images) = images.map_err(|error| error.to_string())? {
                return Ok(images);
            }
            if Instant::now() > deadline {
                return Err("queues could not be read from the store in time".to_owned());
            }
            super::pause(LOAD_PAUSE);
        }
    }

    /// Takes in what has come by a move that is still under way, and says so.
    fn take_in(&mut self, id: u64, parcel: &[u8]) {
        let Some(expected) = self.arriving.get(&id).copied() else { return };
        match self.arrive(expected, parcel) {
            Ok(()) => {
                // Before anybody hears of it: when this node dies, others look here for what it was sent.
                let mut memory = self.saved.clone().unwrap_or_default();
                memory.arrived.extend(expected.iter().map(|partition| (partition.0, id)));
                self.remember(&memory);
                drop(self.events.send(Event::Arrived(id)));
            }
            Err(error) => {
                self.shared.counters.note_failed();
                tracing::warn!(why = error, "partitions that came were not taken in; they stay where they were");
                self.forget(expected);
                let _ = self.events.send(Event::Refused(id));
            }
        }
    }

    fn arrive(&self, expected: Partitions, parcel: &[u8]) -> Result<(), String> {
        let parcel = Parcel::read(parcel).ok_or("what has come is no parcel of this version")?;
        let list = |name: &str| parcel.head.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let partition = |value: &Value| Some(PartitionId(u16::try_from(value.as_u64()?).ok()?));
        let partitions: Vec<PartitionId> = list("partitions").iter().filter_map(partition).collect();
        let named: Partitions = partitions.iter().copied().collect();
        if named != expected || partitions.len() != parcel.pieces.len() {
            return Err("what has come is not what was to come".to_owned());
        }
        let owed_before: BTreeMap<PartitionId, Value> = partitions.iter().copied().zip(list("owed")).collect();
        let images = partitions.into_iter().zip(parcel.pieces.clone());
        let images = images.map(|(partition, image)| PartitionImage { partition, image, owed: Owed::default() });
        let arrived = self.node.arrive(images.collect()).map_err(|error| error.to_string())?;
        for (partition, owed) in arrived.owed {
            let (before, after) = (owed_before.get(&partition), without_retained(owed));
            if before != Some(&after) {
                self.shared.counters.note_mismatch();
                return Err(format!("partition {}: {before:?} was owed before, {after} after", partition.0));
            }
        }
        Ok(())
    }
}

fn tell_lost(partitions: usize) {
    tracing::warn!(
        partitions,
        "partitions begin anew here: sessions and retained messages that their last node had are lost"
    );
}

/// What is owed to sessions. Of retained messages a newer one may be here already.
pub(super) fn without_retained(owed: Owed) -> Value {
    owed_json(&Owed { retained: 0, ..owed })
}
