//! The groups of mobile nodes, set by services (CTX-33).

use std::sync::mpsc::channel;

use tidegate_engine::{MembershipChange, MembershipOutcome, ShardId, ShardPosition, partition_of};

use super::NodeInsiders;
use crate::handle::{NoAnswer, wait};
use crate::orders::{Admin, ToShard};

/// Changes that one call may bring: each shard makes its part of them in one turn, a few milliseconds for all.
pub const MAX_MEMBERSHIP_CHANGES: usize = 10_000;

/// Why changes were not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangesError {
    /// Too many changes; none was made.
    #[error("{changes} changes of groups at once; at most {MAX_MEMBERSHIP_CHANGES} may be: split them")]
    TooMany {
        /// How many there are.
        changes: usize,
    },
    /// A shard does not answer; it makes its changes in its next turn, if it has one.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

impl NodeInsiders<'_> {
    /// Changes the groups of mobile nodes, up to [`MAX_MEMBERSHIP_CHANGES`] at once; the outcomes are in the order of
    /// the changes. At the return, the changes hold for messages that enter at the node's own shard; other shards are
    /// notified, and apply them before their next answer. Changes of one node are made in their order.
    ///
    /// # Errors
    /// When there are too many, or a shard does not answer.
    pub fn set_memberships(&self, changes: Vec<MembershipChange>) -> Result<Vec<MembershipOutcome>, ChangesError> {
        if changes.len() > MAX_MEMBERSHIP_CHANGES {
            return Err(ChangesError::TooMany { changes: changes.len() });
        }
        let place = ShardPosition { shard: ShardId(0), shards: self.node.shards() };
        let mut outcomes = vec![MembershipOutcome::NoSuchNode; changes.len()];
        let mut by_shard: Vec<(Vec<usize>, Vec<MembershipChange>)> =
            vec![Default::default(); usize::from(place.shards)];
        for (at, change) in changes.into_iter().enumerate() {
            let home = place.home_of(partition_of(change.tenant, &change.client_id));
            if let Some((places, part)) = by_shard.get_mut(usize::from(home.0)) {
                places.push(at);
                part.push(change);
            }
        }
        let mut asked = Vec::new();
        for (shard, (places, part)) in (0..).map(ShardId).zip(by_shard) {
            if part.is_empty() {
                continue;
            }
            let (answer, answers) = channel();
            self.node.tell(shard, ToShard::Admin(Admin::Membership { changes: part, answer }));
            asked.push((shard, places, answers));
        }
        for (shard, places, answers) in asked {
            for (at, outcome) in places.into_iter().zip(wait(shard, &answers)?) {
                outcomes[at] = outcome;
            }
        }
        Ok(outcomes)
    }
}
