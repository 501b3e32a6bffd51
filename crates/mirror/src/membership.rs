//! Since when this process is a member of its cluster, which decides whether a fence is meant for it.
//!
//! A taker of a dead node's partitions fences the node's log. If the node was started again meanwhile, the log has a new
//! owner, which has served nothing at that epoch: the fence is for its former process.

/// The fences that a process may ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// It serves without a cluster: every fence is meant for it.
    None,
    /// It will be a member, and has served nothing. It has ignored fences up to this epoch.
    Awaited { ignored: u64 },
    /// It is a member since this epoch, and may have served since then.
    Since(u64),
}

impl Membership {
    /// Whether a fence at an epoch is for a former process of this node. One that is ignored is remembered.
    pub(crate) fn outlives(&mut self, epoch: u64) -> bool {
        match self {
            Self::None => false,
            Self::Awaited { ignored } => {
                *ignored = epoch.max(*ignored);
                true
            }
            Self::Since(since) => *since > epoch,
        }
    }

    /// Becomes a member with the table of an epoch. Returns whether that is possible: not at an epoch whose fence was
    /// ignored.
    pub(crate) fn begin(&mut self, epoch: u64) -> bool {
        if let Self::Awaited { ignored } = *self {
            if epoch <= ignored {
                return false;
            }
            *self = Self::Since(epoch);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_of_a_later_epoch_outlives_a_fence() {
        let mut membership = Membership::Since(7);
        assert_eq!([6, 7, 8].map(|epoch| membership.outlives(epoch)), [true, false, false]);
        assert!(membership.begin(9) && membership == Membership::Since(7), "the first epoch counts");
        assert!(!Membership::None.outlives(1));
    }

    #[test]
    fn an_ignored_fence_is_remembered_until_the_process_serves() {
        let mut membership = Membership::Awaited { ignored: 0 };
        assert!(membership.outlives(5) && membership.outlives(3));
        assert!(!membership.begin(5), "it would serve the partitions of a taker");
        assert!(membership.begin(6) && membership.outlives(5) && !membership.outlives(6));
    }
}
