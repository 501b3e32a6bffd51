//! Moves of partitions between the orchestrators of a cluster, and takeovers from a dead orchestrator: the control
//! plane's steps on the shards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;

use tidegate_engine::{
    AdoptError, Behind, BrokerLinkError, BrokerLinkImage, Brought, Continued, Forwarded, PartitionImage, Partitions,
    Settling, ShardId,
};

use crate::broker_link::FleetOrder;
use crate::handle::fleet::FleetError;
use crate::handle::moves::{Arrived, MoveError};
use crate::handle::{NoAnswer, NodeHandle};
use crate::moves::pieces::PieceOrder;
use crate::moves::{BROKER_LINK_SHARD, Collecting, MoveOrder};
use crate::orders::{Admin, ToShard};

/// The steps of a move between orchestrators.
#[derive(Clone, Copy, Debug)]
pub struct OrchestratorMoves<'n> {
    node: &'n NodeHandle,
}

impl<'n> OrchestratorMoves<'n> {
    /// The steps on this node.
    pub const fn of(node: &'n NodeHandle) -> Self {
        Self { node }
    }

    /// Exports held partitions, or returns `None` while parts of their queues are being read from the store. Messages that
    /// brokers deliver later are collected for [`OrchestratorMoves::take_forwarded`], and messages that come over links for
    /// [`NodeMoves::take_transfer_rest`](crate::NodeMoves::take_transfer_rest).
    ///
    /// # Errors
    /// When they are too large, or a shard does not answer.
    pub fn snapshot(
        &self,
        partitions: Partitions,
        max_bytes: u64,
        transfer: u64,
    ) -> Result<Option<Vec<PartitionImage>>, MoveError> {
        self.node.moves().snapshot(partitions, max_bytes, Collecting::FromBoth(transfer))
    }

