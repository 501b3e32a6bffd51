//! Moves of partitions between processes: the control plane's steps on the shards.

pub(crate) mod pieces;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tidegate_engine::{
    Engine, ImageError, Now, OrchestratorMoves, Owed, PartitionId, PartitionImage, Partitions, Settling, ShardId,
    Snapshot,
};

use crate::handle::{NoAnswer, NodeHandle};
use crate::left_out::LeftOut;
use crate::shard::facets::PeerCalls;
use crate::shard::inbox::{Admin, ToShard};
use pieces::PieceOrder;

/// Timeout of a step that writes moved partitions to the store.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// The shard that has all uplinks: the home of partition 0.
pub(crate) const UPLINK_SHARD: ShardId = ShardId(0);

/// Why a step of a move did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// A shard does not answer.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// A partition cannot be given out or taken in.
    #[error("{0}")]
    Image(ImageError),
}

impl From<ImageError> for MoveError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

/// The arrived partitions, and the earlier copy that they replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The pending messages of each partition.
    pub owed: Vec<(PartitionId, Owed)>,
    /// The pending messages of an earlier copy here.
    pub given_up: Owed,
}

/// The messages collected for partitions while they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collecting {
    /// Messages from other nodes, by the id of the move.
    FromNodes(u64),
    /// Messages from brokers, in pieces, by the id of the move.
    InPieces(u64),
    /// Both: messages on topics of addresses come from other orchestrators.
    FromBoth(u64),
}

type SnapshotAnswer = Result<Snapshot, ImageError>;
type ArriveAnswer = Result<(Vec<(PartitionId, Owed)>, Owed), ImageError>;

/// A step of a move.
#[derive(Debug)]
pub(crate) enum MoveOrder {
    Hold {
        partitions: Partitions,
        reference: Option<Arc<str>>,
        done: Sender<()>,
    },
    Release {
        partitions: Partitions,
        done: Sender<()>,
    },
    BeginToLeave {
        partitions: Partitions,
        left_out: LeftOut,
        done: Sender<()>,
    },
    Leave {
        answer: Sender<usize>,
    },
    Snapshot {
        partitions: Partitions,
        max_bytes: u64,
        collecting: Collecting,
        answer: Sender<SnapshotAnswer>,
    },
    Settle {
        settling: Settling,
        answer: Sender<Option<Settling>>,
    },
    Forget {
        partitions: Partitions,
        answer: Sender<Owed>,
    },
    ForgetRetained {
        partitions: Partitions,
        answer: Sender<()>,
    },
    Arrive {
        images: Arc<[PartitionImage]>,
        had: Option<Arc<[u8]>>,
        collecting: Collecting,
        answer: Sender<ArriveAnswer>,
    },
    IsCut {
        transfer: u64,
        answer: Sender<bool>,
    },
    TakeTransferRest {
        transfer: u64,
        answer: Sender<Result<Vec<u8>, ImageError>>,
    },
    FinishTransfer {
        transfer: u64,
        rests: Arc<[Vec<u8>]>,
        answer: Sender<Result<u64, ImageError>>,
    },
    Deliver {
        partitions: Partitions,
        messages: Arc<[u8]>,
        answer: Sender<Result<(), ImageError>>,
    },
    Piece(PieceOrder),
}

/// An answer that waits until earlier writes are committed.
pub(crate) struct Committing {
    batch: u64,
    answer: Box<dyn FnOnce() + Send>,
}

/// Moves of partitions between nodes, step by step. Every call waits for the shards.
#[derive(Debug)]
pub struct NodeMoves<'n> {
    node: &'n NodeHandle,
}

impl NodeHandle {
    /// The steps of moves of partitions between nodes.
    pub const fn moves(&self) -> NodeMoves<'_> {
        NodeMoves { node: self }
    }
}

