//! From bytes to packets: finding frames, sending each to its handler, and holding back a publisher that has to wait.

use crate::ids::ShardId;

/// Whether the next frame of the same connection may be taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Go on.
    Next,
    /// The frame and the bytes behind it stay: their turn has not come.
    Hold,
    /// The client's home is another shard, where this frame and all behind it go.
    HandOver(ShardId),
}