    /// The messages that brokers have delivered for the partitions of a move since the last piece; `None` if there are
    /// none. The brokers keep them until [`OrchestratorMoves::confirm_forwarded`]. `served_there` says that the new home serves the partitions.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn take_forwarded(&self, transfer: u64, served_there: bool) -> Result<Option<Forwarded>, NoAnswer> {
        self.node.moves().on(BROKER_LINK_SHARD, |answer| {
            MoveOrder::Piece(PieceOrder::TakeForwarded { transfer, served_there, answer })
        })
    }

    /// Begins to check whether all messages have arrived that brokers have for this process;
    /// [`NodeMoves::settle`](crate::NodeMoves::settle) returns the result. A disconnected broker is waited for.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn begin_settling(&self) -> Result<Settling, NoAnswer> {
        self.node.moves().on(BROKER_LINK_SHARD, |answer| MoveOrder::Piece(PieceOrder::BeginSettling { answer }))
    }

    /// The messages that the sessions of a move had when they left.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn take_had(&self, transfer: u64) -> Result<Vec<u8>, NoAnswer> {
        self.node.moves().on(BROKER_LINK_SHARD, |answer| MoveOrder::Piece(PieceOrder::TakeHad { transfer, answer }))
    }

    /// The new homes have stored this number of messages of a move: they are acknowledged to the brokers.
    pub fn confirm_forwarded(&self, transfer: u64, messages: usize) {
        let order = PieceOrder::ConfirmForwarded { transfer, messages };
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Move(MoveOrder::Piece(order))));
    }

    /// Begins to collect the messages that brokers deliver for partitions that left in an earlier life of this process.
    /// Before the brokers are connected to.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn resume_forwarding(&self, transfer: u64, partitions: Partitions) -> Result<(), NoAnswer> {
        self.node
            .moves()
            .on_all(|done| MoveOrder::Piece(PieceOrder::ResumeForwarding { transfer, partitions, done }))
            .map(drop)
    }

    /// Partitions of a move are served here again: delivers the messages `taken` by
    /// [`OrchestratorMoves::take_forwarded`] that no other member has confirmed, and those collected since. They are
    /// collected no longer.
    ///
    /// # Errors
    /// When messages cannot be read, or a shard does not answer.
    pub fn return_forwarded(&self, transfer: u64, partitions: Partitions, taken: &[u8]) -> Result<(), MoveError> {
        if !taken.is_empty() {
            for shard in self.node.moves().shard_ids() {
                let messages: Arc<[u8]> = taken.into();
                self.node.moves().on(shard, |answer| MoveOrder::Deliver { partitions, messages, answer })??;
            }
        }
        let order = |answer| MoveOrder::Piece(PieceOrder::ReturnForwarded { transfer, partitions, answer });
        let collected = self.node.moves().on(BROKER_LINK_SHARD, order)??;
        self.deliver_on_other_shards(partitions, &collected)?;
        Ok(self.end_forwarding(transfer, partitions)?)
    }

    /// Ends the collection of messages for these partitions of a move.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn end_forwarding(&self, transfer: u64, partitions: Partitions) -> Result<(), NoAnswer> {
        self.node
            .moves()
            .on_all(|done| MoveOrder::Piece(PieceOrder::EndForwarding { transfer, partitions, done }))
            .map(drop)
    }

    /// Delivers a piece of messages that the old home has forwarded for these partitions, and the messages that were kept back here unless
    /// more pieces come before them. Returns when they are in the store, with the partitions that have the piece: none
    /// of a transfer that has ended.
    ///
    /// # Errors
    /// When the piece cannot be read, or a shard does not answer.
    pub fn take_piece(
        &self,
        transfer: u64,
        partitions: Partitions,
        piece: &[u8],
        behind: Behind,
    ) -> Result<Partitions, MoveError> {
        let piece: Arc<[u8]> = piece.into();
        let order = |answer| MoveOrder::Piece(PieceOrder::TakePiece { transfer, partitions, piece, behind, answer });
        let (partitions, rest) = self.node.moves().on(BROKER_LINK_SHARD, order)??;
        self.deliver_on_other_shards(partitions, &rest)?;
        if behind == Behind::Nothing {
            for shard in self.other_shards() {
                let order = |done| MoveOrder::Piece(PieceOrder::EndAwaiting { transfer, done });
                self.node.moves().on(shard, order)?;
            }
        }
        Ok(partitions)
    }

    /// Delivers the messages that were kept back for a transfer. `behind` is the state of later pieces.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn deliver_kept_back(&self, transfer: u64, behind: Behind) -> Result<(), MoveError> {
        self.take_piece(transfer, Partitions::NONE, &[], behind).map(drop)
    }

    /// Begins to take pieces for partitions that came in an earlier life of this process, or whose earlier new home has
    /// died. No messages are kept back.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn resume_awaiting(&self, transfer: u64, partitions: Partitions) -> Result<(), NoAnswer> {
        let order = |done| MoveOrder::Piece(PieceOrder::ResumeAwaiting { transfer, partitions, done });
        for shard in self.other_shards() {
            self.node.moves().on(shard, order)?;
        }
        self.node.moves().on(BROKER_LINK_SHARD, order)
    }

    /// All shards but the shard of the broker links.
    fn other_shards(self) -> impl Iterator<Item = ShardId> {
        (0..self.node.shards()).map(ShardId).filter(|shard| *shard != BROKER_LINK_SHARD)
    }

    /// Whether this process is the home of partitions, and knows all members of their groups: only then it takes pieces for
    /// them.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn knows_groups(&self, partitions: Partitions) -> Result<bool, NoAnswer> {
        let known =
            self.node.moves().on_all(|answer| MoveOrder::Piece(PieceOrder::KnowsGroups { partitions, answer }))?;
        Ok(known.into_iter().all(|known| known))
    }

    /// Delivers messages to the sessions of partitions on all shards but the shard of the broker links.
    fn deliver_on_other_shards(self, partitions: Partitions, messages: &[u8]) -> Result<(), MoveError> {
        for shard in self.other_shards() {
            let messages: Arc<[u8]> = messages.into();
            self.node.moves().on(shard, |answer| MoveOrder::Deliver { partitions, messages, answer })??;
        }
        Ok(())
    }

    /// The messages that the connection of a dead orchestrator has delivered since the last call. Other shards of this
    /// process have got their part. The broker keeps the messages until [`OrchestratorMoves::confirm_brought`].
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn take_brought(&self, name: &str) -> Result<Brought, MoveError> {
        let (answer, answers) = channel();
        let order = FleetOrder::TakeBrought { name: name.to_owned(), answer };
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
        let brought: Brought = crate::handle::wait(BROKER_LINK_SHARD, &answers)?;
        if let Some(messages) = &brought.for_shards {
            self.deliver_on_other_shards(brought.partitions, messages)?;
        }
        Ok(brought)
    }

    /// Delivers messages that the connection of a dead orchestrator has brought to those sessions of these partitions here
    /// that do not have them: the partitions may have come since. Returns when they are in the store.
    ///
    /// # Errors
    /// When the messages cannot be read, or a shard does not answer.
    pub fn deliver_brought(&self, partitions: Partitions, messages: &[u8]) -> Result<(), MoveError> {
        let messages: Arc<[u8]> = messages.into();
        let order = |answer| MoveOrder::Piece(PieceOrder::DeliverBrought { partitions, messages, answer });
        let (partitions, rest) = self.node.moves().on(BROKER_LINK_SHARD, order)??;
        self.deliver_on_other_shards(partitions, &rest)
    }

    /// Partitions do not come after all, and this process continues to forward messages for them.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn refuse_arrival(&self, partitions: Partitions) -> Result<(), NoAnswer> {
        self.node.moves().on_all(|done| MoveOrder::Piece(PieceOrder::RefuseArrival { partitions, done })).map(drop)
    }

    /// Other members have stored this number of messages of the connection of a dead orchestrator: they are
    /// acknowledged.
    pub fn confirm_brought(&self, name: &str, messages: usize) {
        let order = FleetOrder::ConfirmBrought { name: name.to_owned(), messages };
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
    }

    /// The dead orchestrator of this connection is back, and continues the session at the broker when
    /// [`NodeFleet::remove_broker`](crate::NodeFleet::remove_broker) ends the connection.
    pub fn hand_back(&self, name: &str) {
        let order = FleetOrder::HandBack { name: name.to_owned() };
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
    }

    /// Connects to the brokers from now on, but for these: another member still works off the connections that this one
    /// had to them in its last life.
    pub fn release_brokers(&self, but: BTreeSet<String>) {
        self.node.dialer().release(but);
    }

    /// Imports and holds partitions of a dead member; answers when they are in the store. Its brokers' connections bring
    /// later messages in pieces: [`OrchestratorMoves::take_piece`]. `had` are the messages that the sessions have
    /// ([`OrchestratorMoves::take_had`]).
    ///
    /// # Errors
    /// When an image is refused, or a shard does not answer.
    pub fn arrive(
        &self,
        images: Vec<PartitionImage>,
        had: Option<Vec<u8>>,
        transfer: u64,
    ) -> Result<Arrived, MoveError> {
        self.node.moves().take_in(images, had, Collecting::InPieces(transfer))
    }

    /// The same for partitions of a living member. All members are asked to send messages on topics of addresses, and
    /// messages of shared groups, for these partitions here. They are collected until [`NodeMoves::finish_transfer`](crate::NodeMoves::finish_transfer).
    ///
    /// # Errors
    /// When an image is refused, or a shard does not answer.
    pub fn arrive_from_member(
        &self,
        images: Vec<PartitionImage>,
        had: Option<Vec<u8>>,
        transfer: u64,
    ) -> Result<Arrived, MoveError> {
        self.node.moves().take_in(images, had, Collecting::FromBoth(transfer))
    }

    /// Whether a broker of this name is in the fleet.
    pub fn has_broker(&self, name: &str) -> bool {
        self.node.brokers().list().iter().any(|known| known.broker.name == name)
    }

    /// The names of the brokers of the fleet.
    pub fn broker_names(&self) -> BTreeSet<String> {
        self.node.brokers().list().into_iter().map(|known| known.broker.name).collect()
    }

    /// Names the connections of dead orchestrators that this process continues. Their sessions are kept until
    /// [`OrchestratorMoves::adopt_broker`]; the pending messages of others go to other brokers when all brokers are named.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn continue_adopted(&self, continued: Continued) -> Result<(), FleetError> {
        self.node.fleet().order(|done| FleetOrder::Continue { continued, done })
    }

    /// Connects to a broker with the session of the dead orchestrator `of`, so that the pending messages of both are
    /// delivered; returns the name of this connection in the fleet. `transfer` is the id under which the partitions of
    /// the dead orchestrator arrived ([`OrchestratorMoves::arrive`]). [`OrchestratorMoves::settle_broker`] says when all
    /// messages are delivered, and [`NodeFleet::remove_broker`](crate::NodeFleet::remove_broker) ends the connection.
    ///
    /// The session of a broker that is not in the fleet is kept for a later call without an image, as
    /// [`OrchestratorMoves::continue_adopted`] says.
    ///
    /// # Errors
    /// When the broker is not in the fleet, or the image cannot be read.
    pub fn adopt_broker(&self, of: &str, broker_link: BrokerLinkImage, transfer: u64) -> Result<String, AdoptError> {
        let place = self.node.dialer().place(&broker_link.broker);
        let known = self.node.brokers().list().into_iter().find(|known| known.broker.name == broker_link.broker);
        let Some((place, known)) = place.zip(known) else {
            let broker = broker_link.broker.clone();
            self.keep_session(of, broker_link)?;
            return Err(BrokerLinkError::Unknown(broker).into());
        };
        let options = known.broker.options;
        self.node.dialer().know(&format!("{}@{of}", broker_link.broker), place);
        let (answer, answers) = channel();
        let (of, broker_link) = (of.to_owned(), Box::new(broker_link));
        let order = FleetOrder::Adopt { of, broker_link, transfer, options, answer };
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
        crate::handle::wait(BROKER_LINK_SHARD, &answers).map_err(|_| BrokerLinkError::NoFleet)?
    }

    /// Keeps the session of a dead orchestrator at a broker that is not in the fleet. Returns when it is in the store.
    fn keep_session(self, of: &str, broker_link: BrokerLinkImage) -> Result<(), AdoptError> {
        let (answer, answers) = channel();
        let order = FleetOrder::Keep { of: of.to_owned(), broker_link: Box::new(broker_link), answer };
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
        let kept = crate::handle::wait(BROKER_LINK_SHARD, &answers).map_err(|_| BrokerLinkError::NoFleet)?;
        Ok(kept.map(drop)?)
    }

    /// Checks whether all messages have arrived that a broker sent before the first call, which has no `settling`. Returns
    /// the messages that have still to arrive; `None` when all have.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn settle_broker(&self, name: &str, settling: Option<Settling>) -> Result<Option<Settling>, NoAnswer> {
        let (answer, answers) = channel();
        let order = FleetOrder::Settle { name: name.to_owned(), settling, answer };
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
        crate::handle::wait(BROKER_LINK_SHARD, &answers)
    }
}