impl NodeMoves<'_> {
    /// The clients of these partitions are to leave, as far as they can: their nodes keep the sockets and continue at the
    /// new home.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn begin_to_leave(&self, partitions: Partitions, left_out: LeftOut) -> Result<(), NoAnswer> {
        self.on_all(|done| MoveOrder::BeginToLeave { partitions, left_out, done }).map(drop)
    }

    /// Lets clients leave that have nothing under way; returns how many have. It is called again until there are none, or
    /// [`hold_partitions`](Self::hold_partitions) ends their connections.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn let_clients_leave(&self) -> Result<usize, NoAnswer> {
        Ok(self.on_all(|answer| MoveOrder::Leave { answer })?.into_iter().sum())
    }

    /// Stops to serve the clients of these partitions; their sessions still collect messages. MQTT 5 clients are
    /// redirected to `reference`, their new home.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn hold_partitions(&self, partitions: Partitions, reference: Option<&str>) -> Result<(), NoAnswer> {
        let reference: Option<Arc<str>> = reference.map(Arc::from);
        self.on_all(|done| MoveOrder::Hold { partitions, reference: reference.clone(), done }).map(drop)
    }

    /// Ends the hold: the table names the serving node.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn release_partitions(&self, partitions: Partitions) -> Result<(), NoAnswer> {
        self.on_all(|done| MoveOrder::Release { partitions, done }).map(drop)
    }

    /// Takes images of held partitions for a move to another node, or `None` while parts of their queues are being read
    /// from the store. `transfer` is the id of the move. Later messages are collected for [`NodeMoves::take_transfer_rest`].
    ///
    /// # Errors
    /// When they are too large, or a shard does not answer.
    pub fn snapshot_for_node(
        &self,
        partitions: Partitions,
        max_bytes: u64,
        transfer: u64,
    ) -> Result<Option<Vec<PartitionImage>>, MoveError> {
        self.snapshot(partitions, max_bytes, Collecting::FromNodes(transfer))
    }

    pub(crate) fn snapshot(
        &self,
        partitions: Partitions,
        max_bytes: u64,
        collecting: Collecting,
    ) -> Result<Option<Vec<PartitionImage>>, MoveError> {
        let mut images = Vec::new();
        for shard in self.shard_ids() {
            let order = |answer| MoveOrder::Snapshot { partitions, max_bytes, collecting, answer };
            match self.on(shard, order)?? {
                Snapshot::Loading => return Ok(None),
                Snapshot::Taken(taken) => images.extend(taken),
            }
        }
        Ok(Some(images))
    }

    /// Checks whether all messages have arrived that brokers sent before [`begin_settling`](crate::OrchestratorMoves::begin_settling). Returns
    /// the missing ones; `None` when all have arrived.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn settle(&self, settling: Settling) -> Result<Option<Settling>, NoAnswer> {
        self.on(UPLINK_SHARD, |answer| MoveOrder::Settle { settling, answer })
    }

    /// Forgets partitions that are at home elsewhere now, in the store as well; returns their pending messages.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn forget_partitions(&self, partitions: Partitions) -> Result<Owed, NoAnswer> {
        let mut all = Owed::default();
        for owed in self.on_all(|answer| MoveOrder::Forget { partitions, answer })? {
            all.add(&owed);
        }
        Ok(all)
    }

    /// Forgets retained messages that other nodes of the cluster keep now, in the store as well.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn forget_retained(&self, partitions: Partitions) -> Result<(), NoAnswer> {
        self.on_all(|answer| MoveOrder::ForgetRetained { partitions, answer }).map(drop)
    }

    /// Imports and holds partitions of another node; answers when they are in the store. All nodes are asked to send
    /// messages for these partitions here. They are collected until [`NodeMoves::finish_transfer`].
    ///
    /// # Errors
    /// When an image is refused, or a shard does not answer.
    pub fn arrive_from_node(&self, images: Vec<PartitionImage>, transfer: u64) -> Result<Arrived, MoveError> {
        self.take_in(images, None, Collecting::FromNodes(transfer))
    }

    /// Whether all nodes have confirmed that their messages go to the new home.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn is_cut(&self, transfer: u64) -> Result<bool, NoAnswer> {
        let cut = self.on_all(|answer| MoveOrder::IsCut { transfer, answer })?;
        Ok(cut.into_iter().all(|cut| cut))
    }

    /// The messages of each shard that are not at the new home.
    ///
    /// # Errors
    /// When it was too much, or a shard does not answer.
    pub fn take_transfer_rest(&self, transfer: u64) -> Result<Vec<Vec<u8>>, MoveError> {
        let rests = self.on_all(|answer| MoveOrder::TakeTransferRest { transfer, answer })?;
        rests.into_iter().map(|rest| rest.map_err(MoveError::from)).collect()
    }

    /// Delivers the messages collected at the old home, and then those collected here; answers with their number once
    /// they are in the store.
    ///
    /// # Errors
    /// When it cannot be read, was too much, or a link was lost meanwhile; or when a shard does not answer.
    pub fn finish_transfer(&self, transfer: u64, rests: Vec<Vec<u8>>) -> Result<u64, MoveError> {
        let rests: Arc<[Vec<u8>]> = rests.into();
        let mut messages = 0;
        for shard in self.shard_ids() {
            let rests = Arc::clone(&rests);
            messages += self.on(shard, |answer| MoveOrder::FinishTransfer { transfer, rests, answer })??;
        }
        Ok(messages)
    }

    pub(crate) fn take_in(
        &self,
        images: Vec<PartitionImage>,
        had: Option<Vec<u8>>,
        collecting: Collecting,
    ) -> Result<Arrived, MoveError> {
        let had: Option<Arc<[u8]>> = had.map(Into::into);
        let images: Arc<[PartitionImage]> = images.into();
        let mut arrived = Arrived::default();
        // The shard of the broker links comes last: messages that it has seen before were not delivered to the arriving
        // sessions.
        let mut shards: Vec<ShardId> = self.shard_ids().collect();
        shards.reverse();
        for shard in shards {
            let (owed, given_up) = self.on(shard, |answer| {
                let (images, had) = (Arc::clone(&images), had.clone());
                MoveOrder::Arrive { images, had, collecting, answer }
            })??;
            arrived.owed.extend(owed);
            arrived.given_up.add(&given_up);
        }
        arrived.owed.sort_by_key(|(partition, _)| *partition);
        Ok(arrived)
    }

    pub(crate) fn shard_ids(&self) -> impl Iterator<Item = ShardId> {
        (0..self.node.shards()).map(ShardId)
    }

    pub(crate) fn on<T>(&self, shard: ShardId, order: impl FnOnce(Sender<T>) -> MoveOrder) -> Result<T, NoAnswer> {
        let (answer, answers) = channel();
        self.node.tell(shard, ToShard::Admin(Admin::Move(order(answer))));
        wait(shard, &answers)
    }

    pub(crate) fn on_all<T>(&self, order: impl Fn(Sender<T>) -> MoveOrder) -> Result<Vec<T>, NoAnswer> {
        self.shard_ids().map(|shard| self.on(shard, &order)).collect()
    }
}

