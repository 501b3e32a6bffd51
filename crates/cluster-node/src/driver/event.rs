//! Events for the thread that speaks to the bus.

use std::collections::BTreeMap;

use std::time::Instant;

use tidegate_bus::{Bounds, BusError, Epoch, Position};

/// An event for the thread.
pub(super) enum Event {
    /// There may be something to read, or the membership has changed.
    Woken,
    /// The log of tables is owned, or not.
    Owned(Result<Epoch, BusError>),
    /// A table was stored, or not.
    TableStored(Result<Position, BusError>),
    /// The bounds of the log of tables, asked for when it was found lost at this time.
    TableBounds(Instant, Result<Bounds, BusError>),
    /// The advertisement of this node was stored, or not.
    AdvertStored(Result<Position, BusError>),
    /// The partitions of a move are here as a whole.
    Arrived(u64),
    /// The restored state of dead nodes for these partitions is here, which are at home here since these epochs.
    Restored { life: u64, partitions: BTreeMap<u16, u64> },
    /// This node has sent the long queues of a move ahead, as far as it can.
    Prepared(u64),
    /// This node cannot do its part of a move.
    Refused(u64),
    /// These processes of nodes have ended, by name and incarnation.
    Ended(BTreeMap<String, u64>),
    /// End the membership.
    End,
}
