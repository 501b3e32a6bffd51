//! Partitions whose sessions here are copies, as shared groups see them.

use super::forwarding::Forwarding;
use crate::ids::Partitions;

/// Partitions that leave for another member of the cluster while brokers still deliver their messages here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departures {
    /// Their images were given out. Their sessions get a message of a group only if no other member of the group is here:
    /// the move may be called off.
    pub(crate) begun: Partitions,
    /// Those among them that are served at their new homes: their sessions here get nothing.
    pub(crate) over: Partitions,
}

impl Forwarding {
    /// The partitions that leave.
    pub(crate) fn departures(&self) -> Departures {
        self.left.values().fold(Departures::default(), |all, left| Departures {
            begun: all.begun.with(left.partitions),
            over: all.over.with(left.passed_over()),
        })
    }
}
