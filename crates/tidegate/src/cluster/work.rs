//! Does to the node what tables ask for, one after the other. It may take a while, and the lease is renewed meanwhile by others.

mod moves;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;

use tidegate_cluster::Step;
use tidegate_engine::{PARTITIONS, PartitionId, Partitions};
use tidegate_node::{NodeHandle, NodeName};

use super::control::Event;
use super::logs::Logs;
use super::memory::{Memory, MemoryFile};
use super::parts::Kind;
use super::status::Shared;
use super::view::Told;
use moves::{Arriving, CUT_PAUSE, Departing};

/// What is to be done.
pub(super) enum Work {
    /// A table has come, or it has become known where somebody is.
    Table(Box<TableWork>),
    /// Something has come by a move.
    TakeIn { id: u64, kind: Kind, parcel: Vec<u8> },
}

/// What a table asks for.
pub(super) struct TableWork {
    pub(super) steps: Vec<Step>,
    pub(super) told: Told,
    /// The life for which it is asked.
    pub(super) life: u64,
    /// What is here when the steps are done.
    pub(super) memory: Memory,
    /// What is here and served by nobody, since it moves.
    pub(super) held: Partitions,
    /// What is served here.
    pub(super) served: Partitions,
}

pub(super) fn begin(
    name: &NodeName,
    node: NodeHandle,
    logs: Logs,
    memory: MemoryFile,
    shared: Arc<Shared>,
    events: Sender<Event>,
) -> Result<Sender<Work>, String> {
    let (work, inbox) = channel();
    let name = name.to_string();
    let (arriving, departing) = (BTreeMap::new(), BTreeMap::new());
    let worker = Worker { name, node, logs, memory, saved: None, shared, events, arriving, departing };
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
    arriving: BTreeMap<u64, Arriving>,
    /// What was sent and is not complete, by move.
    departing: BTreeMap<u64, Departing>,
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
            let next = if self.departing.is_empty() {
                inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                inbox.recv_timeout(CUT_PAUSE)
            };
            match next {
                Ok(Work::Table(work)) => self.follow(&work),
                Ok(Work::TakeIn { id, kind, parcel }) => self.take_in(id, kind, &parcel),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.send_rests();
        }
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
        if let Err(error) = self.put_in_force(work) {
            tracing::error!(%error, "the table of the cluster is not in force everywhere");
        }
        for step in &work.steps {
            if let Step::Send { id, partitions, to } = step
                && let Err(error) = self.send(*id, set_of(partitions), to)
            {
                self.refuse_departure(*id, to, &error);
            }
        }
    }

    fn forget(&mut self, partitions: Partitions) {
        self.end_moves_of(partitions);
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
                self.arriving.insert(*id, Arriving::new(set_of(partitions)));
            }
            Step::TakeOver { id, partitions } => {
                self.arriving.remove(id);
                self.shared.counters.note_in(partitions.len());
                tracing::info!(partitions = partitions.len(), "partitions are served here now");
            }
            Step::Begin { partitions, lost: true } => {
                self.shared.counters.note_anew(partitions.len());
                tracing::warn!(
                    partitions = partitions.len(),
                    "partitions begin anew here: sessions and retained messages that their last node had are lost"
                );
            }
            Step::Resume(partitions) => {
                self.end_moves_of(set_of(partitions));
                tracing::warn!(
                    partitions = partitions.len(),
                    "a move was called off; its partitions are served here on"
                );
            }
            Step::Send { .. } | Step::Forget(_) | Step::Keep(_) | Step::Begin { .. } => {}
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
}
