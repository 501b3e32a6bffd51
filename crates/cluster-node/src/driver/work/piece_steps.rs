//! The steps of a node that takes pieces of forwarded messages.

use tidegate_engine::{Behind, Partitions};
use tidegate_node::{MoveError, NodeHandle, OrchestratorMoves};

use super::passing::brokers_know;

/// The steps of the node for pieces.
pub(super) trait PieceSteps {
    /// Begins to take pieces for partitions that a transfer brings.
    fn resume_awaiting(&self, transfer: u64, partitions: Partitions) -> Result<(), MoveError>;

    /// Delivers a piece to the partitions among these that the transfer has brought. Returns these partitions when the
    /// piece is in the store. A transfer that has ended has no partitions.
    fn take_piece(
        &self,
        transfer: u64,
        partitions: Partitions,
        piece: &[u8],
        behind: Behind,
    ) -> Result<Partitions, MoveError>;

    /// True if all brokers hold all filters.
    fn brokers_know(&self) -> bool;

    /// True if this node is the home of these partitions, and knows all members of their shared groups.
    fn knows_groups(&self, partitions: Partitions) -> Result<bool, MoveError>;

    /// Delivers the messages that were kept back for a transfer.
    fn deliver_kept_back(&self, transfer: u64, behind: Behind) -> Result<(), MoveError> {
        self.take_piece(transfer, Partitions::NONE, &[], behind).map(drop)
    }
}

impl PieceSteps for NodeHandle {
    fn resume_awaiting(&self, transfer: u64, partitions: Partitions) -> Result<(), MoveError> {
        Ok(OrchestratorMoves::of(self).resume_awaiting(transfer, partitions)?)
    }

    fn take_piece(
        &self,
        transfer: u64,
        partitions: Partitions,
        piece: &[u8],
        behind: Behind,
    ) -> Result<Partitions, MoveError> {
        OrchestratorMoves::of(self).take_piece(transfer, partitions, piece, behind)
    }

    fn brokers_know(&self) -> bool {
        brokers_know(self)
    }

    fn knows_groups(&self, partitions: Partitions) -> Result<bool, MoveError> {
        Ok(OrchestratorMoves::of(self).knows_groups(partitions)?)
    }
}

/// Delivers a piece to these partitions by the transfers that have brought them. Returns the partitions that no
/// transfer has taken: some may have ended since they were listed.
pub(super) fn deliver_by(
    steps: &impl PieceSteps,
    transfers: impl IntoIterator<Item = (u64, Partitions, Behind)>,
    partitions: Partitions,
    piece: &[u8],
) -> Result<Partitions, MoveError> {
    let mut left = partitions;
    for (transfer, brought, behind) in transfers {
        let meant = left.without(left.without(brought));
        if !meant.is_empty() {
            left = left.without(steps.take_piece(transfer, meant, piece, behind)?);
        }
    }
    Ok(left)
}

/// Delivers the messages that were kept back for transfers that have ended.
pub(super) fn end_transfers(steps: &impl PieceSteps, ended: Vec<u64>) -> Result<(), MoveError> {
    ended.into_iter().try_for_each(|transfer| steps.deliver_kept_back(transfer, Behind::Nothing))
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use tidegate_engine::PartitionId;

    use super::*;

    /// Transfers as the engine has them: a piece for a partition that none has brought is dropped.
    #[derive(Default)]
    pub(in super::super) struct TestSteps<'r> {
        pub(in super::super) come: RefCell<BTreeMap<u64, Partitions>>,
        /// The transfer, the partitions, and the piece.
        pub(in super::super) delivered: RefCell<Vec<(u64, Partitions, Vec<u8>)>>,
        pub(in super::super) brokers_know: bool,
        pub(in super::super) lacks_members: bool,
        /// A check while a piece is stored.
        pub(in super::super) while_stored: Option<Box<dyn Fn() + 'r>>,
    }

    impl PieceSteps for TestSteps<'_> {
        fn resume_awaiting(&self, transfer: u64, partitions: Partitions) -> Result<(), MoveError> {
            let mut come = self.come.borrow_mut();
            let before = come.entry(transfer).or_default();
            *before = before.with(partitions);
            Ok(())
        }

        fn take_piece(
            &self,
            transfer: u64,
            partitions: Partitions,
            piece: &[u8],
            behind: Behind,
        ) -> Result<Partitions, MoveError> {
            if let Some(check) = &self.while_stored {
                check();
            }
            let brought = self.come.borrow().get(&transfer).copied().unwrap_or_default();
            let taken = partitions.without(partitions.without(brought));
            if !taken.is_empty() {
                self.delivered.borrow_mut().push((transfer, taken, piece.to_vec()));
            }
            if behind == Behind::Nothing {
                self.come.borrow_mut().remove(&transfer);
            }
            Ok(taken)
        }

        fn brokers_know(&self) -> bool {
            self.brokers_know
        }

        fn knows_groups(&self, _: Partitions) -> Result<bool, MoveError> {
            Ok(!self.lacks_members)
        }
    }

    impl TestSteps<'_> {
        /// The partitions that have this piece.
        pub(in super::super) fn have(&self, piece: &[u8]) -> Partitions {
            let delivered = self.delivered.borrow();
            let having = delivered.iter().filter(|(_, _, delivered)| delivered == piece);
            having.fold(Partitions::NONE, |all, (_, partitions, _)| {
                assert_eq!(all.without(*partitions), all, "it comes twice");
                all.with(*partitions)
            })
        }
    }

    pub(in super::super) fn partitions(of: &[u16]) -> Partitions {
        of.iter().copied().map(PartitionId).collect()
    }
}
