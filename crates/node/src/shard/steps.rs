//! The steps of moves of partitions between processes.

use std::sync::mpsc::Sender;

use tidegate_engine::{Engine, Now, OrchestratorMoves, PartitionImage, Partitions, Snapshot};

use crate::moves::{ArriveAnswer, Collecting, Committing, MoveOrder, SnapshotAnswer};
use crate::shard::facets::PeerCalls;

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
                let arrived = self.take_images(&images, had.as_deref(), collecting);
                self.answer_committed(answer, arrived);
            }
            MoveOrder::IsCut { transfer, answer } => {
                let _ = answer.send(self.shard.engine.questions().is_cut(transfer));
            }
            MoveOrder::TakeLeave { gives_kept, answer } => {
                let _ = answer.send(self.shard.engine.cluster().take_leave(now, gives_kept));
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
            MoveOrder::Piece(order) => self.take_piece_order(order),
            MoveOrder::Ahead(order) => self.take_ahead_order(order),
        }
    }

    /// Takes in images of partitions, and begins to collect the messages that follow them.
    fn take_images(&mut self, images: &[PartitionImage], had: Option<&[u8]>, collecting: Collecting) -> ArriveAnswer {
        let (now, engine) = (self.shard.now, &mut self.shard.engine);
        let arrived = engine.moves().arrive(now, images)?;
        let partitions = images.iter().map(|image| image.partition).collect();
        match collecting {
            Collecting::FromNodes(id) => engine.moves().begin_coming(now, id, partitions),
            Collecting::InPieces(id) | Collecting::FromBoth(id) => {
                let begun = OrchestratorMoves::of(engine).begin_awaiting(now, id, partitions, had);
                if let Err(error) = begun {
                    engine.moves().forget_partitions(now, partitions);
                    return Err(error);
                }
                if matches!(collecting, Collecting::FromBoth(_)) {
                    engine.moves().begin_coming(now, id, partitions);
                }
            }
        }
        Ok(arrived)
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
        (Snapshot::Taken(_), Collecting::InPieces(id) | Collecting::FromBoth(id)) => {
            OrchestratorMoves::of(engine).begin_forwarding(id, partitions);
            engine.moves().begin_leaving(id, partitions);
        }
        (Snapshot::Loading, _) => {}
    }
    Ok(taken)
}
