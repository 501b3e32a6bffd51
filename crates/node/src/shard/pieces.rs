//! The steps of forwarding brokers' messages for partitions that have moved.

use tidegate_engine::OrchestratorMoves;

use crate::moves::pieces::PieceOrder;
use crate::shard::facets::PeerCalls;

impl PeerCalls<'_> {
    /// Carries out a step. The caller may have given up waiting.
    pub(super) fn take_piece_order(&mut self, order: PieceOrder) {
        let now = self.shard.now;
        let mut moves = OrchestratorMoves::of(&mut self.shard.engine);
        match order {
            PieceOrder::TakeForwarded { transfer, served_there, answer } => {
                if served_there {
                    moves.note_served_elsewhere(transfer);
                }
                let _ = answer.send(moves.take_forwarded(transfer));
            }
            PieceOrder::ResumeForwarding { transfer, partitions, done } => {
                moves.resume_forwarding(transfer, partitions);
                let _ = done.send(());
            }
            PieceOrder::ReturnForwarded { transfer, partitions, answer } => {
                let returned = moves.return_forwarded(now, transfer, partitions);
                self.answer_committed(answer, returned);
            }
            PieceOrder::BeginSettling { answer } => {
                let _ = answer.send(moves.begin_settling(now));
            }
            PieceOrder::TakeHad { transfer, answer } => {
                let _ = answer.send(moves.take_had(transfer));
            }
            PieceOrder::ConfirmForwarded { transfer, messages } => moves.confirm_forwarded(now, transfer, messages),
            PieceOrder::EndForwarding { transfer, partitions, done } => {
                moves.end_forwarding(now, transfer, partitions);
                let _ = done.send(());
            }
            PieceOrder::DeliverBrought { partitions, messages, answer } => {
                let delivered = moves.deliver_brought(now, partitions, &messages);
                self.answer_committed(answer, delivered);
            }
            PieceOrder::RefuseArrival { partitions, done } => {
                moves.refuse_arrival(now, partitions);
                let _ = done.send(());
            }
            PieceOrder::ResumeAwaiting { transfer, partitions, done } => {
                moves.resume_awaiting(now, transfer, partitions);
                let _ = done.send(());
            }
            PieceOrder::KnowsGroups { partitions, answer } => {
                let _ = answer.send(self.shard.engine.questions().knows_groups(partitions));
            }
            PieceOrder::EndAwaiting { transfer, done } => {
                moves.end_awaiting(now, transfer);
                let _ = done.send(());
            }
            PieceOrder::TakePiece { transfer, partitions, piece, behind, answer } => {
                let taken = moves.take_piece(now, transfer, partitions, &piece, behind);
                self.answer_committed(answer, taken);
            }
        }
    }
}
