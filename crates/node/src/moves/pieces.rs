//! The steps of forwarding brokers' messages for partitions that have moved, on a shard.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_engine::{Behind, Forwarded, ImageError, OrchestratorMoves, Partitions, Settling};

use crate::shard::Shard;

type PieceAnswer = Result<(Partitions, Vec<u8>), ImageError>;

/// A step of forwarding brokers' messages for partitions that have moved.
#[derive(Debug)]
pub(crate) enum PieceOrder {
    TakeForwarded { transfer: u64, served_there: bool, answer: Sender<Option<Forwarded>> },
    ResumeForwarding { transfer: u64, partitions: Partitions, done: Sender<()> },
    ReturnForwarded { transfer: u64, partitions: Partitions, answer: Sender<Result<Vec<u8>, ImageError>> },
    ConfirmForwarded { transfer: u64, messages: usize },
    BeginSettling { answer: Sender<Settling> },
    TakeHad { transfer: u64, answer: Sender<Vec<u8>> },
    EndForwarding { transfer: u64, partitions: Partitions, done: Sender<()> },
    TakePiece { transfer: u64, partitions: Partitions, piece: Arc<[u8]>, behind: Behind, answer: Sender<PieceAnswer> },
    DeliverBrought { partitions: Partitions, messages: Arc<[u8]>, answer: Sender<PieceAnswer> },
    RefuseArrival { partitions: Partitions, done: Sender<()> },
    ResumeAwaiting { transfer: u64, partitions: Partitions, done: Sender<()> },
}

impl PieceOrder {
    pub(crate) fn carry_out(self, shard: &mut Shard) {
        let now = shard.now;
        let mut moves = OrchestratorMoves::of(&mut shard.engine);
        match self {
            Self::TakeForwarded { transfer, served_there, answer } => {
                if served_there {
                    moves.note_served_elsewhere(transfer);
                }
                let _ = answer.send(moves.take_forwarded(transfer));
            }
            Self::ResumeForwarding { transfer, partitions, done } => {
                moves.begin_forwarding(transfer, partitions);
                let _ = done.send(());
            }
            Self::ReturnForwarded { transfer, partitions, answer } => {
                let returned = moves.return_forwarded(now, transfer, partitions);
                shard.peering().answer_committed(answer, returned);
            }
            Self::BeginSettling { answer } => {
                let _ = answer.send(moves.begin_settling(now));
            }
            Self::TakeHad { transfer, answer } => {
                let _ = answer.send(moves.take_had(transfer));
            }
            Self::ConfirmForwarded { transfer, messages } => moves.confirm_forwarded(now, transfer, messages),
            Self::EndForwarding { transfer, partitions, done } => {
                moves.end_forwarding(now, transfer, partitions);
                let _ = done.send(());
            }
            Self::DeliverBrought { partitions, messages, answer } => {
                let delivered = moves.deliver_brought(now, partitions, &messages);
                shard.peering().answer_committed(answer, delivered);
            }
            Self::RefuseArrival { partitions, done } => {
                moves.refuse_arrival(now, partitions);
                let _ = done.send(());
            }
            Self::ResumeAwaiting { transfer, partitions, done } => {
                moves.resume_awaiting(now, transfer, partitions);
                let _ = done.send(());
            }
            Self::TakePiece { transfer, partitions, piece, behind, answer } => {
                let taken = moves.take_piece(now, transfer, partitions, &piece, behind);
                shard.peering().answer_committed(answer, taken);
            }
        }
    }
}
