//! Partitions whose sessions here are copies, as shared groups see them.

use crate::ids::Partitions;

/// Partitions that leave for another member of the cluster while brokers still deliver their messages here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departures {
    /// Whether there are any: the sets are large.
    pub(crate) are_there: bool,
    /// Their images were given out. Their sessions get a message of a group only if no other member of the group is here:
    /// the move may be called off.
    pub(crate) begun: Partitions,
    /// Those among them that are served at their new homes: their sessions here get nothing.
    pub(crate) over: Partitions,
}
