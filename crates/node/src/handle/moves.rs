//! Moves of partitions between processes: the control plane's steps on the shards.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tidegate_engine::{ImageError, Owed, PartitionId, PartitionImage, Partitions, Settling, ShardId, Snapshot};

use super::{NoAnswer, NodeHandle};
use crate::left_out::LeftOut;
use crate::moves::pieces::PieceOrder;
use crate::moves::{BROKER_LINK_SHARD, Collecting, MoveOrder};
use crate::orders::{Admin, ToShard};

/// Timeout of a step that writes moved partitions to the store.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
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
                Snapshot::Loading => {
                    self.end_forwarding_before(shard, partitions, collecting)?;
                    return Ok(None);
                }
                Snapshot::Taken(taken) => images.extend(taken),
            }
        }
        Ok(Some(images))
    }

    /// A shard is not ready to give out its images. The shards before it have given theirs out and collect messages of
    /// brokers for the new home. They deliver these here, since their images are to be taken again.
    fn end_forwarding_before(
        &self,
        shard: ShardId,
        partitions: Partitions,
        collecting: Collecting,
    ) -> Result<(), NoAnswer> {
        let (Collecting::InPieces(transfer) | Collecting::FromBoth(transfer)) = collecting else { return Ok(()) };
        self.shard_ids().take_while(|begun| *begun != shard).try_for_each(|begun| {
            self.on(begun, |done| MoveOrder::Piece(PieceOrder::EndForwarding { transfer, partitions, done }))
        })
    }

    /// Checks whether all messages have arrived that brokers sent before [`begin_settling`](crate::OrchestratorMoves::begin_settling). Returns
    /// the missing ones; `None` when all have arrived.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn settle(&self, settling: Settling) -> Result<Option<Settling>, NoAnswer> {
        self.on(BROKER_LINK_SHARD, |answer| MoveOrder::Settle { settling, answer })
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

    /// Takes the next step to the end of this node's exchanges with others, before it stops without partitions. Called
    /// again until it answers true: no shard of the cluster has messages of groups dealt here, none that was dealt is kept
    /// here, and all nodes have read the answers of this one. With `gives_kept` the homes of the groups get the messages
    /// whose members have not answered.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn take_leave(&self, gives_kept: bool) -> Result<bool, NoAnswer> {
        let left = self.on_all(|answer| MoveOrder::TakeLeave { gives_kept, answer })?;
        Ok(left.into_iter().all(|left| left))
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