fn wait<T>(shard: ShardId, answers: &Receiver<T>) -> Result<T, NoAnswer> {
    answers.recv_timeout(STEP_TIMEOUT).map_err(|_| NoAnswer { shard })
}

impl PeerCalls<'_> {
    /// Carries out a step of a move. The caller may have given up waiting.
    pub(crate) fn take_move_order(&mut self, order: MoveOrder) {
        let now = self.shard.now;
        match order {
            MoveOrder::Hold { partitions, reference, done } => {
                self.shard.engine.moves().hold_partitions(now, partitions, reference.as_deref());
                let _ = done.send(());
            }
            MoveOrder::Release { partitions, done } => {
                self.shard.engine.moves().release_partitions(self.shard.now, partitions);
                let _ = done.send(());
            }
            MoveOrder::BeginToLeave { partitions, left_out, done } => {
                self.begin_to_leave(partitions, left_out);
                let _ = done.send(());
            }
            MoveOrder::Leave { answer } => drop(answer.send(self.let_clients_leave())),
            MoveOrder::Snapshot { partitions, max_bytes, collecting, answer } => {
                let _ = answer.send(take_snapshot(&mut self.shard.engine, now, partitions, max_bytes, collecting));
            }
            MoveOrder::Settle { mut settling, answer } => {
                let settled = self.shard.engine.fleet().settle(now, &mut settling);
                let _ = answer.send((!settled).then_some(settling));
            }
            MoveOrder::Forget { partitions, answer } => {
                let owed = self.shard.engine.moves().forget_partitions(now, partitions);
                self.answer_committed(answer, owed);
            }
            MoveOrder::ForgetRetained { partitions, answer } => {
                self.shard.engine.moves().forget_retained(now, partitions);
                self.answer_committed(answer, ());
            }
            MoveOrder::Arrive { images, had, collecting, answer } => {
                let engine = &mut self.shard.engine;
                let mut arrived = engine.moves().arrive(now, &images);
                let partitions = images.iter().map(|image| image.partition).collect();
                match (&arrived, collecting) {
                    (Ok(_), Collecting::FromNodes(id)) => engine.moves().begin_coming(now, id, partitions),
                    (Ok(_), Collecting::InPieces(id) | Collecting::FromBoth(id)) => {
                        let begun = OrchestratorMoves::of(engine).begin_awaiting(now, id, partitions, had.as_deref());
                        if let Err(error) = begun {
                            engine.moves().forget_partitions(now, partitions);
                            arrived = Err(error);
                        } else if matches!(collecting, Collecting::FromBoth(_)) {
                            engine.moves().begin_coming(now, id, partitions);
                        }
                    }
                    (Err(_), _) => {}
                }
                self.answer_committed(answer, arrived);
            }
            MoveOrder::IsCut { transfer, answer } => {
                let _ = answer.send(self.shard.engine.questions().is_cut(transfer));
            }
            MoveOrder::TakeTransferRest { transfer, answer } => {
                let _ = answer.send(self.shard.engine.moves().take_transfer_rest(transfer));
            }
            MoveOrder::FinishTransfer { transfer, rests, answer } => {
                let finished = self.shard.engine.moves().finish_transfer(now, transfer, &rests);
                self.answer_committed(answer, finished);
            }
            MoveOrder::Deliver { partitions, messages, answer } => {
                let delivered =
                    OrchestratorMoves::of(&mut self.shard.engine).deliver_forwarded(now, partitions, &messages);
                self.answer_committed(answer, delivered);
            }
            MoveOrder::Piece(order) => order.carry_out(self.shard),
        }
    }

    /// Answers when all that was written so far is in the store.
    pub(crate) fn answer_committed<T: Send + 'static>(&mut self, answer: Sender<T>, with: T) {
        let send = move || drop(answer.send(with));
        match self.shard.engine.moves().written_batch().filter(|_| self.shard.journal.is_some()) {
            Some(batch) => self.shard.committing.push(Committing { batch, answer: Box::new(send) }),
            None => send(),
        }
    }

    /// The store has committed all batches up to this one.
    pub(crate) fn take_committed(&mut self, sequence: u64) {
        self.shard.engine.store().handle_committed(sequence);
        self.release_to_nodes(sequence);
        if self.shard.committing.is_empty() {
            return;
        }
        let (done, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.shard.committing).into_iter().partition(|it| it.batch <= sequence);
        self.shard.committing = waiting;
        for it in done {
            (it.answer)();
        }
    }
}

/// Exports partitions, and begins to collect their later messages in the same turn.
fn take_snapshot(
    engine: &mut Engine,
    now: Now,
    partitions: Partitions,
    max_bytes: u64,
    collecting: Collecting,
) -> SnapshotAnswer {
    let taken = engine.moves().snapshot_partitions(now, partitions, max_bytes)?;
    match (&taken, collecting) {
        (Snapshot::Taken(_), Collecting::FromNodes(id)) => engine.moves().begin_leaving(id, partitions),
        (Snapshot::Taken(_), Collecting::InPieces(id)) => {
            OrchestratorMoves::of(engine).begin_forwarding(id, partitions);
        }
        (Snapshot::Taken(_), Collecting::FromBoth(id)) => {
            OrchestratorMoves::of(engine).begin_forwarding(id, partitions);
            engine.moves().begin_leaving(id, partitions);
        }
        (Snapshot::Loading, _) => {}
    }
    Ok(taken)
}
