//! Does to the node what tables ask for, one after the other. It may take a while, and the lease is renewed meanwhile
//! by others.

mod adopting;
pub(super) mod ahead;
mod asking;
mod brokers;
#[cfg(test)]
mod called_off;
mod deaths;
pub(super) mod inheriting;
mod members;
mod moves;
pub(super) mod passing;
mod piece_steps;
mod pieces;
pub(super) mod receiving;
mod resuming;
mod table_work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tidegate_cluster::Step;
use tidegate_engine::{PARTITIONS, PartitionId, Partitions};
use tidegate_node::{LeftOut, NodeHandle, NodeName};

use super::error::NodeError;
use super::event::Event;
use super::logs::Logs;
use super::memory::{Memory, MemoryFile};
use super::parts::Kind;
use super::pause;
use super::restore::{BlockReason, Restored, Restorer, Task, Wanted};
use super::sets::set_of;
use super::status::Shared;
use adopting::AdoptedBrokers;
use ahead::Preparations;
use brokers::BrokersHeld;
use deaths::given_at_deaths;
use members::Members;
use moves::{Arriving, CUT_PAUSE, Departing, let_clients_leave};
use passing::PassingMoves;
use resuming::Resuming;
pub(super) use table_work::{FollowingNode, TableWork};

/// Pause before the next attempt to fetch a dead node's partitions.
const RESTORE_PAUSE: Duration = Duration::from_secs(1);
/// Pause before a table that is not in force everywhere is put in force again.
const FORCE_PAUSE: Duration = Duration::from_millis(100);
/// Pause before the next check whether messages are kept back too long.
const LATE_PAUSE: Duration = Duration::from_secs(1);
/// Longest wait of a thread that has nothing to do.
const IDLE: Duration = Duration::from_secs(3_600);

/// A task of the thread.
pub(super) enum Work {
    /// A table has come, or the address of a node has become known.
    Table(Box<TableWork>),
    /// Something has come by a move.
    TakeIn { id: u64, kind: Kind, parcel: Vec<u8> },
}

pub(super) fn begin(
    name: &NodeName,
    node: NodeHandle,
    logs: Logs,
    memory: MemoryFile,
    restorer: Restorer,
    shared: Arc<Shared>,
    events: Sender<Event>,
) -> Result<Sender<Work>, NodeError> {
    let (work, inbox) = channel();
    let worker = new_worker(name.to_string(), node, logs, memory, restorer, shared, events);
    let begun = Builder::new().name("cluster-work".into()).spawn(move || worker.run(&inbox));
    begun.map(|_| work).map_err(NodeError::Thread)
}

struct Worker {
    members: Members,
    node: NodeHandle,
    logs: Logs,
    memory: MemoryFile,
    saved: Option<Memory>,
    shared: Arc<Shared>,
    events: Sender<Event>,
    /// Arriving partitions, by move.
    arriving: BTreeMap<u64, Arriving>,
    /// Departing partitions that are not complete, by move.
    departing: BTreeMap<u64, Departing>,
    /// Partitions whose messages brokers still bring here, by move.
    passing: PassingMoves,
    receiving: receiving::SharedReceiving,
    adopted: AdoptedBrokers,
    /// Whether brokers may be connected to.
    brokers: BrokersHeld,
    /// Moves whose long queues are sent ahead.
    preparations: Preparations,
    restorer: Restorer,
    /// Partitions to fetch from dead nodes.
    tasks: VecDeque<Task>,
}

fn all() -> Partitions {
    (0..PARTITIONS).map(PartitionId).collect()
}

fn new_worker(
    name: String,
    node: NodeHandle,
    logs: Logs,
    memory: MemoryFile,
    restorer: Restorer,
    shared: Arc<Shared>,
    events: Sender<Event>,
) -> Worker {
    let (arriving, departing, tasks) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
    let receiving = Arc::clone(&shared.receiving);
    Worker {
        members: Members::new(name),
        node,
        logs,
        memory,
        saved: None,
        shared,
        events,
        arriving,
        departing,
        passing: PassingMoves::default(),
        adopted: AdoptedBrokers::default(),
        receiving,
        brokers: BrokersHeld::default(),
        preparations: Preparations::default(),
        restorer,
        tasks,
    }
}

