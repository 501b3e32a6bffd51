//! Sets of partitions.

use tidegate_engine::{PartitionId, Partitions};

/// The set of these numbers.
pub(super) fn set_of(partitions: &[u16]) -> Partitions {
    partitions.iter().copied().map(PartitionId).collect()
}

/// The partitions that are in both sets.
pub(super) fn both(some: Partitions, others: Partitions) -> Partitions {
    some.without(some.without(others))
}