impl Worker {
    fn run(mut self, inbox: &Receiver<Work>) {
        self.resume();
        loop {
            let due = self.tasks.iter().map(|task| task.due.saturating_duration_since(Instant::now())).min();
            let wait = if self.departing.is_empty() { due.unwrap_or(IDLE) } else { CUT_PAUSE };
            let wait =
                wait.min(self.passing.next_piece().unwrap_or(IDLE)).min(self.next_look_at_adopted().unwrap_or(IDLE));
            let wait = wait.min(self.brokers.next_look().unwrap_or(IDLE));
            let wait = wait.min(self.preparations.next_look().unwrap_or(IDLE));
            let wait = wait.min(self.adopted.resuming.next_look().unwrap_or(IDLE));
            let wait = wait.min(if self.receiving.is_waiting() { LATE_PAUSE } else { IDLE });
            let received = inbox.recv_timeout(wait);
            if self.memory.is_another_s() {
                // The partitions here belong to others now. The process is about to end for it, and says so.
                return;
            }
            match received {
                Ok(Work::Table(work)) => self.follow(&work),
                Ok(Work::TakeIn { id, kind, parcel }) => self.take_in(id, kind, &parcel),
                Err(RecvTimeoutError::Timeout) => self.restore(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.send_rests();
            if let Err(error) = self.preparations.advance(&self.node, self.shared.prepares_until(), &self.events) {
                self.complain(&error, "long queues are not sent before their sessions move; the images bring them");
            }
            self.pass_pieces();
            self.resume_adopted();
            self.work_off_adopted();
            self.end_late_receiving();
            self.release_brokers();
        }
    }

    /// Notes the partitions to fetch from dead nodes, and forgets obsolete tasks.
    fn plan_to_restore(&mut self, work: &TableWork) {
        if self.members.life != work.life {
            // The new life names its missing partitions itself.
            (self.members.life, self.tasks) = (work.life, VecDeque::new());
        }
        for task in &mut self.tasks {
            task.partitions.retain(|partition, (since, _)| work.restoring.get(partition) == Some(since));
        }
        self.tasks.retain(|task| !task.partitions.is_empty());
        // Partitions of the same nodes are fetched at once.
        let mut together: BTreeMap<Vec<String>, Wanted> = BTreeMap::new();
        for step in &work.steps {
            let Step::Restore { partitions, former } = step else { continue };
            let nodes = former.iter().map(|it| it.node.clone()).collect();
            let wanted = |partition: &u16| Some((*partition, (*work.restoring.get(partition)?, former.clone())));
            together.entry(nodes).or_default().extend(partitions.iter().filter_map(wanted));
        }
        let (began, living) = (Instant::now(), work.told.names.iter().cloned().collect::<BTreeSet<_>>());
        for (nodes, partitions) in together {
            tracing::warn!(partitions = partitions.len(), ?nodes, "taking over the partitions of a dead node");
            let together = given_at_deaths(work.memory.table.as_ref(), &partitions, nodes.len());
            self.tasks.push_back(Task { partitions, nodes, together, living: living.clone(), began, due: began });
        }
        self.shared.counters.set_restoring(self.tasks.iter().map(|task| task.partitions.len()).sum());
        self.note_adopted_brokers();
    }

    /// Carries out one fetch that is due. It may take long, so it comes after moves that are under way: no node
    /// serves their partitions, and they end within a lease.
    fn restore(&mut self) {
        if !self.departing.is_empty() {
            return;
        }
        let now = Instant::now();
        let Some(at) = self.tasks.iter().position(|task| task.due <= now) else { return };
        let Some(mut task) = self.tasks.remove(at) else { return };
        let own = self.saved.clone().unwrap_or_default();
        let restored = match self.restorer.restore(&task, &own) {
            Ok(restored) => restored,
            Err(BlockReason::Passing(why)) => {
                tracing::warn!(why, "the partitions of a dead node have not arrived; retrying");
                task.due = Instant::now() + RESTORE_PAUSE;
                return self.tasks.push_back(task);
            }
            Err(BlockReason::Lasting(why) | BlockReason::Refused(why)) => {
                tracing::error!(why, "cannot import the partitions of a dead node");
                self.forget(Restorer::set(&task));
                self.note_adopted_brokers();
                Restored { lost: task.partitions.keys().copied().collect(), ..Restored::default() }
            }
        };
        let Restored { sessions, messages, retained, bans, transfers, lost } = restored;
        let begun: Vec<u64> = transfers.iter().map(|inherited| inherited.transfer).collect();
        // A restart has to continue with the connections to brokers if it has the partitions.
        self.adopt(transfers);
        let mut memory = self.saved.clone().unwrap_or_default();
        let since: BTreeMap<u16, u64> =
            task.partitions.iter().map(|(partition, (since, _))| (*partition, *since)).collect();
        memory.holdings.extend(&since);
        self.remember(&memory);
        if self.saved.as_ref().map(|saved| &saved.holdings) != Some(&memory.holdings) {
            // No node may take it for restored before it is remembered.
            self.restorer.end_transfers(&begun);
            self.adopted.forget(&begun);
            task.due = Instant::now() + RESTORE_PAUSE;
            return self.tasks.push_back(task);
        }
        let ms = u64::try_from(task.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let counters = &self.shared.counters;
        counters.note_restored(task.partitions.len() - lost.len(), lost.len(), ms);
        counters.set_restoring(self.tasks.iter().map(|task| task.partitions.len()).sum());
        self.note_adopted_brokers();
        let partitions = task.partitions.len();
        tracing::info!(
            partitions,
            sessions,
            messages,
            retained,
            bans,
            ms,
            "the partitions of a dead node are served here"
        );
        if !lost.is_empty() {
            tell_lost(lost.len());
        }
        let _ = self.events.send(Event::Restored { life: self.members.life, partitions: since });
    }

    /// Carries out the work for a table. A shard that does not answer hangs or ends, and the node with it.
    fn follow(&mut self, work: &TableWork) {
        self.members.note_table(work);
        self.shared.inheriting.note_living(&self.members.lives);
        // Moves that the table does not have are over, whatever has ended them.
        self.departing.retain(|id, _| work.begun.contains(id));
        self.arriving.retain(|id, _| work.to_here.contains_key(id));
        for step in &work.steps {
            if let Step::Forget(partitions) = step {
                self.forget_unless_passed(set_of(partitions));
            }
        }
        self.end_late_receiving();
        // Remembered partitions are there: arrived ones were in the store before they were said to have arrived.
        self.remember(&work.memory);
        for step in &work.steps {
            self.take_note(step);
        }
        self.plan_to_restore(work);
        if work.told.is_member && !self.memory.serve_since(work.told.view.epoch) {
            // The process is about to end for it, and says so.
            return;
        }
        // A shard may be late with its answer, mostly since the process stood still. Until all have answered the
        // served partitions are not known, and the lease is not renewed.
        while let Err(error) = self.put_in_force(work) {
            self.complain(&error, "the table of the cluster is not in force everywhere; it is tried again");
            if self.memory.is_another_s() || self.shared.astray().is_some() {
                return;
            }
            pause(FORCE_PAUSE);
        }
        self.note_passing();
        self.preparations.note_table(&work.preparing, &work.begun);
        if let Err(error) = self.shared.moves_to_here.note(&self.node, &work.to_here) {
            self.complain(&error, "queues of moves that were cancelled stay in the store until the next move");
        }
        if work.told.is_member {
            self.note_own_partitions(work);
        }
        for step in &work.steps {
            if let Step::Send { id, partitions, to } = step
                && let Err(error) = self.send(*id, set_of(partitions), to, work.told.view.epoch)
            {
                self.refuse_departure(*id, to, &error);
            }
        }
    }

    fn forget(&mut self, partitions: Partitions) {
        self.end_moves_of(partitions);
        let forgotten = self.node.moves().forget_partitions(partitions).and_then(|owed| {
            // Each orchestrator keeps the retained messages of brokers that its clients subscribe to.
            if !self.shared.is_orchestrator || self.shared.exchanges_addresses {
                self.node.moves().forget_retained(partitions)?;
            }
            Ok(owed)
        });
        match forgotten {
            Ok(owed) => tracing::debug!(partitions = partitions.iter().count(), sessions = owed.sessions, "forgotten"),
            Err(error) => self.complain(&error, "what lives elsewhere could not be removed here"),
        }
    }

    /// Continues the work of the last life of this process. Before brokers are connected to.
    fn resume(&mut self) {
        if !self.shared.is_orchestrator {
            return;
        }
        match self.memory.load() {
            Ok(memory) => {
                self.resume_passing(&memory.passing);
                self.receiving.resume(set_of(&memory.receiving));
                self.adopted.resuming = Resuming::of(memory.adopted, memory.holdings);
                self.note_adopted_brokers();
            }
            Err(error) => self.complain(&error, "the work of the last life of this process is not continued"),
        }
    }

    /// Remembers the forwarding and the connections of dead orchestrators as they are now. Says whether it is saved.
    fn remember_again(&mut self) -> bool {
        self.saved.clone().is_some_and(|memory| self.remember(&memory))
    }

    /// Saves the state that a restart has to know. Says whether it is saved: a failure is logged, and nothing may be
    /// promised then that depends on it.
    fn remember(&mut self, memory: &Memory) -> bool {
        let (passing, receiving) = (self.passing.to_remember(), self.receiving.open_partitions());
        let adopted = self.adopted.to_remember();
        let memory = &Memory { passing, receiving, adopted, ..memory.clone() };
        let kept = self.shared.counters.while_saving(|| self.memory.keep(&mut self.saved, memory));
        if let Err(error) = &kept {
            self.complain(error, "cannot remember the partitions worked here: a restart would begin them empty");
        }
        kept.is_ok()
    }

    /// Logs a failure. A process whose place was taken is about to end for that, and says so:
    /// one error is enough.
    fn complain(&self, error: &dyn Error, consequence: &'static str) {
        if self.memory.is_another_s() {
            tracing::debug!(%error, "{consequence}");
        } else {
            tracing::error!(%error, "{consequence}");
        }
    }

    fn take_note(&mut self, step: &Step) {
        match step {
            Step::Expect { id, partitions, .. } => {
                self.arriving.insert(*id, Arriving::new(set_of(partitions)));
            }
            Step::TakeOver { id, partitions } => {
                self.arriving.remove(id);
                self.shared.counters.note_in(partitions.len());
                tracing::info!(partitions = partitions.len(), "partitions are served here now");
            }
            Step::Begin { partitions, lost: true } => {
                self.shared.counters.note_begun_empty(partitions.len());
                tell_lost(partitions.len());
            }
            Step::Resume(partitions) => {
                // Before a further move of them begins. Their sessions have got these messages.
                self.end_passing_of(set_of(partitions));
                tracing::warn!(partitions = partitions.len(), "a move was cancelled; this node keeps the partitions");
            }
            Step::Send { .. } | Step::Forget(_) | Step::Keep(_) | Step::Begin { .. } | Step::Restore { .. } => {}
        }
    }

    fn put_in_force(&mut self, work: &TableWork) -> Result<(), tidegate_node::NoAnswer> {
        // Before the table, so that the clients of leaving partitions get a reason of their own.
        let sends = work.steps.iter().filter_map(|step| match step {
            Step::Send { partitions, to, .. } => Some((set_of(partitions), work.told.reference_of(to))),
            _ => None,
        });
        let sends: Vec<_> = sends.collect();
        let local = self.shared.is_ending();
        let left_out = |reference: Option<&str>| LeftOut { v5: reference.is_some(), local };
        let mut leaving: Vec<_> = sends.iter().map(|(moved, reference)| (*moved, left_out(*reference))).collect();
        if local {
            // A stopping node takes no clients, also one without partitions.
            leaving.push((Partitions::NONE, left_out(None)));
        }
        let_clients_leave(&self.node, &leaving)?;
        for (partitions, reference) in sends {
            self.node.moves().hold_partitions(partitions, reference)?;
        }
        self.node.set_cluster(Arc::new(work.told.view.clone()))?;
        let lease = self.shared.lease_of(work.life);
        let lease_until = lease.map_or(self.node.now().monotonic, |until| self.shared.on_node_clock(until));
        self.node.set_homes(Some(&Arc::new(work.told.homes(lease_until, self.shared.patience_ms))))?;
        // Partitions for which messages are passed on stay held. Those served here are released with this table: the next one
        // may come late.
        self.end_passing_of(work.served);
        self.node.moves().release_partitions(all().without(work.held).without(self.passing.partitions()))?;
        self.shared.note_in_force(work.life, work.told.view.epoch, work.served);
        if self.shared.is_orchestrator {
            self.brokers.note_table(work.told.is_member, work.told.view.epoch, &self.members.lives);
        }
        Ok(())
    }
}

fn tell_lost(partitions: usize) {
    tracing::warn!(
        partitions,
        "partitions start empty here: sessions and retained messages of their last node are lost"
    );
}
